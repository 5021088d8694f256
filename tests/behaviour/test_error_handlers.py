"""Error handlers: what runs, in the same step and with the same input, in the place of a node that failed for good."""

import asyncio
import threading
import warnings
from typing import Literal, TypedDict

import pytest

from durable_graph import (
    END,
    START,
    Command,
    Send,
    StateGraph,
    get_runtime,
    get_stream_writer,
    interrupt,
)
from durable_graph.errors import (
    InvalidGraphError,
    InvalidUpdateError,
    NodeError,
    UnserializableValueError,
)
from tests.behaviour.handled import CFG, QUICK, Once, beside, fails, guarded, told
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, Marks, asked

# --- what it is told and what it says --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [0, 1], ids=["sync", "async"])
def test_it_gets_the_input_of_the_node_and_the_error(face, kind):
    seen = []

    def handler(state, error: NodeError):
        seen.append((dict(state), error.node, error.error))

    async def asynchronous(state, error: NodeError):
        await asyncio.sleep(0)
        handler(state, error)

    raised = ValueError("boom")

    def node(state):
        raise raised

    graph = guarded(node, (handler, asynchronous)[kind]).compile()
    assert face.invoke(graph, {"log": ["in"]}) == {"log": ["in"]}
    assert seen == [({"log": ["in"]}, "a", raised)]


def test_its_update_takes_the_place_of_the_nodes_and_the_nodes_edges_are_not_followed(face):
    assert face.invoke(guarded().compile(), {}) == {"log": ["a ValueError boom"]}


def test_a_node_that_does_not_fail_is_not_handled(face):
    assert face.invoke(guarded(says("a")).compile(), {})["log"] == ["a", "next"]


def test_it_says_where_to_go_with_a_command(face):
    def handler(state, error: NodeError) -> Command[Literal["plan b"]]:
        return Command(update={"log": ["handled"]}, goto="plan b")

    assert face.invoke(guarded(handler=handler).compile(), {})["log"] == ["handled", "plan b"]


def test_it_may_lead_to_where_the_node_leads_and_to_the_node_itself(face):
    node = Once("a", ValueError("boom"))
    handler = lambda state, error: Command(update={"log": ["again"]}, goto="a")
    assert face.invoke(guarded(node, handler).compile(), {})["log"] == ["again", "a", "next"]


def test_routers_of_the_failed_node_are_not_asked(face):
    marks = Marks()
    builder = guarded().add_conditional_edges("a", lambda state: (marks("asked"), END)[1], [END])
    face.invoke(builder.compile(), {})
    assert marks.seen == []


def test_a_router_that_fails_is_the_failure_of_its_node(face):
    def router(state):
        text = "lost"
        raise LookupError(text)

    builder = guarded(says("a")).add_conditional_edges("a", router, ["next"])
    assert face.invoke(builder.compile(), {})["log"] == ["a LookupError lost"]


@pytest.mark.parametrize(
    ("update", "kind"),
    [({"nope": 1}, InvalidUpdateError), ({"log": [object()]}, UnserializableValueError), (7, InvalidUpdateError)],
    ids=["unknown key", "not storable", "no update"],
)
def test_a_result_that_is_refused_is_the_failure_of_its_node(face, backend, update, kind):
    seen = []
    handler = lambda state, error: seen.append(type(error.error))
    face.invoke(guarded(lambda state: update, handler).compile(backend.make()), {}, CFG)
    assert seen == [kind]


def test_it_gets_runtime_config_store_and_writer_by_name(face):
    def handler(state, error, runtime, config, store, writer):
        writer("said")
        info = runtime.execution_info
        return {"log": [runtime.context, config["metadata"]["langgraph_node"], store, info.node_attempt]}

    graph = guarded(handler=handler).compile(store="store")
    parts = face.stream(graph, {}, context="ctx", stream_mode=["custom", "values"])
    assert parts[-1] == ("values", {"log": ["ctx", "__error_handler__a", "store", 1]})
    assert ("custom", "said") in parts


def test_it_need_take_nothing(face):
    assert face.invoke(guarded(handler=lambda: {"log": ["handled"]}).compile(), {})["log"] == ["handled"]


def test_it_may_be_a_graph(face, backend):
    class Wider(Log, total=False):
        more: int

    inner = StateGraph(Log).add_node("x", says("inner")).add_edge(START, "x").compile()
    builder = StateGraph(Wider).add_node("a", fails, error_handler=inner).add_edge(START, "a")
    assert face.invoke(builder.compile(backend.make()), {"log": ["in"], "more": 1}, CFG)["more"] == 1


def test_a_handler_of_a_node_with_a_private_schema_reads_what_the_node_reads(face):
    class Part(TypedDict):
        answer: int

    seen = []
    builder = StateGraph(Log).add_edge(START, "a")
    builder.add_node("a", fails, input_schema=Part, error_handler=lambda state, error: seen.append(dict(state)))
    face.invoke(builder.compile(), {"log": ["x"], "answer": 1})
    assert seen == [{"answer": 1}]


# --- retries ---------------------------------------------------------------------------------------------------------


def test_it_runs_once_after_all_retries(face):
    marks = Marks()

    def node(state):
        marks(f"attempt {get_runtime().execution_info.node_attempt}")
        fails(state)

    def handler(state, error):
        marks("handler")

    face.invoke(guarded(node, handler, retry_policy=QUICK).compile(), {})
    assert marks.seen == ["attempt 1", "attempt 2", "attempt 3", "handler"]


def test_a_node_whose_time_is_over_is_handled(face):
    out = threading.Event()

    def node(state):
        out.wait(20)

    try:
        result = face.invoke(guarded(node, timeout=0.05).compile(), {})
    finally:
        out.set()
    assert result["log"][0].startswith("a NodeTimeoutError")


def test_retries_of_the_defaults_hold_for_handlers(face):
    handler = Once("handled", ValueError("handler"))
    builder = guarded(handler=handler).set_node_defaults(retry_policy=QUICK)
    assert face.invoke(builder.compile(), {})["log"] == ["handled"]
    assert handler.runs == 2


# --- siblings and order ----------------------------------------------------------------------------------------------


def test_it_stands_in_the_place_of_its_node_in_whatever_order_the_nodes_fail(face):
    first = threading.Event()

    def a(state):
        assert first.wait(20)
        fails(state)

    def b(state):
        try:
            fails(state)
        finally:
            first.set()

    builder = beside(beside(guarded(a), "0", says("0")), "b", b, error_handler=told)
    builder.add_node("c", says("c")).add_edge(START, "c")
    assert face.invoke(builder.compile(), {})["log"] == ["0", "a ValueError boom", "b ValueError boom", "c"]


def test_each_send_has_its_own(face, backend):
    def work(arg):
        if arg % 2:
            raise ValueError(arg)
        return {"log": [arg]}

    def handler(arg, error):
        return {"log": [f"{arg} {error.error}"]}

    builder = StateGraph(Log).add_node("work", work, error_handler=handler)
    builder.add_conditional_edges(START, lambda state: [Send("work", n) for n in range(4)], ["work"])
    graph = builder.compile(backend.make())
    assert face.invoke(graph, {}, CFG)["log"] == [0, "1 1", 2, "3 3"]


@pytest.mark.parametrize("first", ["a", "b"])
def test_it_runs_once_though_a_sibling_fails_and_the_step_is_resumed(face, backend, first):
    """Whichever of the two fails first."""
    marks, failed = Marks(), threading.Event()

    def a(state):
        marks("a")
        assert first == "a" or failed.wait(20)
        fails(state)

    def handler(state, error):
        marks("handler")
        failed.set()
        return {"log": ["handled"]}

    def b(state):
        marks("b")
        if marks.count("b") > 1:
            return {"log": ["b"]}
        assert first == "b" or failed.wait(20)
        try:
            raise KeyError("b")
        finally:
            failed.set()

    graph = beside(guarded(a, handler), "b", b).compile(backend.make())
    with pytest.raises(KeyError):
        face.invoke(graph, {}, CFG)
    again = beside(guarded(a, handler), "b", b).compile(backend.reopen())
    assert face.invoke(again, None, CFG)["log"] == ["handled", "b"]
    assert [marks.count(name) for name in ("a", "handler", "b")] == [1, 1, 2]


def test_a_failure_that_has_attempts_left_when_a_sibling_fails_is_tried_again_and_not_handled(face, backend):
    """The sibling failed first, so nothing more is started; the resume begins with the first attempt."""
    failed = threading.Event()
    node = Once("a", ValueError("once"))

    def a(state):
        assert failed.wait(20)
        return node(state)

    def b(state):
        if failed.is_set():
            return {"log": ["b"]}
        try:
            raise KeyError("b")
        finally:
            threading.Timer(0.05, failed.set).start()  # when the run knows

    graph = beside(guarded(a, retry_policy=QUICK), "b", b).compile(backend.make())
    with pytest.raises((KeyError, BaseExceptionGroup)):
        face.invoke(graph, {}, CFG)
    assert face.invoke(graph, None, CFG)["log"] == ["a", "b", "next"]


def test_it_runs_while_a_sibling_waits_for_a_human(face, backend):
    marks = Marks()

    def handler(state, error):
        marks("handler")
        return Command(update={"log": ["handled"]}, goto="plan b")

    def asks(state):
        return {"log": [interrupt("?")]}

    graph = beside(guarded(handler=handler), "asks", asks).compile(backend.make())
    assert list(asked(face.invoke(graph, {}, CFG)["__interrupt__"])) == ["?"]
    shown = face.get_state(graph, CFG)
    assert shown.next == ("asks",)
    assert shown.values["log"] == ["handled"]
    again = beside(guarded(handler=handler), "asks", asks).compile(backend.reopen())
    assert face.invoke(again, Command(resume="yes"), CFG)["log"] == ["handled", "yes", "plan b"]
    assert marks.seen == ["handler"]


def test_two_nodes_that_fail_and_one_that_is_handled(face, backend):
    """What is raised is what nobody handled."""

    def other(state):
        text = "other"
        raise KeyError(text)

    graph = beside(guarded(), "b", other).compile(backend.make())
    with pytest.raises(KeyError, match="other"):
        face.invoke(graph, {}, CFG)


# --- handlers that fail or ask ---------------------------------------------------------------------------------------


def test_a_handler_that_fails_fails_the_run_and_both_errors_are_told(face, backend):
    def handler(state, error):
        text = "handler broke"
        raise KeyError(text)

    graph = guarded(handler=handler).compile(backend.make())
    with pytest.raises(KeyError, match="handler broke") as caught:
        face.invoke(graph, {}, CFG)
    notes = "\n".join(caught.value.__notes__)
    assert "ValueError('boom')" in notes
    assert "'a'" in notes
    tasks = {task.name: task.error for task in face.get_state(graph, CFG).tasks}
    assert "boom" in tasks["a"]
    assert "handler broke" in tasks["__error_handler__a"]


def test_after_a_handler_failed_the_resume_runs_the_handler_only(face, backend):
    marks = Marks()
    handler = Once("handled")

    def node(state):
        marks("a")
        fails(state)

    graph = guarded(node, handler).compile(backend.make())
    with pytest.raises(KeyError):
        face.invoke(graph, {}, CFG)
    assert face.get_state(graph, CFG).next == ("a",)
    again = guarded(node, handler).compile(backend.reopen())
    assert face.invoke(again, None, CFG)["log"] == ["handled"]
    assert marks.count("a") == 1


def test_a_handler_that_asks_is_answered_and_the_node_does_not_run_again(face, backend):
    marks = Marks()

    def node(state):
        marks("a")
        fails(state)

    def handler(state, error: NodeError):
        return Command(update={"log": [interrupt(f"{error.node} failed")]}, goto="next")

    graph = guarded(node, handler).compile(backend.make())
    result = face.invoke(graph, {}, CFG)
    questions = asked(result["__interrupt__"])
    assert list(questions) == ["a failed"]
    assert asked(face.get_state(graph, CFG)) == questions
    again = guarded(node, handler).compile(backend.reopen())
    assert face.invoke(again, Command(resume=questions and {questions["a failed"]: "go on"}), CFG)["log"] == [
        "go on",
        "next",
    ]
    assert marks.count("a") == 1


def test_what_a_handler_wrote_is_refused_like_any_update(face, backend):
    graph = guarded(handler=lambda state, error: {"nope": 1}).compile(backend.make())
    with pytest.raises(InvalidUpdateError, match=r"'__error_handler__a'.*'nope'"):
        face.invoke(graph, {}, CFG)


# --- defaults --------------------------------------------------------------------------------------------------------


def test_a_default_handler_serves_every_node_that_has_none(face):
    builder = beside(guarded(handler=lambda state, error: {"log": ["own"]}), "b", fails)
    builder.set_node_defaults(error_handler=told)
    for _ in range(2):  # compiling changes nothing
        assert face.invoke(builder.compile(), {})["log"] == ["own", "b ValueError boom"]


def test_a_default_handler_is_not_inherited_by_graphs_inside(face):
    marks = Marks()

    def handler(state, error):
        marks(error.node)

    inner = StateGraph(Log).add_node("in", fails).add_edge(START, "in").compile()
    builder = StateGraph(Log).add_node("outer", inner).add_edge(START, "outer").set_node_defaults(error_handler=handler)
    face.invoke(builder.compile(), {})
    assert marks.seen == ["outer"]


# --- building --------------------------------------------------------------------------------------------------------


def test_names_of_handlers_are_reserved():
    with pytest.raises(InvalidGraphError, match="reserved"):
        _ = StateGraph(Log).add_node("__error_handler__a", says("a"))


def test_a_handler_cannot_be_led_to_or_named_by_a_breakpoint():
    with pytest.raises(InvalidGraphError, match="__error_handler__a"):
        _ = guarded().add_edge("next", "__error_handler__a").compile()
    with pytest.raises(InvalidGraphError, match="__error_handler__a"):
        _ = guarded().compile(interrupt_before=["__error_handler__a"])


def test_what_cannot_be_called_is_refused_when_it_is_added():
    with pytest.raises(InvalidGraphError, match="cannot be called"):
        _ = StateGraph(Log).add_node("a", says("a"), error_handler=7)


def typed_node(state) -> dict:
    return {"log": ["a"]}


def test_a_node_that_only_a_handler_leads_to_is_not_warned_of():
    def handler(state, error) -> Command[Literal["plan b"]]:
        return Command(goto="plan b")

    for declared in (handler, lambda state, error: Command(goto="plan b")):
        builder = StateGraph(Log).add_node("a", typed_node, error_handler=declared).add_node("plan b", typed_node)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _ = builder.add_edge(START, "a").compile()


def test_a_handler_whose_command_names_an_unknown_node_is_a_mistake():
    def handler(state, error) -> Command[Literal["nowhere"]]:
        return Command(goto="nowhere")

    with pytest.raises(InvalidGraphError, match="'nowhere'"):
        _ = guarded(handler=handler).compile()


def test_a_node_that_a_typed_handler_does_not_lead_to_is_warned_of():
    def handler(state, error) -> dict:
        return {"log": ["handled"]}

    builder = StateGraph(Log).add_node("a", typed_node, error_handler=handler).add_node("lost", typed_node)
    with pytest.warns(UserWarning, match="nothing leads to node 'lost'"):
        _ = builder.add_edge(START, "a").compile()


# --- streams and history ---------------------------------------------------------------------------------------------


def test_streams_show_the_failure_and_then_the_handler(face):
    def handler(state, error):
        return Command(update={"log": ["handled"]}, goto="next")

    parts = face.stream(guarded(handler=handler).compile(), {}, stream_mode=["updates", "tasks"])
    shown = [
        (mode, next(iter(part)) if mode == "updates" else (part["name"], part.get("error", "start")))
        for mode, part in parts
    ]
    assert shown == [
        ("tasks", ("a", "start")),
        ("tasks", ("a", "ValueError('boom')")),
        ("updates", "__error_handler__a"),
        ("tasks", ("__error_handler__a", None)),
        ("tasks", ("next", "start")),
        ("updates", "next"),
        ("tasks", ("next", None)),
    ]
    assert ("updates", {"__error_handler__a": {"log": ["handled"]}}) in parts


def test_a_resumed_handler_is_streamed_in_the_same_way(face, backend):
    graph = guarded(handler=Once("handled")).compile(backend.make())
    with pytest.raises(KeyError):
        face.invoke(graph, {}, CFG)
    parts = face.stream(graph, None, CFG, stream_mode=["updates", "tasks"])
    assert [mode for mode, _ in parts] == ["updates", "tasks"]
    assert parts[0] == ("updates", {"__error_handler__a": {"log": ["handled"]}})


def test_history_tells_what_failed_and_what_handled_it(face, backend):
    graph = guarded().compile(backend.make())
    face.invoke(graph, {}, CFG)
    shown = next(one for one in face.get_state_history(graph, CFG) if one.next == ("a",))
    failed, handled = shown.tasks
    assert (failed.name, failed.result) == ("a", None)
    assert "boom" in failed.error
    assert (handled.name, handled.error, handled.result) == ("__error_handler__a", None, {"log": ["a ValueError boom"]})
    assert failed.id != handled.id
    assert handled.duration is not None


def test_a_custom_stream_and_recorded_work_of_a_handler_are_its_own(face):
    def handler(state, error):
        get_stream_writer()("from the handler")

    parts = face.stream(guarded(handler=handler).compile(), {}, stream_mode="custom")
    assert parts == ["from the handler"]
