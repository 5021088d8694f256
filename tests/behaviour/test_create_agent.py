"""`create_agent` without middleware: turns of model and tools, what is offered to the model, where the run goes."""

from typing import ClassVar

import pytest

from durable_graph import Command
from durable_graph.agents import create_agent
from durable_graph.agents.middleware import after_model
from durable_graph.errors import InvalidConfigError, InvalidGraphError, InvalidSchemaError, InvalidValueError
from durable_graph.messages import (
    REMOVE_ALL_MESSAGES,
    AIMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from durable_graph.models import ScriptedChatModel
from durable_graph.prebuilt import ToolNode, tool
from tests.behaviour.agent_parts import asks, results, said, scripted
from tests.behaviour.agents import LOOKS, AsyncModel, SyncModel, edges, is_whole, look, run, texts, told
from tests.behaviour.small_graphs import dump, thread


@tool(return_direct=True)
def final(text: str) -> str:
    """Say this to the user."""
    return text


# --- turns -----------------------------------------------------------------------------------------------------------


def test_model_and_tools_take_turns_until_nothing_is_asked_for(face, backend):
    agent = create_agent(scripted(LOOKS, asks(("look", "2", {"at": "b"})), "done"), [look], checkpointer=backend.make())
    found = run(face, agent, thread())
    assert [type(one) for one in found["messages"][:3]] == [HumanMessage, AIMessage, ToolMessage]
    assert said(found) == ["go", "", ("1", "success", "saw a"), "", ("2", "success", "saw b"), "done"]
    assert face.get_state(agent, thread()).next == ()
    assert list(found) == ["messages"]


@pytest.mark.parametrize(
    "messages", ["go", ("user", "go"), [{"role": "user", "content": "go"}], HumanMessage("go")], ids=repr
)
def test_input_has_any_form_of_messages(face, messages):
    assert texts(face.invoke(create_agent(scripted("done")), {"messages": messages})) == ["go", "done"]


async def later(at: str) -> str:
    """Look at something, later."""
    return f"saw {at}"


@pytest.mark.parametrize("given", [look, tool(look), tool("look", later)], ids=["function", "tool", "async"])
def test_tools_are_functions_and_tools(face, given):
    model = scripted(LOOKS, "done")
    assert texts(run(face, create_agent(model, [given]))) == ["go", "", "saw a", "done"]
    assert [one.name for one in model.calls[0].tools] == ["look"]


def test_dicts_are_offered_as_they_are_and_run_by_the_provider(face):
    search = {"type": "web_search"}
    model = scripted("found it")
    agent = create_agent(model, [search])
    assert texts(run(face, agent)) == ["go", "found it"]
    assert model.calls[0].tools == [search]
    assert "tools" not in agent.get_graph().nodes
    model = scripted(LOOKS, "done")
    assert texts(run(face, create_agent(model, [search, look]))) == ["go", "", "saw a", "done"]
    assert [getattr(one, "name", one) for one in model.calls[0].tools] == ["look", search]


def test_a_tool_node_keeps_its_options(face):
    def breaks(at: str) -> str:
        raise OSError(at)

    model = scripted(asks(("breaks", "1", {"at": "a"})), "done")
    agent = create_agent(model, ToolNode([breaks, {"type": "web_search"}], name="hands", handle_tool_errors="sorry"))
    assert texts(run(face, agent)) == ["go", "", "sorry", "done"]
    assert [getattr(one, "name", one) for one in model.calls[0].tools] == ["breaks", {"type": "web_search"}]
    assert "tools" in agent.get_graph().nodes


def test_its_name_stands_on_the_graph_and_on_what_the_model_says(face):
    agent = create_agent(scripted(LOOKS, AIMessage("done", name="me")), [look], name="bob")
    assert [one.name for one in run(face, agent)["messages"]] == [None, "bob", "look", "bob"]
    assert agent.get_name() == "bob"
    unnamed = create_agent(scripted(AIMessage("done", name="me")))
    assert run(face, unnamed)["messages"][-1].name == "me"


@pytest.mark.parametrize(
    "prompt", ["be brief", SystemMessage([{"type": "text", "text": "be brief"}])], ids=["str", "message"]
)
def test_the_system_prompt_goes_before_each_call_and_is_never_stored(face, backend, prompt):
    saver, model = backend.make(), scripted(LOOKS, "done", "again")
    agent = create_agent(model, [look], system_prompt=prompt, checkpointer=saver)
    for _ in range(2):
        assert "system" not in [one.type for one in run(face, agent, thread())["messages"]]
    assert len(model.calls) == 3
    for call in model.calls:
        assert [one.type for one in call.messages].count("system") == 1
        assert (call.messages[0].type, call.messages[0].text) == ("system", "be brief")
    assert "brief" not in repr(dump(saver))


def test_calls_with_one_id_are_told_apart(face):
    agent = create_agent(scripted(asks(("look", "1", {"at": "a"}), ("look", "1", {"at": "b"})), "done"), [look])
    assert results(run(face, agent)) == [("1", "success", "saw a"), ("1-2", "success", "saw b")]


def test_calls_that_cannot_be_read_are_answered_and_the_model_is_asked_again(face):
    unread = [{"name": "look", "args": "{", "id": "2", "error": "no JSON"}]
    for tools in ([look], []):
        model = scripted(AIMessage("hm", invalid_tool_calls=unread), "done")
        found = run(face, create_agent(model, tools))
        assert said(found)[2:] == [("2", "error", "Error: this call cannot be read: no JSON. Call look again."), "done"]
    model = scripted(AIMessage("", tool_calls=LOOKS.tool_calls, invalid_tool_calls=unread), "done")
    run(face, create_agent(model, [look]))
    assert is_whole(model.calls[-1].messages)
    assert ("1", "success", "saw a") in results({"messages": model.calls[-1].messages})


def test_a_call_of_a_tool_that_is_not_there_is_answered_by_an_agent_with_tools_and_without(face):
    for tools, names in (([look], "look"), ([], "")):
        found = run(face, create_agent(scripted(asks(("nope", "1", {})), "done"), tools))
        assert said(found)[2:] == [("1", "error", f"Error: nope is not a valid tool, try one of [{names}]."), "done"]


def test_a_tool_that_fails_again_and_again_ends_the_run(face, caplog):
    def breaks(at: str) -> str:
        raise OSError(at)

    model = ScriptedChatModel(lambda history: asks(("breaks", str(len(history)), {"at": "a"})))
    with pytest.raises(OSError, match="a"):
        run(face, create_agent(model, [breaks]))
    assert len(model.calls) == 4
    assert [one.status for one in model.calls[-1].messages if one.type == "tool"] == ["error"] * 3


# --- models ----------------------------------------------------------------------------------------------------------


def test_models_of_any_shape(face):
    assert texts(run(face, create_agent(SyncModel(), [look]))) == ["go", "tools: ['look']"]
    assert texts(run(face, create_agent(SyncModel()))) == ["go", "tools: []"]
    assert texts(run(face, create_agent(AsyncModel()))) == ["go", "waited for"]


def test_a_model_may_come_with_its_tools(face):
    class Bound(SyncModel):
        kwargs: ClassVar = {"tools": [tool(look)]}

        def bind_tools(self, tools, **options):
            raise AssertionError("it is bound")

    assert texts(run(face, create_agent(Bound(), [look]))) == ["go", "tools: []"]
    with pytest.raises(InvalidConfigError, match=r"bound to the tools \['look'\], and the agent has \['final'\]"):
        create_agent(Bound(), [final])


def test_what_is_no_chat_model_is_refused(face):
    for model in (3, None, lambda history: "done"):
        with pytest.raises(InvalidConfigError, match="no chat model"):
            create_agent(model)
    with pytest.raises(InvalidConfigError, match=r"has no bind_tools\(\)"):
        run(face, create_agent(AsyncModel(), [look]))
    with pytest.raises(InvalidValueError, match="answered with 'text', which is no AI message"):
        run(face, create_agent(SyncModel(lambda model, history: "text")))


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"system_prompt": lambda state: "x"}, InvalidConfigError, "dynamic_prompt"),
        ({"system_prompt": HumanMessage("x")}, InvalidConfigError, "system_prompt is a HumanMessage"),
        ({"tools": [3]}, InvalidGraphError, "3"),
        ({"tools": [look, look]}, InvalidGraphError, "two tools named 'look'"),
        ({"middleware": [look]}, InvalidConfigError, "no AgentMiddleware"),
        ({"state_schema": dict}, InvalidSchemaError, "no TypedDict"),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else None,
)
def test_wrong_arguments_are_refused_when_it_is_made(options, error, said):
    with pytest.raises(error) as raised:
        create_agent(scripted(), **options)
    assert said in str(raised.value)


# --- after the model: first match wins -------------------------------------------------------------------------------


def behind(answer, **options):
    """Middleware whose hook behind the model writes this, the first time."""
    written = [answer]
    return after_model(lambda state, runtime: written.pop() if written else None, name="behind", **options)


def test_1_a_jump_comes_before_pending_calls(face):
    agent = create_agent(scripted(LOOKS), [look], middleware=[behind({"jump_to": "end"}, can_jump_to=["end"])])
    assert texts(run(face, agent)) == ["go", ""]


def test_2_without_an_assistant_message_it_ends(face):
    gone = behind({"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("only this")]})
    assert texts(run(face, create_agent(scripted(LOOKS), [look], middleware=[gone]))) == ["only this"]


def test_3_each_pending_call_is_a_task_of_its_own(face, backend):
    calls = asks(*(("look", key, {"at": key}) for key in "abc"))
    by_hand = behind({"messages": [ToolMessage("by hand", tool_call_id="b")]})
    agent = create_agent(
        scripted(calls, "done"), [look], middleware=[by_hand], checkpointer=backend.make(), interrupt_before=["tools"]
    )
    run(face, agent, thread())
    tasks = face.get_state(agent, thread()).tasks
    assert [(task.name, task.path[0]) for task in tasks] == [("tools", "push")] * 2
    found = face.invoke(agent, None, thread())
    assert sorted(results(found)) == [("a", "success", "saw a"), ("b", "success", "by hand"), ("c", "success", "saw c")]


def test_4_with_all_calls_answered_the_model_is_asked_again(face):
    by_hand = behind({"messages": [ToolMessage("by hand", tool_call_id="1")]})
    agent = create_agent(scripted(LOOKS, "done"), [look], middleware=[by_hand])
    assert texts(run(face, agent)) == ["go", "", "by hand", "done"]


def test_a_send_never_carries_the_state(face, backend):
    saver, stored = backend.make(), []
    for wanted in (1, 20):
        calls = asks(*(("look", str(n), {"at": "a"}) for n in range(wanted)))
        agent = create_agent(scripted(calls, "done"), [look], checkpointer=saver, interrupt_before=["tools"])
        face.invoke(agent, {"messages": "a long story"}, thread(str(wanted)))
        assert len(face.get_state(agent, thread(str(wanted))).tasks) == wanted
        stored.append(repr(dump(saver, str(wanted))).count("a long story"))
    assert stored[0] == stored[1]


# --- after the tools -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("calls", "goes_on"),
    [
        ([("final", "1", {"text": "x"})], False),
        ([("final", "1", {"text": "x"}), ("final", "2", {"text": "y"})], False),
        ([("final", "1", {"text": "x"}), ("look", "2", {"at": "a"})], True),
        ([("look", "1", {"at": "a"}), ("final", "2", {"text": "x"})], True),
        ([("final", "1", {"text": "x"}), ("nope", "2", {})], True),
    ],
    ids=["one", "two", "direct first", "direct last", "unknown"],
)
def test_it_ends_when_all_tools_that_ran_return_directly(face, backend, calls, goes_on):
    agent = create_agent(scripted(asks(*calls), "done"), [look, final], checkpointer=backend.make())
    found = run(face, agent, thread())
    assert len(results(found)) == len(calls)
    assert (found["messages"][-1].content == "done") is goes_on


def test_a_call_that_was_answered_by_hand_does_not_count_among_those_that_ran(face):
    by_hand = behind({"messages": [ToolMessage("by hand", tool_call_id="2")]})
    calls = asks(("final", "1", {"text": "x"}), ("look", "2", {"at": "a"}))
    agent = create_agent(scripted(calls, "done"), [look, final], middleware=[by_hand])
    assert texts(run(face, agent))[-1] == "x"


def test_what_a_tool_writes_to_jump_to_sends_nobody_anywhere(face):
    def stop():
        """Stop."""
        return Command(update={"jump_to": "end"})

    model = scripted(asks(("stop", "1", {})), asks(("look", "2", {"at": "a"})), "done")
    assert results(run(face, create_agent(model, [stop, look])))[-1] == ("2", "success", "saw a")


# --- as a graph ------------------------------------------------------------------------------------------------------


def test_edges_are_those_it_can_take():
    turns = {("__start__", "model"), ("model", "tools"), ("tools", "model"), ("model", "__end__")}
    assert edges(create_agent(scripted(), [look])) - turns == {("model", "model")}
    assert edges(create_agent(scripted(), [look, final])) - turns == {("model", "model"), ("tools", "__end__")}
    assert {name for edge in edges(create_agent(scripted())) for name in edge} == {"__start__", "model", "__end__"}


def test_options_of_compile_reach_the_graph(face, backend):
    agent = create_agent(scripted(LOOKS, "done"), [look], checkpointer=backend.make(), interrupt_after=["tools"])
    assert texts(run(face, agent, thread())) == ["go", "", "saw a"]
    assert face.get_state(agent, thread()).next == ("model",)
    assert texts(face.invoke(agent, None, thread())) == ["go", "", "saw a", "done"]


def test_a_model_that_fails_is_asked_again_by_the_next_run(face, backend):
    model = ScriptedChatModel([LOOKS, OSError("no network"), "done"])
    agent = create_agent(model, [look], checkpointer=backend.make())
    with pytest.raises(OSError, match="no network"):
        run(face, agent, thread())
    assert texts(face.invoke(agent, None, thread())) == ["go", "", "saw a", "done"]
    assert told(model) == ["go", "", "saw a"]
