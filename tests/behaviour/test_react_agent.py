"""`create_react_agent`: turns of model and tools, prompts, hooks, limits, and what is refused."""

import operator
from dataclasses import dataclass
from typing import Annotated

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from durable_graph import Command, interrupt
from durable_graph.agents.structured_output import StructuredOutputError, ToolStrategy
from durable_graph.errors import InvalidConfigError, InvalidSchemaError
from durable_graph.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, add_messages
from durable_graph.models import ScriptedChatModel
from durable_graph.prebuilt import AgentState, AgentStatePydantic, ToolNode, create_react_agent, tool

CFG = {"configurable": {"thread_id": "t"}}
VERSIONS = pytest.mark.parametrize("version", ["v1", "v2"])


@tool
def search_weather(city: str) -> str:
    """The weather of a city."""
    return f"result for {city}"


@tool(return_direct=True)
def final(text: str) -> str:
    """Say this to the user."""
    return text


def asks(*cities, id=None, name="search_weather", argument="city"):
    """A model's message that calls a tool for each city; the calls have the cities' names as ids."""
    calls = [{"name": name, "args": {argument: city}, "id": city} for city in cities]
    return AIMessage("", id=id, tool_calls=calls)


def scripted(*answers):
    return ScriptedChatModel(list(answers))


def shown(found):
    return [(message.type, message.text) for message in found["messages"]]


# --- the loop --------------------------------------------------------------------------------------------------------


@VERSIONS
def test_the_exercise_gives_four_messages(face, backend, version):
    model = ScriptedChatModel([asks("sf"), "It is foggy."], by_history=True)
    agent = create_react_agent(model, [search_weather], checkpointer=backend.make(), version=version)
    found = face.invoke(agent, {"messages": ("user", "what is the weather in sf")}, CFG)["messages"]
    assert [type(message) for message in found] == [HumanMessage, AIMessage, ToolMessage, AIMessage]
    assert found[1].tool_calls == [{"name": "search_weather", "args": {"city": "sf"}, "id": "sf", "type": "tool_call"}]
    assert (found[2].content, found[2].tool_call_id, found[2].name) == ("result for sf", "sf", "search_weather")
    assert found[3].content == "It is foggy."


@pytest.mark.parametrize(("version", "tasks"), [("v1", 1), ("v2", 2)])
def test_a_version_says_how_many_tasks_make_the_calls(face, version, tasks):
    agent = create_react_agent(scripted(asks("sf", "la"), "done"), [search_weather], version=version)
    updates = face.stream(agent, {"messages": "hi"}, stream_mode="updates")
    assert [next(iter(one)) for one in updates] == ["agent", *["tools"] * tasks, "agent"]


@VERSIONS
def test_a_tool_that_asks_repeats_no_other(face, backend, version):
    ran = []

    @tool
    def mail(to: str) -> str:
        """Send a mail."""
        ran.append(to)
        return "sent"

    @tool
    def ask(text: str) -> str:
        """Ask the user."""
        return interrupt(text)

    call = AIMessage(
        "",
        tool_calls=[
            {"name": "mail", "args": {"to": "a"}, "id": "1"},
            {"name": "ask", "args": {"text": "ok?"}, "id": "2"},
        ],
    )
    saver = backend.make()

    def agent():
        model = ScriptedChatModel([call, "done"], by_history=True)
        return create_react_agent(model, [mail, ask], checkpointer=saver, version=version)

    assert face.invoke(agent(), {"messages": "hi"}, CFG)["__interrupt__"][0].value == "ok?"
    found = face.invoke(agent(), Command(resume="yes"), CFG)
    assert shown(found)[2:] == [("tool", "sent"), ("tool", "yes"), ("ai", "done")]
    assert ran == ["a"]


@VERSIONS
def test_a_tool_that_returns_direct_ends_the_run(face, version):
    model = scripted(asks("bye", name="final", argument="text"), "never said")
    found = face.invoke(create_react_agent(model, [final, search_weather], version=version), {"messages": "hi"})
    assert shown(found) == [("human", "hi"), ("ai", ""), ("tool", "bye")]


def test_without_tools_there_is_no_tools_node(face):
    agent = create_react_agent(scripted("hello"), [])
    assert set(agent.get_graph().nodes) == {"__start__", "agent", "__end__"}
    assert shown(face.invoke(agent, {"messages": "hi"})) == [("human", "hi"), ("ai", "hello")]


def test_a_tool_node_brings_options_of_its_own(face):
    @tool
    def broken(city: str) -> str:
        """Fail."""
        raise ValueError(city)

    model = scripted(asks("sf", name="broken"), "done")
    agent = create_react_agent(model, ToolNode([broken], handle_tool_errors="no luck"))
    assert shown(face.invoke(agent, {"messages": "hi"}))[2] == ("tool", "no luck")
    assert [one.name for one in model.bound_tools] == ["broken"]


def test_its_messages_are_signed(face):
    agent = create_react_agent(scripted(asks("sf"), "done"), [search_weather], name="expert")
    found = face.invoke(agent, {"messages": "hi"})["messages"]
    assert [message.name for message in found] == [None, "expert", "search_weather", "expert"]
    assert agent.name == "expert"


# --- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "last"), [(2, "Sorry, need more steps to process this request."), (3, "done")])
def test_a_run_without_steps_for_its_calls_ends_politely(face, limit, last):
    agent = create_react_agent(scripted(asks("sf", id="a1"), "done"), [search_weather])
    found = face.invoke(agent, {"messages": "hi"}, {"recursion_limit": limit})["messages"]
    assert found[-1].text == last
    assert found[1].id == "a1"


def test_a_direct_tool_needs_one_step_only(face):
    model = scripted(asks("bye", name="final", argument="text"))
    found = face.invoke(create_react_agent(model, [final]), {"messages": "hi"}, {"recursion_limit": 2})
    assert shown(found)[-1] == ("tool", "bye")


# --- prompts ---------------------------------------------------------------------------------------------------------


async def later(state):
    return [SystemMessage("be brief"), *state["messages"]]


@pytest.mark.parametrize(
    "prompt",
    [
        "be brief",
        SystemMessage("be brief"),
        lambda state: [SystemMessage("be brief"), *state["messages"]],
        lambda state, config: [("system", "be brief"), *state["messages"]] if config else None,
        later,
    ],
    ids=["str", "message", "function", "with config", "async"],
)
def test_a_prompt_is_sent_and_not_stored(face, prompt):
    model = scripted("hello")
    found = face.invoke(create_react_agent(model, [], prompt=prompt), {"messages": "hi"})
    assert [(one.type, one.text) for one in model.calls[0].messages] == [("system", "be brief"), ("human", "hi")]
    assert shown(found) == [("human", "hi"), ("ai", "hello")]


def test_a_history_with_orphans_is_brought_into_order_before_the_model_sees_it(face, backend):
    model = scripted("hello")
    agent = create_react_agent(model, [search_weather], checkpointer=backend.make())
    given = [
        HumanMessage("hi"),
        asks("sf", "la"),
        ToolMessage("found", tool_call_id="la"),
        HumanMessage("still there?"),
    ]
    face.invoke(agent, {"messages": given}, CFG)
    for history in (model.calls[0].messages, face.get_state(agent, CFG).values["messages"][:-1]):
        assert [one.type for one in history] == ["human", "ai", "tool", "tool", "human"]
        assert [(one.tool_call_id, one.status) for one in history[2:4]] == [("sf", "error"), ("la", "success")]


# --- models ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_function_chooses_the_model(face, asynchronous):
    first, second = scripted(asks("sf")), scripted("done")

    def choose(state, runtime):
        assert runtime.context == {"user": "ada"}
        return (first if len(state["messages"]) == 1 else second).bind_tools([search_weather])

    async def choose_later(state, runtime):
        return choose(state, runtime)

    agent = create_react_agent(choose_later if asynchronous else choose, [search_weather], context_schema=dict)
    assert shown(face.invoke(agent, {"messages": "hi"}, context={"user": "ada"}))[-1] == ("ai", "done")


def test_a_model_that_comes_with_other_tools_is_refused():
    from durable_graph.models import init_chat_model

    model = init_chat_model("tiny", base_url="http://127.0.0.1:1/v1")
    create_react_agent(model.bind_tools([search_weather]), [search_weather])
    with pytest.raises(ValueError, match=r"bound to the tools \['final'\].*has \['search_weather'\]"):
        create_react_agent(model.bind_tools([final]), [search_weather])


def test_what_is_no_model_is_refused():
    with pytest.raises(InvalidConfigError, match="no chat model"):
        create_react_agent(3, [])
    with pytest.raises(ValueError, match="version"):
        create_react_agent(scripted(), [], version="v3")
    with pytest.raises(TypeError, match="nonsense"):
        create_react_agent(scripted(), [], nonsense=1)


def test_an_answer_that_cannot_be_read_is_explained_to_the_model(face):
    broken = AIMessage("", invalid_tool_calls=[{"name": "search_weather", "args": "{", "id": "x", "error": "no JSON"}])
    found = face.invoke(create_react_agent(scripted(broken, "done"), [search_weather]), {"messages": "hi"})["messages"]
    assert [one.type for one in found] == ["human", "ai", "tool", "ai"]
    assert (found[2].status, found[2].tool_call_id) == ("error", "x")
    assert "no JSON" in found[2].text


# --- hooks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [None, AgentStatePydantic])
@VERSIONS
def test_a_pre_model_hook_says_what_the_model_is_sent(face, backend, schema, version):
    model = scripted(asks("sf"), "done")
    hook = lambda state: {"llm_input_messages": [HumanMessage("only this")]}
    agent = create_react_agent(
        model, [search_weather], pre_model_hook=hook, state_schema=schema, version=version, checkpointer=backend.make()
    )
    found = face.invoke(agent, {"messages": "hi"}, CFG)
    assert [[one.text for one in call.messages] for call in model.calls] == [["only this"], ["only this"]]
    assert shown(found) == [("human", "hi"), ("ai", ""), ("tool", "result for sf"), ("ai", "done")]
    assert "llm_input_messages" not in found


def test_a_post_model_hook_sees_each_answer_before_the_tools(face):
    seen = []
    hook = lambda state: seen.append(state["messages"][-1].type)
    agent = create_react_agent(scripted(asks("sf"), "done"), [search_weather], post_model_hook=hook)
    updates = face.stream(agent, {"messages": "hi"}, stream_mode="updates")
    assert [next(iter(one)) for one in updates] == ["agent", "post_model_hook", "tools", "agent", "post_model_hook"]
    assert seen == ["ai", "ai"]


def test_a_post_model_hook_that_answers_the_calls_leads_back_to_the_model(face):
    def refuse(state):
        return {"messages": [ToolMessage("no", tool_call_id=one["id"]) for one in state["messages"][-1].tool_calls]}

    agent = create_react_agent(scripted(asks("sf"), "done"), [search_weather], post_model_hook=refuse)
    assert shown(face.invoke(agent, {"messages": "hi"})) == [
        ("human", "hi"),
        ("ai", ""),
        ("tool", "no"),
        ("ai", "done"),
    ]


# --- state and structured output -------------------------------------------------------------------------------------


class Weather(BaseModel):
    degrees: int


def gives(degrees, id="w"):
    return AIMessage("", tool_calls=[{"name": "Weather", "args": {"degrees": degrees}, "id": id}])


@pytest.mark.parametrize("wanted", [Weather, ("Sum it up.", Weather), ToolStrategy(Weather)])
def test_a_structured_response_comes_after_the_last_answer(face, backend, wanted):
    model = scripted(asks("sf"), "12 degrees", "not yet", gives("many"), gives(12))
    agent = create_react_agent(model, [search_weather], response_format=wanted, checkpointer=backend.make())
    found = face.invoke(agent, {"messages": "hi"}, CFG)
    assert found["structured_response"] == Weather(degrees=12)
    assert shown(found)[-1] == ("ai", "12 degrees")
    assert face.get_state(agent, CFG).values["structured_response"] == Weather(degrees=12)
    assert ("system" in [one.type for one in model.calls[-1].messages]) == isinstance(wanted, tuple)


def test_a_structured_response_that_never_fits_is_an_error(face):
    model = scripted("12 degrees", gives("a"), gives("b"), gives("c"))
    with pytest.raises(StructuredOutputError, match=r"failed 3 times.*does not fit Weather"):
        face.invoke(create_react_agent(model, [], response_format=Weather), {"messages": "hi"})


def test_a_state_of_ones_own(face, backend):
    class State(AgentState):
        seen: Annotated[list, operator.add]

    @tool
    def note(text: str) -> Command:
        """Write it down."""
        return Command(update={"seen": [text]})

    model = scripted(asks("a", "b", name="note", argument="text"), "done")
    agent = create_react_agent(model, [note], state_schema=State, checkpointer=backend.make())
    assert face.invoke(agent, {"messages": "hi", "seen": ["in"]}, CFG)["seen"] == ["in", "a", "b"]


def test_a_state_that_lacks_a_key_is_refused():
    class Bare(TypedDict):
        messages: Annotated[list, add_messages]

    @dataclass
    class Kept:
        messages: Annotated[list, add_messages]
        remaining_steps: int = 0

    with pytest.raises(InvalidSchemaError, match="'Bare' lacks remaining_steps"):
        create_react_agent(scripted(), [], state_schema=Bare)
    with pytest.raises(ValueError, match="'AgentState' lacks structured_response"):
        create_react_agent(scripted(), [], state_schema=AgentState, response_format=Weather)
    with pytest.raises(InvalidSchemaError, match="pre_model_hook"):
        create_react_agent(scripted(), [], state_schema=Kept, pre_model_hook=print)


def test_it_stops_before_its_tools(face, backend):
    agent = create_react_agent(
        scripted(asks("sf"), "done"), [search_weather], checkpointer=backend.make(), interrupt_before=["tools"]
    )
    face.invoke(agent, {"messages": "hi"}, CFG)
    assert face.get_state(agent, CFG).next == ("tools",)
    assert shown(face.invoke(agent, None, CFG))[-1] == ("ai", "done")
