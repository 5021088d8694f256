"""From a schema's class to keys and hints, whatever kind of class it is."""

from __future__ import annotations

import dataclasses
import operator
import sys
import typing
from collections import namedtuple
from typing import Annotated, Any, Generic, TypeVar

import pytest
import typing_extensions
from pydantic import BaseModel, Field, PrivateAttr, RootModel

from durable_graph.channels import BinaryOperatorAggregate, LastValue
from durable_graph.errors import InvalidSchemaError
from durable_graph.schema import RemainingSteps, merge_channels, read_schema

T = TypeVar("T")
Names = typing_extensions.TypeAliasType("Names", Annotated[list[str], operator.add])


class Item(BaseModel):
    name: str


class Plain(typing.TypedDict):
    b: int
    a: Annotated[list[Item], operator.add]


class Extended(typing_extensions.TypedDict):
    a: typing_extensions.Required[Annotated[list[Item], operator.add]]
    b: typing_extensions.NotRequired[typing_extensions.ReadOnly[int]]


class Child(Plain, total=False):
    c: str
    d: typing.Required[str]


class Box(typing_extensions.TypedDict, Generic[T]):
    items: Annotated[list[T], operator.add]
    one: T


@dataclasses.dataclass
class Parent:
    a: Annotated[list[Item], operator.add]
    b: int = 0


@dataclasses.dataclass
class Heir(Parent):
    c: Later | None = None
    made: str = dataclasses.field(init=False)


@dataclasses.dataclass
class Pair(Generic[T]):
    left: T
    both: Annotated[list[T], operator.add] = dataclasses.field(default_factory=list)


class Model(BaseModel):
    a: Annotated[list[Item], operator.add] = []
    b: int = Field(gt=0)
    left: RemainingSteps
    c: typing.ClassVar[int] = 1
    _d: int = PrivateAttr(default=0)


class ModelHeir(Model):
    e: Later | None = None


class GenericModel(BaseModel, Generic[T]):
    items: Annotated[list[T], operator.add]


class Later(BaseModel):
    x: int


class Incomplete(BaseModel):
    one: Foreign


class Foreign:
    pass


@pytest.mark.parametrize("schema", [Plain, Extended, Parent])
def test_keys_channels_and_hints_of_each_kind(schema):
    read = read_schema(schema)
    assert set(read.keys) == {"a", "b"}
    assert isinstance(read.channels["a"], BinaryOperatorAggregate)
    assert read.channels["a"].key == "a"
    assert read.channels["a"].initial() == []
    assert isinstance(read.channels["b"], LastValue)
    assert read.hints == {"a": Annotated[list[Item], operator.add], "b": int}
    assert read.name == schema.__name__


def test_keys_stand_in_order_of_declaration_inherited_ones_first():
    assert read_schema(Child).keys == ("b", "a", "c", "d")
    assert read_schema(Heir).keys == ("a", "b", "c", "made")
    assert read_schema(ModelHeir).keys == ("a", "b", "e")


def test_required_keys_are_right_though_hints_are_strings():
    assert read_schema(Plain).required == {"a", "b"}
    assert read_schema(Extended).required == {"a"}
    assert read_schema(Child).required == {"a", "b", "d"}
    assert read_schema(Heir).required == {"a"}
    assert read_schema(Model).required == {"b"}


def test_a_pydantic_model_has_neither_class_variables_nor_private_attributes_as_keys():
    read = read_schema(Model)
    assert read.kind == "pydantic"
    assert read.keys == ("a", "b")
    assert set(read.managed) == {"left"}


def test_forward_references_to_later_classes_resolve():
    assert read_schema(Heir).hints["c"] == Later | None
    assert read_schema(ModelHeir).hints["e"] == Later | None


def test_type_arguments_of_generic_schemas_fill_the_hints():
    box = read_schema(Box[int])
    assert box.hints == {"items": Annotated[list[int], operator.add], "one": int}
    assert (box.kind, box.type) == ("typeddict", Box)
    assert read_schema(Pair[str]).hints["left"] is str
    assert read_schema(GenericModel[int]).channels["items"].typ == list[int]


def test_a_generic_schema_without_arguments_keeps_its_parameters():
    assert read_schema(Box).hints["one"] is T
    assert read_schema(Box).channels["items"].initial() == []


def test_qualifiers_and_aliases_hide_no_reducer():
    hints = {
        "a": Names,
        "b": typing_extensions.NotRequired[typing_extensions.ReadOnly[Names]],
        "c": Annotated[typing_extensions.NotRequired[list[str]], operator.add],
    }
    read = read_schema(typing_extensions.TypedDict("Wrapped", hints))
    assert all(channel == BinaryOperatorAggregate(list, operator.add) for channel in read.channels.values())
    assert read.required == {"a"}
    assert read_schema(Names).channels["__root__"].initial() == []


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is new in 3.12")
def test_an_alias_of_the_type_statement_is_looked_through():
    space: dict[str, Any] = {"Plain": Plain}
    exec("type State = Plain", space)  # noqa: S102 - older Pythons cannot parse it
    assert read_schema(space["State"]).keys == ("b", "a")


@pytest.mark.parametrize(
    ("schema", "start"),
    [
        (Annotated[list, operator.add], []),
        (Annotated[int, operator.add], 0),
        (Annotated[dict[str, int], operator.or_], {}),
    ],
)
def test_an_annotated_type_is_a_state_of_one_value(schema, start):
    read = read_schema(schema)
    assert (read.kind, read.keys) == ("root", ("__root__",))
    assert read.channels["__root__"].initial() == start


@pytest.mark.parametrize("schema", [list, dict[str, int], int | None, str, Any, typing.Optional[int]])  # noqa: UP045 - old spelling
def test_a_plain_type_is_a_state_of_one_last_value(schema):
    assert read_schema(schema).channels == {"__root__": LastValue(schema)}


@pytest.mark.parametrize("schema", [5, "Plain", None, {"a": int}, ["a"], Plain(b=1, a=[])])
def test_what_is_no_type_is_refused(schema):
    with pytest.raises(InvalidSchemaError, match="is no type"):
        read_schema(schema)


class Forgotten:
    a: int


class AlsoATuple(typing.NamedTuple):
    a: int


@pytest.mark.parametrize("schema", [Forgotten, AlsoATuple])
def test_an_annotated_class_of_no_known_kind_is_refused_with_the_cure(schema):
    with pytest.raises(InvalidSchemaError, match="no TypedDict, dataclass or pydantic model") as caught:
        read_schema(schema)
    assert "@dataclass" in caught.value.cure


def test_a_context_may_be_any_class_and_has_no_channels():
    read = read_schema(Forgotten, role="context")
    assert (read.kind, read.channels) == ("root", {})
    assert read_schema(namedtuple("N", "a"), role="context").kind == "root"  # noqa: PYI024 - the untyped kind is meant
    assert read_schema(Parent, role="context").channels == {}
    assert read_schema(Parent, role="context").keys == ("a", "b")


def test_a_root_model_is_refused():
    with pytest.raises(InvalidSchemaError, match="RootModel"):
        read_schema(RootModel[list[int]])


# --- names that cannot be resolved --------------------------------------------------------------------------


def test_a_name_known_only_inside_a_function_is_named_with_the_cure():
    class Local:
        pass

    class State(typing.TypedDict):
        one: Local

    with pytest.raises(InvalidSchemaError, match="name 'Local', which cannot be found in module") as caught:
        read_schema(State)
    assert "Define or import Local at module level" in caught.value.cure
    assert isinstance(caught.value.__cause__, NameError)


def test_a_model_with_an_unknown_name_is_refused_alike():
    class State(BaseModel):
        one: Nowhere  # noqa: F821 - that is the case

    with pytest.raises(InvalidSchemaError, match="name 'Nowhere'"):
        read_schema(State)


def test_a_model_that_pydantic_cannot_complete_is_refused_with_its_reason():
    with pytest.raises(InvalidSchemaError, match="cannot be used: Unable to generate pydantic-core schema"):
        read_schema(Incomplete)


def test_a_model_finds_a_class_of_the_function_it_is_made_in():
    class Local(BaseModel):
        x: int

    class State(BaseModel):
        one: Local

    assert read_schema(State).hints == {"one": Local}


def test_a_hint_that_is_no_type_is_refused():
    with pytest.raises(InvalidSchemaError, match="type hints of Broken cannot be read"):
        read_schema(dataclasses.make_dataclass("Broken", [("a", "1 +")]))


# --- several schemas of one graph ---------------------------------------------------------------------------


def typed_dict(name, **fields):
    return read_schema(typing_extensions.TypedDict(name, fields))


def test_channels_of_several_schemas_are_merged_first_ones_first():
    state = typed_dict("State", a=Annotated[list, operator.add], b=int)
    private = typed_dict("Private", c=str, a=Annotated[list[int], operator.add])
    merged = merge_channels([state, private])
    assert list(merged) == ["a", "b", "c"]
    assert merged["a"] is state.channels["a"]


def test_a_later_plain_field_leaves_the_reducer_in_force():
    state = typed_dict("State", a=Annotated[list, operator.add])
    assert merge_channels([state, typed_dict("Input", a=list)])["a"] is state.channels["a"]


def extend(current, update):
    return [*current, *update]


@pytest.mark.parametrize("first", [int, Annotated[list, operator.add], RemainingSteps], ids=str)
def test_two_ways_to_accumulate_one_key_are_refused_naming_both_schemas(first):
    schemas = [typed_dict("State", a=first), typed_dict("Other", a=Annotated[list, extend])]
    with pytest.raises(InvalidSchemaError, match=r"Key 'a' is .* in State and .*extend\) in Other"):
        merge_channels(schemas)


def test_a_computed_field_has_no_channel_even_if_another_schema_declares_it_plainly():
    schemas = [typed_dict("State", left=RemainingSteps, b=int), typed_dict("Other", left=int)]
    assert list(merge_channels(schemas)) == ["b"]


def test_a_schema_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        read_schema(Plain).keys = ()
    assert repr(read_schema(Plain)) == "Schema(Plain: b, a)"
