"""Fixtures that several behaviour tests share."""

import pytest

from tests.behaviour.held_nodes import held_nodes
from tests.behaviour.kept import Made


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def caches(request, tmp_path):
    """`make()` gives a cache; all of them are over the same data."""
    made = Made(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture
def hold():
    """Makes nodes that wait to be let out, and lets them out in the end."""
    yield from held_nodes()
