"""What a user may say about caching."""

from dataclasses import FrozenInstanceError

import pytest

from durable_graph.caches import CachePolicy, default_cache_key
from durable_graph.errors import InvalidConfigError, InvalidValueError


def test_the_default_makes_a_key_of_the_whole_input_and_keeps_it_for_ever():
    policy = CachePolicy()
    assert policy.ttl is None
    assert policy.key_for({"x": 1}, flag=True) == default_cache_key({"x": 1}, flag=True)
    assert policy == CachePolicy(key_func=default_cache_key)
    assert hash(policy) == hash(CachePolicy())


def test_a_policy_does_not_change():
    with pytest.raises(FrozenInstanceError):
        CachePolicy().ttl = 5


@pytest.mark.parametrize("ttl", [0, -1, 0.0, float("nan"), float("inf"), 10**400, True, "5"], ids=str)
def test_a_time_that_is_not_above_zero_is_refused(ttl):
    with pytest.raises(InvalidConfigError, match=r"CachePolicy: ttl="):
        CachePolicy(ttl=ttl)


@pytest.mark.parametrize("ttl", [1, 0.5, 10**11, None])
def test_seconds_are_taken(ttl):
    assert CachePolicy(ttl=ttl).ttl == ttl


def test_what_cannot_be_called_is_no_key_func():
    with pytest.raises(InvalidConfigError, match="key_func='url'"):
        CachePolicy(key_func="url")


def test_a_key_func_of_ones_own_returns_str_or_bytes():
    assert CachePolicy(key_func=lambda state: state["url"]).key_for({"url": "a"}) == "a"
    assert CachePolicy(key_func=lambda *_: b"\xff\x00").key_for(1, 2) == "ff00"


async def later(_):
    return "key"


@pytest.mark.parametrize(
    ("key_func", "kind"),
    [(lambda _: 5, "int"), (lambda _: None, "NoneType"), (later, "coroutine")],
    ids=["int", "none", "async"],
)
def test_another_key_is_an_error_that_names_the_function(key_func, kind):
    with pytest.raises(InvalidValueError, match=f"{key_func.__qualname__} of a CachePolicy returned a {kind}"):
        CachePolicy(key_func=key_func).key_for({})


def test_the_error_of_a_key_func_passes_as_it_is():
    with pytest.raises(KeyError, match="url"):
        CachePolicy(key_func=lambda state: state["url"]).key_for({})
