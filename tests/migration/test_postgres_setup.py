"""A schema on Postgres is made ready by its first use: fresh, older, newer, foreign, half, or while others do so."""

import threading

import psycopg
import pytest

from checkpointers import PostgresSaver
from checkpointers.sql import migrate, tables
from durable_graph.errors import CorruptDataError, NewerDatabaseError
from durable_graph.testing.conformance.acting import start
from tests import postgres_server
from tests.conformance.processes import python, result
from tests.migration.conftest import HEAD
from tests.migration.test_postgres_schema import created_by_alembic, described
from tests.migration.test_setup import started_together

FIRST_USE = """
import sys
from checkpointers import PostgresSaver
from checkpointers.sql import postgres_database
from durable_graph.testing.conformance.acting import start
saver = PostgresSaver(sys.argv[1], schema=sys.argv[2])
print("ready", flush=True)
input()
print(start(saver, key=sys.argv[3]).no)
"""


def opened(schema, **options):
    return PostgresSaver(postgres_server.dsn(), schema=schema, **options)


def sql(text, *parameters):
    return postgres_server.run(text, parameters or None)


def test_eight_processes_may_start_at_once_in_a_new_schema(schema):
    outputs = started_together([python(FIRST_USE, postgres_server.dsn(), schema, name) for name in range(8)])
    assert sorted(map(int, outputs)) == list(range(1, 9)), outputs
    assert sql(f"SELECT count(*) FROM {schema}.durable_graph_version") == [(1,)]
    assert sql(f"SELECT count(*) FROM {schema}.thread") == [(8,)]


def test_a_users_open_transaction_elsewhere_does_not_keep_setup_waiting(schema):
    with psycopg.connect(postgres_server.dsn()) as other:
        other.execute("SELECT count(*) FROM pg_class")
        other.execute("CREATE TEMPORARY TABLE theirs (x int)")
        with opened(schema, timeout=0.1) as saver:
            start(saver)


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_schema_that_somebody_makes_at_the_same_moment_is_waited_for(schema, end):
    with psycopg.connect(postgres_server.dsn()) as other, opened(schema) as saver:
        other.execute(f"CREATE SCHEMA {schema}")
        setup = threading.Thread(target=saver.setup)
        setup.start()
        query = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
        while not sql(query, f'CREATE SCHEMA "{schema}"%'):
            assert setup.is_alive()
        getattr(other, end)()
        setup.join()
        start(saver)


def test_setup_inside_a_schema_with_tables_of_others_leaves_them_alone(schema):
    sql(f"CREATE SCHEMA {schema}")
    sql(f"CREATE TABLE {schema}.customer (name TEXT)")
    sql(f"INSERT INTO {schema}.customer VALUES ('Ada')")
    with opened(schema) as saver:
        start(saver)
    assert sql(f"SELECT name FROM {schema}.customer") == [("Ada",)]


@pytest.mark.parametrize("table", sorted(tables.METADATA.tables))
def test_somebody_elses_tables_of_our_names_are_left_alone(schema, table):
    sql(f"CREATE SCHEMA {schema}")
    sql(f"CREATE TABLE {schema}.{table} (version_num TEXT, title TEXT)")
    before = described(schema)
    with pytest.raises(CorruptDataError, match=table) as caught:
        opened(schema).setup()
    assert schema in str(caught.value)
    assert described(schema) == before


@pytest.mark.parametrize(
    "thing",
    [
        "VIEW {}.thread AS SELECT 1 AS no",
        "SEQUENCE {}.lane",
        "TYPE {}.item AS (x int)",
        "TABLE {}.x (a int); CREATE INDEX record_base ON {}.x (a)",
    ],
)
def test_other_things_of_our_names_are_left_alone(schema, thing):
    sql(f"CREATE SCHEMA {schema}")
    sql("CREATE " + thing.replace("{}", schema))
    with pytest.raises(CorruptDataError, match=r"thread|lane|item|record_base"):
        opened(schema).setup()
    assert sql("SELECT to_regclass(%s)", f"{schema}.durable_graph_version") == [(None,)]


@pytest.mark.parametrize("lost", ["record", "lane", "cache", "durable_graph_version"])
def test_half_a_schema_is_named_and_not_filled_up(schema, lost):
    opened(schema).setup()
    sql(f"DROP TABLE {schema}.{lost}")
    with pytest.raises(CorruptDataError, match=r"were not made by durable_graph as it is"):
        opened(schema).setup()
    assert sql("SELECT to_regclass(%s)", f"{schema}.{lost}") == [(None,)]


def test_a_table_of_ours_that_lost_a_column_is_named(schema):
    opened(schema).setup()
    sql(f"ALTER TABLE {schema}.lane DROP COLUMN parent_seq")
    with pytest.raises(CorruptDataError, match="'lane'"):
        opened(schema).setup()


def test_a_newer_database_is_refused_by_every_verb_and_left_untouched(schema):
    with opened(schema) as saver:
        start(saver)
    sql(f"UPDATE {schema}.durable_graph_version SET version_num = '9001'")
    sql(f"DROP TABLE {schema}.lane")  # a later version may well have done that
    before = described(schema), sql(f"SELECT * FROM {schema}.thread")
    saver = opened(schema)
    for verb in (saver.setup, lambda: saver.load("thread"), lambda: start(saver, key="new"), lambda: saver.read(1, [])):
        with pytest.raises(NewerDatabaseError, match=rf"9001.*{HEAD}"):
            verb()
    assert (described(schema), sql(f"SELECT * FROM {schema}.thread")) == before


@pytest.mark.parametrize(("change", "says"), [("DELETE FROM", "0 versions"), ("UPDATE", "0000")])
def test_a_version_that_never_was_ours_is_corrupt(schema, change, says):
    opened(schema).setup()
    sql(f"{change} {schema}.durable_graph_version" + (" SET version_num = '0000'" if change == "UPDATE" else ""))
    with pytest.raises(CorruptDataError, match=says):
        opened(schema).setup()


# --- upgrades --------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["plain", 'q"u%o te'])
def older(request, schema):
    """A schema as the first version of this library made it, with a thread in it; under an odd name too."""
    created_by_alembic(schema, "0001")
    sql(f"INSERT INTO {schema}.thread (key, epoch, owner, status) VALUES ('t', 7, NULL, 'done')")
    if request.param == "plain":
        yield schema
        return
    odd = request.param + schema
    quoted = '"' + odd.replace('"', '""') + '"'
    sql(f"ALTER SCHEMA {schema} RENAME TO " + quoted)
    yield odd
    sql(f"DROP SCHEMA {quoted} CASCADE")


@pytest.mark.parametrize("prepare", [True, False])
def test_a_database_of_the_first_version_is_upgraded_by_its_first_use(older, prepare):
    with opened(older, prepare=prepare) as saver:
        assert saver.load("t").thread.epoch == 7
        start(saver, key="new")
    columns, _, _ = described(older)
    assert {"item", "vector", "cache"} <= {table for table, *_ in columns}
    query = "SELECT count(*) FROM pg_tables WHERE tablename IN ('item', 'durable_graph_version') AND schemaname = %s"
    assert sql(query, older) == [(2,)]
    assert sql("SELECT to_regclass('public.item')") == [(None,)]


def test_an_upgrade_under_a_role_whose_transactions_are_isolated_otherwise_is_the_same(schema):
    created_by_alembic(schema, "0001")
    dsn = f"{postgres_server.dsn()} options='-c default_transaction_isolation=serializable'"
    children = [python(FIRST_USE, dsn, schema, name) for name in "ab"]
    assert sorted(started_together(children)) == ["1", "2"]


def test_a_users_own_table_in_the_way_of_the_upgrade_is_left_alone(schema):
    created_by_alembic(schema, "0001")
    sql(f"CREATE TABLE {schema}.item (name TEXT)")
    with pytest.raises(CorruptDataError, match="item"):
        opened(schema).setup()
    assert sql(f"SELECT version_num FROM {schema}.durable_graph_version") == [("0001",)]
    assert sql("SELECT to_regclass(%s)", f"{schema}.cache") == [(None,)]


def test_an_upgrade_that_fails_leaves_nothing_behind_and_may_be_tried_again(schema, later_version):
    with opened(schema) as saver:
        start(saver)
    before = described(schema)
    later_version(more='op.execute("INSERT INTO nowhere VALUES (1)")')
    with pytest.raises(CorruptDataError, match="nowhere"):
        opened(schema).setup()
    assert described(schema) == before
    assert sql(f"SELECT version_num FROM {schema}.durable_graph_version") == [(HEAD,)]
    later_version()
    with opened(schema) as saver:
        assert saver.load("thread") is not None
    assert sql(f"SELECT expires FROM {schema}.thread") == [(None,)]


UPGRADE_TOGETHER = """
import sys
from checkpointers import PostgresSaver
from checkpointers.sql import migrate
import alembic.command, sqlalchemy.dialects.postgresql.psycopg
print("ready", flush=True)
input()
print(PostgresSaver(sys.argv[1], schema=sys.argv[2]).load("t").thread.key)
"""


def test_processes_that_start_together_upgrade_once(schema):
    created_by_alembic(schema, "0001")
    sql(f"INSERT INTO {schema}.thread (key, epoch, owner, status) VALUES ('t', 7, NULL, 'done')")
    children = [python(UPGRADE_TOGETHER, postgres_server.dsn(), schema) for _ in range(4)]
    assert started_together(children) == ["t"] * 4
    assert sql(f"SELECT version_num FROM {schema}.durable_graph_version") == [(HEAD,)]


def test_who_looks_in_the_midst_of_an_upgrade_takes_it_for_no_foreign_database(schema, monkeypatch):
    created_by_alembic(schema, "0001")
    looking, judged = [], migrate.judged

    def upgraded_between_its_two_looks(columns, revisions, where):
        columns = list(columns)
        if not looking:
            looking.append(where)
            result(python(FIRST_USE.replace("input()", ""), postgres_server.dsn(), schema, "other"))
        return judged(columns, revisions, where)

    monkeypatch.setattr(migrate, "judged", upgraded_between_its_two_looks)
    with opened(schema) as saver:
        assert saver.load("other") is not None
