"""What a user may hand to PostgresSaver, what is refused, and that no message shows a password."""

import asyncio
import traceback

import psycopg
import psycopg_pool
import pytest

from checkpointers import AsyncPostgresSaver, PostgresSaver
from checkpointers.sql.postgres_target import find_database
from durable_graph import StateGraph
from durable_graph.errors import InvalidConfigError
from durable_graph.persistence.registry import resolve_checkpointer
from durable_graph.testing.conformance.acting import start
from tests import postgres_server
from tests.conformance.processes import python, result

SECRET = "s3cr3t"  # noqa: S105 - of a server that ends with these tests
PORT_OF_NOBODY = 1


def used(saver):
    """Uses the saver; it must work."""
    if saver.load("thread") is None:
        start(saver)
    assert saver.load("thread") is not None
    saver.close()


def known(target):
    """Where a target leads, option by option."""
    dsn, options = find_database(target)
    return psycopg.conninfo.conninfo_to_dict(dsn), options


def socket_url(**query):
    place = psycopg.conninfo.conninfo_to_dict(postgres_server.dsn())
    said = "".join(f"&{name}={value}" for name, value in query.items())
    return f"postgresql:///{place['dbname']}?host={place['host']}&port={place['port']}&user={place['user']}{said}"


def test_the_names_people_know_are_the_same_class():
    assert AsyncPostgresSaver is PostgresSaver
    assert isinstance(PostgresSaver.from_conn_string("postgresql://host/db"), PostgresSaver)


def test_a_url_brings_our_options_and_libpqs_own(schema):
    options = "-c%20search_path%3Dpublic%20-c%20work_mem%3D5MB"
    url = socket_url(schema=schema, timeout="2.5", prepare="false", max_size=3, application_name="a+b", options=options)
    saver = PostgresSaver(f"{url}&sslmode=disable")
    assert (saver._patience, saver._max_size, saver._place.prepare, saver._place.schema) == (2.5, 3, False, schema)
    start(saver)
    writer = saver._database._writer
    assert writer.execute("SHOW work_mem").fetchone() == ("5MB",)
    assert writer.execute("SHOW application_name").fetchone() == ("a+b",)
    assert writer.info.get_parameters()["sslmode"] == "disable"
    used(saver)


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("postgresql://u:p@h:5433/db?schema=x", {"user": "u", "password": "p", "host": "h", "port": "5433"}),
        ("postgres://u@h/db?timeout=3", {"user": "u", "host": "h", "dbname": "db"}),
        ("postgresql:///db?schema=x", {"dbname": "db"}),
        ("postgresql:///?host=/run&schema=x", {"host": "/run"}),
        ("postgresql://", {}),
        ("postgresql://[::1]:5433/db?max_size=2", {"host": "::1", "port": "5433"}),
        ("postgresql://a,b:5433/db?target_session_attrs=any&schema=x", {"host": "a,b", "target_session_attrs": "any"}),
        ("postgresql://u:a?b=c&d#e@h/db?schema=x", {"password": "a?b=c&d#e", "host": "h", "dbname": "db"}),
        ("postgresql://u:p[x@h/db?schema=x", {"password": "p[x"}),
        ("postgresql://u:%40%2F%3A%25%20@h/db?schema=x", {"password": "@/:% ", "host": "h"}),
        ("postgresql://h/db?password=a%26b+c&schema=x", {"password": "a&b+c"}),
        ("postgresql://h/db?options=-c%20a%3Db%2Bc&schema=x", {"options": "-c a=b+c"}),
        ("postgresql://h/d%C3%A9%3F?sch%65ma=x", {"dbname": "dé?"}),
    ],
)
def test_what_is_not_ours_in_a_url_means_what_libpq_says_it_means(url, wanted):
    found, options = known(url)
    assert wanted.items() <= found.items(), found
    assert found.keys().isdisjoint({"schema", "timeout", "prepare", "max_size"})
    assert len(options) == ("schema" in url or "sch%65ma" in url or "timeout" in url or "max_size" in url)


@pytest.mark.parametrize("password", ["it's", 'a"b', "a\\b", "a b", "pass=word x://y", "%41", "é\n", "{}"])
def test_a_password_may_have_any_characters(password):
    quoted = "'" + password.replace("\\", "\\\\").replace("'", "\\'") + "'"
    found, _ = known(f"host=h password={quoted}")
    assert found == {"host": "h", "password": password}
    saver = PostgresSaver(f"host=h password={quoted}")
    assert psycopg.conninfo.conninfo_to_dict(saver._place.dsn)["password"] == password
    assert known(saver._place.dsn)[0] == found


def test_one_database_has_one_identity_however_it_is_spelled():
    spelled = [
        "postgresql://u:p@h:5433/db",
        "postgres://h/db?port=5433&password=p&user=u",
        "dbname=db host=h password=p port=5433 user=u",
        psycopg_pool.ConnectionPool(
            "host=h dbname=db", kwargs={"user": "u", "password": "p", "port": 5433}, open=False
        ),
    ]
    assert len({PostgresSaver(target).identity for target in spelled}) == 1
    assert PostgresSaver(spelled[0], schema="other").identity != PostgresSaver(spelled[0]).identity


# --- connections and pools -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded():
    """A server that asks for a password, and its DSN."""
    with postgres_server.own(port=postgres_server.free_port()) as server:
        postgres_server.run(f"ALTER ROLE postgres PASSWORD '{SECRET}@/ %'", conninfo=server.dsn)
        (server.folder / "data" / "pg_hba.conf").write_text("local all all trust\nhost all all all scram-sha-256\n")
        postgres_server.run("SELECT pg_reload_conf()", conninfo=server.dsn)
        yield f"postgresql://postgres:{SECRET}%40%2F%20%25@127.0.0.1:{server.port}/postgres"


def test_of_a_users_connection_the_place_is_taken_with_its_password_and_it_stays_theirs(guarded):
    with psycopg.connect(guarded, options="-c work_mem=6MB") as connection:
        saver = PostgresSaver(connection, schema="of connection")
        start(saver)
        assert saver._database._writer.execute("SHOW work_mem").fetchone() == ("6MB",)
        used(saver)
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert SECRET not in repr(saver)
    used(saver)  # whether theirs is open or not
    with pytest.raises(InvalidConfigError, match="it is closed"):
        PostgresSaver(connection)


def test_of_a_users_async_connection_the_place_is_taken_in_any_loop(guarded):
    async def inside():
        async with await psycopg.AsyncConnection.connect(guarded) as connection:
            saver = PostgresSaver(connection, schema="of async connection")
            start(saver)
            assert await saver.aload("thread") is not None
            await connection.execute("SELECT 1")
            return saver

    used(asyncio.run(inside()))


def test_of_a_pool_the_place_the_password_and_the_size_are_taken(guarded):
    with psycopg_pool.ConnectionPool(guarded, min_size=1, max_size=7, kwargs={"autocommit": True}, open=True) as pool:
        saver = PostgresSaver(pool, schema="of pool")
        assert saver._max_size == 7
        assert PostgresSaver(pool, max_size=3)._max_size == 3
        used(saver)
        with pool.connection() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    used(saver)


def test_of_an_async_pool_the_place_is_taken_inside_and_outside_a_loop(guarded):
    async def inside():
        async with psycopg_pool.AsyncConnectionPool(guarded, min_size=1, open=False) as pool:
            saver = PostgresSaver(pool, schema="of async pool")
            start(saver)
            assert await saver.aload("thread") is not None
            return saver

    used(asyncio.run(inside()))


def test_a_pool_without_a_limit_has_our_size():
    pool = psycopg_pool.NullConnectionPool("host=h", open=False)
    assert PostgresSaver(pool)._max_size == 10


def test_a_pool_that_computes_where_it_leads_is_refused():
    pool = psycopg_pool.ConnectionPool(lambda: "host=h", open=False)
    with pytest.raises(InvalidConfigError, match="computed anew"):
        PostgresSaver(pool)


def test_a_graph_compiles_with_a_url_and_runs(guarded):
    builder = StateGraph(dict).add_node("a", lambda state: {"seen": True}).add_edge("__start__", "a")
    graph = builder.compile(checkpointer=f"{guarded}?schema=compiled")
    assert graph.invoke({}, {"configurable": {"thread_id": "t"}}) == {"seen": True}
    assert asyncio.run(graph.ainvoke({}, {"configurable": {"thread_id": "u"}})) == {"seen": True}
    assert SECRET not in repr(graph.checkpointer)
    graph.checkpointer.close()


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("mysql://host/db", "'mysql' is not the scheme"),
        ("postgresql+psycopg://host/db", "'postgresql+psycopg' is not the scheme"),
        ("postgresql://host/db?scheme=x", "no option 'scheme'"),
        ("postgresql://host/db?timeout=soon", "timeout='soon'"),
        ("postgresql://host/db?timeout=nan", "timeout='nan'"),
        ("postgresql://host/db?prepare=maybe", "prepare='maybe'"),
        ("postgresql://host/db?max_size=0", "max_size='0'"),
        ("postgresql://host/db?schema=", "schema=''"),
        ("postgresql://host/db?schema=pg_x", "schema='pg_x'"),
        ("host=a nonsense", 'missing "…'),
        ("host=a\0b", "NUL"),
        (17, "not int"),
        (None, "not NoneType"),
        (PostgresSaver, "not ABCMeta"),
    ],
)
def test_anything_else_is_refused_with_the_forms_that_work(target, says):
    with pytest.raises(InvalidConfigError) as caught:
        PostgresSaver(target)
    assert says in str(caught.value)
    assert "Cure: " in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [{"schema": None}, {"schema": "a\0b"}, {"schema": "\ud800"}, {"timeout": -1}, {"max_size": 0}, {"prepare": None}],
)
def test_wrong_options_are_refused(options):
    with pytest.raises(InvalidConfigError, match=next(iter(options))):
        PostgresSaver("postgresql://host/db", **options)


@pytest.mark.parametrize(
    "target",
    [
        f"mysql://u:{SECRET}@h/db",
        f"postgresql://u:{SECRET}%zz@h/db",
        f"postgresql://u:{SECRET} {SECRET}@h/db",
        f"postgresql://u:{SECRET}/x@h/db",
        f"postgresql://u:x/{SECRET}@h/db",
        f"postgresql://h/db?password={SECRET}%zz",
        f"postgresql://u:{SECRET}@h/db?nonsense=1",
        f"host=h password=my {SECRET}",
        f"host=h password='{SECRET}",
        f"host=h password=x {SECRET}=y",
        f"password={SECRET} port=x",
        f"host=h password={SECRET}\0",
    ],
)
@pytest.mark.parametrize("open_it", [PostgresSaver, resolve_checkpointer], ids=["saver", "compile"])
def test_no_refusal_shows_a_password_or_a_piece_of_one(target, open_it):
    with pytest.raises(InvalidConfigError) as caught:
        open_it(target)
    assert SECRET not in "".join(traceback.format_exception_only(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__, "libpq's own error would be shown"


def test_neither_a_repr_nor_an_identity_shows_the_password():
    saver = PostgresSaver(f"postgresql://u:{SECRET}@somewhere:5433/db")
    for text in (repr(saver), repr(saver.identity), repr(saver._place), str(saver._place)):
        assert SECRET not in text
        assert "somewhere:5433" in text


def test_naming_a_database_opens_nothing():
    PostgresSaver(f"postgresql://127.0.0.1:{PORT_OF_NOBODY}/db").close()


# --- without the driver ----------------------------------------------------------------------------------------------

BLOCKED = """
import importlib.abc, sys
class Block(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {"psycopg", "psycopg_pool"}: raise ModuleNotFoundError(f"No module named {name!r}")
sys.meta_path.insert(0, Block())
from durable_graph import StateGraph
from durable_graph.errors import InvalidConfigError
builder = StateGraph(dict).add_node("a", lambda state: {}).add_edge("__start__", "a")
def named():
    from checkpointers import PostgresSaver
def compiled():
    builder.compile(checkpointer="postgresql://u:s3cr3t@host/db")
def database():
    import checkpointers.sql.postgres_database
for attempt in (named, compiled, named, database):
    try: attempt()
    except InvalidConfigError as error: print(str(error).replace("\\n", " "))
from checkpointers import InMemorySaver
builder.compile(checkpointer=InMemorySaver())
"""


def test_without_the_driver_every_way_in_names_the_extra():
    lines = result(python(BLOCKED)).splitlines()
    assert len(lines) == 4, lines
    for line in lines:
        assert "No module named 'psycopg'" in line
        assert "pip install 'durable-graph[postgres]'" in line
        assert "s3cr3t" not in line


def test_importing_the_packages_imports_no_driver():
    code = (
        "import sys, checkpointers, durable_graph; from checkpointers import SqliteSaver\n"
        "print(sorted({'psycopg', 'psycopg_pool', 'sqlalchemy', 'alembic'} & set(sys.modules)))"
    )
    assert result(python(code)) == "[]"


RUN = """
import sys, threading
from checkpointers import PostgresSaver
from durable_graph.records import CommitItem, Row, RowRange
from durable_graph.testing.conformance.acting import start
saver = PostgresSaver(sys.argv[1], schema=sys.argv[2])
claim = start(saver)
saver.commit([CommitItem(claim, (Row(1, 0, 2, 0, b""),), (), "done")])
assert saver.load("thread") and saver.read(claim.no, [RowRange(1, 0, 1, 2)])
assert threading.active_count() == 1, threading.enumerate()
print(sorted({"sqlalchemy", "alembic", "psycopg_pool", "pydantic"} & set(sys.modules)))
"""


def test_a_run_in_a_new_schema_imports_no_sqlalchemy_and_starts_no_os_thread(schema):
    assert result(python(RUN, postgres_server.dsn(), schema)) == "[]"
