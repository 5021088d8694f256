"""What a schema names is registered without a word."""

from __future__ import annotations

import collections
import dataclasses
import enum
import typing
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypedDict, TypeVar

import pydantic
import pytest

from durable_graph.errors import UnserializableValueError
from durable_graph.persistence.codec import CODEC, register_annotations, register_type
from tests.unit.persistence.coded import again, made

T = TypeVar("T")


def test_every_class_a_schema_names_is_registered():
    kinds = [made(f"Found{n}", ["a"], module=__name__) for n in range(9)]
    shade = enum.Enum("FoundShade", "X", module=__name__)
    deep = made("Deep", [("a", list[kinds[0]])], module=__name__)
    row = NamedTuple("Row", [("a", kinds[1] | None)])  # noqa: UP014 - its hint is a local class
    box = made("Box", [("a", Any)], bases=(Generic[T],), module=__name__)
    parts = {"a": Annotated[dict[str, kinds[2]], "reducer"], "b": deep, "c": row}
    schema = TypedDict("schema", parts)  # the classes are local, and so is the schema
    model = pydantic.create_model("FoundModel", a=(typing.Optional[kinds[3]], None), __module__=__name__)  # noqa: UP045 - the old spelling is what is tested
    new = typing.NewType("new", kinds[4])
    bound = TypeVar("bound", bound=kinds[5])
    hint = tuple[schema, model, new, bound, typing.Callable[[kinds[6]], kinds[7]], box[kinds[8]], Literal[shade.X]]
    with pytest.raises(UnserializableValueError):
        CODEC.encode(kinds[0](1))
    register_annotations(hint)
    for value in [
        *(kind(1) for kind in kinds),
        shade.X,
        model(),
        row(1),
        deep(1),
        box(1),
        box[int](1),
    ]:
        assert again(value) == value


class Recursive(pydantic.BaseModel):
    children: list[Recursive] = []


class WithUnknown(TypedDict):
    a: DoesNotExist  # noqa: F821 - a name that cannot be resolved is what is tested
    b: int


def test_recursive_and_unresolvable_annotations_are_walked():
    register_annotations(Recursive)
    register_annotations(WithUnknown)
    assert again(Recursive(children=[Recursive()])) == Recursive(children=[Recursive()])


def test_plain_classes_and_library_types_are_left_alone():
    class Client:
        pass

    register_annotations(dict[str, Client | int | list | object | type | collections.deque])
    with pytest.raises(UnserializableValueError):
        CODEC.encode(Client())


def test_annotations_do_not_replace_what_was_registered_by_hand():
    @dataclasses.dataclass
    class Mine:
        a: int

    register_type(Mine, name="mine", encode=lambda value: value.a, decode=Mine)
    register_annotations(list[Mine])
    assert b"mine" in CODEC.encode(Mine(1))
