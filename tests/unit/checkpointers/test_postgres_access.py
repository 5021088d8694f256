"""Who may not come in, who may not write, and what a schema may be called: clear errors, at once."""

import pytest

from checkpointers import PostgresSaver
from durable_graph import StateGraph
from durable_graph.errors import CorruptDataError, DatabaseUnavailableError, InvalidConfigError
from durable_graph.testing.conformance.acting import start
from tests import postgres_server

SECRET = "s3cr3t"  # noqa: S105 - of a server that ends with these tests
CFG = {"configurable": {"thread_id": "t"}}


@pytest.fixture(scope="module")
def guarded():
    """A server that asks for a password, and its keywords."""
    with postgres_server.own(port=postgres_server.free_port()) as server:
        postgres_server.run(f"ALTER ROLE postgres PASSWORD '{SECRET}'", conninfo=server.dsn)
        (server.folder / "data" / "pg_hba.conf").write_text("local all all trust\nhost all all all scram-sha-256\n")
        postgres_server.run("SELECT pg_reload_conf()", conninfo=server.dsn)
        yield {"host": "127.0.0.1", "port": server.port, "user": "postgres", "password": SECRET, "dbname": "postgres"}


@pytest.mark.parametrize(
    ("wrong", "says", "cure"),
    [
        ({"host": "nowhere.invalid"}, "nowhere.invalid", "Check host, port"),
        ({"port": 1}, "127.0.0.1:1, schema", "Check host, port"),
        ({"user": "nobody_here"}, "authentication failed", "Check user, password"),
        ({"password": "wrong"}, "authentication failed", "Check user, password"),
        ({"password": None}, "no password supplied", "Check user, password"),
        ({"dbname": "no such"}, '"no such" does not exist', "Check user, password and database"),
        ({"sslmode": "require"}, "SSL", "Check host, port"),
        ({"host": "/nowhere"}, "/nowhere", "Check host, port"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_wrong_option_of_the_dsn_is_an_error_at_once_by_every_verb(guarded, wrong, says, cure):
    keywords = {name: value for name, value in (guarded | wrong).items() if value is not None}
    saver = PostgresSaver(" ".join(f"{name}='{value}'" for name, value in keywords.items()), timeout=1e9)
    for verb in (saver.setup, lambda: saver.load("thread"), lambda: start(saver), lambda: saver.read(1, [])):
        with pytest.raises(DatabaseUnavailableError) as caught:  # at once, or this test would never end
            verb()
        text = str(caught.value)
        assert says in text
        assert f"Cure: {cure}" in text
        assert SECRET not in text
        assert "wrong" not in text
    saver.close()


def test_a_host_that_leaves_attempts_unanswered_is_not_waited_for_for_ever(guarded):
    saver = PostgresSaver(f"host=127.0.0.1 port={guarded['port']}", timeout=3)
    assert saver._open()._network["connect_timeout"] == 0  # reckoned: no longer than the patience, 10 s at the most
    saver.close()
    theirs = PostgresSaver(f"host=127.0.0.1 port={guarded['port']} connect_timeout=77")
    assert "connect_timeout" not in theirs._open()._network
    theirs.close()


# --- rights ----------------------------------------------------------------------------------------------------------


def role(name, *grants):
    """A role with these rights only; the DSN with which it comes in."""
    postgres_server.run(f"CREATE ROLE {name} LOGIN")
    for grant in grants:
        postgres_server.run(grant.format(name=name))
    return f"{postgres_server.dsn()} user={name}"


@pytest.fixture
def named(schema):
    """A name for a role, which goes with the schema."""
    name = f"role_{schema}"
    yield name
    postgres_server.run(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    postgres_server.run(f"DROP OWNED BY {name}")
    postgres_server.run(f"DROP ROLE {name}")


def test_a_role_that_may_not_create_a_schema_learns_the_cure(schema, named):
    with pytest.raises(DatabaseUnavailableError, match=r"lacks a right: permission denied(?s:.*)CREATE SCHEMA"):
        PostgresSaver(role(named), schema=schema).setup()


def test_a_role_that_may_not_create_tables_in_the_schema_learns_the_cure(schema, named):
    postgres_server.run(f"CREATE SCHEMA {schema}")
    dsn = role(named, f"GRANT USAGE ON SCHEMA {schema} TO {{name}}")
    with pytest.raises(DatabaseUnavailableError, match=r"lacks a right: permission denied for schema"):
        PostgresSaver(dsn, schema=schema).setup()
    postgres_server.run(f"GRANT CREATE ON SCHEMA {schema} TO {named}")
    with PostgresSaver(dsn, schema=schema) as saver:  # enough: the right to make schemas is not asked for
        start(saver)


def test_a_role_that_may_only_read_reads_and_is_refused_a_claim(schema, named):
    with PostgresSaver(postgres_server.dsn(), schema=schema) as saver:
        start(saver)
    dsn = role(
        named,
        f"GRANT USAGE ON SCHEMA {schema} TO {{name}}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {{name}}",
    )
    with PostgresSaver(dsn, schema=schema) as saver:
        assert saver.load("thread") is not None
        with pytest.raises(DatabaseUnavailableError, match="lacks a right: permission denied for table thread"):
            start(saver, key="new")
        assert saver.load("new") is None


def test_a_session_that_is_read_only_says_so(schema):
    read_only = f"{postgres_server.dsn()} options='-c default_transaction_read_only=on'"
    saver = PostgresSaver(read_only, schema=schema)
    with pytest.raises(DatabaseUnavailableError, match="is read-only"):
        saver.setup()
    saver.close()
    with PostgresSaver(postgres_server.dsn(), schema=schema) as writing:
        start(writing)
    with PostgresSaver(read_only, schema=schema) as saver:
        assert saver.load("thread") is not None
        with pytest.raises(DatabaseUnavailableError, match="is read-only"):
            start(saver, key="new")


# --- names of schemas ------------------------------------------------------------------------------------------------

ODD = [
    'qu"o""te',
    "per%cent %s %(x)s %%",
    "a b",
    "ünïcode-☃",
    "Upper",
    "select",
    "a@b",
    "it's",
    "semi;colon--",
    "\\",
    "x" * 63,
]


@pytest.mark.parametrize("name", [*ODD, "é" * 31])
def test_a_schema_may_have_any_name_that_postgres_knows(name):
    quoted = '"' + name.replace('"', '""') + '"'
    try:
        with PostgresSaver(postgres_server.dsn(), schema=name) as saver:
            graph = (
                StateGraph(dict)
                .add_node("a", lambda state: {"x": 1})
                .add_edge("__start__", "a")
                .compile(checkpointer=saver)
            )
            assert graph.invoke({}, CFG) == {"x": 1}
            assert graph.get_state(CFG).values == {"x": 1}
        assert postgres_server.run("SELECT 1 FROM pg_namespace WHERE nspname = %s", (name,)) == [(1,)]
        with PostgresSaver(postgres_server.dsn(), schema=name) as again:
            assert again.load("t") is not None
    finally:
        postgres_server.run(f"DROP SCHEMA IF EXISTS {quoted} CASCADE")


@pytest.mark.parametrize("name", ["x" * 64, "é" * 32, "", "pg_mine", "a\0b", "\udc80"])
def test_a_name_that_postgres_would_cut_or_refuse_is_refused_before(name):
    with pytest.raises(InvalidConfigError, match="1 to 63 bytes"):
        PostgresSaver(postgres_server.dsn(), schema=name)


def test_a_client_encoding_of_the_dsn_does_not_garble_names():
    try:
        with PostgresSaver(f"{postgres_server.dsn()} client_encoding=latin1", schema="Zoë") as saver:
            start(saver)
        assert postgres_server.run("SELECT 1 FROM pg_namespace WHERE nspname = 'Zoë'") == [(1,)]
    finally:
        postgres_server.run('DROP SCHEMA IF EXISTS "Zoë" CASCADE')


def test_two_schemas_of_one_database_know_nothing_of_each_other(schema):
    try:
        with (
            PostgresSaver(postgres_server.dsn(), schema=schema) as one,
            PostgresSaver(postgres_server.dsn(), schema=f"{schema}_2") as two,
        ):
            start(one)
            assert two.load("thread") is None
            start(two)
    finally:
        postgres_server.run(f"DROP SCHEMA IF EXISTS {schema}_2 CASCADE")


def test_a_schema_that_was_dropped_under_a_run_is_named(schema):
    with PostgresSaver(postgres_server.dsn(), schema=schema) as saver:
        start(saver)
        postgres_server.run(f"DROP SCHEMA {schema} CASCADE")
        with pytest.raises(CorruptDataError, match=rf"schema {schema} does not hold"):
            saver.load("thread")
