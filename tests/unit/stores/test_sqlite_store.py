"""What only a store in a file can do wrong: share it, be killed, be opened with another index."""

import os
import random
import sqlite3

import pytest

from checkpointers import AsyncSqliteStore, SqliteSaver, SqliteStore
from checkpointers.sql.store import decode_namespace, encode_namespace
from durable_graph.errors import CorruptDataError, InvalidConfigError
from durable_graph.stores import InMemoryStore
from durable_graph.testing.conformance.acting import Sync, seqs, start, step
from tests.conformance.processes import python, result
from tests.conformance.stores import index, keys, letters


def test_items_and_vectors_outlive_the_object(tmp_path, face):
    with SqliteStore(tmp_path / "memory.db", index=index(fields=["text"])) as store:
        face.call(store, "put", ("a",), "k", {"text": "ab"})
    with SqliteStore(f"sqlite:///{tmp_path / 'memory.db'}", index=index(fields=["text"])) as store:
        assert face.call(store, "search", (), query="ab")[0].score == 1.0


def test_a_store_from_a_connection_string_is_a_context_manager(tmp_path):
    with SqliteStore.from_conn_string(str(tmp_path / "memory.db"), ttl={"default_ttl": 5}) as store:
        store.put(("a",), "k", {})
        assert store.ttl_config == {"default_ttl": 5}
        assert repr(store) == f"SqliteStore({str(tmp_path / 'memory.db')!r})"
    assert AsyncSqliteStore is SqliteStore


def test_a_connection_stands_for_its_file(tmp_path):
    connection = sqlite3.connect(tmp_path / "memory.db")
    store = SqliteStore(connection)
    connection.close()
    store.put(("a",), "k", {})
    store.close()
    assert (tmp_path / "memory.db").exists()


@pytest.mark.parametrize(
    "target", ["sqlite:///x.db?synchronous=OFF", "sqlite:///x.db?busy_timeout=x", "postgres://x", "", 7], ids=repr
)
def test_a_wrong_target_is_an_error(target):
    with pytest.raises(InvalidConfigError):
        SqliteStore(target)


def test_a_store_and_a_checkpointer_share_a_file(tmp_path, face):
    with SqliteSaver(tmp_path / "runs.db") as saver, SqliteStore(tmp_path / "runs.db") as store:
        claim = start(saver)
        for seq in range(2, 12):
            face.call(store, "put", ("a",), str(seq), {"n": seq})
            assert saver.commit([step(claim, seq)]) == ["written"]
        assert len(face.call(store, "search", ("a",), limit=100)) == 10
        assert seqs(Sync(), saver) == list(range(1, 12))


def test_a_file_is_closed_with_its_last_user(tmp_path):
    saver, store = SqliteSaver(tmp_path / "runs.db"), SqliteStore(tmp_path / "runs.db")
    start(saver)
    store.put(("a",), "k", {})
    saver.close()
    assert store.get(("a",), "k") is not None
    store.close()
    assert not (tmp_path / "runs.db-wal").exists()  # what the last connection removes


def test_another_index_than_the_one_a_file_was_filled_with_is_named(tmp_path):
    with SqliteStore(tmp_path / "memory.db", index=index()) as store:
        store.put(("a",), "k", {"text": "ab"})
    other = {"dims": 2, "embed": lambda texts: [[1.0, 2.0] for _ in texts]}
    with SqliteStore(tmp_path / "memory.db", index=other) as store:
        with pytest.raises(InvalidConfigError, match=r"'k' of namespace \('a',\).*5 dimensions.*has 2"):
            store.search((), query="x")
        store.put(("a",), "k", {"text": "ab"})
        assert store.search((), query="x")[0].score == 1.0


def test_what_was_stored_with_an_index_is_read_without_one(tmp_path):
    with SqliteStore(tmp_path / "memory.db", index=index()) as store:
        store.put(("a",), "k", {"text": "ab"})
    with SqliteStore(tmp_path / "memory.db") as store:
        assert keys(store.search(())) == ["k"]
        store.put(("a",), "k", {"text": "changed"})
    with SqliteStore(tmp_path / "memory.db", index=index()) as store:
        assert store.search((), query="ab")[0].score is None  # no vector of a text that is gone


def counted(path, table):
    connection = sqlite3.connect(path)
    try:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    finally:
        connection.close()


def test_no_vector_outlives_its_item(tmp_path):
    with SqliteStore(tmp_path / "memory.db", index=index(letters, fields=["a", "b"])) as store:
        store.put(("a",), "k", {"a": "a", "b": "b"})
        store.put(("a",), "l", {"a": "a", "b": "b"}, ttl=0.00001)
        store.put(("a",), "m", {"a": "a", "b": "b"})
        assert counted(tmp_path / "memory.db", "vector") == 6
        store.delete(("a",), "k")
        store.put(("a",), "m", {"a": "a"})
        while store.get(("a",), "l", refresh_ttl=False) is not None:
            pass
        assert store.sweep_ttl() == 1
    assert counted(tmp_path / "memory.db", "vector") == 1


# --- how namespaces are written --------------------------------------------------------------------------------------

LABELS = [
    "a",
    "ab",
    "b",
    "é",
    "\x01",
    "\x01\x01",
    "\x02",
    "\x01\x02",
    "\0",
    "\0\x01",
    "\x01\0",
    "\ud800",
    "\uffff",
    "\U0001f600",
]


def namespaces():
    rng = random.Random(5)
    return [tuple(rng.choice(LABELS) for _ in range(rng.randint(0, 4))) for _ in range(400)]


def test_a_namespace_comes_back_as_it_was_whatever_text_it_holds():
    assert [decode_namespace(encode_namespace(namespace)) for namespace in namespaces()] == namespaces()


def test_bytes_of_namespaces_are_ordered_as_tuples_are():
    assert sorted(namespaces()) == sorted(namespaces(), key=encode_namespace)


def test_namespaces_below_a_prefix_are_one_range_of_bytes():
    for prefix in [(), ("a",), ("a", "b"), ("\0",), ("\x01",), ("\U0001f600",)]:
        first = encode_namespace(prefix)
        in_range = [name for name in namespaces() if first <= encode_namespace(name) < first + b"\xff"]
        assert in_range == [name for name in namespaces() if name[: len(prefix)] == prefix]


@pytest.mark.parametrize("data", [b"a", b"a\0b", b"\xff\0"])
def test_a_damaged_namespace_is_an_error(data):
    with pytest.raises(CorruptDataError):
        decode_namespace(data)


# --- processes -------------------------------------------------------------------------------------------------------

PUT = """
import sys
from checkpointers import SqliteStore
store = SqliteStore(sys.argv[1], busy_timeout=40, synchronous="NORMAL")
print("ready", flush=True)
input()
for n in range(50):
    store.put(("a", sys.argv[2]), str(n), {"n": n})
    store.put(("shared",), "k", {"by": sys.argv[2], "n": n})
    assert store.get(("a", sys.argv[2]), str(n)).value == {"n": n}
print("done")
"""


def test_four_processes_write_one_file_and_another_process_reads_all(tmp_path):
    children = [python(PUT, tmp_path / "memory.db", name) for name in "abcd"]
    assert [child.stdout.readline() for child in children] == ["ready\n"] * 4
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [result(child) for child in children] == ["done"] * 4
    with SqliteStore(tmp_path / "memory.db") as store:
        assert [len(store.search(("a", name), limit=100)) for name in "abcd"] == [50] * 4
        assert store.get(("shared",), "k").value["n"] == 49


KILLED = """
import sys
from checkpointers import SqliteStore
from durable_graph.stores import PutOp
store = SqliteStore(sys.argv[1])
n = 0
while True:
    n += 1
    store.batch([PutOp(("a",), key, {"n": n}) for key in "klm"])
    print(n, flush=True)
"""


@pytest.mark.crash
def test_a_batch_that_was_acknowledged_survives_sigkill_and_none_is_stored_in_part(tmp_path):
    child = python(KILLED, tmp_path / "memory.db")
    for _ in range(30):
        acknowledged = int(child.stdout.readline())
    child.kill()
    child.communicate()
    with SqliteStore(tmp_path / "memory.db") as store:
        stored = {item.value["n"] for item in store.search(("a",))}
    assert len(stored) == 1
    assert stored.pop() >= acknowledged


FORK = """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forking with OS threads: that is the test
from checkpointers import PostgresStore, SqliteStore
from durable_graph.stores import InMemoryStore
store = {
    "file": lambda: SqliteStore(sys.argv[2]),
    "memory": InMemoryStore,
    "postgres": lambda: PostgresStore(sys.argv[2], schema="tests"),
}[sys.argv[1]]()
stop, written = threading.Event(), [0]

def put():
    while not stop.is_set():
        store.put(("parent",), "k", {"n": written[0] + 1})
        assert store.search(("parent",))[0].value["n"] == written[0] + 1
        written[0] += 1

busy = threading.Thread(target=put)
busy.start()
children = []
for number in range(3):
    while written[0] < 20 * (number + 1): time.sleep(0.001)
    pid = os.fork()
    if pid == 0:
        try:
            for n in range(20):
                store.put(("child", str(number)), str(n), {"n": n})
            os.write(1, f"{len(store.search(('child', str(number)), limit=100))}\\n".encode())
            os._exit(0)
        except BaseException as error:
            os.write(1, repr(error).encode())
            os._exit(1)
    children.append(pid)
stop.set()
busy.join()
for pid in children: os.waitpid(pid, 0)
assert store.get(("parent",), "k").value["n"] == written[0]
print("parent whole", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("kind", ["file", "memory"])
def test_both_sides_of_a_fork_go_on_while_another_os_thread_puts(tmp_path, kind):
    assert sorted(result(python(FORK, kind, tmp_path / "memory.db")).split("\n")) == ["20", "20", "20", "parent whole"]
    if kind == "file":
        with SqliteStore(tmp_path / "memory.db") as store:
            assert [len(store.search(("child", str(number)), limit=100)) for number in range(3)] == [20] * 3


def test_using_a_store_imports_neither_sqlalchemy_nor_numpy():
    code = """
import sys
from checkpointers import SqliteStore
store = SqliteStore(":memory:")
store.put(("a",), "k", {"n": 1})
assert store.search((), filter={"n": 1})
print(sorted({"sqlalchemy", "alembic", "aiosqlite", "numpy"} & set(sys.modules)))
"""
    assert result(python(code)) == "[]"


def test_objects_in_memory_share_nothing():
    for make in (InMemoryStore, lambda: SqliteStore(":memory:")):
        first, second = make(), make()
        first.put(("a",), "k", {})
        assert second.get(("a",), "k") is None
