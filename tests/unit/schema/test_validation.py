"""No value that violates the schema gets past validation."""

import dataclasses
import operator
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import TypedDict

from durable_graph.channels import Topic, UntrackedValue
from durable_graph.errors import InvalidInputError, InvalidSchemaError, InvalidValueError
from durable_graph.schema import RemainingSteps, make_validator, read_schema
from durable_graph.types import MISSING, Overwrite


def merge(current, update):
    return current + update


class Item(BaseModel):
    name: str
    parts: "list[Item]" = []


class State(BaseModel):
    items: list[str] = []
    count: int = Field(default=0, ge=0)
    log: Annotated[list[int], operator.add] = []
    short: Annotated[list[int], operator.add, Field(max_length=2)] = []
    merged: Annotated[list[int], merge] = []
    tree: Item | None = None
    limit: int = 10
    left: RemainingSteps = 0

    @field_validator("count")
    @classmethod
    def within_limit(cls, value, info: ValidationInfo):
        if value > info.data.get("limit", 10):
            raise ValueError("above the limit")
        return value


STATE = make_validator(read_schema(State))


@pytest.mark.parametrize(
    ("key", "write", "text"),
    [
        ("items", None, r"Key 'items' of State cannot hold this NoneType: Input should be a valid list"),
        ("items", ["a", 1, 2, 3, 4], r"this list: 1: Input .*; 2: .*; 3: .*; and 1 more"),
        ("count", -1, "greater than or equal to 0"),
        ("count", 11, "Value error, above the limit"),
        ("log", ["x"], "Key 'log' of State cannot hold this list: 0: Input should be a valid integer"),
        ("tree", {"name": "a", "parts": [{}]}, "parts.0.name: Field required"),
        ("short", Overwrite([1, 2, 3]), "at most 2 items"),
        ("merged", {"__overwrite__": 5}, "cannot hold this int: Input should be a valid list"),
    ],
)
def test_a_bad_write_is_refused_with_key_type_and_reason(key, write, text):
    with pytest.raises(InvalidValueError, match=text):
        STATE.validate_write(key, write, {})


def test_a_field_validator_sees_the_state_it_meets():
    with pytest.raises(InvalidValueError, match="above the limit"):
        STATE.validate_write("count", 6, {"limit": 5})
    assert STATE.validate_write("count", 20, {"limit": 30, "count": 1}) == 20


def test_a_write_comes_back_as_pydantic_coerces_it():
    assert STATE.validate_write("count", "3", {}) == 3
    assert STATE.validate_write("log", ("1", 2), {}) == [1, 2]
    assert STATE.validate_write("tree", {"name": "a"}, {}) == Item(name="a")
    assert STATE.validate_write("merged", Overwrite(["1"]), {}) == Overwrite([1])


def test_an_instance_stays_the_same_object():
    item = Item(name="a")
    assert STATE.validate_write("tree", item, {}) is item


def test_a_key_of_another_schema_passes():
    assert STATE.validate_write("other", object, {}) is object


def test_validating_changes_neither_the_write_nor_the_state():
    write, values = ["1"], {"count": 1}
    STATE.validate_write("log", write, values)
    assert (write, values) == (["1"], {"count": 1})


# --- results of reducers ------------------------------------------------------------------------------------


def test_where_a_reducer_takes_more_than_the_type_its_result_is_checked():
    assert STATE.result_keys == {"short", "merged"}
    assert STATE.validate_write("merged", "anything", {}) == "anything"
    with pytest.raises(InvalidValueError, match=r"Key 'merged' .* 1: Input should be a valid integer"):
        STATE.validate_result("merged", [1, "x"], {})


def test_a_result_comes_back_coerced():
    assert STATE.validate_result("merged", (1, "2"), {}) == [1, 2]


def test_a_bound_on_the_whole_list_is_held_against_the_whole():
    assert STATE.validate_write("short", [3], {}) == [3]
    with pytest.raises(InvalidValueError, match="at most 2 items"):
        STATE.validate_result("short", [1, 2, 3], {}, added=[3])


def test_of_an_appended_list_only_the_new_elements_are_looked_at():
    value = ["taken as valid", 2]
    assert STATE.validate_result("merged", value, {}, added=[2]) is value
    assert STATE.validate_result("merged", [1, "2"], {}, added=["2"]) == [1, 2]
    with pytest.raises(InvalidValueError, match="0: Input should be a valid integer"):
        STATE.validate_result("merged", [1, "x"], {}, added=["x"])


@given(value=st.lists(st.integers()), added=st.lists(st.one_of(st.integers(), st.integers().map(str))))
def test_checking_the_new_elements_gives_what_checking_the_whole_gives(value, added):
    whole = value + added
    assert STATE.validate_result("merged", whole, {}, added=added) == STATE.validate_result("merged", whole, {})


def test_an_absent_value_has_nothing_to_check():
    assert STATE.validate_result("merged", MISSING, {}) is MISSING
    assert STATE.validate_result("count", -1, {}) == -1


def test_a_topic_is_checked_by_its_list_and_untracked_values_when_written():
    class Mixed(BaseModel):
        said: Annotated[list[int], Topic(int)] = []
        kept: Annotated[int, UntrackedValue] = 0

    validator = make_validator(read_schema(Mixed))
    assert validator.result_keys == {"said"}
    assert validator.validate_write("said", "1", {}) == "1"
    assert validator.validate_result("said", ["1"], {}) == [1]
    with pytest.raises(InvalidValueError):
        validator.validate_write("kept", "x", {})


# --- all kinds of models ------------------------------------------------------------------------------------


class Strict(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, str_strip_whitespace=True)
    x: int = Field(alias="ex", frozen=True)
    text: str = ""


class Inner(BaseModel):
    inner: "Inner | None" = None
    x: int = 0


def test_config_frozen_and_aliases_are_the_models_own():
    validator = make_validator(read_schema(Strict))
    assert validator.validate_write("x", 1, {}) == 1
    assert validator.validate_write("text", " a ", {"x": 1}) == "a"
    with pytest.raises(InvalidValueError):
        validator.validate_write("x", "1", {})


def test_a_recursive_model_may_be_the_state():
    validator = make_validator(read_schema(Inner))
    assert validator.validate_write("inner", {"x": "1"}, {}) == Inner(x=1)
    with pytest.raises(InvalidValueError, match=r"inner\.x: Input"):
        validator.validate_write("inner", {"inner": {"x": "one"}}, {})


class Range(BaseModel):
    low: int = 0
    high: int
    left: RemainingSteps

    @model_validator(mode="after")
    def look(self):
        if self.low > self.high:
            raise ValueError("low above high")
        return self


class Recursive(Range):
    inner: "Recursive | None" = None


@pytest.mark.parametrize("model", [Range, Recursive])
def test_model_validators_look_at_the_whole_state_only(model):
    validator = make_validator(read_schema(model))
    assert validator.checks_state
    assert validator.validate_write("low", 9, {"high": 3}) == 9
    validator.validate_state({"low": 1, "high": 3})
    with pytest.raises(InvalidValueError, match=f"The state violates {model.__name__}: Value error, low above high"):
        validator.validate_state({"low": 9, "high": 3})


def test_a_state_that_lacks_required_fields_is_not_looked_at():
    make_validator(read_schema(Range)).validate_state({"low": 9})


def test_a_model_without_model_validators_has_no_state_check():
    assert not STATE.checks_state
    STATE.validate_state({"count": -1})


def test_what_a_validator_raises_besides_comes_out_with_a_note():
    class Buggy(BaseModel):
        x: int = 0

        @field_validator("x")
        @classmethod
        def fail(cls, value):
            raise KeyError(value)

    with pytest.raises(KeyError) as caught:
        make_validator(read_schema(Buggy)).validate_write("x", 1, {})
    assert caught.value.__notes__ == ["while validating key 'x' of Buggy"]


def test_a_model_with_a_core_schema_of_its_own_is_refused():
    class Odd(BaseModel):
        x: int = 0

        @classmethod
        def __get_pydantic_core_schema__(cls, source, handler):
            return {"type": "is-instance", "cls": cls}

    with pytest.raises(InvalidSchemaError, match="core schema of its own"):
        make_validator(read_schema(Odd))


# --- states that are no models ------------------------------------------------------------------------------


class Typed(TypedDict):
    x: Annotated[int, Field(gt=0)]
    log: Annotated[list[int], operator.add]
    even: Annotated[int, AfterValidator(lambda value: value // 2 * 2)]
    any: "Foreign"


class Foreign:
    pass


@dataclasses.dataclass
class Data:
    x: int = 0


def test_other_states_have_no_value_checks_unless_asked_for():
    assert make_validator(read_schema(Typed)) is None
    assert make_validator(read_schema(Data)) is None
    assert make_validator(read_schema(list)) is None
    assert make_validator(read_schema(State, role="context")) is None


def test_values_of_a_typed_dict_are_checked_when_asked_for():
    validator = make_validator(read_schema(Typed), "values")
    assert validator.validate_write("log", ["1"], {}) == [1]
    assert validator.validate_write("even", 3, {}) == 2
    foreign = Foreign()
    assert validator.validate_write("any", foreign, {}) is foreign
    for key, write in (("x", 0), ("log", ["x"]), ("any", 1)):
        with pytest.raises(InvalidValueError, match=f"Key '{key}' of Typed"):
            validator.validate_write(key, write, {})
    assert validator.result_keys == set()


@pytest.mark.parametrize(("schema", "key"), [(Data, "x"), (int, "__root__")])
def test_values_of_other_kinds_are_checked_when_asked_for(schema, key):
    with pytest.raises(InvalidValueError):
        make_validator(read_schema(schema), "values").validate_write(key, "x", {})


def test_a_dataclass_that_says_no_itself_is_asked_about_the_whole_state():
    @dataclasses.dataclass
    class Even:
        x: int = 0

        def __post_init__(self):
            if self.x % 2:
                raise ValueError("odd")

    @pydantic_dataclass
    class Checked:
        x: int = 0

    validator = make_validator(read_schema(Even))
    validator.validate_state({"x": 2})
    with pytest.raises(ValueError, match="odd") as caught:
        validator.validate_state({"x": 1})
    assert caught.value.__notes__[0].startswith("while checking the state against ")
    with pytest.raises(InvalidValueError, match="x: Input should be a valid integer"):
        make_validator(read_schema(Checked)).validate_state({"x": "one"})


# --- input --------------------------------------------------------------------------------------------------


def test_an_input_is_checked_key_by_key_and_comes_back_coerced():
    assert STATE.validate_input({"count": "3", "log": ("1",), "merged": "later"}) == {
        "count": 3,
        "log": [1],
        "merged": "later",
    }
    assert STATE.validate_input({}) == {}


def test_a_bad_input_is_the_callers_mistake():
    with pytest.raises(InvalidInputError, match="In the input: Key 'items' of State cannot hold this NoneType"):
        STATE.validate_input({"items": None})
