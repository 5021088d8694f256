"""The schema on Postgres is written down in several places; these tests hold them together."""

from functools import partial

import psycopg
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from checkpointers import PostgresSaver
from checkpointers.sql import migrate, tables
from checkpointers.sql import postgres_statements as sql
from durable_graph.testing.conformance.acting import start, step
from tests import postgres_server
from tests.migration.conftest import OLDER

COLUMNS = """
SELECT c.relname, a.attname, a.attnum, format_type(a.atttypid, a.atttypmod), a.attnotnull,
    replace(pg_get_expr(d.adbin, d.adrelid), %(schema)s || '.', '')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE n.nspname = %(schema)s AND c.relkind IN ('r', 'S') AND a.attnum > 0 ORDER BY 1, 3"""
CONSTRAINTS = """
SELECT r.relname, c.conname, pg_get_constraintdef(c.oid) FROM pg_constraint c JOIN pg_class r ON r.oid = c.conrelid
JOIN pg_namespace n ON n.oid = r.relnamespace WHERE n.nspname = %(schema)s ORDER BY 1, 2"""
INDEXES = """
SELECT tablename, indexname, replace(indexdef, %(schema)s || '.', '') FROM pg_indexes
WHERE schemaname = %(schema)s ORDER BY 1, 2"""


def engine():
    return sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(postgres_server.dsn()))


def created_by_the_library(schema):
    PostgresSaver(postgres_server.dsn(), schema=schema).setup()


def created_by_sqlalchemy(schema):
    made = engine()
    with made.begin() as connection:
        connection.execute(sa.text(f"CREATE SCHEMA {schema}"))
        tables.METADATA.create_all(connection.execution_options(schema_translate_map={None: schema}))
    made.dispose()


def created_by_alembic(schema, revision="head"):
    config = Config()
    config.set_main_option("script_location", migrate.revisions())
    made = engine()
    with made.begin() as connection:
        connection.execute(sa.text(f"CREATE SCHEMA {schema}"))
        connection.execute(sa.text(f"SET LOCAL search_path = {schema}"))
        config.attributes.update(connection=connection, schema=schema)
        command.upgrade(config, revision)
    made.dispose()


def upgraded_by_the_library(schema, revision="0001"):
    created_by_alembic(schema, revision)
    created_by_the_library(schema)


def described(schema):
    """All that Postgres knows of our tables, however it is spelled."""
    return [postgres_server.run(text, {"schema": schema}) for text in (COLUMNS, CONSTRAINTS, INDEXES)]


@pytest.mark.parametrize(
    "other",
    [
        created_by_sqlalchemy,
        created_by_alembic,
        *(pytest.param(partial(upgraded_by_the_library, revision=one), id=f"upgraded_from_{one}") for one in OLDER),
    ],
)
def test_a_fresh_schema_is_what_sqlalchemy_and_alembic_make(schema, other):
    created_by_the_library(schema)
    columns, constraints, indexes = described(schema)
    postgres_server.run(f"DROP SCHEMA {schema} CASCADE")
    other(schema)
    assert described(schema) == [columns, constraints, indexes]
    assert {row[0] for row in constraints} == tables.METADATA.tables.keys()
    assert ("thread", "no", 1, "bigint", True, "nextval('thread_no_seq'::regclass)") in columns
    assert ("thread", "owner", 4, "text", False, None) in columns
    assert any(name == "record_base" and text.endswith("((part = 0) AND (kind = 1))") for _, name, text in indexes)


@pytest.mark.parametrize("create", [created_by_the_library, created_by_alembic, upgraded_by_the_library])
def test_whoever_makes_the_schema_writes_the_same_version(schema, create):
    create(schema)
    assert postgres_server.run(f"SELECT version_num FROM {schema}.durable_graph_version") == [(migrate.HEAD,)]
    assert postgres_server.run("SELECT to_regclass('public.durable_graph_version')") == [(None,)]


def test_the_columns_that_setup_looks_at_are_those_of_the_tables(schema):
    created_by_the_library(schema)
    found = {}
    for table, column in postgres_server.run(sql.COLUMNS, (schema, list(migrate.TABLES))):
        found.setdefault(table, set()).add(column)
    assert found == {name: set(table.c.keys()) for name, table in tables.METADATA.tables.items()}


# --- statements ------------------------------------------------------------------------------------------------------

NOT_OURS_ALONE = {"COLUMNS", "CREATE", "FIND_SCHEMA", "LOCK_SETUP", "SEARCH_HERE", "SETTLE"}


def fixed_statements():
    found = {name: getattr(sql, name) for name in sql.__all__ if name.isupper() and name not in NOT_OURS_ALONE}
    for lanes, rows in ((0, 0), (1, 0), (0, 1), (2, 3)):
        found[f"create {lanes} {rows}"] = sql.create_text(lanes, rows)
        found[f"takeover {lanes} {rows}"] = sql.takeover_text(lanes, rows)
        for release in (False, True):
            if lanes or rows or release:
                found[f"commit {lanes} {rows} {release}"] = sql.commit_text(lanes, rows, release=release)
    return found


@pytest.fixture(scope="module")
def filled():
    """A schema with enough in it that a plan which walks a whole table is the dearer one."""
    schema = "test_plans"
    with PostgresSaver(postgres_server.dsn(), schema=schema) as saver:
        for number in range(4):
            claim = start(saver, key=f"thread {number}")
            saver.commit([step(claim, seq) for seq in range(2, 1500)])
        postgres_server.run(f"ANALYZE {schema}.record; ANALYZE {schema}.thread; ANALYZE {schema}.lane")
        yield schema
    postgres_server.run(f"DROP SCHEMA {schema} CASCADE")


@pytest.mark.parametrize("name", sorted(fixed_statements()))
def test_each_fixed_statement_can_be_prepared_against_the_tables(filled, name):
    text = sql.in_schema(fixed_statements()[name], filled)
    with psycopg.connect(postgres_server.dsn(), autocommit=True) as connection:
        given = {"key": b"", "ns": b"", "lane": None, "upto": None} if b"%(" in text else (None,) * text.count(b"%")
        query = psycopg._queries.PostgresQuery(psycopg.adapt.Transformer(connection))
        query.convert(text, given)
        connection.pgconn.prepare(b"it", query.query)
        described = connection.pgconn.describe_prepared(b"it")
        assert described.status == psycopg.pq.ExecStatus.COMMAND_OK, described.error_message
        assert described.nparams == len(query.types)


@pytest.mark.parametrize(
    "name",
    ["LOAD", "RANGES", "MINE", "FIND_ROW", "FIND_LANE", "LOCK", "COMMIT_ROWS", "takeover 0 1", "commit 0 1 True"],
)
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_no_statement_walks_the_rows_of_a_whole_thread(filled, name, mode):
    given = {
        "LOAD": {"key": b"thread 1", "ns": b"", "lane": None, "upto": None},
        "RANGES": ([1, 1], [0, 0], [3, 700], [4, 702], 1),
        "MINE": (b"thread 1", 1, "x"),
        "FIND_ROW": (1, 1, 0, 7),
        "FIND_LANE": (1, 1),
        "LOCK": (b"thread 1", 1),
        "COMMIT_ROWS": ([1, 1], [0, 0], [1500, 1501], [0, 0], [1, 1], [1, 1], [b"x", b"y"], 2),
        "takeover 0 1": (2, "x", "running", b"thread 1", 1, 1, 1499, 1, 0, 1500, 0, b"x", 2, 9),
        "commit 0 1 True": (1, 1, 1, 0, 1500, 0, b"x", "done", "done"),
    }[name]
    with psycopg.connect(postgres_server.dsn(), options=f"-c plan_cache_mode={mode}") as connection:
        text = b"EXPLAIN (ANALYZE, FORMAT JSON) " + sql.in_schema(fixed_statements()[name], filled)
        [(plans,)] = connection.execute(text, given, prepare=True).fetchall()
        connection.rollback()
    walked = list(nodes(plans[0]["Plan"]))
    for node in walked:
        if node.get("Relation Name") == "record" and node["Node Type"].endswith("Scan"):
            assert node["Node Type"] != "Seq Scan", node
            assert node["Actual Rows"] <= (1500 if name == "LOAD" else 3), node
            assert node.get("Rows Removed by Filter", 0) == 0, node
    assert walked


def nodes(plan):
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)
