"""Nearest vectors: exact, and the same with and without numpy."""

import math
import random

import pytest

from durable_graph.stores import scoring
from durable_graph.stores.scoring import nearest, pack


@pytest.fixture(params=["numpy", "without numpy"])
def scores(request, monkeypatch):
    if request.param == "without numpy":
        monkeypatch.setattr(scoring, "_numpy", lambda: None)
    else:
        pytest.importorskip("numpy")
    return nearest


def items(*vectors):
    return [[pack(vector)] for vector in vectors]


def test_the_score_is_the_cosine(scores):
    found = scores(pack([1.0, 0.0]), items([0.0, 3.0], [1.0, 1.0], [-2.0, 0.0], [5.0, 0.0]), 3)
    assert [place for place, _ in found] == [3, 1, 0]
    assert [score for _, score in found] == [1.0, pytest.approx(math.sqrt(0.5)), 0.0]


def test_an_opposite_vector_has_minus_one(scores):
    assert scores(pack([1.0, 2.0]), items([-2.0, -4.0]), 1) == [(0, -1.0)]


def test_a_vector_of_zeros_has_zero(scores):
    assert scores(pack([1.0, 0.0]), items([0.0, 0.0], [-1.0, 0.0]), 1) == [(0, 0.0)]
    assert scores(pack([0.0, 0.0]), items([1.0, 0.0], [0.0, 1.0]), 1) == [(0, 0.0)]


def test_an_item_counts_by_its_nearest_vector(scores):
    vectors = [[pack([0.0, 1.0]), pack([1.0, 0.0])], [pack([1.0, 0.1])]]
    assert scores(pack([1.0, 0.0]), vectors, 1) == [(0, 1.0)]


@pytest.mark.parametrize("scale", [1e-300, 1e-5, 1.0, 1e150, 1.7e308])
def test_a_vector_is_exactly_one_away_from_itself_however_long_it_is(scores, scale):
    vector = [scale * part for part in (0.1, -0.7, 1.0, 0.33)]
    assert scores(pack([0.1, -0.7, 1.0, 0.33]), items(vector, [1.0] * 4), 1)[0][0] == 0
    assert scores(pack(vector), items(vector, [1.0] * 4), 1) == [(0, 1.0)]


def test_equal_scores_stay_in_order(scores):
    assert [place for place, _ in scores(pack([1.0, 1.0]), items(*[[2.0, 2.0]] * 9), 4)] == [0, 1, 2, 3]


def test_nothing_is_asked_for_or_there(scores):
    assert scores(pack([1.0]), items([1.0]), 0) == []
    assert scores(pack([1.0]), [], 3) == []


@pytest.mark.parametrize("seed", range(10))
def test_with_and_without_numpy_scores_and_order_are_the_same_to_the_last_bit(seed, monkeypatch):
    pytest.importorskip("numpy")
    rng = random.Random(seed)
    distinct = [[rng.uniform(-1, 1) for _ in range(40)] for _ in range(30)]
    # Many that are nearly or exactly as near as others: the last bit decides.
    vectors = distinct * 3 + [[part * 1.1 for part in vector] for vector in distinct]
    rng.shuffle(vectors)
    owned = [[pack(vector) for vector in vectors[at : at + 1 + at % 3]] for at in range(0, 120, 3)]
    query = pack(rng.choice(vectors))
    fast = nearest(query, owned, 12)
    monkeypatch.setattr(scoring, "_numpy", lambda: None)
    assert nearest(query, owned, 12) == fast
    assert nearest(query, owned, 1000)[:12] == fast


def test_numpy_is_not_needed(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "numpy", None)
    scoring._numpy.cache_clear()
    try:
        assert scoring._numpy() is None
        assert nearest(pack([1.0]), items([1.0], [-1.0]), 1) == [(0, 1.0)]
    finally:
        scoring._numpy.cache_clear()
