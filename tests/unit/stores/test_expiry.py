"""Items with a time to live: never shown when it is over, refreshed by reads, swept."""

from datetime import UTC, datetime

import pytest

from durable_graph.stores import PutOp
from tests.conformance.stores import index, keys


def all_seen(store):
    """Everything a store shows, without refreshing it."""
    searched = keys(store.search((), limit=100, refresh_ttl=False))
    got = [key for key in ("k", "l") if store.get(("a",), key, refresh_ttl=False) is not None]
    assert got == searched
    return searched, store.list_namespaces()


def test_an_expired_item_is_never_shown(calls, clock):
    store = calls(ttl={"refresh_on_read": False})
    store.put(("a",), "k", {}, ttl=2)
    store.put(("a",), "l", {})
    clock.forward(1.99)
    assert all_seen(store) == (["k", "l"], [("a",)])
    clock.forward(0.01)
    assert all_seen(store) == (["l"], [("a",)])
    store.delete(("a",), "l")
    assert all_seen(store) == ([], [])


def test_an_expired_item_that_is_put_again_begins_anew(calls, clock):
    store = calls()
    store.put(("a",), "k", {"n": 1}, ttl=1)
    clock.forward(2)
    store.put(("a",), "k", {"n": 2})
    item = store.get(("a",), "k")
    assert (item.value, item.created_at) == ({"n": 2}, datetime.fromtimestamp(clock.now / 1000, UTC))


@pytest.mark.parametrize("read", ["get", "search"])
def test_a_read_begins_the_time_anew(calls, clock, read):
    store = calls()
    store.put(("a",), "k", {}, ttl=2)
    for _ in range(3):
        clock.forward(1.5)
        assert (store.get(("a",), "k") if read == "get" else store.search(("a",))) not in (None, [])
    clock.forward(2)
    assert all_seen(store) == ([], [])


def test_a_read_refreshes_only_what_it_gave(calls, clock):
    store = calls()
    for key in "kl":
        store.put(("a",), key, {}, ttl=2)
    clock.forward(1)
    assert keys(store.search(("a",), limit=1)) == ["k"]
    clock.forward(1.5)
    assert all_seen(store) == (["k"], [("a",)])


@pytest.mark.parametrize(("config", "asked"), [(None, False), ({"refresh_on_read": False}, None)])
def test_a_read_can_leave_the_time_alone(calls, clock, config, asked):
    store = calls(ttl=config)
    store.put(("a",), "k", {}, ttl=2)
    clock.forward(1)
    assert store.get(("a",), "k", refresh_ttl=asked) is not None
    assert store.search(("a",), refresh_ttl=asked) != []
    clock.forward(1)
    assert all_seen(store) == ([], [])


def test_a_read_can_ask_for_what_the_config_does_not_do(calls, clock):
    store = calls(ttl={"refresh_on_read": False})
    store.put(("a",), "k", {}, ttl=2)
    clock.forward(1)
    assert store.get(("a",), "k", refresh_ttl=True) is not None
    clock.forward(1.5)
    assert all_seen(store) == (["k"], [("a",)])


def test_a_read_gives_no_time_to_an_item_that_lives_for_ever(calls, clock):
    store = calls(ttl={"default_ttl": 1})
    store.put(("a",), "k", {}, ttl=None)
    store.get(("a",), "k")
    store.search(("a",))
    clock.forward(10_000)
    assert all_seen(store) == (["k"], [("a",)])


def test_items_live_as_long_as_the_config_says(calls, clock):
    store = calls(ttl={"default_ttl": 1, "refresh_on_read": False})
    store.put(("a",), "k", {})
    store.batch([PutOp(("a",), "l", {})])
    clock.forward(1)
    assert all_seen(store) == ([], [])


def test_an_update_decides_the_time_to_live_anew(calls, clock):
    store = calls()
    store.put(("a",), "k", {}, ttl=1)
    store.put(("a",), "k", {})
    clock.forward(5)
    assert all_seen(store) == (["k"], [("a",)])


def test_sweeping_removes_what_has_expired_and_counts_it(calls, clock):
    store = calls(index=index())
    for n in range(5):
        store.put(("a",), str(n), {"text": "abc"}, ttl=1 if n < 3 else None)
    assert store.sweep_ttl() == 0
    clock.forward(1)
    assert store.sweep_ttl() == 3
    assert store.sweep_ttl() == 0
    assert keys(store.search(("a",), query="abc")) == ["3", "4"]


def test_a_put_sweeps_when_nobody_did_for_long(make, clock):
    store = make(ttl={"sweep_interval_minutes": 0.0001})
    store.put(("a",), "k", {}, ttl=1)
    clock.forward(1)
    store._swept -= 60  # a minute ago
    store.put(("b",), "l", {})
    assert store.sweep_ttl() == 0


def test_without_an_interval_nothing_is_swept_by_itself(make, clock):
    store = make(ttl={"sweep_interval_minutes": None})
    store.put(("a",), "k", {}, ttl=1)
    clock.forward(1)
    store._swept -= 10**9
    store.put(("b",), "l", {})
    assert store.sweep_ttl() == 1


def test_expiry_by_the_real_clock(calls):
    store = calls(ttl={"refresh_on_read": False})
    store.put(("a",), "k", {}, ttl=0.001)
    while store.get(("a",), "k") is not None:
        pass
    assert store.search(("a",)) == []
