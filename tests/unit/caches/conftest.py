"""Fixtures of the tests of caches."""

import gc

import pytest

from durable_graph.caches import InMemoryCache


@pytest.fixture
def cache():
    """A cache that has no flight left when the test is over, whatever the test did."""
    cache = InMemoryCache()
    yield cache
    gc.collect()
    assert len(cache.flights) == 0
