"""Nobody sees another's edits: `own` copies what can change, and `StateView` does so for each way to read a dict."""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime as dt
import enum
import json
import pickle
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_graph.errors import UnserializableValueError
from durable_graph.persistence.codec import register_type
from durable_graph.persistence.isolation import StateView, is_immutable, own
from durable_graph.types import Interrupt, Send


@dataclasses.dataclass
class Box:
    part: Any

    def __post_init__(self):
        self.derived = [self.part]


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    part: Any


class Pair(NamedTuple):
    left: Any
    right: Any


class Model(pydantic.BaseModel):
    part: Any
    _private: list = pydantic.PrivateAttr(default_factory=list)


class FrozenModel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    part: Any


class Color(enum.Enum):
    RED = (1,)


class Words(list):
    pass


class Unknown:
    def __init__(self):
        self.part = []


def mutable_parts(value):
    """Collect the ids of everything in a value that can be changed."""
    found = set()
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, (str, bytes, int, float, type(None), enum.Enum, Unknown)) or id(part) in found:
            continue
        inner = list(getattr(part, "__dict__", {}).values())
        if isinstance(part, (list, tuple, set, frozenset, collections.deque)):
            inner += part
        if isinstance(part, dict):
            inner += [*part.keys(), *part.values()]
        inner += [
            getattr(part, name) for name in ("part", "arg", "value", "__pydantic_private__") if hasattr(part, name)
        ]
        if isinstance(part, (list, dict, set, bytearray, collections.deque, np.ndarray, Box, Model, Send)):
            found.add(id(part))
        waiting += inner
    return found


COPIED = [
    [1, [2]],
    {"a": {"b": [1]}},
    {1, 2},
    bytearray(b"a"),
    collections.deque([[1]], maxlen=3),
    collections.defaultdict(list, {"a": [1]}),
    collections.Counter("aab"),
    collections.OrderedDict([("z", [1]), ("a", 2)]),
    (1, ([2],)),
    frozenset({(1, Frozen((1,)))}) | {Pair(1, 2)},
    slice([1], None),
    np.arange(3),
    np.array([[1], None], dtype=object),
    Box([1]),
    Frozen([1]),
    Pair(1, [2]),
    Model(part=[1]),
    FrozenModel(part={"a": [1]}),
    Words([[1]]),
    Interrupt({"a": 1}, "i"),
    [{"a": (Box([Frozen([1])]),)}],
]


@pytest.mark.parametrize("value", COPIED, ids=range(len(COPIED)))
def test_a_copy_is_equal_and_shares_nothing_that_can_change(value):
    found = own(value)
    assert type(found) is type(value)
    assert repr(found) == repr(value)
    assert not mutable_parts(found) & mutable_parts(value)


SHARED = [
    None, 1, 2**80, "a", b"a", 1.5, True, (), (1, ("a", 2.5)), frozenset({1}), range(3), Decimal(1),
    dt.datetime.now(dt.UTC), Color.RED, Frozen((1, "a")), Pair(1, Frozen(2)), FrozenModel(part=(1,)),
    np.float64(1.5), Interrupt("q", "i"), ...,
]  # fmt: skip


@pytest.mark.parametrize("value", SHARED, ids=range(len(SHARED)))
def test_what_cannot_change_is_shared(value):
    assert own(value) is value
    assert is_immutable(value)


@pytest.mark.parametrize("value", [*COPIED[:9], *COPIED[10:], Unknown()], ids=range(len(COPIED)))
def test_what_can_change_is_not_called_immutable(value):
    assert not is_immutable(value)


def test_the_private_attributes_of_a_model_are_copied():
    model = Model(part=1)
    found = own(model)
    found._private.append(1)
    found.model_fields_set.clear()
    assert model._private == []
    assert model.model_fields_set == {"part"}


def test_attributes_set_on_the_side_are_copied():
    box = Box([1])
    found = own(box)
    found.derived.append(2)
    assert box.derived == [[1]]
    words = Words()
    words.note = []
    own(words).note.append(1)
    assert words.note == []


def test_attributes_of_an_overridden_base_are_copied():
    class Shown(dict):
        def items(self):
            return [("shown", "only")]

    held = Shown(a=[1])
    found = own(held)
    assert dict.__getitem__(found, "a") == [1]
    assert dict.__getitem__(found, "a") is not dict.__getitem__(held, "a")


def test_objects_of_unknown_types_are_shared():
    unknown = Unknown()
    assert own([unknown])[0] is unknown
    assert own({"f": len})["f"] is len


def test_a_registered_plain_class_is_copied_from_then_on():
    class Later:
        def __init__(self):
            self.part = [1]

    value = Later()
    assert own(value) is value
    register_type(Later)
    found = own(value)
    assert found.part == [1]
    assert found.part is not value.part


def test_a_class_registered_with_functions_is_copied_by_them():
    class Handle:
        def __init__(self, items):
            self.items = items

    register_type(Handle, encode=lambda value: value.items, decode=Handle)
    value = Handle([1])
    found = own(value)
    assert found.items == [1]
    assert found.items is not value.items


def test_a_value_that_contains_itself_is_copied_as_it_is():
    ring: list = [1]
    ring.append(ring)
    found = own(ring)
    assert found is not ring
    assert found[1] is found
    parent = Box(None)
    parent.part = Box(parent)
    assert own(parent).part.part is not parent


def test_a_ring_that_cannot_be_copied_is_a_clear_error():
    ring: list = [(n for n in ())]
    ring.append(ring)
    with pytest.raises(UnserializableValueError, match="contains itself"):
        own(ring)


# --- StateView -----------------------------------------------------------------------------------------------------


def keywords(**given):
    return given


def by_match(view):
    match view:
        case {"k": found}:
            return found
    raise AssertionError


def by_match_rest(view):
    match view:
        case {"other": _, **rest}:
            return rest["k"]
    raise AssertionError


def updated(view):
    found = {}
    found.update(view)
    return found["k"]


def updated_by_dict(view):
    found = {}
    dict.update(found, view)
    return found["k"]


def joined_in_place(view):
    found = {}
    found |= view
    return found["k"]


def by_popitem(view):
    return dict([view.popitem(), view.popitem()])["k"]


WAYS = {
    "getitem": lambda v: v["k"],
    "get": lambda v: v.get("k"),
    "items": lambda v: dict(list(v.items()))["k"],
    "values": lambda v: list(v.values())[1],
    "reversed values": lambda v: next(iter(reversed(v.values()))),
    "reversed items": lambda v: next(iter(reversed(v.items())))[1],
    "iteration": lambda v: next(v[key] for key in v if key == "k"),
    "keys": lambda v: next(v[key] for key in v.keys() if key == "k"),  # noqa: SIM118 - one way of reading a dict
    "reversed": lambda v: next(v[key] for key in reversed(v) if key == "k"),
    "display": lambda v: {**v}["k"],
    "call": lambda v: keywords(**v)["k"],
    "dict": lambda v: dict(v)["k"],
    "dict with more": lambda v: dict(v, more=1)["k"],
    "copy method": lambda v: v.copy()["k"],
    "copy": lambda v: copy.copy(v)["k"],
    "deepcopy": lambda v: copy.deepcopy(v)["k"],
    "pickle": lambda v: pickle.loads(pickle.dumps(v))["k"],  # noqa: S301 - our own bytes
    "or": lambda v: (v | {})["k"],
    "ror": lambda v: ({} | v)["k"],
    "or view": lambda v: (v | StateView({}))["k"],
    "ior": joined_in_place,
    "update": updated,
    "dict.update": updated_by_dict,
    "match": by_match,
    "match rest": by_match_rest,
    "pop": lambda v: v.pop("k"),
    "popitem": by_popitem,
    "setdefault": lambda v: v.setdefault("k", 1),
    "OrderedDict": lambda v: collections.OrderedDict(v)["k"],
    "ChainMap": lambda v: collections.ChainMap(v)["k"],
    "UserDict": lambda v: collections.UserDict(v)["k"],
    "defaultdict": lambda v: collections.defaultdict(list, v)["k"],
    "comprehension": lambda v: {key: value for key, value in v.items()}["k"],  # noqa: C416 - one way of reading a dict
    "own": lambda v: own(v)["k"],
    "eval": lambda v: eval("k", {}, v),  # noqa: S307 - one way of reading a dict
    "json": lambda v: json.loads(json.dumps(v))["k"],
    "json with indent": lambda v: json.loads(json.dumps(v, indent=1))["k"],
    "pydantic keywords": lambda v: pydantic.create_model("M", k=(Any, ...), other=(Any, ...))(**v).k,
    "dataclass": lambda v: dataclasses.make_dataclass("D", ["k", "other"])(**v).k,
    "pydantic validation": lambda v: pydantic.create_model("M", k=(Any, ...)).model_validate(v).k,
    "pydantic adapter": lambda v: pydantic.TypeAdapter(dict[str, Any]).validate_python(v)["k"],
    "view of a view": lambda v: StateView(v)["k"],
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_no_way_to_read_leaks_the_original(way):
    original = [["inner"]]
    values = {"other": {"x": 1}, "k": original}
    found = way(StateView(values))
    assert found == original
    found[0].append("edited")
    found.append("edited")
    assert original == [["inner"]]
    assert values == {"other": {"x": 1}, "k": [["inner"]]}


SAME = [
    "getitem",
    "get",
    "items",
    "values",
    "iteration",
    "display",
    "dict",
    "copy method",
    "copy",
    "or",
    "ror",
    "update",
    "match",
]


@pytest.mark.parametrize("name", SAME)
def test_every_read_gives_the_same_copy(name):
    view = StateView({"other": 1, "k": [1]})
    first = view["k"]
    first.append(2)
    assert WAYS[name](view) is first
    assert view["k"] is first


def test_equality_repr_len_and_membership_are_those_of_a_dict():
    values = {"k": [1], "other": 2}
    view = StateView(values)
    assert view == values
    assert values == view
    assert repr(view) == repr(values)
    assert (len(view), "k" in view, "no" in view, list(view)) == (2, True, False, ["k", "other"])
    assert isinstance(view, dict)
    view["k"].append(2)
    assert view != values
    assert repr(view) == "{'k': [1, 2], 'other': 2}"


def test_a_key_that_is_missing_is_missing():
    view = StateView({"k": [1]})
    assert view.get("no") is None
    assert view.get("no", 5) == 5
    assert view.pop("no", 6) == 6
    for read in (lambda: view["no"], lambda: view.pop("no"), lambda: StateView({}).popitem()):
        with pytest.raises(KeyError):
            read()


def test_an_immutable_value_is_handed_out_as_it_is():
    value = ("a", 1)
    assert StateView({"k": value})["k"] is value


def test_what_a_task_writes_into_its_view_stays_the_tasks_own_object():
    mine = [1]
    for write in (
        lambda v: v.__setitem__("k", mine),
        lambda v: v.update(k=mine),
        lambda v: v.update({"k": mine}),
        lambda v: v.__ior__({"k": mine}),
        lambda v: (v.pop("k"), v.setdefault("k", mine)),
        lambda v: (v.clear(), v.update([("k", mine)])),
    ):
        values = {"k": [0]}
        view = StateView(values)
        write(view)
        assert view["k"] is mine
        assert values == {"k": [0]}


def test_a_key_that_was_deleted_and_written_again_is_not_the_old_one():
    view = StateView({"k": [0]})
    view["k"].append(1)
    del view["k"]
    assert "k" not in view
    view["k"] = [2]
    assert view.popitem() == ("k", [2])
    assert len(view) == 0


leaves = st.none() | st.integers() | st.text(max_size=3) | st.binary(max_size=3).map(bytearray)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.tuples(inner, inner)
        | st.builds(Box, inner)
        | st.builds(Frozen, inner)
        | st.builds(Model, part=inner)
    ),
    max_leaves=10,
)


@settings(max_examples=200, deadline=None)
@given(trees)
def test_a_copy_of_anything_shares_nothing_that_can_change(value):
    found = own(value)
    assert found == value
    assert not mutable_parts(found) & mutable_parts(value)
    if is_immutable(value):
        assert found is value
