"""One call's way through a cache when something is wrong with what is kept or with the cache."""

import asyncio

import pytest

from durable_graph.caches import CacheAccess, InMemoryCache
from durable_graph.errors import CorruptDataError, InvalidConfigError, StorageError, UnserializableValueError
from durable_graph.persistence.type_registry import register_type
from durable_graph.types import MISSING
from tests.unit.caches.calling import NS, Gate, Outcome, acall, access_to, call, until, waiting

PLACE = (NS, "key")


class Unknown:
    pass


class Access:
    """An access by one face or the other."""

    def __init__(self, face, access):
        self._face, self._access = face, access

    def look(self):
        return self._face.call(self._access, "look")

    def keep(self, value):
        return self._face.call(self._access, "keep", value)


class Broken(InMemoryCache):
    """A cache whose disk is full, or which another process locks."""

    fail_load = fail_store = False

    def load(self, keys):
        if self.fail_load:
            raise StorageError("locked")
        return super().load(keys)

    def store(self, entries):
        if self.fail_store:
            raise StorageError("full")
        super().store(entries)


def test_a_value_that_cannot_be_stored_names_node_and_key_and_frees_the_flight(face):
    cache = InMemoryCache()
    access = Access(face, access_to(cache, where="node 'fetch'"))
    assert access.look() is MISSING
    with pytest.raises(UnserializableValueError) as caught:
        access.keep({"client": Unknown()})
    assert "node 'fetch': the value under key 'key' of namespace ('writes', 'node') cannot be cached" in str(
        caught.value
    )
    assert "['client']" in str(caught.value)
    assert "register_type" in caught.value.cure
    assert len(cache.flights) == 0
    assert call(cache, lambda: 1) == 1


def test_when_a_value_cannot_be_stored_a_waiter_computes():
    cache = InMemoryCache()
    gate = Gate(Unknown())
    leader = Outcome(lambda: call(cache, gate))
    gate.began.wait()
    waiter = Outcome(lambda: call(cache, lambda: "mine"))
    until(lambda: waiting(cache) == 1)
    gate.opened.set()
    with pytest.raises(UnserializableValueError):
        leader.join()
    assert waiter.join() == "mine"


def test_the_error_of_a_registered_encode_function_says_which_value_was_kept(face):
    class Moody:
        pass

    def encode(_):
        raise LookupError("not today")

    register_type(Moody, name="test_access.Moody", encode=encode, decode=lambda _: Moody())
    access = Access(face, access_to(InMemoryCache(), where="node 'fetch'"))
    access.look()
    with pytest.raises(LookupError) as caught:
        access.keep(Moody())
    assert "node 'fetch'" in caught.value.__notes__[-1]
    assert "'key'" in caught.value.__notes__[-1]


def test_the_error_of_a_registered_decode_function_says_where_the_value_is(face):
    class Moody:
        pass

    def decode(_):
        raise LookupError("not today")

    register_type(Moody, name="test_access.Undecodable", encode=lambda _: 0, decode=decode)
    cache = InMemoryCache()
    cache.set({PLACE: (Moody(), None)})
    with pytest.raises(LookupError) as caught:
        Access(face, access_to(cache)).look()
    assert caught.value.__notes__[-1] == (
        "while the value under key 'key' of namespace ('writes', 'node') was read from InMemoryCache()"
    )
    assert len(cache.flights) == 0


def test_a_cache_that_cannot_be_read_is_an_error_and_not_a_miss(face):
    cache = Broken()
    cache.fail_load = True
    for _ in range(2):
        with pytest.raises(StorageError, match="locked"):
            Access(face, access_to(cache)).look()
    assert len(cache.flights) == 0


def test_a_cache_that_cannot_be_written_is_an_error_and_those_who_wait_have_the_value():
    cache = Broken()
    gate = Gate()
    leader = Outcome(lambda: call(cache, gate))
    gate.began.wait()
    waiters = [Outcome(lambda: call(cache, gate)), Outcome(lambda: asyncio.run(acall(cache, gate.acall)))]
    until(lambda: waiting(cache) == 2)
    cache.fail_store = True
    gate.opened.set()
    with pytest.raises(StorageError, match="full"):
        leader.join()
    assert [waiter.join() for waiter in waiters] == ["value", "value"]
    assert gate.count == 1
    assert len(cache.flights) == 0


def test_damaged_bytes_are_an_error_for_everybody_and_not_a_miss(face):
    cache = InMemoryCache()
    cache.store({PLACE: (b"\xc1", None)})
    for _ in range(2):
        with pytest.raises(
            CorruptDataError, match=r"InMemoryCache\(\), the value under key 'key' of namespace"
        ) as caught:
            Access(face, access_to(cache)).look()
        assert "clear([('writes', 'node')])" in caught.value.cure
    cache.clear([NS])
    assert Access(face, access_to(cache)).look() is MISSING


def test_the_time_to_live_is_checked_before_anything_is_computed():
    cache = InMemoryCache()
    with pytest.raises(InvalidConfigError, match="node 'fetch'"):
        CacheAccess(cache, NS, "key", 0, cache.flights, where="node 'fetch'")


def test_a_value_is_kept_for_its_time(face):
    cache = InMemoryCache()
    for key, ttl in (("short", 1e-9), ("long", 60.0)):
        access = Access(face, CacheAccess(cache, NS, key, ttl, cache.flights))
        assert access.look() is MISSING
        access.keep(key)
    assert list(cache.get([(NS, "short"), (NS, "long")]).values()) == ["long"]


def test_the_leader_keeps_its_objects_and_others_get_their_own(face):
    cache = InMemoryCache()
    value = {"list": [1]}
    access = Access(face, access_to(cache))
    access.look()
    access.keep(value)
    value["list"].append(2)
    first, second = Access(face, access_to(cache)).look(), Access(face, access_to(cache)).look()
    assert first == second == {"list": [1]}
    first["list"].append(3)
    assert second == Access(face, access_to(cache)).look() == {"list": [1]}
