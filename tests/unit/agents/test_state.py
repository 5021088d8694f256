"""The state of an agent: keys of several schemas in one, some of them hidden from callers."""

import operator
from dataclasses import dataclass
from typing import Annotated, NotRequired, Required, TypedDict, get_type_hints

import pytest
from pydantic import BaseModel

from durable_graph.agents import AgentState
from durable_graph.agents.middleware import OmitFromInput, OmitFromOutput, OmitFromSchema, PrivateStateAttr
from durable_graph.agents.state import merged
from durable_graph.errors import InvalidSchemaError


def keys(schema):
    return set(get_type_hints(schema))


def hint(schemas, key):
    return get_type_hints(schemas.state, include_extras=True)[key]


def test_an_agents_own_keys():
    found = merged([], int)
    assert keys(found.state) == {"messages", "jump_to", "structured_response"}
    assert keys(found.input) == {"messages"}
    assert keys(found.output) == {"messages", "structured_response"}
    assert get_type_hints(found.state)["structured_response"] == int | None


class Marked(AgentState):
    both: int
    given: Annotated[int, OmitFromOutput]
    made: NotRequired[Annotated[int, OmitFromInput]]
    own: Annotated[NotRequired[Annotated[int, operator.add]], PrivateStateAttr]
    needed: Required[Annotated[int, OmitFromSchema(input=False, output=False)]]


def test_marks_hide_keys_wherever_they_stand_in_a_hint():
    found = merged([Marked], None)
    assert keys(found.state) >= {"both", "given", "made", "own", "needed"}
    assert keys(found.input) == {"messages", "both", "given", "needed"}
    assert keys(found.output) == {"messages", "structured_response", "both", "made", "needed"}


def test_of_two_schemas_with_one_key_the_later_counts():
    class First(AgentState):
        key: Annotated[list, operator.add]
        other: int

    class Second(TypedDict):
        key: str

    assert hint(merged([First, Second], None), "key") is str
    assert hint(merged([Second, First], None), "key") == Annotated[list, operator.add]
    assert {"messages", "other"} <= keys(merged([First, Second], None).state)


def test_what_a_schema_merely_inherits_takes_nothing_back():
    class Own(AgentState):
        messages: Annotated[list, operator.add]

    class Plain(AgentState):
        key: int

    for schemas in ([Own, Plain], [Plain, Own], [Own, AgentState]):
        assert hint(merged(schemas, int), "messages") == Annotated[list, operator.add]


def test_the_response_has_the_type_that_is_asked_for_or_that_the_schema_says():
    class Generic(AgentState[str]):
        key: int

    assert get_type_hints(merged([Generic], int).state)["structured_response"] == int | None
    assert get_type_hints(merged([AgentState[str]], int).state)["structured_response"] == str | None


@dataclass
class Data:
    messages: list


class Model(BaseModel):
    messages: list


@pytest.mark.parametrize("schema", [Data, Model, dict, "State"], ids=repr)
def test_what_is_no_typeddict_is_refused(schema):
    with pytest.raises(InvalidSchemaError, match="no TypedDict"):
        merged([schema], None)
