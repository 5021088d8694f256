"""Structured output of agents: kinds of schemas, ways to it, answers that do not fit, and where the value is."""

from dataclasses import dataclass
from typing import Annotated, NotRequired, TypedDict, Union

import pytest
from pydantic import BaseModel, Field, ValidationError

from durable_graph.agents import create_agent
from durable_graph.agents.middleware import ModelResponse, before_agent, wrap_model_call
from durable_graph.agents.structured_output import (
    AutoStrategy,
    MultipleStructuredOutputsError,
    ProviderStrategy,
    StructuredOutputError,
    StructuredOutputValidationError,
    ToolStrategy,
)
from durable_graph.errors import InvalidConfigError, InvalidInputError
from durable_graph.messages import AIMessage, HumanMessage
from durable_graph.models import ScriptedChatModel
from durable_graph.prebuilt import tool
from tests.behaviour.agent_parts import asks, results, said, scripted
from tests.behaviour.agents import LOOKS, is_whole, look, run, texts
from tests.behaviour.small_graphs import thread


class Weather(BaseModel):
    """The weather."""

    degrees: int


@dataclass
class Place:
    degrees: int


class Typed(TypedDict):
    """The weather, typed."""

    degrees: Annotated[int, Field(description="in Celsius")]
    place: NotRequired[str]


JSON = {
    "title": "Report",
    "description": "A report.",
    "type": "object",
    "properties": {"degrees": {"type": "integer"}},
    "required": ["degrees"],
}

SCHEMAS = {
    "pydantic": (Weather, "Weather", Weather(degrees=7)),
    "dataclass": (Place, "Place", Place(7)),
    "TypedDict": (Typed, "Typed", {"degrees": 7}),
    "JSON": (JSON, "Report", {"degrees": 7}),
    "union": (Weather | Place, "Place", Place(7)),
    "Union": (Union[Place, Typed], "Typed", {"degrees": 7}),  # noqa: UP007 - the old form too
    "oneOf": ({"oneOf": [JSON, {**JSON, "title": "Other"}]}, "Other", {"degrees": 7}),
}
EACH = pytest.mark.parametrize(("schema", "name", "value"), SCHEMAS.values(), ids=SCHEMAS)


def answers(*degrees, name="Weather", key="1"):
    """A model's message that calls the schema, once for each of these."""
    return asks(*((name, f"{key}{number or ''}", {"degrees": one}) for number, one in enumerate(degrees)))


def able(*given):
    """A model that says it can be held to a schema."""
    model = scripted(*given)
    model.profile = {"structured_output": True}
    return model


# --- kinds of schemas, ways to them ----------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("strategy", [ToolStrategy, AutoStrategy, lambda schema: schema], ids=["tool", "auto", "bare"])
def test_as_the_arguments_of_a_tool(face, backend, strategy, schema, name, value):
    model = scripted(LOOKS, answers(7, name=name, key="2"))
    agent = create_agent(model, [look], response_format=strategy(schema), checkpointer=backend.make())
    found = run(face, agent, thread())
    assert found["structured_response"] == value
    assert type(found["structured_response"]) is type(value)
    assert results(found) == [("1", "success", "saw a"), ("2", "success", f"{type(value).__name__} taken.")]
    assert model.calls[0].options == {"tool_choice": "any"}


@EACH
@pytest.mark.parametrize("strategy", [ProviderStrategy, AutoStrategy, lambda s: s], ids=["provider", "auto", "bare"])
def test_as_text_that_the_provider_holds_to_the_schema(face, backend, strategy, schema, name, value):
    model = able(LOOKS, '{"degrees": 7}')
    agent = create_agent(model, [look], response_format=strategy(schema), checkpointer=backend.make())
    found = run(face, agent, thread())
    degrees = found["structured_response"]
    assert (degrees if isinstance(degrees, dict) else vars(degrees)) == {"degrees": 7}
    assert texts(found) == ["go", "", "saw a", '{"degrees": 7}']
    assert [one.name for one in model.calls[0].tools] == ["look"]
    assert model.calls[0].options["response_format"]["type"] == "json_schema"


def test_what_the_model_is_told_of_a_schema():
    def told(schema):
        return ToolStrategy(schema).schemas[0].tool["function"]

    assert (told(Weather)["name"], told(Weather)["description"]) == ("Weather", "The weather.")
    assert told(Weather)["parameters"]["required"] == ["degrees"]
    assert (told(JSON)["name"], told(JSON)["description"]) == ("Report", "A report.")
    assert told(Typed)["description"] == "The weather, typed."
    assert told(Typed)["parameters"]["properties"]["degrees"]["description"] == "in Celsius"
    assert told(Typed)["parameters"]["required"] == ["degrees"]
    assert [one.name for one in ToolStrategy(Weather | Place).schemas] == ["Weather", "Place"]
    strict = ProviderStrategy(Weather, strict=True).response_format["json_schema"]
    assert (strict["name"], strict["strict"]) == ("Weather", True)


@pytest.mark.parametrize("strategy", [ToolStrategy, ProviderStrategy, AutoStrategy, lambda schema: schema])
@pytest.mark.parametrize("schema", [int, "Weather", Weather | None, [Weather]], ids=repr)
def test_what_is_no_schema_is_refused(strategy, schema):
    with pytest.raises(InvalidConfigError, match="no schema of a structured output"):
        create_agent(scripted(), response_format=strategy(schema))


def test_names_that_mean_two_things_are_refused():
    with pytest.raises(InvalidConfigError, match="two schemas of a union have the name 'Report'"):
        create_agent(scripted(), response_format={"oneOf": [JSON, JSON]})
    with pytest.raises(InvalidConfigError, match="response_format and a tool have the name 'Weather'"):
        create_agent(scripted(), [tool("Weather", look)], response_format=Weather)
    with pytest.raises(InvalidConfigError, match="max_retries"):
        ToolStrategy(Weather, max_retries=-1)


def test_the_history_may_say_something_else_of_the_value(face):
    agent = create_agent(scripted(answers(7)), response_format=ToolStrategy(Weather, tool_message_content="noted"))
    assert texts(run(face, agent)) == ["go", "", "noted"]


# --- answers that do not fit -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (answers("warm"), "does not fit Weather"),
        (asks(("Weather", "1", {})), "degrees"),
        (AIMessage("It is warm."), "is text, and was to be a call of Weather"),
        (answers(1, 2), "calls Weather, Weather, and one was asked for"),
    ],
    ids=["type", "missing", "text", "twice"],
)
def test_it_is_explained_to_the_model_every_call_is_answered_and_the_next_answer_counts(face, backend, bad, why):
    model = scripted(bad, answers(7, key="9"))
    agent = create_agent(model, [look], response_format=ToolStrategy(Weather), checkpointer=backend.make())
    found = run(face, agent, thread())
    assert found["structured_response"] == Weather(degrees=7)
    assert why in model.calls[1].messages[-1].content
    assert all(is_whole(call.messages) for call in model.calls)
    assert is_whole(found["messages"])


def test_text_of_a_provider_that_does_not_fit_is_explained_too(face):
    model = able("warm", '{"degrees": "warm"}', '{"degrees": 7}')
    found = run(face, create_agent(model, response_format=Weather))
    assert found["structured_response"] == Weather(degrees=7)
    assert [one.type for one in found["messages"]] == ["human", "ai", "human", "ai", "human", "ai"]
    assert "does not fit Weather" in texts(found)[2]


@pytest.mark.parametrize("strategy", [ToolStrategy, ProviderStrategy, AutoStrategy])
@pytest.mark.parametrize("retries", [0, 1, 2])
def test_tries_are_bounded_then_it_is_raised(face, strategy, retries):
    model = ScriptedChatModel(["warm"], cycle=True)
    with pytest.raises(StructuredOutputValidationError) as raised:
        run(face, create_agent(model, response_format=strategy(Weather, max_retries=retries)))
    assert len(model.calls) == retries + 1
    assert raised.value.tool_name == "Weather"
    assert raised.value.ai_message.content == "warm"
    assert "max_retries" in str(raised.value)


def test_several_calls_in_every_answer_are_raised_as_such(face):
    model = ScriptedChatModel([answers(1, 2)], cycle=True)
    with pytest.raises(MultipleStructuredOutputsError) as raised:
        run(face, create_agent(model, response_format=ToolStrategy(Weather)))
    assert raised.value.tool_names == ("Weather", "Weather")
    assert len(model.calls) == 3


def test_a_wrapper_that_shows_the_model_less_does_not_unbound_the_tries(face):
    less = wrap_model_call(lambda request, handler: handler(request.override(messages=request.messages[-1:])), name="w")
    model = ScriptedChatModel(lambda history: answers("warm", key=f"n{len(model.calls)}"))
    with pytest.raises(StructuredOutputValidationError):
        run(face, create_agent(model, middleware=[less], response_format=ToolStrategy(Weather)))
    assert len(model.calls) == 3


def test_tries_are_counted_anew_for_each_input(face, backend):
    model = scripted("warm", answers(1), "warm", "warm", answers(2, key="9"))
    agent = create_agent(model, response_format=ToolStrategy(Weather), checkpointer=backend.make())
    assert [run(face, agent, thread())["structured_response"].degrees for _ in range(2)] == [1, 2]


HANDLED = {
    "True": (True, "Error: the answer does not fit Weather"),
    "text": ("only numbers", "only numbers"),
    "type": (ValueError, "Error: the answer does not fit Weather"),
    "error": (StructuredOutputValidationError, "Error: the answer does not fit Weather"),
    "cause": (ValidationError, "Error: the answer does not fit Weather"),
    "types": ((KeyError, StructuredOutputError), "Error: the answer does not fit Weather"),
    "function": (lambda error: f"{error.tool_name}, {len(error.ai_message.tool_calls)} call", "Weather, 1 call"),
}


@pytest.mark.parametrize(("handle_errors", "text"), HANDLED.values(), ids=HANDLED)
def test_handle_errors_says_what_the_model_is_told(face, handle_errors, text):
    agent = create_agent(
        scripted(answers("warm"), answers(7, key="9")),
        response_format=ToolStrategy(Weather, handle_errors=handle_errors),
    )
    found = run(face, agent)
    assert [(key, status) for key, status, _ in results(found)] == [("1", "error"), ("9", "success")]
    assert results(found)[0][2].startswith(text)


@pytest.mark.parametrize(
    "handle_errors", [False, KeyError, (KeyError, MultipleStructuredOutputsError)], ids=["False", "type", "types"]
)
def test_what_handle_errors_leaves_out_is_raised_at_once(face, handle_errors):
    model = scripted(answers("warm"), answers(7, key="9"))
    agent = create_agent(model, response_format=ToolStrategy(Weather, handle_errors=handle_errors))
    with pytest.raises(StructuredOutputValidationError, match="does not fit Weather"):
        run(face, agent)
    assert len(model.calls) == 1


# --- beside tools ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, -1], ids=["first", "last"])
def test_with_a_value_tools_beside_it_run_and_then_it_ends(face, backend, order):
    calls = [("look", "1", {"at": "a"}), ("Weather", "2", {"degrees": 7})][::order]
    agent = create_agent(scripted(asks(*calls)), [look], response_format=Weather, checkpointer=backend.make())
    found = run(face, agent, thread())
    assert found["structured_response"] == Weather(degrees=7)
    assert sorted(results(found)) == [("1", "success", "saw a"), ("2", "success", "Weather taken.")]


def test_beside_an_answer_that_does_not_fit_tools_run_all_the_same(face):
    both = asks(("look", "1", {"at": "a"}), ("Weather", "2", {"degrees": "warm"}))
    model = scripted(both, answers(7, key="9"))
    found = run(face, create_agent(model, [look], response_format=ToolStrategy(Weather)))
    assert found["structured_response"] == Weather(degrees=7)
    assert ("1", "success", "saw a") in results(found)
    assert len(model.calls) == 2
    assert is_whole(model.calls[1].messages)


def test_beside_a_value_all_other_calls_are_answered(face):
    message = AIMessage(
        "",
        tool_calls=[*answers(7).tool_calls, *asks(("nope", "2", {})).tool_calls],
        invalid_tool_calls=[{"name": "look", "args": "{", "id": "3"}],
    )
    for tools in ([look], []):
        found = run(face, create_agent(scripted(message), tools, response_format=ToolStrategy(Weather)))
        assert found["structured_response"] == Weather(degrees=7)
        assert is_whole(found["messages"])
        assert {(key, status) for key, status, _ in results(found)} == {
            ("1", "success"),
            ("2", "error"),
            ("3", "error"),
        }


def test_a_schemas_call_that_cannot_be_read_is_no_text(face):
    model = scripted(
        AIMessage("", invalid_tool_calls=[{"name": "Weather", "args": "{", "id": "1"}]), answers(7, key="9")
    )
    found = run(face, create_agent(model, response_format=ToolStrategy(Weather)))
    assert [status for _, status, _ in results(found)] == ["error", "success"]
    assert [one.type for one in found["messages"]].count("human") == 1


# --- where the value is ----------------------------------------------------------------------------------------------


@EACH
def test_it_is_stored_and_comes_back_as_its_type(face, backend, schema, name, value):
    saver = backend.make()
    run(face, create_agent(scripted(answers(7, name=name)), response_format=schema, checkpointer=saver), thread())
    again = create_agent(scripted(), response_format=schema, checkpointer=backend.reopen())
    found = face.get_state(again, thread()).values["structured_response"]
    assert found == value
    assert type(found) is type(value)


def test_it_is_none_after_a_later_turn_without_one(face, backend):
    def busy(request, handler):
        return AIMessage("not now") if len(request.messages) > 1 else handler(request)

    saver = backend.make()
    agent = create_agent(
        scripted(answers(7)), middleware=[wrap_model_call(busy)], response_format=Weather, checkpointer=saver
    )
    assert run(face, agent, thread())["structured_response"] == Weather(degrees=7)
    assert run(face, agent, thread())["structured_response"] is None
    assert run(face, agent, thread("u"))["structured_response"] == Weather(degrees=7)
    assert run(face, agent, thread("v"))["structured_response"] == Weather(degrees=7)
    stop = before_agent(lambda state, runtime: {"jump_to": "end"}, can_jump_to=["end"], name="stop")
    stopped = create_agent(scripted(), middleware=[stop], response_format=Weather, checkpointer=saver)
    assert run(face, stopped, thread("v"))["structured_response"] is None
    plain = create_agent(scripted("", "just text"), checkpointer=saver)
    assert run(face, plain, thread("u"))["structured_response"] is None


def test_a_wrapper_may_ask_for_it_in_one_turn_only(face, backend):
    wanted = [JSON]

    def once(request, handler):
        return handler(request.override(response_format=ToolStrategy(wanted.pop())) if wanted else request)

    model = scripted(answers(7, name="Report"), "done")
    agent = create_agent(model, middleware=[wrap_model_call(once)], checkpointer=backend.make())
    assert run(face, agent, thread())["structured_response"] == {"degrees": 7}
    assert run(face, agent, thread())["structured_response"] is None


ANSWERS = {
    "the model's message": lambda request, handler: handler(request).result[0],
    "a copy of it": lambda request, handler: handler(request).result[0].model_copy(update={"id": "copy"}),
    "a value": lambda request, handler: ModelResponse([AIMessage("kept")], Weather(degrees=7)),
}


@pytest.mark.parametrize(
    "model", [lambda: scripted(answers(7)), lambda: able('{"degrees": 7}')], ids=["tool", "provider"]
)
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_what_a_wrapper_gives_back_counts_as_the_models_answer(face, model, answer):
    found = run(face, create_agent(model(), middleware=[wrap_model_call(answer, name="w")], response_format=Weather))
    assert found["structured_response"] == Weather(degrees=7)
    assert is_whole(found["messages"])


def test_a_text_of_a_wrappers_own_is_not_asked_for_again(face):
    for model in (scripted(), able()):
        stop = wrap_model_call(lambda request, handler: AIMessage("not now"), name="stop")
        found = run(face, create_agent(model, middleware=[stop], response_format=Weather))
        assert (texts(found), found["structured_response"]) == (["go", "not now"], None)


def test_it_is_not_an_input(face):
    agent = create_agent(scripted(answers(7)), response_format=Weather)
    with pytest.raises(InvalidInputError, match="structured_response"):
        face.invoke(agent, {"messages": [HumanMessage("go")], "structured_response": None})
    assert said(run(face, agent))[-1] == ("1", "success", "Weather taken.")
