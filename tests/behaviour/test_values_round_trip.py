"""What is put into the state comes out of the state, from the run and from another process alike."""

import enum
import re
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from pydantic import BaseModel, PrivateAttr

from durable_graph import register_type
from durable_graph.errors import UnserializableValueError
from tests.behaviour.small_graphs import chain, thread

CFG = thread()


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntFlag):
    LOW = 1
    HIGH = 2


class Point(NamedTuple):
    x: int
    y: tuple[int, ...]


@dataclass
class Order:
    number: int
    lines: list[Point] = field(default_factory=list)
    extra: Any = None


@dataclass(frozen=True)
class Frozen:
    when: datetime


class Account(BaseModel):
    owner: str
    tags: set[str] = set()
    nested: "Account | None" = None
    _visits: int = PrivateAttr(default=0)

    def visit(self, count):
        self._visits = count
        return self


for cls in (Colour, Level, Point, Order, Frozen, Account):
    register_type(cls)


class Holder(TypedDict, total=False):
    value: Any


BERLIN = ZoneInfo("Europe/Berlin")
VALUES = {
    "None": None,
    "bools in a list": [True, False, 1, 0, 1.0],
    "minus zero": -0.0,
    "infinity": float("inf"),
    "big int": 2**100,
    "negative big int": -(2**64) - 1,
    "bytes": b"\0\xff",
    "bytearray": bytearray(b"ab"),
    "text with NUL": "a\0b",
    "lone surrogate": "a\ud800b",
    "tuple": (1, (2, [3]), ()),
    "set": {1, "a", (2, 3)},
    "frozenset": frozenset({frozenset({1})}),
    "deque": deque([1, 2], maxlen=3),
    "unbounded deque": deque([1]),
    "Counter": Counter("aab"),
    "OrderedDict": OrderedDict([("b", 1), ("a", 2)]),
    "defaultdict": defaultdict(list, {"a": [1]}),
    "dict with odd keys": {1: "int", "1": "str", None: "none", (1, 2): "tuple", 1.5: "float"},
    "range": range(2, 9, 3),
    "complex": 1 + 2j,
    "Decimal": Decimal("1.10"),
    "Fraction": Fraction(1, 3),
    "UUID": UUID(int=5),
    "path": PurePosixPath("a/b"),
    "date": date(2024, 2, 29),
    "time": time(1, 2, 3, 4),
    "timedelta": timedelta(days=-1, microseconds=7),
    "naive datetime": datetime(2024, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001 - naive ones exist
    "UTC datetime": datetime(2024, 1, 2, tzinfo=UTC),
    "offset datetime": datetime(2024, 1, 2, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    "zone and fold": datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1),
    "Enum": Colour.RED,
    "IntFlag": Level.LOW | Level.HIGH,
    "NamedTuple": Point(1, (2, 3)),
    "dataclass": Order(1, [Point(1, ())], extra={"deep": (Colour.RED, {1, 2})}),
    "frozen dataclass": Frozen(datetime(2024, 1, 2, tzinfo=BERLIN)),
    "pydantic": Account(owner="ada", tags={"x", "y"}, nested=Account(owner="bob").visit(3)).visit(7),
    "deep nesting": [[[[[[[[{"a": ({"b": [()]},)}]]]]]]]],
    "long text": "ä" * 100_000,
}


def same(left, right):
    """Equal, and of the same types all the way down."""
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert list(left) == list(right)
        assert [type(key) for key in left] == [type(key) for key in right]
        for key in left:
            same(left[key], right[key])
    elif isinstance(left, list | tuple | deque):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            same(one, other)
    else:
        assert left == right


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back_as_what_it_was(face, backend, name):
    value = VALUES[name]
    builder = chain(Holder, write=lambda state: {"value": value}, read=lambda state: None)
    result = face.invoke(builder.compile(backend.make()), {}, CFG)
    same(result["value"], value)
    elsewhere = builder.compile(backend.reopen())
    same(face.get_state(elsewhere, CFG).values["value"], value)
    same(face.get_state_history(elsewhere, CFG)[1].tasks[0].result, {})
    same(face.get_state_history(elsewhere, CFG)[2].tasks[0].result["value"], value)


@pytest.mark.parametrize("name", VALUES)
def test_an_input_comes_back_as_what_it_was(face, backend, name):
    value = VALUES[name]
    builder = chain(Holder, read=lambda state: None)
    same(face.invoke(builder.compile(backend.make()), {"value": value}, CFG)["value"], value)
    same(face.get_state(builder.compile(backend.reopen()), CFG).values["value"], value)


def test_what_equality_does_not_see_comes_back_too(face, backend):
    value = {
        "minus zero": -0.0,
        "deque": deque([1], maxlen=4),
        "factory": defaultdict(set),
        "private": Account(owner="ada").visit(7),
        "fold": datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1),
    }
    builder = chain(Holder, write=lambda state: {"value": value})
    face.invoke(builder.compile(backend.make()), {}, CFG)
    back = face.get_state(builder.compile(backend.reopen()), CFG).values["value"]
    assert str(back["minus zero"]) == "-0.0"
    assert back["deque"].maxlen == 4
    assert back["factory"].default_factory is set
    assert back["private"]._visits == 7
    assert back["private"].model_fields_set == {"owner"}
    assert back["fold"].fold == 1
    assert back["fold"].tzinfo is BERLIN
    assert back["fold"].utcoffset() == timedelta(hours=1)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.array([1.5, np.nan], dtype=">f8"),
        np.asfortranarray(np.ones((2, 2))),
        np.array([], dtype=bool),
        np.array(["a", "bc"]),
        np.float32(1.5),
        np.int64(7),
    ],
    ids=repr,
)
def test_numpy_values_come_back_as_what_they_were(face, backend, array):
    builder = chain(Holder, write=lambda state: {"value": array})
    face.invoke(builder.compile(backend.make()), {}, CFG)
    back = face.get_state(builder.compile(backend.reopen()), CFG).values["value"]
    assert type(back) is type(array)
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()


class Unregistered:
    pass


class StrangeList(list):
    pass


@pytest.mark.parametrize(
    "value",
    [object(), Unregistered(), lambda: None, StrangeList([1]), iter([1]), np.array([object()])],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_would_not_come_back_is_refused_where_it_is_written(face, backend, value):
    fixed = []
    graph = chain(Holder, write=lambda state: {"value": "fine" if fixed else {"deep": [value]}}).compile(backend.make())
    with pytest.raises(UnserializableValueError, match=r"node 'write'.*key 'value'") as caught:
        face.invoke(graph, {"value": "before"}, CFG)
    assert re.search("UntrackedValue|tolist", caught.value.cure)
    state = face.get_state(graph, CFG)
    assert (state.values, state.next) == ({"value": "before"}, ("write",))
    fixed.append(True)
    assert face.invoke(graph, None, CFG) == {"value": "fine"}


def test_an_input_that_would_not_come_back_is_refused_and_makes_no_thread(face, backend):
    saver = backend.make()
    graph = chain(Holder, read=lambda state: None).compile(saver)
    with pytest.raises(UnserializableValueError, match=r"input.*key 'value'"):
        face.invoke(graph, {"value": object()}, CFG)
    assert saver.load("t") is None


def test_a_value_that_holds_itself_is_refused(face, backend):
    def write(state):
        loop = []
        loop.append(loop)
        return {"value": loop}

    graph = chain(Holder, write=write).compile(backend.make())
    with pytest.raises(UnserializableValueError, match="key 'value'"):
        face.invoke(graph, {}, CFG)


def test_metadata_that_cannot_be_stored_is_refused(face, backend):
    saver = backend.make()
    graph = chain(Holder, read=lambda state: None).compile(saver)
    with pytest.raises(UnserializableValueError, match="metadata"):
        face.invoke(graph, {}, {**CFG, "metadata": {"x": object()}})
    assert saver.load("t") is None
