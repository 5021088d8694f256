"""What every cache promises, on every backend and both faces."""

import asyncio
import random
import time
from collections import OrderedDict

import pytest

from checkpointers import PostgresCache, SqliteCache, SqliteSaver
from checkpointers.sql import sqlite_target
from durable_graph.caches import InMemoryCache
from durable_graph.errors import InvalidConfigError, UnserializableValueError
from durable_graph.testing.conformance.acting import together
from tests import postgres_server

NS = ("writes", "node")
PLACE = (NS, "key")
SOON = 1e-9
"""A time to live in seconds, which is over when the next line begins."""


class Unknown:
    pass


def memory(folder):
    cache = InMemoryCache()
    return lambda: cache


def sqlite(folder):
    return lambda: SqliteCache(folder / "cache.db")


def sqlite_in_memory(folder):
    cache = SqliteCache(":memory:")
    return lambda: cache


def sqlite_beside_runs(folder):
    with SqliteSaver(folder / "runs.db") as saver:
        saver.setup()
    return lambda: SqliteCache(folder / "runs.db")


def postgres(folder):
    return lambda: PostgresCache(**postgres_server.ready())


BACKENDS = [memory, sqlite, sqlite_in_memory, sqlite_beside_runs, postgres]


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.__name__)
def make(request, tmp_path):
    """Gives another cache over the same data (for what lives in memory: the same object)."""
    factory, opened = request.param(tmp_path), []

    def make():
        opened.append(factory())
        return opened[-1]

    yield make
    for cache in opened:
        cache.close()
    if request.param is postgres:
        postgres_server.empty()


class Cache:
    """A cache by one face or the other."""

    def __init__(self, face, cache):
        self._face, self._cache = face, cache

    def get(self, *keys):
        return self._face.call(self._cache, "get", list(keys))

    def set(self, pairs):
        self._face.call(self._cache, "set", pairs)

    def clear(self, *args):
        self._face.call(self._cache, "clear", *args)

    def close(self):
        self._face.call(self._cache, "close")


@pytest.fixture
def cache(make, face):
    return Cache(face, make())


def test_an_empty_cache_finds_nothing(cache):
    assert cache.get(PLACE) == {}
    assert cache.get() == {}


def test_what_is_set_is_there_for_others_over_the_same_data(cache, make, face):
    cache.set({PLACE: ({"a": (1, {2})}, None)})
    assert cache.get(PLACE) == {PLACE: {"a": (1, {2})}}
    assert Cache(face, make()).get(PLACE) == {PLACE: {"a": (1, {2})}}


def test_several_keys_are_found_at_once_and_those_that_are_not_there_are_left_out(cache):
    cache.set({(NS, "1"): ("one", None), (("other",), "1"): ("other", None), (NS, "none"): (None, None)})
    assert cache.get((NS, "1"), (NS, "2"), (("other",), "1"), (NS, "none")) == {
        (NS, "1"): "one",
        (("other",), "1"): "other",
        (NS, "none"): None,
    }


def test_setting_again_replaces(cache):
    cache.set({PLACE: ("old", 60)})
    cache.set({PLACE: ("new", None)})
    assert cache.get(PLACE) == {PLACE: "new"}


def test_types_are_exact_and_objects_are_new_each_time(cache):
    value = [(1, True, 1.0), OrderedDict(b=1, a=2), {frozenset({1})}, b"\0", "\ud800", -(2**70)]
    cache.set({PLACE: (value, None)})
    value.append("edited")
    first, second = cache.get(PLACE)[PLACE], cache.get(PLACE)[PLACE]
    assert first == second == value[:-1]
    assert [type(part) for part in first] == [type(part) for part in value[:-1]]
    assert first is not second
    first.append("edited too")
    assert second == cache.get(PLACE)[PLACE] == value[:-1]


NAMESPACES = [
    (),
    ("a",),
    ("a", "b"),
    ("a,b",),
    ("ab",),
    ("a", ""),
    ("", "a"),
    ("1:a",),
    ("nul\0",),
    ("nul",),
    ("\ud800",),
]


def test_namespaces_and_keys_never_run_into_each_other(cache):
    places = [(namespace, key) for namespace in NAMESPACES for key in ("", "k", "k\0", "\udfff", "é")]
    cache.set({place: (repr(place), None) for place in places})
    assert cache.get(*places) == {place: repr(place) for place in places}
    cache.clear([("a",)])
    assert set(cache.get(*places)) == {place for place in places if place[0] != ("a",)}


def test_clear_takes_exactly_the_namespaces_that_are_named(cache):
    places = [(namespace, "k") for namespace in (("a",), ("a", "b"), ("c",))]
    cache.set(dict.fromkeys(places, (1, None)))
    cache.clear([])
    assert len(cache.get(*places)) == 3
    cache.clear([("a",), ("unknown",)])
    assert set(cache.get(*places)) == {(("a", "b"), "k"), (("c",), "k")}
    cache.clear()
    assert cache.get(*places) == {}
    cache.set({places[0]: (2, None)})
    assert cache.get(*places) == {places[0]: 2}


def test_what_is_over_is_never_returned(cache):
    cache.set(
        {(NS, "over"): (1, SOON), (NS, "stays"): (2, 3600), (NS, "for ever"): (3, None), (NS, "int"): (4, 10**11)}
    )
    assert set(cache.get(*((NS, key) for key in ("over", "stays", "for ever", "int")))) == {
        (NS, "stays"),
        (NS, "for ever"),
        (NS, "int"),
    }
    cache.set({(NS, "over"): (5, None), (NS, "stays"): (6, SOON)})
    assert cache.get((NS, "over"), (NS, "stays")) == {(NS, "over"): 5}


def test_a_time_to_live_ends(cache):
    cache.set({PLACE: (1, 0.05)})
    time.sleep(0.06)
    assert cache.get(PLACE) == {}


def test_a_value_that_cannot_be_stored_is_named_and_nothing_of_its_call_is_kept(cache):
    cache.set({(NS, "first"): ("old", None)})
    with pytest.raises(UnserializableValueError) as caught:
        cache.set({(NS, "first"): ("new", None), (NS, "bad"): ({"x": Unknown()}, None), (NS, "last"): (1, None)})
    assert "the value under key 'bad' of namespace ('writes', 'node') cannot be cached" in str(caught.value)
    assert "['x']" in str(caught.value)
    assert cache.get((NS, "first"), (NS, "bad"), (NS, "last")) == {(NS, "first"): "old"}


@pytest.mark.parametrize("ttl", [0, -1, True, "5", float("nan"), float("inf")], ids=str)
def test_a_time_that_is_none_is_refused_and_nothing_is_kept(cache, ttl):
    with pytest.raises(InvalidConfigError, match="'bad'"):
        cache.set({(NS, "good"): (1, None), (NS, "bad"): (2, ttl)})
    assert cache.get((NS, "good")) == {}


@pytest.mark.parametrize(
    "key",
    ["key", ("ns", "key"), (["ns"], "key"), (("ns",), 1), (("ns", 2), "key"), (("ns",), "key", 3), None],
    ids=repr,
)
def test_what_is_no_key_is_refused(cache, key):
    with pytest.raises(InvalidConfigError, match="no key of a cache"):
        cache.get(key)
    if key is not None and not isinstance(key[0], list):
        with pytest.raises(InvalidConfigError, match="no key of a cache"):
            cache.set({key: (1, None)})


@pytest.mark.parametrize("namespace", ["ns", ["ns"], (1,), None], ids=repr)
def test_what_is_no_namespace_is_refused(cache, namespace):
    cache.set({PLACE: (1, None)})
    with pytest.raises(InvalidConfigError, match="no namespace of a cache"):
        cache.clear([namespace])
    assert cache.get(PLACE) == {PLACE: 1}


def test_a_closed_cache_opens_again(make, face):
    cache = Cache(face, make())
    cache.set({PLACE: (1, None)})
    cache.close()
    assert cache.get(PLACE) in ({PLACE: 1}, {})  # what lives in memory may end with it
    cache.set({PLACE: (2, None)})
    assert cache.get(PLACE) == {PLACE: 2}


def test_a_cache_is_a_context_of_both_kinds(make):
    with make() as cache:
        cache.set({PLACE: (1, None)})
        assert cache.get([PLACE]) == {PLACE: 1}

    async def main():
        async with make() as cache:
            await cache.aset({PLACE: (2, None)})
            return await cache.aget([PLACE])

    assert asyncio.run(main()) == {PLACE: 2}


def test_os_threads_and_event_loops_share_one_object(make):
    cache = make()

    async def in_loop(n):
        for number in range(20):
            await cache.aset({(NS, f"{n} {number}"): ([n, number], None)})
            assert (await cache.aget([(NS, f"{n} {number}")])) == {(NS, f"{n} {number}"): [n, number]}

    def work(n):
        if n % 2:
            asyncio.run(in_loop(n))
        else:
            for number in range(20):
                cache.set({(NS, f"{n} {number}"): ([n, number], 60)})
                assert cache.get([(NS, f"{n} {number}")]) == {(NS, f"{n} {number}"): [n, number]}

    together(4, work)
    places = [(NS, f"{n} {number}") for n in range(4) for number in range(20)]
    assert cache.get(places) == {(NS, f"{n} {number}"): [n, number] for n in range(4) for number in range(20)}


@pytest.mark.parametrize("seed", range(3))
def test_random_histories_are_those_of_a_dict(make, face, seed):
    dice, model = random.Random(seed), {}
    caches = [Cache(face, make()), Cache(face, make())]
    places = [(namespace, key) for namespace in NAMESPACES[:4] for key in "xyz"]
    for number in range(150):
        cache = dice.choice(caches)
        verb = dice.choice(["set", "set", "set", "get", "get", "expire", "clear"])
        some = dice.sample(places, dice.randrange(1, 4))
        if verb == "set":
            cache.set({place: ([number, place], dice.choice([None, 3600])) for place in some})
            model |= {place: [number, place] for place in some}
        elif verb == "expire":
            cache.set(dict.fromkeys(some, ("over", SOON)))
            model = {place: value for place, value in model.items() if place not in some}
        elif verb == "clear":
            namespaces = None if dice.random() < 0.1 else [some[0][0]]
            cache.clear(namespaces)
            model = {place: value for place, value in model.items() if namespaces and place[0] not in namespaces}
        assert cache.get(*places) == model


def test_the_options_of_a_checkpointer_are_known_to_a_cache(tmp_path):
    assert sqlite_target.OPTIONS == ("synchronous", "busy_timeout", "lease")
    cache = SqliteCache(f"sqlite:///{tmp_path}/cache.db?synchronous=FULL&busy_timeout=0.5")
    cache.set({PLACE: (1, None)})
    assert cache._database.synchronous == "FULL"
    assert cache._patience == 0.5
    cache.close()
