"""`ToolNode`: calls are made once, at the same time; what they give, and what becomes of failures."""

import logging
import operator
import threading
from typing import Annotated, TypedDict, Union

import pytest
from pydantic import BaseModel

from durable_graph import END, START, Command, Send, StateGraph, interrupt, once
from durable_graph.errors import InvalidGraphError, InvalidUpdateError, InvalidValueError
from durable_graph.messages import AIMessage, HumanMessage, ToolMessage
from durable_graph.prebuilt import (
    InjectedState,
    InjectedStore,
    InjectionError,
    ToolInvocationError,
    ToolNode,
    ToolRuntime,
    tool,
    tools_condition,
)
from durable_graph.stores import InMemoryStore
from durable_graph.types import RetryPolicy

CONFIG = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    messages: Annotated[list, operator.add]
    user: str


def asks(*calls):
    """A state in which the model asks for calls: (name, id, args)."""
    made = [{"name": name, "id": key, "args": args, "type": "tool_call"} for name, key, args in calls]
    return {"messages": [HumanMessage("go"), AIMessage("", tool_calls=made)]}


def around(node, saver=None, schema=State, **options):
    return StateGraph(schema).add_node("tools", node).add_edge(START, "tools").compile(saver, **options)


def answers(found):
    return [(one.tool_call_id, one.status, one.content) for one in found["messages"] if one.type == "tool"]


class Log(list):
    def tool(self, name, work=lambda x: f"got {x}"):
        def run(x: int, runtime: ToolRuntime):
            self.append((name, x, runtime.idempotency_key))
            return work(x)

        return tool(name, run)

    def names(self):
        return sorted(name for name, *_ in self)


@pytest.fixture
def log():
    return Log()


# --- once ------------------------------------------------------------------------------------------------------------


def test_another_tools_question_repeats_no_finished_call_and_several_may_ask(face, backend, log):
    def ask(x: int) -> str:
        return f"answer {interrupt('same question')}"

    graph = around(ToolNode([log.tool("mail"), ask]), backend.make())
    found = face.invoke(graph, asks(("mail", "1", {"x": 1}), ("ask", "2", {"x": 2}), ("ask", "3", {"x": 3})), CONFIG)
    first, second = found["__interrupt__"]
    assert first.id != second.id
    still = face.invoke(graph, Command(resume={second.id: "b"}), CONFIG)
    assert [one.id for one in still["__interrupt__"]] == [first.id]
    found = face.invoke(graph, Command(resume={first.id: "a"}), CONFIG)
    assert answers(found) == [("1", "success", "got 1"), ("2", "success", "answer a"), ("3", "success", "answer b")]
    assert log.names() == ["mail"]


def test_steps_inside_a_tool_are_done_once(face, backend, log):
    def ask(x: int) -> str:
        charged = once("charge", lambda: log.append(("charge", x)) or "charged")
        return f"{charged} {interrupt('ship?')}"

    graph = around(ToolNode([ask]), backend.make())
    face.invoke(graph, asks(("ask", "1", {"x": 1}), ("ask", "2", {"x": 2})), CONFIG)
    open_ = face.get_state(graph, CONFIG).interrupts
    found = face.invoke(graph, Command(resume={one.id: "yes" for one in open_}), CONFIG)
    assert [text for _, _, text in answers(found)] == ["charged yes", "charged yes"]
    assert log.names() == ["charge", "charge"]


def test_calls_run_at_the_same_time(face):
    meeting = threading.Barrier(3)

    def meet(x: int) -> str:
        meeting.wait(20)
        return "met"

    found = face.invoke(around(ToolNode([meet])), asks(*(("meet", str(n), {"x": n}) for n in range(3))))
    assert [text for _, _, text in answers(found)] == ["met"] * 3


def test_equal_calls_with_one_id_are_told_apart(face, backend, log):
    graph = around(ToolNode([log.tool("mail")]), backend.make())
    found = face.invoke(graph, asks(("mail", "same", {"x": 1}), ("mail", "same", {"x": 1})), CONFIG)
    assert answers(found) == [("same", "success", "got 1")] * 2
    assert len({key for *_, key in log}) == 2


@pytest.mark.parametrize(("numbers", "recorded"), [([1], [()]), ([1, 2], [("who",), ("who",)])])
def test_a_sent_call_sees_the_state_and_is_recorded_as_its_task_where_it_is_alone(face, backend, numbers, recorded):
    """Beside others it is a step of its own: else a crash at the start of the next one could repeat it."""

    def who(x: int, user: Annotated[str, InjectedState("user")]) -> str:
        return f"{user} {x}"

    graph = StateGraph(State).add_node("tools", ToolNode([who])).add_node("model", lambda state: None)
    graph.add_edge(START, "model")
    graph.add_conditional_edges(
        "model", lambda state: [Send("tools", call) for call in state["messages"][-1].tool_calls], ["tools"]
    )
    graph = graph.compile(backend.make())
    given = {**asks(*(("who", str(n), {"x": n}) for n in numbers)), "user": "ann"}
    found = face.invoke(graph, given, CONFIG)
    assert answers(found) == [(str(n), "success", f"ann {n}") for n in numbers]
    past = face.get_state_history(graph, CONFIG)
    tasks = [task for snapshot in past for task in snapshot.tasks if task.name == "tools"]
    assert [task.calls for task in tasks] == recorded


def test_calls_that_are_answered_already_are_not_made_again(face, log):
    state = asks(("mail", "1", {"x": 1}), ("mail", "2", {"x": 2}))
    state["messages"].append(ToolMessage("by hand", tool_call_id="1"))
    found = face.invoke(around(ToolNode([log.tool("mail")])), state)
    assert answers(found) == [("1", "success", "by hand"), ("2", "success", "got 2")]
    assert len(log) == 1


def test_inside_another_node_and_outside_of_a_run_it_works_too(face, backend, log):
    node = ToolNode([log.tool("mail")])

    def inside(state):
        found = node.invoke(state)
        return {"messages": [*found["messages"], HumanMessage(interrupt("ok?"))]}

    graph = around(inside, backend.make())
    face.invoke(graph, asks(("mail", "1", {"x": 1})), CONFIG)
    assert face.invoke(graph, Command(resume="yes"), CONFIG)["messages"][-1].content == "yes"
    assert len(log) == 1
    assert answers(face.call(node, "invoke", asks(("mail", "1", {"x": 1}), ("mail", "2", {"x": 2})))) == [
        ("1", "success", "got 1"),
        ("2", "success", "got 2"),
    ]


# --- shapes of input and output --------------------------------------------------------------------------------------


def test_every_shape_of_input(face, log):
    node = ToolNode([log.tool("mail")], messages_key="talk")
    messages = asks(("mail", "1", {"x": 1}))["messages"]
    call = messages[-1].tool_calls[0]

    class Model(BaseModel):
        talk: list

    message = ToolMessage("got 1", name="mail", tool_call_id="1")
    for given in ({"talk": messages}, Model(talk=messages), [call], call, {"talk": messages[-1]}):
        assert face.call(node, "invoke", given) == {"talk": [message]}
    assert face.call(node, "invoke", messages) == [message]
    with_context = {"__type": "tool_call_with_context", "tool_call": call, "state": {"talk": messages}}
    assert face.call(node, "invoke", with_context) == {"talk": [message]}


@pytest.mark.parametrize(
    "given", [{"messages": []}, {}, [], [HumanMessage("hi")]], ids=["empty", "none", "[]", "human"]
)
def test_without_a_message_of_a_model_it_says_so(face, given):
    with pytest.raises(InvalidValueError, match="tools cannot be called"):
        face.call(ToolNode([]), "invoke", given)


def test_a_state_that_is_a_list_stays_one(face, log):
    graph = around(ToolNode([log.tool("mail")]), schema=Annotated[list, operator.add])
    found = face.invoke(graph, asks(("mail", "1", {"x": 1}))["messages"])
    assert found[-1] == ToolMessage("got 1", name="mail", tool_call_id="1")


def test_tools_condition_routes_by_the_last_message():
    state = asks(("mail", "1", {}))
    assert tools_condition(state) == tools_condition(state["messages"]) == "tools"
    assert tools_condition({"talk": [AIMessage("hi")]}, "talk") == END
    assert tools_condition([*state["messages"], HumanMessage("x")]) == END
    with pytest.raises(InvalidValueError, match="no messages"):
        tools_condition({})


# --- injection -------------------------------------------------------------------------------------------------------


def test_a_tool_gets_state_store_context_writer_and_its_calls_id(face):
    def spy(x: int, store: Annotated[object, InjectedStore], runtime: ToolRuntime) -> str:
        runtime.stream_writer(x)
        return f"{runtime.state['user']} {runtime.context} {runtime.tool_call_id} {store is runtime.store is not None}"

    graph = around(ToolNode([spy]), store=InMemoryStore())
    given = {**asks(("spy", "1", {"x": 5, "store": "lie"})), "user": "ann"}
    parts = face.stream(graph, given, context={"a": 1}, stream_mode=["custom", "values"])
    assert ("custom", 5) in parts
    assert answers(parts[-1][1]) == [("1", "success", "ann {'a': 1} 1 True")]


def test_what_the_engine_cannot_give_is_raised_and_never_told_to_the_model(face):
    def read(x: int, user: Annotated[str, InjectedState("nobody")]) -> str:
        return user

    with pytest.raises(InjectionError, match="key 'nobody' of the state"):
        face.invoke(around(ToolNode([read])), asks(("read", "1", {"x": 5})))


# --- failures --------------------------------------------------------------------------------------------------------


class Broken(ValueError):
    pass


def fails(x: int) -> str:
    raise Broken(f"no {x}")


def run(face, *tools, calls=(("fails", "1", {"x": 1}),), **options):
    return answers(face.invoke(around(ToolNode(tools or [fails], **options)), asks(*calls)))


def test_by_default_the_model_is_told_and_the_log_has_the_traceback(face, caplog):
    with caplog.at_level(logging.ERROR):
        ((_, status, text),) = run(face)
    assert status == "error"
    assert "no 1" in text
    assert caplog.records[0].exc_info[0] is Broken


def only_broken(error: Union[Broken, KeyError]) -> str:  # noqa: UP007 - the old form too
    return f"function: {error}"


def only_key(error: KeyError) -> str:
    return "never"


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (True, "Error: Broken('no 1')\n Please fix your mistakes."),
        ("sorry", "sorry"),
        (ValueError, "Error: Broken('no 1')\n Please fix your mistakes."),
        ((KeyError, Broken), "Error: Broken('no 1')\n Please fix your mistakes."),
        (only_broken, "function: no 1"),
        (lambda error: "any", "any"),
    ],
    ids=["True", "text", "type", "types", "annotated", "lambda"],
)
def test_policies_that_tell_the_model(face, policy, said):
    assert run(face, handle_tool_errors=policy) == [("1", "error", said)]


@pytest.mark.parametrize(
    "policy", [False, KeyError, (KeyError, OSError), only_key], ids=["False", "1", "2", "function"]
)
def test_policies_that_raise(face, policy):
    with pytest.raises(Broken, match="no 1"):
        run(face, handle_tool_errors=policy)


def test_a_raised_error_repeats_only_its_own_call(face, backend, log):
    broken = [True]

    def work(x):
        if broken and broken.pop():
            raise Broken
        return "mended"

    graph = around(ToolNode([log.tool("good"), log.tool("bad", work)], handle_tool_errors=False), backend.make())
    given = asks(("good", "1", {"x": 1}), ("bad", "2", {"x": 2}))
    with pytest.raises(Broken):
        face.invoke(graph, given, CONFIG)
    assert answers(face.invoke(graph, None, CONFIG)) == [("1", "success", "got 1"), ("2", "success", "mended")]
    assert log.names() == ["bad", "bad", "good"]
    assert len({key for name, _, key in log if name == "bad"}) == 1


def test_what_the_model_was_told_stays_the_same_when_the_node_runs_again(face, backend):
    class Detailed(Exception):
        def __init__(self, code):
            super().__init__(code)
            self.code = code

    def bad(x: int) -> str:
        raise Detailed(x)

    def ask(x: int) -> str:
        return interrupt("?")

    node = ToolNode([bad, ask], handle_tool_errors=lambda error: f"code {error.code}")
    graph = around(node, backend.make())
    face.invoke(graph, asks(("bad", "1", {"x": 7}), ("ask", "2", {"x": 1})), CONFIG)
    assert answers(face.invoke(graph, Command(resume="a"), CONFIG)) == [("1", "error", "code 7"), ("2", "success", "a")]


def looping(node, saver=None):
    """A model that calls the same tool again and again."""

    def model(state):
        count = len(state["messages"])
        return {"messages": asks(("fails", f"c{count}", {"x": count}))["messages"][1:]}

    graph = StateGraph(State).add_node("model", model).add_node("tools", node)
    graph.add_edge(START, "model").add_edge("model", "tools").add_edge("tools", "model")
    return graph.compile(saver)


def test_a_tool_that_fails_again_and_again_is_raised_in_the_end(face, backend):
    graph = looping(ToolNode([fails]), backend.make())
    with pytest.raises(Broken) as caught:
        face.invoke(graph, {"messages": [HumanMessage("go")]}, CONFIG)
    assert "3 times in a row" in caught.value.__notes__[0]
    assert [status for _, status, _ in answers(face.get_state(graph, CONFIG).values)] == ["error"] * 3


def test_the_limit_can_be_another_one(face, backend):
    graph = looping(ToolNode([fails], max_tool_errors=1, handle_tool_errors=True), backend.make())
    with pytest.raises(Broken):
        face.invoke(graph, {"messages": [HumanMessage("go")]}, CONFIG)
    assert len(answers(face.get_state(graph, CONFIG).values)) == 1


def test_unknown_tools_and_bad_arguments_are_explained_to_the_model(face):
    def add(a: int, b: int, secret: Annotated[str, InjectedState("user")] = "hush") -> int:  # noqa: S107 - no password, a word for the test
        return a + b

    unknown, bad = run(face, add, calls=(("sub", "1", {}), ("add", "2", {"a": "x", "secret": "lie"})))
    assert unknown == ("1", "error", "Error: sub is not a valid tool, try one of [add].")
    assert bad[:2] == ("2", "error")
    assert "- a: Input should be a valid integer" in bad[2]
    assert "- b: Field required" in bad[2]
    assert "secret" not in bad[2]
    assert "lie" not in bad[2]
    with pytest.raises(ToolInvocationError, match="tool 'add' are not valid"):
        run(face, add, calls=(("add", "2", {}),), handle_tool_errors=False)


def test_a_call_has_its_own_retries_and_its_own_time(face, log):
    attempts = []

    def shaky(x: int, runtime: ToolRuntime) -> str:
        attempts.append(runtime.idempotency_key)
        if len(attempts) < 3:
            raise ConnectionError
        return "there"

    def slow(x: int) -> str:
        threading.Event().wait(5)
        return "late"

    again = RetryPolicy(initial_interval=0.001, jitter=False, max_attempts=3)
    found = run(
        face,
        tool("shaky", shaky, retry_policy=again),
        tool("slow", slow, timeout=0.05),
        calls=(("shaky", "1", {"x": 1}), ("slow", "2", {"x": 1})),
    )
    assert found[0] == ("1", "success", "there")
    assert found[1][:2] == ("2", "error")
    assert "took longer than 0.05 s" in found[1][2]
    assert len(attempts) == 3
    assert len(set(attempts)) == 1


# --- Commands and messages -------------------------------------------------------------------------------------------


def test_a_hand_off_without_a_message_gets_one(face, backend):
    def transfer(to: str):
        return Command(goto=to, update={"user": to})

    graph = StateGraph(State).add_node("tools", ToolNode([transfer]), destinations=("bob",))
    graph.add_node("bob", lambda state: {"messages": [AIMessage(f"here is {state['user']}")]})
    graph = graph.add_edge(START, "tools").compile(backend.make())
    found = face.invoke(graph, asks(("transfer", "1", {"to": "bob"})), CONFIG)
    assert [one.text for one in found["messages"][2:]] == ["Successfully transferred to bob", "here is bob"]
    assert found["messages"][2].tool_call_id == "1"


def test_commands_messages_and_lists_keep_the_order_of_the_calls(face, backend):
    def plain(x: int) -> str:
        return "plain"

    def command(key: str):
        return Command(update={"user": "set", "messages": [ToolMessage("own", tool_call_id=key)]})

    def message(x: int):
        return ToolMessage("made", tool_call_id="", artifact=[x])

    def several(key: str):
        return [Command(update={"user": "later"}), ToolMessage("one of several", tool_call_id=key)]

    graph = around(ToolNode([plain, command, message, several]), backend.make())
    calls = (("plain", "1", {"x": 1}), ("command", "2", {"key": "2"}), ("message", "3", {"x": 1}))
    found = face.invoke(graph, asks(*calls), CONFIG)
    assert [text for _, _, text in answers(found)] == ["plain", "own", "made"]
    assert [key for key, *_ in answers(found)] == ["1", "2", "3"]
    assert found["messages"][-1].artifact == [1]
    assert found["messages"][-1].name == "message"
    found = face.invoke(graph, asks(("several", "4", {"key": "4"})), {"configurable": {"thread_id": "u"}})
    assert answers(found)[-1] == ("4", "success", "one of several")
    assert found["user"] == "later"


def test_two_answers_to_one_call_are_an_error(face):
    def twice(x: int):
        return [ToolMessage("a", tool_call_id="1"), ToolMessage("b", tool_call_id="1")]

    with pytest.raises(InvalidUpdateError, match="2 answers to call '1'"):
        run(face, twice, calls=(("twice", "1", {"x": 1}),), handle_tool_errors=False)


def test_a_graph_inside_a_tool_can_send_its_parent_on(face, backend):
    inner = StateGraph(State).add_node("leave", lambda s: Command(graph=Command.PARENT, goto="bob"))
    inner = inner.add_edge(START, "leave").compile()

    def research(x: int):
        return inner.invoke({"messages": []})["messages"]

    def plain(x: int) -> str:
        return "plain"

    graph = StateGraph(State).add_node("tools", ToolNode([research, plain]), destinations=("bob",))
    graph.add_node("bob", lambda state: {"user": "bob"}).add_edge(START, "tools")
    found = face.invoke(
        graph.compile(backend.make()), asks(("research", "1", {"x": 1}), ("plain", "2", {"x": 1})), CONFIG
    )
    assert found["user"] == "bob"
    assert [key for key, *_ in answers(found)] == ["1", "2"]


# --- building --------------------------------------------------------------------------------------------------------


def test_two_tools_of_one_name_are_refused_and_dicts_left_alone():
    with pytest.raises(InvalidGraphError, match="two tools named 'fails'"):
        ToolNode([fails, fails])
    node = ToolNode([fails, {"type": "web_search"}], name="hands")
    assert list(node.tools_by_name) == ["fails"]
    assert node.get_name() == "hands"
