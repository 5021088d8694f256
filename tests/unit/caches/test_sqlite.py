"""The cache in a SQLite file: several processes, forks, damage, locks, and what is over goes away."""

import asyncio
import re
import sqlite3
import time

import pytest

from checkpointers import SqliteCache, SqliteSaver
from checkpointers.sql import cache_statements, statements, tables
from checkpointers.sql.sealing import sealed
from durable_graph.errors import (
    CorruptDataError,
    DatabaseLockedError,
    InvalidConfigError,
    NewerDatabaseError,
    UnknownStoredTypeError,
)
from durable_graph.testing.conformance.acting import Sync, seqs, start
from durable_graph.types import MISSING
from tests.conformance.processes import python, result
from tests.unit.caches.calling import NS, access_to, call

PLACE = (NS, "key")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "cache.db"


@pytest.fixture
def cache(file):
    with SqliteCache(file) as cache:
        yield cache


def sql(file, statement, *values):
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        connection.close()


# --- the file --------------------------------------------------------------------------------------------------------


def test_the_parameter_is_called_path_as_people_know_it(file):
    with SqliteCache(path=str(file)) as cache:
        assert repr(cache) == f"SqliteCache({str(file)!r})"
        assert not file.exists()  # made when first used
        assert cache.get([PLACE]) == {}
        assert file.exists()


@pytest.mark.parametrize(
    "options", [{"synchronous": "OFF"}, {"busy_timeout": -1}], ids=lambda options: next(iter(options))
)
def test_a_wrong_option_is_refused(file, options):
    with pytest.raises(InvalidConfigError, match=next(iter(options))):
        SqliteCache(file, **options)


def test_a_cache_shares_file_and_write_connection_with_a_checkpointer(file):
    with SqliteSaver(file) as saver, SqliteCache(file) as cache:
        start(saver)
        cache.set({PLACE: (1, None)})
        assert cache._database is saver._database
        cache.clear()
        assert seqs(Sync(), saver) == [1]
    assert [path.name for path in file.parent.iterdir()] == ["cache.db"]


def test_a_cache_that_is_forgotten_closes_its_file(file):
    cache = SqliteCache(file)
    cache.set({PLACE: (1, None)})
    assert file.with_name("cache.db-wal").exists()
    del cache
    assert [path.name for path in file.parent.iterdir()] == ["cache.db"]


def test_values_outlive_the_object(file):
    with SqliteCache(file) as cache:
        assert call(cache, lambda: "computed") == "computed"
    with SqliteCache(file) as cache:
        assert access_to(cache).look() == "computed"


def test_what_is_over_is_removed_by_later_writes(file, cache):
    cache.set({(NS, str(number)): (number, 1e-9) for number in range(250)})
    cache.set({(NS, "later"): (0, 3600)})
    left = sql(file, "SELECT count(*) FROM cache")[0][0]
    assert left == 250 - 101 + 1
    for number in range(2):
        cache.set({(NS, f"more {number}"): (0, None)})
    assert sql(file, "SELECT count(*) FROM cache") == [(3,)]


def test_times_are_milliseconds_since_1970(file, cache):
    before = time.time_ns() // 1_000_000
    cache.set({PLACE: (1, 60)})
    after = time.time_ns() // 1_000_000
    assert before + 60_000 <= sql(file, "SELECT expires FROM cache")[0][0] <= after + 60_000


# --- statements ------------------------------------------------------------------------------------------------------


@pytest.fixture
def fresh(file):
    with SqliteCache(file) as cache:
        cache.get([PLACE])
    connection = sqlite3.connect(file)
    yield connection
    connection.close()


@pytest.mark.parametrize("name", cache_statements.__all__)
def test_each_fixed_statement_fits_the_table(fresh, name):
    text = getattr(cache_statements, name)
    fresh.execute("EXPLAIN " + text, (1,) * text.count("?")).fetchall()
    known = set(tables.cache.c.keys()) | {"cache", "rowid", "excluded"}
    assert set(re.findall(r"\b[a-z_]+\b", text)) <= known
    assert "RETURNING" not in text


def test_setting_fills_every_column_in_order():
    columns = re.search(r"INSERT INTO cache \(([^)]*)\)", cache_statements.SET_ENTRY).group(1).split(", ")
    assert columns == list(tables.cache.c.keys())
    assert frozenset(columns) == statements.TABLES["cache"]


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("FIND_ENTRY", "sqlite_autoindex_cache_1 (ns=? AND key=?)"),
        ("SWEEP", "cache_expires (expires<?)"),
        ("CLEAR", "sqlite_autoindex_cache_1 (ns=?)"),
    ],
)
def test_no_statement_scans_the_table(fresh, name, index):
    text = getattr(cache_statements, name)
    plan = [row[3] for row in fresh.execute("EXPLAIN QUERY PLAN " + text, (1,) * text.count("?"))]
    assert any(index in step for step in plan), plan
    assert not any(step.startswith("SCAN") or "TEMP B-TREE" in step for step in plan), plan


# --- damage ----------------------------------------------------------------------------------------------------------

DAMAGES = {
    "a flipped bit": "UPDATE cache SET value = CAST(substr(value, 1, 8) || X'00' || substr(value, 10) AS BLOB)",
    "a cut value": "UPDATE cache SET value = CAST(substr(value, 1, 7) AS BLOB)",
    "a cut head": "UPDATE cache SET value = X'01'",
    "an empty value": "UPDATE cache SET value = X''",
    "a text": "UPDATE cache SET value = 'a text'",
    "another key's value": "UPDATE cache SET value = (SELECT value FROM cache WHERE key = CAST('other' AS BLOB))",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_row_is_an_error_that_names_the_place_and_not_a_miss(file, cache, face, damage):
    cache.set({PLACE: ("some text", None), (NS, "other"): ("some text", None)})
    sql(file, f"{DAMAGES[damage]} WHERE key = CAST('key' AS BLOB)")
    for look in (lambda: face.call(cache, "get", [PLACE]), lambda: face.call(access_to(cache), "look")):
        with pytest.raises(CorruptDataError) as caught:
            look()
        text = str(caught.value)
        assert str(file) in text
        assert "under key 'key' of namespace ('writes', 'node')" in text
        assert "clear([('writes', 'node')])" in caught.value.cure
    assert len(cache.flights) == 0
    assert cache.get([(NS, "other")]) == {(NS, "other"): "some text"}
    cache.clear([NS])
    assert call(cache, lambda: "anew") == "anew"


def test_a_row_of_a_newer_format_is_refused(file, cache):
    cache.set({PLACE: ("text", None)})
    sql(file, "UPDATE cache SET value = ?", sealed(PLACE, b"\x05later", row_format=2))
    with pytest.raises(NewerDatabaseError, match=r"'key'.*format 2"):
        cache.get([PLACE])


STORE_OWN_TYPE = """
import sys
from dataclasses import dataclass
from checkpointers import SqliteCache
from durable_graph import register_type

@register_type(name="gone.Invoice")
@dataclass
class Invoice:
    total: int

with SqliteCache(sys.argv[1]) as cache:
    cache.set({(("writes", "node"), "key"): (Invoice(5), None)})
"""


def test_a_value_whose_type_is_not_known_here_is_an_error_that_names_the_place(file, cache):
    assert result(python(STORE_OWN_TYPE, file)) == ""
    with pytest.raises(UnknownStoredTypeError, match=r"gone\.Invoice") as caught:
        cache.get([PLACE])
    assert f"SqliteCache({str(file)!r}), the value under key 'key'" in str(caught.value)
    assert "register_type" in caught.value.cure
    assert "clear([('writes', 'node')])" in caught.value.cure


def test_a_file_that_is_no_database_is_an_error_and_not_a_miss(file, face):
    file.write_bytes(b"no database at all" * 100)
    with SqliteCache(file) as cache, pytest.raises(CorruptDataError, match=r"cache\.db"):
        face.call(access_to(cache), "look")


# --- processes -------------------------------------------------------------------------------------------------------

HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
input()
connection.execute("COMMIT")
"""


def test_a_lock_of_another_process_is_an_error_that_names_the_file_and_reading_goes_on(file):
    with SqliteCache(file, busy_timeout=0.05) as cache:
        cache.set({PLACE: (1, None)})
        child = python(HOLD, file)
        assert child.stdout.readline() == "locked\n"
        for attempt in (lambda: cache.set({PLACE: (2, None)}), cache.clear):
            with pytest.raises(DatabaseLockedError, match=r"cache\.db"):
                attempt()
        assert cache.get([PLACE]) == {PLACE: 1}
        child.communicate("go\n", timeout=30)
        cache.set({PLACE: (2, None)})
        assert cache.get([PLACE]) == {PLACE: 2}


WORK = """
import asyncio, sys
from checkpointers import SqliteCache
from tests.unit.caches.calling import acall, call
cache, name = SqliteCache(sys.argv[1], busy_timeout=40), sys.argv[2]
print("ready", flush=True)
input()

async def compute(number):
    return [number, "from a loop"]

for number in range(60):
    if number % 2:
        found = call(cache, lambda: [number, name], str(number))
    else:
        found = asyncio.run(acall(cache, lambda: compute(number), str(number)))
    assert found[0] == number
    cache.set({(("own", name), str(number)): (number, None), (("over",), str(number)): (number, 0.001)})
print("done")
"""


def test_two_processes_share_one_file(file):
    children = [python(WORK, file, name) for name in ("one", "two")]
    assert [child.stdout.readline() for child in children] == ["ready\n"] * 2
    for child in children:  # both, before either is waited for
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [result(child) for child in children] == ["done"] * 2
    with SqliteCache(file) as cache:
        for name in ("one", "two"):
            places = [(("own", name), str(number)) for number in range(60)]
            assert list(cache.get(places).values()) == list(range(60))
        found = [access_to(cache, str(number)).look() for number in range(60)]
        assert [value[0] for value in found] == list(range(60))


def test_what_another_process_computed_is_a_hit(file, cache, face):
    code = "import sys; from checkpointers import SqliteCache; from tests.unit.caches.calling import call\n"
    code += "with SqliteCache(sys.argv[1]) as cache: print(call(cache, lambda: ['theirs']))"
    assert face.call(access_to(cache), "look") is MISSING
    assert result(python(code, file)) == "['theirs']"
    assert face.call(access_to(cache), "look") == ["theirs"]


def test_a_clear_of_another_process_is_seen(file, cache):
    cache.set({PLACE: (1, None)})
    code = "import sys; from checkpointers import SqliteCache\nwith SqliteCache(sys.argv[1]) as cache: cache.clear()"
    assert result(python(code, file)) == ""
    assert cache.get([PLACE]) == {}


FORK = """
import asyncio, os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forking with OS threads: that is the test
from checkpointers import SqliteCache
from durable_graph.caches import InMemoryCache
from tests.unit.caches.calling import Gate, Outcome, acall, access_to, call, until, waiting
cache = InMemoryCache() if sys.argv[1] == "memory" else SqliteCache(sys.argv[2])
cache.set({(("before",), "key"): ("before", None)})

gate = Gate("parent's")
leader = Outcome(lambda: call(cache, gate))
gate.began.wait()
waiter = Outcome(lambda: call(cache, gate))
until(lambda: waiting(cache) == 1)

def compute_and_fork():
    pid = os.fork()
    if pid == 0:
        try:
            async def compute(): return "child's"
            assert len(cache.flights) == 0
            assert cache.get([(("before",), "key")]) == {(("before",), "key"): "before"}
            assert call(cache, lambda: "child's") == "child's"          # the leader is an OS thread of the parent
            assert call(cache, lambda: 0, "forking") == 0               # and so is whoever waits for this one
            assert asyncio.run(acall(cache, compute, "new")) == "child's"
            gate = Gate("shared")
            threads = [Outcome(lambda: call(cache, gate, "both")) for _ in range(2)]
            until(lambda: waiting(cache, "both") == 1)
            gate.opened.set()
            assert [thread.join() for thread in threads] == ["shared"] * 2
            return "from the child"
        except BaseException as error:
            os.write(1, repr(error).encode())
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    return "from the parent"

here = os.getpid()
found = call(cache, compute_and_fork, "forking")
if os.getpid() != here:
    assert found == "from the child"
    os._exit(0)
gate.opened.set()
assert [leader.join(), waiter.join(), gate.count] == ["parent's", "parent's", 1]
assert found == "from the parent"
assert len(cache.flights) == 0
print("parent whole", flush=True)
"""


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_forked_child_waits_for_nobody_of_the_parent_and_both_go_on(file, kind):
    child = python(FORK, kind, file)
    assert result(child) == "parent whole"
    assert child.returncode == 0


FORK_WHILE_BUSY = """
import os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forking with OS threads: that is the test
from checkpointers import SqliteCache
from durable_graph.caches import InMemoryCache
from tests.unit.caches.calling import call
cache = InMemoryCache() if sys.argv[1] == "memory" else SqliteCache(sys.argv[2])
stop = threading.Event()

def work(name):
    number = 0
    while not stop.is_set():
        assert call(cache, lambda: number, f"{name} {number}") == number
        number += 1

threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
for thread in threads: thread.start()
for number in range(20):
    pid = os.fork()
    if pid == 0:
        try:
            for key in ("a 0", "b 0", f"child {number}"):
                assert call(cache, lambda: 0, key) == 0
            os._exit(0)
        except BaseException as error:
            os.write(1, repr(error).encode())
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
for thread in threads: thread.join()
print("whole", flush=True)
"""


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_forks_while_other_os_threads_use_the_cache_leave_it_usable(file, kind):
    assert result(python(FORK_WHILE_BUSY, kind, file)) == "whole"


LEFT = """
import asyncio, sys
from checkpointers import SqliteCache
from tests.unit.caches.calling import Gate, acall, auntil, waiting
cache, gate = SqliteCache(sys.argv[1]), Gate()

async def main():
    tasks = [asyncio.create_task(acall(cache, gate.acall)) for _ in range(3)]
    await auntil(lambda: waiting(cache) == 2)

asyncio.run(main())                       # cancels all three
assert len(cache.flights) == 0
print("end", flush=True)
"""


def test_an_event_loop_that_ends_leaves_no_flight_and_the_interpreter_ends(file):
    child = python(LEFT, file)
    assert result(child) == "end"
    assert child.returncode == 0


def test_an_async_call_that_is_cancelled_while_it_stores_leaves_no_flight(cache):
    async def main():
        for pause in range(1, 13):  # a task that is cancelled before its first step calls nothing
            access = access_to(cache, str(pause))
            assert await access.alook() is MISSING
            task = asyncio.create_task(access.akeep(pause))
            for _ in range(pause):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert len(cache.flights) == 0
            again = access_to(cache, str(pause))
            assert await again.alook() in {MISSING, pause}
            again.give_up()

    asyncio.run(main())
    assert len(cache.flights) == 0
