"""`ValidationNode`: a model is asked again until its arguments fit."""

import operator
from typing import Annotated

import pytest
from pydantic import BaseModel, field_validator

from durable_graph import END, START, StateGraph
from durable_graph.errors import InvalidGraphError
from durable_graph.messages import AIMessage, HumanMessage
from durable_graph.prebuilt import ValidationNode, tool


class SelectNumber(BaseModel):
    a: int

    @field_validator("a")
    @classmethod
    def only_37(cls, value):
        if value != 37:
            raise ValueError("only 37 is allowed")
        return value


def asks(name, **args):
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": "1"}])


def test_a_model_is_asked_again_until_its_arguments_fit(face, backend):
    given = [{"a": 1}, {"a": "x"}, {"a": 37}]

    def model(state):
        return [asks("SelectNumber", **given[sum(one.type == "ai" for one in state)])]

    def again(state):
        return "model" if state[-1].additional_kwargs.get("is_error") else END

    graph = StateGraph(Annotated[list, operator.add])
    graph.add_node("model", model).add_node("validation", ValidationNode([SelectNumber]))
    graph.add_edge(START, "model").add_edge("model", "validation")
    graph.add_conditional_edges("validation", again, ["model", END])
    found = face.invoke(
        graph.compile(backend.make()), [HumanMessage("a number?")], {"configurable": {"thread_id": "t"}}
    )
    answers = [one for one in found if one.type == "tool"]
    assert [one.status for one in answers] == ["error", "error", "success"]
    assert "only 37 is allowed" in answers[0].content
    assert answers[0].content.endswith("Respond after fixing all validation errors.")
    assert answers[2].content == '{"a":37}'
    assert len(found) == 7


def test_tools_and_functions_serve_as_schemas_and_errors_can_be_worded(face):
    @tool
    def double(n: int) -> int:
        raise AssertionError("never called")

    def halve(n: int) -> int:
        raise AssertionError("never called")

    node = ValidationNode(
        [double, halve], format_error=lambda error, call, schema: f"{call['name']}: {schema.__name__}"
    )
    assert face.call(node, "invoke", [asks("double", n="4")])[0].content == '{"n":4}'
    (wrong,) = face.call(node, "invoke", {"messages": [asks("halve", n="x")]})["messages"]
    assert (wrong.content, wrong.status, wrong.tool_call_id) == ("halve: halve", "error", "1")
    (unknown,) = face.call(node, "invoke", [asks("other")])
    assert "not a valid tool" in unknown.content


@pytest.mark.parametrize("schema", [{"type": "web_search"}, int, 5], ids=["dict", "int", "5"])
def test_what_cannot_check_arguments_is_refused(schema):
    with pytest.raises(InvalidGraphError):
        ValidationNode([schema])
