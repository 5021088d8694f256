"""Agents on the engine: questions, runs cut short, orphans, travel, edits, streams, agents inside of graphs."""

from contextlib import suppress
from typing import Annotated, NotRequired

import pytest

from durable_graph import END, START, Command, StateGraph, interrupt
from durable_graph.agents import AgentState, create_agent
from durable_graph.agents.middleware import before_model
from durable_graph.messages import AIMessage, HumanMessage, MessagesState, ToolMessage
from durable_graph.models import ScriptedChatModel
from durable_graph.prebuilt import InjectedState, ToolRuntime, create_react_agent, tool
from tests.behaviour.agent_parts import asks, results, scripted
from tests.behaviour.agents import LOOKS, is_whole, look, run, texts, told
from tests.behaviour.small_graphs import thread


class Killed(BaseException):
    """Ends the run, as the death of its process would; what is stored stays."""


class Work(list):
    """Three tools that note their calls; the second does what it is told to."""

    def __init__(self, middle=lambda: "b"):
        super().__init__()
        self.middle = middle

    def a(self) -> str:
        """Do a."""
        self.append("a")
        return "did a"

    def b(self) -> str:
        """Do b."""
        self.append("b")
        return f"did {self.middle()}"

    def c(self) -> str:
        """Do c."""
        self.append("c")
        return "did c"

    def agent(self, model, saver, **options):
        return create_agent(model, [self.a, self.b, self.c], checkpointer=saver, **options)


ALL = asks(("a", "1", {}), ("b", "2", {}), ("c", "3", {}))
DONE = [("1", "success", "did a"), ("2", "success", "did b"), ("3", "success", "did c")]


def dying():
    """What `b` does the first time: die."""
    left = [Killed()]

    def middle():
        if left:
            raise left.pop()
        return "b"

    return middle


# --- questions -------------------------------------------------------------------------------------------------------


def test_a_question_in_a_tool_repeats_no_other_call_also_in_another_process(face, backend):
    work = Work(lambda: interrupt("what?"))
    found = run(face, work.agent(scripted(ALL, "done"), backend.make()), thread())
    assert [one.value for one in found["__interrupt__"]] == ["what?"]
    found = face.invoke(work.agent(scripted(ALL, "done"), backend.reopen()), Command(resume="b"), thread())
    assert texts(found) == ["go", "", "did a", "did b", "did c", "done"]
    assert sorted(work) == ["a", "b", "b", "c"]


def test_several_questions_are_answered_one_by_one(face, backend):
    def ask(what: str) -> str:
        """Ask."""
        return interrupt(what)

    agent = create_agent(
        scripted(asks(("ask", "1", {"what": "x"}), ("ask", "2", {"what": "y"})), "done"),
        [ask],
        checkpointer=backend.make(),
    )
    first, second = run(face, agent, thread())["__interrupt__"]
    assert {first.value, second.value} == {"x", "y"}
    for one in (second, first):
        found = face.invoke(agent, Command(resume={one.id: f"answer to {one.value}"}), thread())
    assert texts(found) == ["go", "", "answer to x", "answer to y", "done"]


def test_it_stops_before_its_tools_and_what_is_edited_meanwhile_is_what_they_see(face, backend):
    class Users(AgentState):
        user: NotRequired[str]

    def who(user: Annotated[str, InjectedState("user")]) -> str:
        """Tell who."""
        return f"it is {user}"

    agent = create_agent(
        scripted(asks(("who", "1", {})), "done"),
        [who],
        state_schema=Users,
        checkpointer=backend.make(),
        interrupt_before=["tools"],
    )
    face.invoke(agent, {"messages": "go", "user": "ann"}, thread())
    assert face.get_state(agent, thread()).next == ("tools",)
    face.update_state(agent, thread(), {"user": "bob"})
    assert texts(face.invoke(agent, None, thread())) == ["go", "", "it is bob", "done"]


@pytest.mark.parametrize("keys", ["12", "123"])
def test_calls_that_are_answered_by_an_edit_are_not_made(face, backend, keys):
    work = Work()
    agent = work.agent(scripted(ALL, "done"), backend.make(), interrupt_before=["tools"])
    run(face, agent, thread())
    by_hand = [ToolMessage(f"by hand {key}", tool_call_id=key) for key in keys]
    face.update_state(agent, thread(), {"messages": by_hand})
    found = texts(face.invoke(agent, None, thread()))
    assert found == ["go", "", *(one.content for one in by_hand), *(["did c"] if keys == "12" else []), "done"]
    assert work == (["c"] if keys == "12" else [])


# --- runs cut short, and orphans -------------------------------------------------------------------------------------


def test_a_run_that_was_killed_between_calls_goes_on_and_repeats_none(face, backend):
    work = Work(dying())
    with pytest.raises(Killed):
        run(face, work.agent(scripted(ALL, "done"), backend.make()), thread())
    found = face.invoke(work.agent(scripted(ALL, "done"), backend.reopen()), None, thread())
    assert (results(found), texts(found)[-1]) == (DONE, "done")
    assert sorted(work) == ["a", "b", "b", "c"]


def test_new_input_may_finish_such_a_run_first(face, backend):
    work = Work(dying())
    model = scripted(ALL, "done", "again")
    with pytest.raises(Killed):
        run(face, work.agent(model, backend.make()), thread())
    found = run(face, work.agent(model, backend.reopen()), thread(), on_unfinished="finish")
    assert texts(found) == ["go", "", "did a", "did b", "did c", "done", "go", "again"]
    assert told(model) == texts(found)[:-1]
    assert sorted(work) == ["a", "b", "b", "c"]


@pytest.mark.parametrize("middle", [dying, lambda: lambda: interrupt("what?")], ids=["killed", "asked"])
def test_new_input_may_abandon_such_a_run_and_no_orphan_reaches_the_model_or_stays(face, backend, middle):
    saver, work, model = backend.make(), Work(middle()), scripted(ALL, "done", "more")
    with suppress(Killed):
        run(face, work.agent(model, saver), thread())
    agent = work.agent(model, backend.reopen())
    found = face.invoke(agent, {"messages": "new"}, thread(), on_unfinished="abandon")
    assert [one.type for one in model.calls[-1].messages] == ["human", "ai", "tool", "tool", "tool", "human"]
    assert is_whole(model.calls[-1].messages)
    assert [one.type for one in found["messages"]] == ["human", "ai", "tool", "tool", "tool", "human", "ai"]
    stored = face.get_state(agent, thread()).values["messages"]
    assert is_whole(stored)
    assert stored == found["messages"]
    assert run(face, agent, thread())["messages"][: len(stored)] == stored


@pytest.mark.parametrize("make", [create_agent, create_react_agent])
def test_new_input_that_abandons_a_run_keeps_the_results_of_calls_that_were_done(face, backend, make):
    saver, done = backend.make(), []

    @tool("look")
    def look_once(at: str) -> str:
        """Look there."""
        done.append(at)
        return f"saw {at}"

    @tool
    def ask(what: str) -> str:
        """Ask the user."""
        return interrupt(what)

    model = scripted(asks(("look", "1", {"at": "a"}), ("ask", "2", {"what": "?"})), "fine")
    agent = make(model, [look_once, ask], checkpointer=saver)
    face.invoke(agent, {"messages": "go"}, thread())
    found = face.invoke(agent, {"messages": "new"}, thread(), on_unfinished="abandon")["messages"]
    assert [(one.type, one.text) for one in found[:3]] == [("human", "go"), ("ai", ""), ("tool", "saw a")]
    assert (found[3].tool_call_id, found[3].status) == ("2", "error")
    assert [one.text for one in found[4:]] == ["new", "fine"]
    assert done == ["a"]
    assert face.get_state(agent, thread()).values["messages"] == found


def test_a_history_with_orphans_as_input_is_mended_and_results_in_it_are_kept(face, backend):
    history = [
        ToolMessage("of no call", tool_call_id="x"),
        HumanMessage("go"),
        ALL,
        HumanMessage("wait"),
        ToolMessage("late", tool_call_id="2"),
        AIMessage("", invalid_tool_calls=[{"name": "a", "args": "{", "id": "4", "error": "no JSON"}]),
    ]
    model = ScriptedChatModel(["done"])
    agent = Work().agent(model, backend.make())
    found = face.invoke(agent, {"messages": history}, thread())["messages"]
    assert is_whole(model.calls[0].messages)
    assert is_whole(found)
    assert [one.type for one in found] == ["human", "ai", "tool", "tool", "tool", "human", "ai", "tool", "ai"]
    assert [(key, status) for key, status, _ in results({"messages": found})] == [
        ("1", "error"), ("2", "success"), ("3", "error"), ("4", "error")
    ]  # fmt: skip


def test_a_run_that_failed_in_a_hook_goes_on_at_the_hook(face, backend):
    failures = [OSError("no network")]

    def check(state, runtime):
        if failures and len(state["messages"]) > 1:
            raise failures.pop()

    work = Work()
    agent = work.agent(scripted(ALL, "done"), backend.make(), middleware=[before_model(check)])
    with pytest.raises(OSError, match="no network"):
        run(face, agent, thread())
    assert texts(face.invoke(agent, None, thread()))[-1] == "done"
    assert sorted(work) == ["a", "b", "c"]


# --- travel ----------------------------------------------------------------------------------------------------------


def at(face, agent, *nodes):
    """The newest checkpoint at which these nodes run next."""
    return next(past for past in face.get_state_history(agent, thread()) if past.next == nodes)


def test_from_before_its_tools_it_goes_another_way_and_leaves_the_old_one_alone(face, backend):
    work, model = Work(), ScriptedChatModel(lambda history: ALL if len(history) == 1 else f"{len(history)} messages")
    agent = work.agent(model, backend.make())
    first = run(face, agent, thread())
    past = at(face, agent, "tools", "tools", "tools")
    again = face.invoke(agent, None, past.config)
    assert (results(again), texts(again)[-1]) == (DONE, "5 messages")
    assert sorted(work) == ["a", "a", "b", "b", "c", "c"]
    assert [one.id for one in again["messages"][:2]] == [one.id for one in first["messages"][:2]]
    assert face.get_state(agent, thread()).values == again
    assert is_whole(face.invoke(agent, {"messages": "other"}, past.config)["messages"])


def test_from_before_the_model_only_the_model_is_asked_again(face, backend):
    counted = []

    def answer(history):
        counted.append(1)
        return ALL if len(history) == 1 else f"answer {len(counted)}"

    work = Work()
    agent = work.agent(ScriptedChatModel(answer), backend.make())
    assert texts(run(face, agent, thread()))[-1] == "answer 2"
    assert texts(face.invoke(agent, None, at(face, agent, "model").config))[-1] == "answer 3"
    assert sorted(work) == ["a", "b", "c"]


# --- streams ---------------------------------------------------------------------------------------------------------


def test_streams_show_nodes_tokens_and_what_tools_write(face):
    def say(what: str, runtime: ToolRuntime) -> str:
        """Say."""
        runtime.stream_writer(what)
        return "said"

    agent = create_agent(
        scripted(asks(("say", "1", {"what": "hello"})), "all is done"),
        [say],
        middleware=[before_model(lambda state, runtime: None, name="hook")],
        system_prompt="be brief",
    )
    shown = face.stream(agent, {"messages": "go"}, stream_mode=["updates", "messages", "custom"])
    nodes = [node for mode, part in shown if mode == "updates" for node in part]
    assert nodes == ["hook.before_model", "model", "tools", "hook.before_model", "model"]
    assert [part for mode, part in shown if mode == "custom"] == ["hello"]
    tokens = [(one.content, about["langgraph_node"]) for mode, (one, about) in of(shown, "messages") if one.content]
    assert ("said", "tools") in tokens
    assert "".join(text for text, node in tokens if node == "model") == "all is done"


def of(shown, wanted):
    return [(mode, part) for mode, part in shown if mode == wanted]


# --- inside of other graphs ------------------------------------------------------------------------------------------


def around(agent, saver=None):
    """A graph whose first node is the agent, and that ends with a word of its own."""
    graph = StateGraph(MessagesState).add_node("agent", agent)
    graph.add_node("after", lambda state: {"messages": [AIMessage(f"after {len(state['messages'])}")]})
    return graph.add_edge(START, "agent").add_edge("agent", "after").add_edge("after", END).compile(saver)


def test_an_agent_is_a_node_of_another_graph(face, backend):
    work = Work(lambda: interrupt("what?"))
    graph = around(work.agent(scripted(ALL, "done"), None, name="bob"), backend.make())
    assert [one.value for one in run(face, graph, thread())["__interrupt__"]] == ["what?"]
    found = face.invoke(graph, Command(resume="b"), thread())
    assert texts(found) == ["go", "", "did a", "did b", "did c", "done", "after 6"]
    assert sorted(work) == ["a", "b", "b", "c"]
    assert [one.name for one in found["messages"] if one.type == "ai"] == ["bob", "bob", None]


def test_its_stream_is_shown_by_the_graph_around_it(face):
    graph = around(create_agent(scripted(LOOKS, "done"), [look]))
    shown = face.stream(graph, {"messages": "go"}, stream_mode="updates", subgraphs=True)
    inner = [node for path, part in shown if path for node in part]
    assert inner == ["model", "tools", "model"]
    assert [node for path, part in shown if not path for node in part] == ["agent", "after"]


def test_an_agent_is_called_inside_of_a_node_and_inside_of_a_tool(face, backend):
    inner_model = scripted(LOOKS, "looked")
    inner = create_agent(inner_model, [look], name="inner")

    def research(what: str) -> str:
        """Find out."""
        found = inner.invoke({"messages": what})["messages"][-1].content
        return f"{found}, {interrupt('good?')}"

    outer = create_agent(scripted(asks(("research", "1", {"what": "x"})), "done"), [research])
    graph = around(lambda state: {"messages": outer.invoke(state)["messages"]}, backend.make())
    assert run(face, graph, thread())["__interrupt__"][0].value == "good?"
    found = face.invoke(graph, Command(resume="good"), thread())
    assert texts(found) == ["go", "", "looked, good", "done", "after 4"]
    assert len(inner_model.calls) == 2


def test_a_tool_hands_over_to_a_node_of_the_graph_around_it(face, backend):
    def transfer(to: str) -> Command:
        """Hand over."""
        return Command(
            goto=to, graph=Command.PARENT, update={"messages": [ToolMessage("over to you", tool_call_id="1")]}
        )

    ann = create_agent(scripted(asks(("transfer", "1", {"to": "bob"})), "never"), [transfer], name="ann")
    graph = StateGraph(MessagesState).add_node("ann", ann, destinations=("bob",))
    graph.add_node("bob", create_agent(ScriptedChatModel(["hello"]), name="bob"))
    graph = graph.add_edge(START, "ann").compile(backend.make())
    found = run(face, graph, thread())
    assert texts(found)[-1] == "hello"
    assert found["messages"][-1].name == "bob"
    assert "never" not in texts(found)
