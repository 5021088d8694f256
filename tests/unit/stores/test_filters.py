"""Filters, on every store: exact in types, and refused when they are wrong."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from durable_graph.errors import InvalidConfigError
from durable_graph.persistence.codec import CODEC
from durable_graph.stores.filters import matches, must_contain
from tests.conformance.stores import keys

VALUES = {
    "int": {"n": 1},
    "float": {"n": 1.0},
    "true": {"n": True},
    "text": {"n": "1"},
    "none": {"n": None},
    "missing": {},
    "two": {"n": 2},
    "half": {"n": 1.5},
    "nested": {"n": {"a": {"b": 1}, "c": [1, {"d": "x"}]}},
    "dotted": {"n.a": 1, "n": {"a": 2}},
    "decimal": {"n": Decimal("1.50")},
    "tuple": {"n": (1, "x")},
}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"n": 1}, ["int"]),
        ({"n": 1.0}, ["float"]),
        ({"n": True}, ["true"]),
        ({"n": "1"}, ["text"]),
        ({"n": None}, ["none"]),
        ({"n": {"$eq": 1}}, ["int"]),
        ({"n": {"$ne": 1}}, [key for key in VALUES if key != "int"]),
        ({"n": {"$gt": 1}}, ["two", "half"]),
        ({"n": {"$gte": 1}}, ["int", "float", "two", "half"]),
        ({"n": {"$lt": 1.5}}, ["int", "float"]),
        ({"n": {"$lte": 1.5}}, ["int", "float", "half"]),
        ({"n": {"$gt": 1, "$lt": 2}}, ["half"]),
        ({"n": {"$gte": "0"}}, ["text"]),
        ({"n": {"$gte": True}}, ["true"]),
        ({"n": {"$gt": None}}, []),
        ({"n": {"$gt": Decimal(1)}}, ["decimal"]),
        ({"n": Decimal("1.5")}, ["decimal"]),
        ({"n": {"a": {"b": 1}}}, ["nested"]),
        ({"n": {"a": {"b": {"$lt": 5}}}}, ["nested"]),
        ({"n.a.b": 1}, ["nested"]),
        ({"n.a.b": True}, []),
        ({"n.a": 1}, ["dotted"]),
        ({"n": {"a": 2}}, ["dotted"]),
        ({"n": {"$eq": {"a": 2}}}, ["dotted"]),
        ({"n": {"$eq": {"a": {"b": 1}}}}, []),
        ({"n": {"c": [1, {"d": "x"}]}}, ["nested"]),
        ({"n": {"c": [1, {"d": {"$ne": "y"}}]}}, ["nested"]),
        ({"n": {"c": [1]}}, []),
        ({"n": {"c": [True, {"d": "x"}]}}, []),
        ({"n": (1, "x")}, ["tuple"]),
        ({"n": (True, "x")}, []),
        ({"n": [1, "x"]}, []),
        ({"n": {}}, ["nested", "dotted"]),
        ({"n": 1, "m": 2}, []),
        ({}, list(VALUES)),
    ],
    ids=repr,
)
def test_filters_compare_exactly(calls, wanted, found):
    store = calls()
    for key, value in VALUES.items():
        store.put(("a",), key, value)
    assert sorted(keys(store.search(("a",), filter=wanted, limit=100))) == sorted(found)


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ({"n": {"$in": [1]}}, r"\$in.*\$eq, \$ne, \$gt, \$gte, \$lt, \$lte"),
        ({"n": {"a": {"$regex": "x"}}}, r"\['n'\]\['a'\].*\$regex"),
        ({"n": [{"$or": 1}]}, r"\['n'\]\[0\].*\$or"),
        ({"n": {"$gt": 1, "a": 2}}, "mixes"),
        ({"$and": []}, r"\$and"),
        ({1: 2}, "field name 1"),
        ([("n", 1)], "not a dict"),
    ],
    ids=repr,
)
def test_a_wrong_filter_is_an_error_that_names_it_even_in_an_empty_store(calls, wanted, named):
    with pytest.raises(InvalidConfigError, match=f"(?s){named}"):
        calls().search(("a",), filter=wanted)


def test_a_value_that_cannot_be_compared_does_not_match(calls):
    store = calls()
    store.put(("a",), "k", {"when": datetime(2024, 1, 1, tzinfo=UTC), "n": Decimal("nan")})
    assert store.search((), filter={"when": {"$gt": datetime(2023, 1, 1)}}) == []  # noqa: DTZ001 - without a zone
    assert store.search((), filter={"n": {"$gt": Decimal(1)}}) == []


def test_arrays_are_equal_by_their_content(calls):
    numpy = pytest.importorskip("numpy")
    store = calls()
    store.put(("a",), "k", {"n": numpy.array([1, 2])})
    assert keys(store.search((), filter={"n": numpy.array([1, 2])})) == ["k"]
    assert store.search((), filter={"n": numpy.array([1, 3])}) == []
    assert store.search((), filter={"n": {"$gt": numpy.array([0, 0])}}) == []


@pytest.mark.parametrize("value", [value for value in VALUES.values() if "n" in value], ids=repr)
def test_bytes_that_a_filter_must_contain_are_in_every_value_that_matches(value):
    wanted = {"n": value["n"]}
    assert matches(value, wanted)
    assert all(fragment in CODEC.encode(value) for fragment in must_contain(wanted))


def test_only_what_is_written_in_one_way_is_looked_for_in_bytes():
    wanted = {"a": "x", "b": {"$eq": 1}, "c": 1.5, "d.e": 1, "f": {"$ne": 1}, "g": {"h": 1}, "i": [1], "j": Decimal(1)}
    assert must_contain(wanted) == [CODEC.encode("a") + CODEC.encode("x"), CODEC.encode("b") + CODEC.encode(1)]


def test_a_filter_of_very_many_fields_is_looked_for_by_a_few(calls):
    store = calls()
    fields = {f"field {n}": n for n in range(2000)}
    store.put(("a",), "k", fields)
    store.put(("a",), "l", {**fields, "field 1999": 0})
    assert keys(store.search((), filter=fields)) == ["k"]
