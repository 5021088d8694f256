"""What only a store on a server can do wrong: lose its session, wait in a ring, read more than fits."""

import logging
import os
import re
from ast import literal_eval
from contextlib import closing

import psycopg
import pytest

from checkpointers import AsyncPostgresStore, PostgresSaver, PostgresStore
from checkpointers import postgres_store as module
from checkpointers.sql import postgres_store_statements as sql
from checkpointers.sql import store_statements, tables
from checkpointers.sql.postgres_statements import in_schema
from durable_graph.errors import DatabaseLockedError, InvalidConfigError
from durable_graph.stores import PutOp
from durable_graph.stores.rows import StoredItem
from durable_graph.testing.conformance.acting import Sync, seqs, start, step
from tests import postgres_server
from tests.conformance.processes import python, result
from tests.conformance.stores import Opened, index, keys, letters
from tests.unit.stores.test_sqlite_store import FORK, LABELS

WHERE = {"schema": postgres_server.SCHEMA}


@pytest.fixture
def make():
    """Makes stores over the same tables."""
    opened = Opened()
    yield lambda **options: opened.add("postgres", None, options)
    opened.close()


@pytest.fixture
def store(make):
    return make()


# --- the object ------------------------------------------------------------------------------------------------------


def test_items_and_vectors_outlive_the_object(make, face):
    with make(index=index(fields=["text"])) as store:
        face.call(store, "put", ("a",), "k", {"text": "ab"})
    postgres_server.end_sessions()
    assert face.call(make(index=index(fields=["text"])), "search", (), query="ab")[0].score == 1.0


def test_a_store_from_a_connection_string_is_a_context_manager(store):
    with PostgresStore.from_conn_string(postgres_server.dsn(), ttl={"default_ttl": 5}, **WHERE) as other:
        other.put(("a",), "k", {})
        assert other.ttl_config == {"default_ttl": 5}
        assert re.fullmatch(r"<PostgresStore on Postgres database postgres at .*, schema tests>", repr(other))
    assert keys(store.search(())) == ["k"]
    assert AsyncPostgresStore is PostgresStore


@pytest.mark.parametrize("target", ["sqlite:///x.db", "postgresql://x/y?max_size=none", "", 7], ids=repr)
def test_a_wrong_target_is_an_error(target):
    with pytest.raises(InvalidConfigError):
        PostgresStore(target) if target else PostgresStore("postgresql://h/d", schema="")


def test_a_store_and_a_checkpointer_share_a_schema_and_the_session_that_writes(store, face):
    with closing(PostgresSaver(postgres_server.dsn(), **WHERE)) as saver:
        claim = start(saver)
        for seq in range(2, 12):
            face.call(store, "put", ("a",), str(seq), {"n": seq})
            assert saver.commit([step(claim, seq)]) == ["written"]
        assert len(face.call(store, "search", ("a",), limit=100)) == 10
        assert seqs(Sync(), saver) == list(range(1, 12))
        assert saver._database is store._database


def test_nothing_is_prepared_where_a_proxy_hands_out_sessions(make):
    store = PostgresStore(postgres_server.dsn(), prepare=False, index=index(), **WHERE)
    make()
    for n in range(6):
        store.put(("a", str(n)), "k", {"n": n})
        assert len(store.search((), query="a", filter={"n": n})) == 1
    assert store.list_namespaces(suffix=("3",)) == [("a", "3")]
    for session in (store._database._writer, store._database._idle[-1][1]):
        assert session.execute("SELECT count(*) FROM pg_prepared_statements").fetchall() == [(0,)]
    store.close()


# --- odd and large ---------------------------------------------------------------------------------------------------


def test_a_large_value_comes_out_as_it_was_put(store):
    value = {"data": os.urandom(1_000_000) * 20, "n": 1}
    store.put(("a",), "k", value)
    assert store.search((), filter={"n": 1})[0].value == value


def test_rows_come_in_order_whatever_text_they_hold(store):
    places = [((label, other), key) for label in LABELS for other in ("", "\0") for key in ("", "\0", "\ud800", "é")]

    def put(rows):
        for namespace, key in places:
            rows.put(StoredItem(namespace, key, b"\0%s\\x\xff", 1, 1, None, None), [b"vector"])

    store.write(put)
    assert store.read(lambda rows: [row[:2] for row in rows.scan((), [b"\0%s\\x"], 0)]) == sorted(places)
    assert store.read(lambda rows: list(rows.scan((), [b"%%"], 0))) == []
    assert store.read(lambda rows: {place[:2] for place in rows.vectors((LABELS[0],))}) == {
        place for place in places if place[0][0] == LABELS[0]
    }
    assert store.read(lambda rows: list(rows.namespaces((), ("\0",), 0))) == sorted((label, "\0") for label in LABELS)
    assert store.read(lambda rows: list(rows.namespaces((), ("\ud800", ""), 0))) == [("\ud800", "")]
    assert store.read(lambda rows: list(rows.namespaces((), ("x", "\ud800", ""), 0))) == []


def test_a_scan_fetches_what_it_is_asked_for(store, monkeypatch):
    store.batch([PutOp(("a",), f"{n:04}", {"n": n, "text": "x" * 1000}) for n in range(500)])
    fetched = []
    monkeypatch.setattr(module.sql, "FETCH", Told(fetched, sql.FETCH))
    assert keys(store.search((), limit=3)) == ["0000", "0001", "0002"]
    assert fetched == [16]
    fetched.clear()
    assert len(store.search((), limit=500)) == 500
    assert fetched == [16, 64, 256, 1024]
    fetched.clear()
    monkeypatch.setattr(module, "_BYTES", 10_000)
    assert keys(store.search((), offset=24, limit=2)) == ["0024", "0025"]
    assert fetched == [16, 9, 9]


class Told(str):
    """A text that tells how many rows are fetched."""

    __slots__ = ("told",)

    def __new__(cls, told, text):
        self = super().__new__(cls, text)
        self.told = told
        return self

    def format(self, **parts):
        self.told.append(parts["rows"])
        return super().format(**parts)


def test_no_vector_outlives_its_item(make):
    store = make(index=index(letters, fields=["a", "b"]))
    store.put(("a",), "k", {"a": "a", "b": "b"})
    store.put(("a",), "l", {"a": "a", "b": "b"}, ttl=0.00001)
    store.put(("a",), "m", {"a": "a", "b": "b"})
    assert postgres_server.select("SELECT count(*) FROM vector") == [(6,)]
    store.delete(("a",), "k")
    store.put(("a",), "m", {"a": "a"})
    while store.get(("a",), "l", refresh_ttl=False) is not None:
        pass
    assert store.sweep_ttl() == 1
    assert postgres_server.select("SELECT count(*) FROM vector") == [(1,)]


# --- sessions that end, locks that are held --------------------------------------------------------------------------


def test_a_session_that_ended_is_replaced(make, face):
    store = make(ttl={"default_ttl": 5, "refresh_on_read": True})
    for verb, args in (("put", (("a",), "k", {"n": 1})), ("get", (("a",), "k")), ("search", ((),)), ("sweep_ttl", ())):
        face.call(store, verb, *args)
        postgres_server.end_sessions()
        face.call(store, verb, *args)
    assert store.get(("a",), "k").value == {"n": 1}


@pytest.mark.parametrize("verb", ["read", "write"])
def test_work_whose_session_ends_is_done_again_from_its_beginning(store, verb):
    store.put(("a",), "k", {"n": 1})
    begun = []

    def work(rows):
        begun.append([row.key for row in rows.scan((), [], 0)])
        if verb == "write":
            rows.put(StoredItem(("a",), f"new {len(begun)}", b"", 1, 1, None, None), [])
        if len(begun) == 1:
            rows.find(("a",), "k", 0)
            postgres_server.end_sessions()
        return rows.find(("a",), "k", 0).key

    assert getattr(store, verb)(work) == "k"
    assert begun == [["k"]] * 2
    stored = postgres_server.select("SELECT key FROM item ORDER BY key")
    assert stored == [(b"k",)] + [(b"new 2",)] * (verb == "write")


def test_a_batch_that_fails_leaves_nothing_and_the_session_is_kept(store):
    store.put(("a",), "k", {"n": 1})
    session = store._database._writer

    def work(rows):
        rows.delete(("a",), "k")
        raise ZeroDivisionError

    for verb in (store.write, store.read):
        with pytest.raises(ZeroDivisionError):
            verb(work if verb == store.write else lambda rows: [1 / 0 for _ in rows.scan((), [], 0)])
    assert store.get(("a",), "k").value == {"n": 1}
    assert store._database._writer is session


def test_a_lock_of_another_session_is_waited_for_and_then_an_error(make, caplog):
    make().put(("a",), "k", {"n": 1})
    store = PostgresStore(postgres_server.dsn(), timeout=0.05, **WHERE)
    with psycopg.connect(postgres_server.dsn()) as other:
        other.execute("UPDATE tests.item SET expires = NULL")
        with pytest.raises(DatabaseLockedError, match="lock timeout"):
            store.put(("a",), "k", {"n": 2})
        assert store.get(("a",), "k").value == {"n": 1}
        store.put(("a",), "l", {"n": 2})
    store.put(("a",), "k", {"n": 2})
    assert caplog.get_records("call") == []
    store.close()


def test_what_a_batch_reads_is_one_state(store):
    store.put(("a",), "k", {"n": 1})

    def work(rows):
        before = rows.find(("a",), "k", 0)
        postgres_server.select("DELETE FROM item")
        return before == rows.find(("a",), "k", 0) == next(rows.scan((), [], 0))

    assert store.read(work)
    assert store.get(("a",), "k") is None


# --- processes -------------------------------------------------------------------------------------------------------

BUSY = """
import random, sys
from checkpointers import PostgresStore
from durable_graph.stores import GetOp, PutOp
dsn, name = sys.argv[1:]
dice = random.Random(name)
index = {"dims": 2, "embed": lambda texts: [[1.0, float(len(text))] for text in texts]}
ttl = {"default_ttl": 5, "refresh_on_read": True, "sweep_interval_minutes": 1e-9}
store = PostgresStore(dsn, schema="tests", index=index, ttl=ttl)
store.setup()
print("ready", flush=True)
input()
swapped = []
for n in range(40):
    store.put(("shared",), "k", {"n": n})
    keys = dice.sample("abcdef", 4)
    lives = [dice.choice([None, 5, 1e-9]) for _ in keys]
    values = [{"n": n} if dice.random() < 0.8 else None for _ in keys]
    store.batch([PutOp(("many",), key, value, None, ttl) for key, value, ttl in zip(keys, values, lives)])
    store.search(("many",), query=dice.choice(["", "x", "xyz"]) or None)
    if n % 4 == 0:
        before = store.batch([GetOp(("swap",), "k"), PutOp(("swap",), "k", {"by": f"{name} {n}"})])[0]
        swapped.append(before and before.value["by"])
print(swapped)
"""


def test_processes_that_put_the_same_places_neither_fail_nor_wait_in_a_ring(store):
    before = postgres_server.select("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'")
    children = [python(BUSY, postgres_server.dsn(), name) for name in "ab"]
    assert [child.stdout.readline() for child in children] == ["ready\n"] * 2
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    swapped = [each for child in children for each in literal_eval(result(child))]
    # A batch that reads and puts is alone: each swapped value was taken out by exactly one.
    swapped.append(store.get(("swap",), "k").value["by"])
    assert sorted(swapped, key=str) == sorted(
        [None, *(f"{name} {n}" for name in "ab" for n in range(0, 40, 4))], key=str
    )
    assert store.get(("shared",), "k").value == {"n": 39}
    assert postgres_server.select("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'") == before
    orphans = "SELECT count(*) FROM vector WHERE (namespace, key) NOT IN (SELECT namespace, key FROM item)"
    assert postgres_server.select(orphans) == [(0,)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_both_sides_of_a_fork_go_on_while_another_os_thread_puts(store):
    child = python(FORK, "postgres", postgres_server.dsn())
    assert sorted(result(child).split("\n")) == ["20", "20", "20", "parent whole"]
    assert [len(store.search(("child", str(number)), limit=100)) for number in range(3)] == [20] * 3


def test_using_a_store_imports_neither_sqlalchemy_nor_numpy(store):
    store.setup()
    code = """
import sys
from checkpointers import PostgresStore
store = PostgresStore(sys.argv[1], schema="tests")
store.put(("a",), "k", {"n": 1})
assert store.search((), filter={"n": 1})
print(sorted({"sqlalchemy", "alembic", "sqlite3", "numpy"} & set(sys.modules)))
"""
    assert result(python(code, postgres_server.dsn())) == "[]"


# --- statements ------------------------------------------------------------------------------------------------------


def test_the_texts_are_those_of_sqlite_but_for_the_dialect():
    def plain(text):
        return re.sub(r"%[sb](::int)?", "?", text).replace("@", "")

    differ = {"contains", "ends_with"}
    for name, text in sql.POSTGRES._asdict().items():
        sqlite = getattr(store_statements.SQLITE, name)
        assert (plain(text) == sqlite) == (name not in differ)
        assert plain(text).count("?") == sqlite.count("?")


def whole_statements():
    texts = sql.POSTGRES
    found = texts._asdict()
    del found["contains"], found["ends_with"]
    return found | {"scan": texts.scanning(2), "namespaces": texts.listing(tail=True), "sweep": sql.SWEEP}


def known(place):
    """A value for a parameter: by its placeholder."""
    return 1 if place.startswith("%s") else b"x"


@pytest.mark.parametrize("name", whole_statements())
def test_no_statement_goes_through_a_table(store, name):
    store.setup()
    text = whole_statements()[name]
    values = [known(place) for place in re.findall(r"%[sb]", text)]
    with psycopg.connect(postgres_server.dsn()) as connection:
        connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashagg = off")
        plan = connection.execute(b"EXPLAIN " + in_schema(text, postgres_server.SCHEMA), values).fetchall()
    steps = "\n".join(step for (step,) in plan)
    assert "Seq Scan" not in steps, steps
    assert "Sort" not in steps or name == "sweep", steps


@pytest.mark.parametrize(("name", "table"), [("put", tables.item), ("put_vector", tables.vector)])
def test_each_insert_fills_every_column_in_order(name, table):
    columns = re.search(r"INSERT INTO @(\w+) \(([^)]*)\) VALUES \(([^)]*)\)", getattr(sql.POSTGRES, name))
    assert columns.group(1) == table.name
    assert columns.group(2).split(", ") == list(table.c.keys())
    bytes_or_number = ["%b" if str(column.type) == "BLOB" else "%s" for column in table.c]
    assert columns.group(3).split(", ") == bytes_or_number


def test_what_is_locked_is_this_stores_alone(store):
    store.setup()
    place = (("a",), "k")

    def locked(schema, places):
        with psycopg.connect(postgres_server.dsn()) as connection:
            rows = module._PostgresRows(connection, PostgresStore(postgres_server.dsn(), schema=schema)._open())
            rows.hold(places)
            held = "SELECT classid, objid FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
            return set(connection.execute(held).fetchall())

    one, other = locked("tests", [place, place]), locked("elsewhere", [place])
    assert len(one) == len(other) == 1
    assert one != other
    assert one < locked("tests", None)
    assert len(locked("tests", None)) == module._STRIPES


@pytest.fixture(autouse=True)
def quiet():
    """psycopg tells of sessions that end as it closes them."""
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    yield
    logging.getLogger("psycopg").setLevel(logging.NOTSET)
