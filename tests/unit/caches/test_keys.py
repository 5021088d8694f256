"""The key of a call: the same for equal arguments in every process, different for all others."""

import re
from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from durable_graph.caches import default_cache_key
from durable_graph.errors import UnserializableValueError
from durable_graph.persistence.isolation import StateView
from durable_graph.persistence.type_registry import register_type
from tests.conformance.processes import python, result


@register_type
@dataclass
class Order:
    items: dict = field(default_factory=dict)
    tags: list = field(default_factory=list)


@register_type
class Filled(BaseModel):
    content: dict


class Unknown:
    pass


def test_a_key_is_32_hexadecimal_digits():
    assert re.fullmatch(r"[0-9a-f]{32}", default_cache_key({"a": 1}))


ORDERS = [dict(order) for order in permutations([("a", 1), ("b", {"x": 1, "y": 2}), (3, [{"p": 0, "q": 0}])])]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda order: order,
        lambda order: [order, (order,)],
        lambda order: {"deep": [{"deeper": (order, {1})}]},
        lambda order: {("a", "tuple"): order},
        lambda order: Order(items=order),
        lambda order: Filled(content=order),
        lambda order: defaultdict(list, order),
        lambda order: OrderedDict([("first", order), ("second", 2)])["first"],
        StateView,
    ],
    ids=["bare", "list", "deep", "beside a tuple key", "dataclass", "model", "defaultdict", "taken out", "view"],
)
def test_the_order_of_dicts_does_not_matter_at_any_depth(wrap):
    keys = {default_cache_key(wrap(dict(order))) for order in ORDERS}
    assert len(keys) == 1


def test_the_state_a_node_is_given_has_the_key_of_the_dict_it_looks_like():
    assert default_cache_key(StateView({"b": [1], "a": 2})) == default_cache_key({"a": 2, "b": [1]})


def test_the_order_of_keyword_arguments_and_sets_does_not_matter():
    assert default_cache_key(a=1, b=2) == default_cache_key(b=2, a=1)
    words = [f"word {number}" for number in range(50)]
    backwards = words[::-1]
    assert default_cache_key(set(words)) == default_cache_key(set(backwards))
    assert default_cache_key(Counter("aab")) == default_cache_key(Counter("baa"))


def test_the_order_of_an_ordered_dict_is_part_of_its_value():
    one, other = OrderedDict([("a", 1), ("b", 2)]), OrderedDict([("b", 2), ("a", 1)])
    assert default_cache_key(one) != default_cache_key(other)
    assert default_cache_key([one]) == default_cache_key([OrderedDict(one)])
    assert default_cache_key(one) != default_cache_key(dict(one))


DIFFERENT = [
    ((), {}),
    ((None,), {}),
    ((1,), {}),
    ((1.0,), {}),
    ((True,), {}),
    (("1",), {}),
    ((b"1",), {}),
    ((Decimal(1),), {}),
    (([1],), {}),
    (((1,),), {}),
    (({1},), {}),
    (([],), {}),
    (((),), {}),
    (({},), {}),
    (([[]],), {}),
    ((1, 2), {}),
    ((12,), {}),
    (([1, 2],), {}),
    (([2, 1],), {}),
    ((), {"a": 1}),
    ((), {"a": 1, "b": 2}),
    ((1,), {"b": 2}),
    (({"a": 1},), {}),
    (({"a": 1, "b": 2},), {}),
    (({"a": 2, "b": 1},), {}),
    ((["a", 1],), {}),
    (([["a", 1]],), {}),
    (("a", 1), {}),
    (({"a": {"b": 2}},), {}),
    (({"a": {}, "b": 2},), {}),
    ((2**64,), {}),
    ((2**64 + 1,), {}),
    ((Order({"a": 1}),), {}),
    ((Filled(content={"a": 1}),), {}),
    (("\ud800",), {}),
    (("nul\0",), {}),
    (("nul",), {}),
]


def test_different_arguments_make_different_keys():
    keys = [default_cache_key(*args, **kwargs) for args, kwargs in DIFFERENT]
    assert len(set(keys)) == len(DIFFERENT)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.binary(max_size=3),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(st.text(max_size=2), parts, max_size=3),
    max_leaves=8,
)


def typed(value):
    """The value in a form whose equality tells types apart: True is not 1, and the order of dicts is nothing."""
    if isinstance(value, dict):
        return "dict", frozenset((key, typed(part)) for key, part in value.items())
    if isinstance(value, list):
        return "list", tuple(map(typed, value))
    return type(value), value


@given(VALUES, VALUES)
def test_keys_are_equal_exactly_when_arguments_are(one, other):
    assert (default_cache_key(one) == default_cache_key(other)) == (typed(one) == typed(other))


@given(st.dictionaries(st.text(max_size=2), VALUES, max_size=5), st.randoms())
def test_a_shuffled_dict_has_the_same_key(value, dice):
    entries = list(value.items())
    dice.shuffle(entries)
    assert default_cache_key(dict(entries)) == default_cache_key(value)


def test_deep_values_have_keys_like_flat_ones():
    deep = 0
    for _ in range(450):
        deep = {"b": deep, "a": 1}
    other = 0
    for _ in range(450):
        other = {"a": 1, "b": other}
    assert default_cache_key(deep) == default_cache_key(other)
    nested = 0
    for _ in range(60):
        nested = (nested,)
    assert default_cache_key(nested) != default_cache_key((nested,))


KEY = """
from decimal import Decimal
from durable_graph.caches import default_cache_key
print(default_cache_key({"b": {"x", "y", "z"}, "a": (1, Decimal("1.0"))}, flag=True))
"""


def test_other_processes_make_the_same_key():
    here = default_cache_key({"a": (1, Decimal("1.0")), "b": {"z", "y", "x"}}, flag=True)
    assert {result(python(KEY)) for _ in range(2)} == {here}


@pytest.mark.parametrize(
    ("args", "kwargs", "place"),
    [
        ((1, Unknown()), {}, r"from argument 2: .*Unknown cannot be stored"),
        ((), {"client": Unknown()}, r"from argument 'client': .*Unknown cannot be stored"),
        (({"a": [0, Unknown()]},), {}, r"from argument 1: .*Unknown at \['a'\]\[1\] cannot be stored"),
    ],
    ids=["positional", "by name", "deep inside"],
)
def test_an_argument_that_cannot_be_encoded_is_named_with_the_cure(args, kwargs, place):
    with pytest.raises(UnserializableValueError, match=place) as caught:
        default_cache_key(*args, **kwargs)
    assert "key_func=" in caught.value.cure


def test_an_argument_that_contains_itself_is_refused():
    loop = []
    loop.append(loop)
    with pytest.raises(UnserializableValueError, match="argument 1"):
        default_cache_key(loop)


def test_the_error_of_a_registered_encode_function_passes_with_a_note():
    class Moody:
        pass

    def encode(_):
        raise LookupError("not today")

    register_type(Moody, name="test_keys.Moody", encode=encode, decode=lambda _: Moody())
    with pytest.raises(LookupError, match="not today") as caught:
        default_cache_key(Moody())
    assert "argument 1" in caught.value.__notes__[-1]
