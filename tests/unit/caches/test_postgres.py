"""The cache on a server: several processes, sessions that end, damage, locks, and what is over goes away."""

import logging
import os
import re
import time
from contextlib import closing

import psycopg
import pytest

from checkpointers import PostgresCache, PostgresSaver
from checkpointers.sql import postgres_cache_statements as sql
from checkpointers.sql import tables
from checkpointers.sql.postgres_statements import in_schema
from checkpointers.sql.sealing import sealed
from durable_graph.errors import CorruptDataError, DatabaseLockedError, InvalidConfigError, NewerDatabaseError
from durable_graph.testing.conformance.acting import Sync, seqs, start
from tests import postgres_server
from tests.conformance.processes import python, result
from tests.unit.caches.calling import NS, access_to, call

PLACE = (NS, "key")
SOON = 1e-9


@pytest.fixture
def cache():
    with PostgresCache(**postgres_server.ready()) as cache:
        yield cache
    postgres_server.empty()


@pytest.mark.parametrize(
    "options", [{"schema": "pg_own"}, {"timeout": -1}, {"max_size": 0}], ids=lambda options: next(iter(options))
)
def test_a_wrong_option_is_refused(options):
    with pytest.raises(InvalidConfigError, match=next(iter(options))):
        PostgresCache("postgresql://host/database", **options)


def test_a_cache_shares_schema_and_session_with_a_checkpointer(cache):
    with closing(PostgresSaver(**postgres_server.ready())) as saver:
        start(saver)
        cache.set({PLACE: (1, None)})
        assert cache._database is saver._database
        cache.clear()
        assert seqs(Sync(), saver) == [1]


def test_what_is_over_is_removed_by_later_writes(cache):
    cache.set({(NS, str(number)): (number, SOON) for number in range(250)})
    cache.set({(NS, "later"): (0, 3600)})
    assert postgres_server.select("SELECT count(*) FROM cache") == [(250 - 101 + 1,)]
    for number in range(2):
        cache.set({(NS, f"more {number}"): (0, None)})
    assert postgres_server.select("SELECT count(*) FROM cache") == [(3,)]


def test_times_are_milliseconds_since_1970(cache):
    before = time.time_ns() // 1_000_000
    cache.set({PLACE: (1, 60)})
    after = time.time_ns() // 1_000_000
    assert before + 60_000 <= postgres_server.select("SELECT expires FROM cache")[0][0] <= after + 60_000


def test_a_large_value_comes_out_as_it_was_put(cache):
    value = os.urandom(1_000_000) * 20
    cache.set({PLACE: (value, None), (NS, "other"): (value, 60)})
    assert cache.get([PLACE, (NS, "other")]) == {PLACE: value, (NS, "other"): value}


# --- damage ----------------------------------------------------------------------------------------------------------

DAMAGES = {
    "a flipped bit": "UPDATE cache SET value = set_byte(value, 8, 0)",
    "a cut value": "UPDATE cache SET value = substr(value, 1, 7)",
    "a cut head": r"UPDATE cache SET value = '\x01'",
    "another key's value": "UPDATE cache SET value = (SELECT value FROM cache WHERE key = 'other')",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_row_is_an_error_that_names_the_place_and_not_a_miss(cache, face, damage):
    cache.set({PLACE: ("some text", None), (NS, "other"): ("some text", None)})
    postgres_server.select(f"{DAMAGES[damage]} WHERE key = 'key'")
    for look in (lambda: face.call(cache, "get", [PLACE]), lambda: face.call(access_to(cache), "look")):
        with pytest.raises(CorruptDataError) as caught:
            look()
        assert "schema tests: the cached value under key 'key' of namespace ('writes', 'node')" in str(caught.value)
        assert "clear([('writes', 'node')])" in caught.value.cure
    assert cache.get([(NS, "other")]) == {(NS, "other"): "some text"}
    cache.clear([NS])
    assert call(cache, lambda: "anew") == "anew"


def test_a_row_of_a_newer_format_is_refused(cache):
    cache.set({PLACE: ("text", None)})
    postgres_server.select("UPDATE cache SET value = %s", sealed(PLACE, b"\x05later", row_format=2))
    with pytest.raises(NewerDatabaseError, match=r"'key'.*format 2"):
        cache.get([PLACE])


# --- sessions that end, locks that are held --------------------------------------------------------------------------


def test_a_session_that_ended_is_replaced(cache, face):
    logging.getLogger("psycopg").setLevel(logging.ERROR)  # it tells of each as it is closed
    value = 0
    for _ in range(2):
        for verb in ("set", "get", "clear"):
            value += verb == "set"
            given = {"set": [{PLACE: (value, None)}], "get": [[PLACE]], "clear": [[("other",)]]}[verb]
            face.call(cache, verb, *given)
            postgres_server.end_sessions()
    assert cache.get([PLACE]) == {PLACE: value}
    logging.getLogger("psycopg").setLevel(logging.NOTSET)


def test_a_lock_of_another_session_is_waited_for_and_reading_goes_on(cache):
    cache.set({PLACE: (1, None), (NS, "over"): (1, SOON)})
    with closing(PostgresCache(**postgres_server.ready(), timeout=0.05)) as hasty:
        with psycopg.connect(postgres_server.dsn()) as other:
            other.execute("SELECT 1 FROM tests.cache FOR UPDATE")
            for attempt in (lambda: hasty.set({PLACE: (2, None)}), hasty.clear):
                with pytest.raises(DatabaseLockedError, match="lock timeout"):
                    attempt()
            assert hasty.get([PLACE]) == {PLACE: 1}
            hasty.set({(NS, "more"): (1, None)})  # the sweep leaves what is held
        hasty.set({PLACE: (2, None)})
        assert hasty.get([PLACE]) == {PLACE: 2}


BUSY = """
import random, sys
from checkpointers import PostgresCache
cache, dice = PostgresCache(sys.argv[1], schema="tests"), random.Random(sys.argv[2])
cache.setup()
print("ready", flush=True)
input()
for number in range(80):
    places = [(("same", str(n % 3)), str(n)) for n in dice.sample(range(12), 8)]
    cache.set({place: (number, dice.choice([None, 1e-9])) for place in places})
    if number % 5 == 0:
        cache.clear(dice.choice([None, [("same", "1"), ("same", "0")]]))
cache.set({(("own", sys.argv[2]), "k"): (number, None)})
print("done")
"""


def test_processes_that_set_and_clear_the_same_places_neither_fail_nor_wait_in_a_ring(cache):
    before = postgres_server.select("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'")
    children = [python(BUSY, postgres_server.dsn(), name) for name in ("one", "two")]
    assert [child.stdout.readline() for child in children] == ["ready\n"] * 2
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    assert [result(child) for child in children] == ["done"] * 2
    assert postgres_server.select("SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'") == before
    assert any(cache.get([(("own", name), "k")]) for name in ("one", "two"))


# --- statements ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sql.__all__)
def test_each_fixed_statement_fits_the_table_and_goes_through_an_index(cache, name):
    cache.setup()
    text = getattr(sql, name)
    words = set(re.findall(r"\b[a-z_]+\b", re.sub(r"%[sb]|::\w+", "", text)))
    assert words <= set(tables.cache.c.keys()) | {"cache", "excluded", "wanted", "unnest", "over", "gone"}
    numbers = {"%s": 1, "%b": [b"x"]} if name in {"FIND_ENTRIES", "CLEAR"} else {"%s": 1, "%b": b"x"}
    values = [numbers[place] for place in re.findall(r"%[sb]", text)]
    with psycopg.connect(postgres_server.dsn()) as connection:
        connection.execute("SET enable_seqscan = off; SET enable_bitmapscan = off")
        plan = connection.execute(b"EXPLAIN " + in_schema(text, postgres_server.SCHEMA), values).fetchall()
    assert not any("Seq Scan" in step for (step,) in plan), plan
    if name == "SWEEP":
        assert any("cache_expires" in step for (step,) in plan), plan


def test_setting_fills_every_column_in_order():
    columns = re.search(r"INSERT INTO @cache \(([^)]*)\)", sql.SET_ENTRY).group(1).split(", ")
    assert columns == list(tables.cache.c.keys())
