"""The cache in memory: what is over goes away, and how it keeps books of that."""

import time

from durable_graph.caches import InMemoryCache
from durable_graph.caches.base import BaseCache

NS = ("space",)


def keys(cache):
    return sorted(key for space in cache._spaces.values() for key in space)


def test_what_is_over_is_removed_by_the_next_call():
    cache = InMemoryCache()
    cache.set({(NS, "over"): (1, 1e-9), (("other",), "over"): (1, 1e-9), (NS, "stays"): (2, None)})
    time.sleep(0.001)
    assert cache.get([]) == {}
    assert keys(cache) == ["stays"]
    assert list(cache._spaces) == [NS]


def test_a_value_that_was_set_again_lives_for_its_new_time():
    cache = InMemoryCache()
    cache.set({(NS, "key"): ("old", 1e-9)})
    cache.set({(NS, "key"): ("new", 60)})
    time.sleep(0.001)
    assert cache.get([(NS, "key")]) == {(NS, "key"): "new"}
    cache.set({(NS, "key"): ("for ever", None)})
    assert cache.get([(NS, "key")]) == {(NS, "key"): "for ever"}


def test_setting_again_and_clearing_leave_no_heap_of_old_times():
    cache = InMemoryCache()
    for number in range(1000):
        cache.set({(NS, "key"): (number, 60)})
    assert len(cache._due) < 100
    cache.set({(NS, str(number)): (number, 60) for number in range(1000)})
    cache.clear()
    assert cache._due == []
    assert cache._spaces == {}


def test_a_subclass_that_does_not_call_super_has_flights_of_its_own():
    class Own(BaseCache):
        def __init__(self, size):
            self.size = size

        def load(self, keys):
            return {}

        def store(self, entries):
            pass

        def drop(self, namespaces=None):
            pass

    one, other = Own(1), Own(size=2)
    assert one.flights is not other.flights
