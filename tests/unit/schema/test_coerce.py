"""What a node gets for the state's values, and what its return value writes."""

import dataclasses
import operator
from typing import Annotated, Any, ClassVar, NamedTuple

import pytest
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypedDict

from durable_graph.errors import InvalidValueError
from durable_graph.schema import RemainingSteps, read_schema


class Typed(TypedDict):
    x: int
    log: Annotated[list[str], operator.add]


@dataclasses.dataclass
class Data:
    x: int
    log: Annotated[list[str], operator.add] = dataclasses.field(default_factory=list)
    note: str | None = None
    size: int | None = 3


class Model(BaseModel):
    x: int
    log: Annotated[list[str], operator.add] = []
    note: str | None = None
    size: int | None = 3


TYPED, DATA, MODEL, ROOT = map(read_schema, (Typed, Data, Model, Annotated[list, operator.add]))


# --- build --------------------------------------------------------------------------------------------------


def test_a_typed_dict_state_is_the_dict_itself():
    values = {"x": 1}
    assert TYPED.build(values) is values


def test_a_plain_state_is_the_value():
    value = [1]
    assert ROOT.build({"__root__": value}) is value
    assert ROOT.build({}) is None


@pytest.mark.parametrize("schema", [DATA, MODEL], ids=str)
def test_an_instance_is_new_each_time_and_defaults_fill_the_rest(schema):
    log = ["a"]
    first, second = (schema.build({"x": 1, "log": log, "foreign": 2}) for _ in range(2))
    assert isinstance(first, schema.type)
    assert first is not second
    assert first.log is log
    assert (first.x, first.note, first.size) == (1, None, 3)
    assert schema.build({"x": 1}).log is not schema.build({"x": 1}).log


@pytest.mark.parametrize("schema", [DATA, MODEL], ids=str)
def test_a_missing_required_field_is_an_error_that_names_it(schema):
    with pytest.raises(InvalidValueError, match=f"holds nothing for 'x', which {schema.name} requires") as caught:
        schema.build({"log": []})
    assert "a default" in caught.value.cure


def test_a_computed_field_is_handed_in_with_the_values():
    @dataclasses.dataclass
    class State:
        left: RemainingSteps
        x: int = 0

    schema = read_schema(State)
    assert schema.required == set()
    assert schema.build({"left": 5}) == State(left=5)


def test_a_dataclass_field_without_parameter_is_set_even_when_frozen():
    @dataclasses.dataclass(frozen=True)
    class State:
        x: int
        made: str = dataclasses.field(default="", init=False)

    assert read_schema(State).build({"x": 1, "made": "here"}).made == "here"
    assert read_schema(State).build({"x": 1}).made == ""


def test_a_model_is_made_of_stored_values_without_validating_them_again():
    seen = []

    class State(BaseModel):
        x: int
        _private: list[int] = PrivateAttr(default_factory=list)

        @field_validator("x")
        @classmethod
        def look(cls, value):
            seen.append(value)
            return value

        def model_post_init(self, context: Any, /):
            super().model_post_init(context)
            self._private.append(self.x)

    built = read_schema(State).build({"x": 1})
    assert seen == []
    assert built._private == [1]


@pytest.mark.parametrize(
    "alias", [{"alias": "ex"}, {"validation_alias": "ex"}, {"validation_alias": AliasChoices("ex", "eks")}], ids=str
)
def test_a_model_with_aliases_is_made_by_field_names(alias):
    class State(BaseModel):
        x: int = Field(**alias)
        y: int = 2

    built = read_schema(State).build({"x": 1})
    assert (built.x, built.y) == (1, 2)


def test_a_frozen_model_is_made_like_any_other():
    class State(BaseModel):
        model_config = ConfigDict(frozen=True)
        x: int

    assert read_schema(State).build({"x": 1}) == State(x=1)


class Checked(BaseModel):
    low: int = 0
    high: int
    width: int = -1

    @model_validator(mode="after")
    def look(self):
        if self.low > self.high:
            raise ValueError("low above high")
        self.width = self.high - self.low
        return self


def test_a_model_with_model_validators_has_them_run():
    assert read_schema(Checked).build({"low": 1, "high": 3}).width == 2
    with pytest.raises(InvalidValueError, match="The state violates Checked: Value error, low above high"):
        read_schema(Checked).build({"low": 4, "high": 3})


def test_a_model_validator_may_supply_a_required_field():
    class State(BaseModel):
        first: str
        full: str

        @model_validator(mode="before")
        @classmethod
        def complete(cls, values):
            return {**values, "full": values["first"] + "!"}

    assert read_schema(State).build({"first": "a"}).full == "a!"


def test_a_context_is_validated():
    context = read_schema(Model, role="context")
    assert context.build({"x": "1"}).x == 1
    with pytest.raises(ValidationError):
        context.build({"x": "one"})
    with pytest.raises(TypeError):
        read_schema(Data, role="context").build({})


# --- read_update --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [TYPED, DATA, MODEL], ids=str)
def test_a_dict_writes_its_items_and_none_writes_nothing(schema):
    assert schema.read_update({"x": 1, "unknown": 2}) == [("x", 1), ("unknown", 2)]
    assert schema.read_update({}) == []
    assert schema.read_update(None) == []


@pytest.mark.parametrize("update", [[("x", 1), ("x", 2)], (("x", 1), ["x", 2])], ids=str)
def test_pairs_may_write_a_key_twice(update):
    assert TYPED.read_update(update) == [("x", 1), ("x", 2)]


@pytest.mark.parametrize(
    "update",
    [
        5,
        "text",
        ["x"],
        [("x", 1, 2)],
        [(1, 2)],
        {"x"},
        pytest.param(object(), id="object"),
        ["ab", ("x", 1)],
        ValueError("x"),
        len,
    ],
    ids=str,
)
def test_anything_else_is_no_update(update):
    assert TYPED.read_update(update) is None


@pytest.mark.parametrize("update", [5, [], {"x": 1}, ("a", 1)], ids=str)
def test_a_plain_state_takes_anything_as_its_value(update):
    assert ROOT.read_update(update) == [("__root__", update)]
    assert ROOT.read_update(None) == []


def test_a_model_writes_the_fields_that_were_set():
    assert MODEL.read_update(Model(x=1)) == [("x", 1)]
    assert MODEL.read_update(Model(x=1, note=None)) == [("x", 1), ("note", None)]
    assert MODEL.read_update(Model(x=1).model_copy(update={"log": ["a"]})) == [("x", 1), ("log", ["a"])]


def test_a_default_that_nobody_touched_is_not_written_back():
    assert dict(MODEL.read_update(Model(x=9))).keys() == {"x"}


def test_a_model_that_the_node_got_and_returns_writes_what_it_changed_in_place_too():
    state = MODEL.build({"x": 1})
    state.note = "set"
    state.log.append("in place")
    assert MODEL.read_update(state) == [("x", 1), ("log", ["in place"]), ("note", "set")]


def test_extra_fields_of_a_model_are_handed_on_for_the_caller_to_refuse():
    class Loose(BaseModel):
        model_config = ConfigDict(extra="allow")
        x: int

    assert MODEL.read_update(Loose(x=1, typo=2)) == [("x", 1), ("typo", 2)]


def test_a_dataclass_writes_every_field_that_is_not_none():
    assert DATA.read_update(Data(x=1)) == [("x", 1), ("log", []), ("size", 3)]


def test_a_dataclass_writes_none_over_a_default_that_is_made():
    @dataclasses.dataclass
    class Made:
        log: list[str] | None = dataclasses.field(default_factory=list)

    assert TYPED.read_update(Made(log=None)) == [("log", None)]


def test_a_dataclass_writes_none_where_the_default_is_another_value():
    assert DATA.read_update(Data(x=1, size=None)) == [("x", 1), ("log", []), ("size", None)]
    assert DATA.read_update(Data(x=None)) == [("log", []), ("size", 3)]


class Base:
    a: int
    shared: ClassVar[int] = 1
    quoted: "ClassVar[int]" = 2


class Derived(Base):
    b: int | None

    def __init__(self, a, b):
        self.a, self.b = a, b


class Tuple(NamedTuple):
    x: int
    log: list[str]


def test_instances_of_other_annotated_classes_are_read_too():
    assert TYPED.read_update(Derived(1, 2)) == [("a", 1), ("b", 2)]
    assert TYPED.read_update(Derived(1, None)) == [("a", 1)]
    assert TYPED.read_update(Tuple(1, ["a"])) == [("x", 1), ("log", ["a"])]
    assert TYPED.read_update(Data(x=1, size=None)) == [("x", 1), ("log", []), ("size", None)]


def test_a_pydantic_dataclass_is_a_dataclass():
    @pydantic_dataclass
    class State:
        x: int = 0

    schema = read_schema(State)
    assert schema.kind == "dataclass"
    assert schema.read_update(schema.build({"x": 4})) == [("x", 4)]
