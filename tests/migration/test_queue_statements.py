"""The fixed texts of the queue of runs are held against the tables, on both databases, and use the indexes."""

import re
import sqlite3
from contextlib import closing

import psycopg
import pytest

from checkpointers import PostgresSaver, SqliteSaver
from checkpointers.sql import postgres_runs, postgres_statements, runs, statements, tables
from tests import postgres_server

OURS = {
    name: text.format(wanted="thread = ? AND graph = ? AND status = ? AND no < ?", graphs="?, ?", dead="?, ?")
    for name, text in vars(runs).items()
    if name.isupper() and name[0] != "_" and isinstance(text, str)
}
"""The texts, with what is filled in when they are used."""

OF_THE_LANGUAGE = {"run", "thread", "earlier", "excluded", "count", "running", "waiting"}
"""Words in the texts that are no columns."""

ALL = 5000
"""How many runs there are where plans are looked at; most of them ended."""

FILL = """
INSERT INTO {run} (id, thread, graph, status, rank, due, attempt, beat, expires, stop, submitted, ended, request)
SELECT {name}, {thread}, {graph}, CASE WHEN n % 25 = 0 THEN 'queued' ELSE 'done' END, n % 3, n, 0, 0, 0, 0, n,
    CASE WHEN n % 25 = 0 THEN NULL ELSE n END, {graph}
FROM {numbers}"""


def changes(name):
    return OURS[name].startswith(("INSERT", "UPDATE", "DELETE"))


def values(name, one):
    return (one,) * OURS[name].count("?")


# --- SQLite ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sqlite_file(tmp_path_factory):
    """A file with so many runs, of which a few are open, and so many that wait for events."""
    file = tmp_path_factory.mktemp("plans") / "runs.db"
    SqliteSaver(file).setup()
    counting = f"SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < {ALL}"
    numbers = f"(WITH RECURSIVE counted(n) AS ({counting}) SELECT n FROM counted)"
    names = {"name": "CAST('r' || n AS BLOB)", "thread": "CAST('t' || n / 50 AS BLOB)", "graph": "CAST('g' AS BLOB)"}
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(FILL.format(run="run", numbers=numbers, **names))
        connection.execute("INSERT INTO awaited (name, key, run) SELECT id, id, no FROM run")
        connection.commit()
    return file


def in_sqlite(name):
    return OURS[name].replace("@", "") + (" RETURNING 1" if changes(name) and "RETURNING" not in OURS[name] else "")


def sqlite_plan(file, name):
    with closing(sqlite3.connect(file)) as connection:
        return [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + in_sqlite(name), values(name, b"1"))]


@pytest.mark.parametrize("name", OURS)
def test_each_text_fits_the_tables_of_sqlite(sqlite_file, name):
    with closing(sqlite3.connect(sqlite_file)) as connection:
        assert connection.execute("EXPLAIN " + in_sqlite(name), values(name, b"1")).fetchall()


@pytest.mark.parametrize("name", OURS)
def test_each_text_names_columns_of_ours_and_nothing_else(name):
    words = set(re.findall(r"\b[a-z_]+\b", OURS[name]))
    columns = {column for known in statements.TABLES.values() for column in known}
    assert words - OF_THE_LANGUAGE <= columns | set(statements.TABLES)


def test_the_columns_of_a_row_are_those_of_the_table_in_order():
    assert list(runs.COLUMNS) == list(tables.run.c.keys())


@pytest.mark.parametrize(
    ("name", "table"), [("EMIT", tables.event), ("AWAIT", tables.awaited), ("PUT_SCHEDULE", tables.schedule)]
)
def test_each_insert_into_the_queue_fills_every_column_in_order(name, table):
    columns = re.search(r"INSERT INTO @(\w+) \(([^)]*)\)", OURS[name])
    assert columns.group(1) == table.name
    assert columns.group(2).split(", ") == list(table.c.keys())


def test_a_change_writes_all_that_ever_changes():
    written = set(re.findall(r"(\w+) = \?", OURS["CHANGE"].partition("WHERE")[0]))
    never = {"no", "id", "thread", "graph", "rank", "attempt", "submitted", "request"}
    assert written | never == set(runs.COLUMNS)
    assert not written & never


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("FIND", "SEARCH run USING INDEX sqlite_autoindex_run_1 (id=?)"),
        ("ADD", ""),
        ("OPEN_RUNS", "run_thread (thread=?)"),
        ("ENDED_BEFORE", "run_thread (thread=? AND no<?)"),
        ("DUE", "run_open"),
        ("DUE", "run_thread (thread=? AND no<?)"),
        ("PENDING", "run_open"),
        ("PENDING", "run_thread (thread=? AND no<?)"),
        ("TAKE", "SEARCH run USING INTEGER PRIMARY KEY (rowid=?)"),
        ("CHANGE", "SEARCH run USING INTEGER PRIMARY KEY (rowid=?)"),
        ("BEAT", "SEARCH run USING INTEGER PRIMARY KEY (rowid=?)"),
        ("OWNERS", "run_open"),
        ("STOPPED", "run_open"),
        ("WAKE_MOVED", "run_open"),
        ("WAKE_MOVED", "sqlite_autoindex_thread_1 (key=?)"),
        ("WAKE_AWAITING", "SEARCH run USING INTEGER PRIMARY KEY (rowid=?)"),
        ("WAKE_AWAITING", "sqlite_autoindex_awaited_1 (name=? AND key=?)"),
        ("FORGET_AWAITED", "awaited_run (run=?)"),
        ("EVENT", "sqlite_autoindex_event_1 (name=? AND key=?)"),
        ("ADVANCE_SCHEDULE", "sqlite_autoindex_schedule_1 (name=?)"),
        ("DROP_SCHEDULE", "sqlite_autoindex_schedule_1 (name=?)"),
    ],
)
def test_no_text_of_the_queue_scans_a_table_of_sqlite(sqlite_file, name, index):
    plan = sqlite_plan(sqlite_file, name)
    assert any(index in step for step in plan) or not index, plan
    assert not any(step.startswith("SCAN") and "run_open" not in step for step in plan), plan


def test_runs_are_claimed_in_the_order_of_the_index(sqlite_file):
    assert not any("TEMP B-TREE" in step for step in sqlite_plan(sqlite_file, "DUE"))


# --- Postgres --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filled():
    """A schema with the same in it."""
    schema = "test_queue_plans"
    PostgresSaver(postgres_server.dsn(), schema=schema).setup()
    names = {"name": "('r' || n)::bytea", "thread": "('t' || n / 50)::bytea", "graph": "'g'::bytea"}
    postgres_server.run(FILL.format(run=f"{schema}.run", numbers=f"generate_series(1, {ALL}) AS n", **names))
    postgres_server.run(f"INSERT INTO {schema}.awaited (name, key, run) SELECT id, id, no FROM {schema}.run")
    postgres_server.run(f"ANALYZE {schema}.run; ANALYZE {schema}.awaited")
    yield schema
    postgres_server.run(f"DROP SCHEMA {schema} CASCADE")


def on_postgres(name, schema):
    text = OURS[name] + (postgres_runs.PostgresRuns.alone if name == "DUE" else "")
    text += " RETURNING 1" if changes(name) and "RETURNING" not in text else ""
    return postgres_statements.in_schema(text.replace("?", "%s"), schema)


@pytest.mark.parametrize("name", OURS)
def test_each_text_can_be_prepared_on_postgres(filled, name):
    with psycopg.connect(postgres_server.dsn(), autocommit=True) as connection:
        query = psycopg._queries.PostgresQuery(psycopg.adapt.Transformer(connection))
        query.convert(on_postgres(name, filled), values(name, None))
        connection.pgconn.prepare(b"it", query.query)
        described = connection.pgconn.describe_prepared(b"it")
        assert described.status == psycopg.pq.ExecStatus.COMMAND_OK, described.error_message
        assert described.nparams == OURS[name].count("?")


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("FIND", (b"r7",)),
        ("OPEN_RUNS", (b"t7",)),
        ("ENDED_BEFORE", (b"t7", 370)),
        ("DUE", (b"g", b"h", 10**6, 10**6, "x", "y", 5)),
        ("CHANGE", ("done", None, None, 0, 0, 0, None, None, 1, None, None, 7, 0, "done")),
        ("BEAT", (1, 2, 7, 0)),
        ("TAKE", ("x", 1, 2, 3, 7)),
        ("WAKE_AWAITING", (1, 1, b"r25", b"r25")),
        ("FORGET_AWAITED", (7,)),
    ],
)
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_no_text_of_the_queue_walks_all_runs_on_postgres(filled, name, given, mode):
    with psycopg.connect(postgres_server.dsn(), options=f"-c plan_cache_mode={mode}") as connection:
        text = b"EXPLAIN (FORMAT JSON) " + on_postgres(name, filled)
        [(plans,)] = connection.execute(text, given, prepare=True).fetchall()
    scans = [node for node in nodes(plans[0]["Plan"]) if node["Node Type"].endswith("Scan")]
    assert scans
    assert not [node for node in scans if node["Node Type"] == "Seq Scan"], scans


def nodes(plan):
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)
