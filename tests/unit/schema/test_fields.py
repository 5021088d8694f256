"""From one field's hint to its channel."""

import functools
import operator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field
from typing_extensions import Doc, TypedDict

from durable_graph.channels import (
    BinaryOperatorAggregate,
    EphemeralValue,
    LastValue,
    NamedBarrierValue,
    Topic,
    UntrackedValue,
)
from durable_graph.errors import InvalidSchemaError
from durable_graph.schema import IsLastStep, ManagedValue, RemainingSteps, read_schema
from durable_graph.schema.managed import IsLastStepManager, RemainingStepsManager


def read(hint, **options):
    return read_schema(TypedDict("State", {"key": hint}), **options)


def channel(hint):
    return read(hint).channels["key"]


def merge(current, update):
    return current + update


def merge_with_option(current, update, *, sort=False):
    return current + update


def either(*both):
    return both[1]


def multiply(current, update, factor=1):
    return update * factor


class Merger:
    def __call__(self, current, update):
        return current + update

    def method(self, current, update):
        return current + update


class Marker:
    pass


class PairMarker:
    def __init__(self, left, right):
        pass


@pytest.mark.parametrize(
    "reducer",
    [
        merge,
        merge_with_option,
        operator.add,
        max,
        set.union,
        either,
        multiply,
        (lambda current, update: update),
        functools.partial(merge_with_option, sort=True),
        Merger(),
        Merger().method,
        PairMarker,
    ],
)
def test_what_takes_current_and_update_is_a_reducer(reducer):
    found = channel(Annotated[list, reducer])
    assert isinstance(found, BinaryOperatorAggregate)
    assert found.op is reducer
    assert (found.typ, found.key) == (list, "key")


@pytest.mark.parametrize(
    "extras",
    [
        (merge, "doc"),
        ("doc", merge),
        (merge, Doc("doc")),
        (merge, Field(min_length=1)),
        (Marker, merge),
        (merge, Marker),
    ],
)
def test_a_reducer_counts_wherever_it_stands(extras):
    assert channel(Annotated[(list, *extras)]) == BinaryOperatorAggregate(list, merge)


@pytest.mark.parametrize("extras", [("doc",), (Marker,), (Marker(),), (PairMarker, "doc"), (len, "doc"), ()])
def test_other_extras_leave_a_last_value(extras):
    found = channel(Annotated[(list, *extras)] if extras else list)
    assert type(found) is LastValue
    assert found.typ is list


def one(current):
    return current


def three(current, update, more):
    return update


@pytest.mark.parametrize("function", [one, three, lambda: None, Merger.method])
def test_a_function_that_cannot_be_a_reducer_is_refused_naming_schema_key_and_form(function):
    with pytest.raises(InvalidSchemaError, match=r"Field 'key' of State: .* cannot be a reducer") as caught:
        read(Annotated[list, function])
    assert "(current, update) -> new" in caught.value.cure


def test_an_async_reducer_is_refused():
    async def reduce(current, update):
        return update

    with pytest.raises(InvalidSchemaError, match=r"Field 'key' of State: the reducer .* is async"):
        read(Annotated[list, reduce])


@pytest.mark.parametrize(
    "extras",
    [(merge, operator.add), (merge, Topic(str)), (UntrackedValue, EphemeralValue), (merge, RemainingStepsManager)],
)
def test_two_ways_to_accumulate_are_refused(extras):
    with pytest.raises(InvalidSchemaError, match="Field 'key' of State has 2 ways to accumulate"):
        read(Annotated[(list, *extras)])


@pytest.mark.parametrize("kind", [UntrackedValue, EphemeralValue, Topic, LastValue])
def test_a_channel_class_is_made_with_the_fields_type(kind):
    found = channel(Annotated[list[int], "doc", kind])
    assert type(found) is kind
    assert (found.typ, found.key) == (list[int], "key")


def test_a_channel_object_keeps_its_options_and_serves_several_fields():
    topic = Topic(str, accumulate=True)
    found = read_schema(
        TypedDict("State", {"a": Annotated[list[str], topic], "b": Annotated[list[str], topic]})
    ).channels
    assert found["a"] == found["b"] == topic
    assert (found["a"].key, found["b"].key, topic.key) == ("a", "b", "")
    assert not found["a"].transient


@pytest.mark.parametrize("kind", [BinaryOperatorAggregate, NamedBarrierValue])
def test_a_channel_class_that_needs_more_than_a_type_is_refused(kind):
    with pytest.raises(
        InvalidSchemaError, match=r"Field 'key' of State: .* cannot be made from the field's type alone"
    ):
        read(Annotated[list, kind])


def test_a_reducer_beside_constraints_in_a_pydantic_model():
    class State(BaseModel):
        a: Annotated[list[int], merge, Field(max_length=3)] = Field(default=[], description="numbers")
        b: Annotated[int, Field(gt=0)] = 1

    channels = read_schema(State).channels
    assert channels["a"] == BinaryOperatorAggregate(list, merge)
    assert channels["b"] == LastValue(int)


# --- computed fields ----------------------------------------------------------------------------------------


def test_computed_fields_are_no_keys():
    read_state = read_schema(TypedDict("State", {"left": RemainingSteps, "last": IsLastStep, "x": int}))
    assert read_state.keys == ("x",)
    assert read_state.required == {"x"}
    assert read_state.managed == {"left": RemainingStepsManager, "last": IsLastStepManager}
    assert set(read_state.hints) == {"left", "last", "x"}
    assert read(Annotated[RemainingSteps, "doc"]).managed


@pytest.mark.parametrize("role", ["input", "output"])
def test_a_computed_field_is_refused_in_input_and_output(role):
    with pytest.raises(InvalidSchemaError, match=f"State is an {role} schema and has the computed field 'key'"):
        read(RemainingSteps, role=role)


def test_a_private_schema_may_have_computed_fields():
    assert read(IsLastStep, role="private").managed


def test_a_run_with_limit_six_counts_down_from_five_and_ends_with_its_last_step():
    steps = range(1, 7)
    assert [RemainingStepsManager.value(step, 6) for step in steps] == [5, 4, 3, 2, 1, 0]
    assert [IsLastStepManager.value(step, 6) for step in steps] == [False] * 5 + [True]


def test_a_computed_field_of_ones_own_says_what_it_is():
    class Progress(ManagedValue):
        @staticmethod
        def value(step, stop):
            return step / stop

    assert read(Annotated[float, Progress]).managed["key"].value(1, 4) == 0.25
    with pytest.raises(NotImplementedError):
        ManagedValue.value(1, 4)


def test_a_resumed_run_counts_its_own_budget():
    first, limit = 40, 6
    assert RemainingStepsManager.value(first, first + limit - 1) == 5


def test_any_type_may_be_a_field():
    assert channel(Any).typ is Any
