"""A node fails: what the caller gets, what is kept, and how the thread goes on."""

import asyncio
import threading

import pytest

from durable_graph import START, Send, StateGraph
from durable_graph.errors import GraphRecursionError, InvalidUpdateError, NodeCancelledError
from tests.behaviour.making import both, says, until
from tests.behaviour.small_graphs import Log, Marks, chain, parallel, thread


class Switch:
    """A node that fails until somebody mends it."""

    def __init__(self, error, before=lambda: None):
        self.error = error
        self.before = before
        self.runs = 0

    def __call__(self, state):
        self.runs += 1
        self.before()
        if self.error is not None:
            raise self.error
        return {"log": ["mended"]}


def test_one_failing_nodes_exception_comes_as_it_is_with_notes(face, backend):
    error = ValueError("no good")
    graph = chain(first=says("first"), bad=Switch(error)).compile(checkpointer=backend.make())
    with pytest.raises(ValueError, match="no good") as caught:
        face.invoke(graph, {"log": []}, thread())
    assert caught.value is error
    notes = "\n".join(error.__notes__)
    assert "During task with name 'bad'" in notes
    assert "step 2" in notes
    assert "thread 't'" in notes


def test_the_traceback_leads_into_the_node(face):
    def deep(state):
        text = "deep"
        raise KeyError(text)

    with pytest.raises(KeyError) as caught:
        face.invoke(chain(a=deep).compile(), {"log": []})
    assert caught.traceback[-1].name == "deep"


def test_several_failing_nodes_come_as_a_group_that_names_them(face):
    ready = threading.Barrier(2)
    left, right = (Switch(error, lambda: ready.wait(10)) for error in (ValueError("left"), KeyError("right")))
    with pytest.raises(ExceptionGroup) as caught:
        face.invoke(parallel(left=left, right=right).compile(), {"log": []})
    assert [type(error) for error in caught.value.exceptions] == [ValueError, KeyError]
    assert "'left'" in str(caught.value)
    assert "'right'" in str(caught.value)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_started_sibling_finishes_and_keeps_its_result(face, backend, asynchronous):
    started, failed, marks = threading.Event(), threading.Event(), Marks()

    def bad_once(state):
        if not failed.is_set():
            assert started.wait(10)
            failed.set()
            text = "bad"
            raise ValueError(text)
        return {"log": ["bad mended"]}

    def good(state):
        started.set()
        assert failed.wait(10)
        threading.Event().wait(0.01)  # the driver knows of the failure by now
        marks("good")
        return {"log": ["good"]}

    async def agood(state):
        started.set()
        await until(failed.is_set)
        await asyncio.sleep(0.01)
        marks("good")
        return {"log": ["good"]}

    graph = parallel(bad=bad_once, good=agood if asynchronous else good).compile(checkpointer=backend.make())
    with pytest.raises(ValueError, match="bad"):
        face.invoke(graph, {"log": []}, thread())
    assert face.get_state(graph, thread()).next == ("bad",)
    assert face.invoke(graph, None, thread()) == {"log": ["bad mended", "good"]}
    assert marks.count("good") == 1


def test_only_the_failed_send_of_a_fan_out_runs_again(face, backend):
    marks, broken = Marks(), [True]
    ready = threading.Barrier(3)

    def worker(arg):
        if broken[0]:
            ready.wait(10)
        marks(arg)
        if arg == 1 and broken[0]:
            text = "one is bad"
            raise OSError(text)
        return {"log": [arg]}

    graph = StateGraph(Log).add_node("worker", worker)
    graph.add_conditional_edges(START, lambda state: [Send("worker", n) for n in range(3)], ["worker"])
    compiled = graph.compile(checkpointer=backend.make())
    with pytest.raises(OSError, match="one is bad"):
        face.invoke(compiled, {"log": []}, thread())
    broken[0] = False
    assert face.invoke(compiled, None, thread()) == {"log": [0, 1, 2]}
    assert [marks.count(n) for n in range(3)] == [1, 2, 1]


def test_what_has_not_started_when_a_sibling_fails_is_not_started(face):
    marks = Marks()

    def worker(arg):
        marks(arg)
        if arg:
            threading.Event().wait(0.005)  # the driver hears of the first failure meanwhile
        text = "first fails"
        raise ValueError(text)

    graph = StateGraph(Log).add_node("worker", worker)
    graph.add_conditional_edges(START, lambda state: [Send("worker", n) for n in range(50)], ["worker"])
    with pytest.raises((ValueError, ExceptionGroup)):
        face.invoke(graph.compile(), {"log": []}, {"max_concurrency": 1})
    assert len(marks.seen) < 50


def test_a_failed_thread_shows_the_error_and_goes_on_with_none(face, backend):
    bad = Switch(RuntimeError("broken"))
    graph = chain(first=says("first"), bad=bad, last=says("last")).compile(checkpointer=backend.make())
    with pytest.raises(RuntimeError):
        face.invoke(graph, {"log": []}, thread())
    snapshot = face.get_state(graph, thread())
    assert (snapshot.values, snapshot.next) == ({"log": ["first"]}, ("bad",))
    assert snapshot.tasks[0].error == "RuntimeError('broken')"
    bad.error = None
    assert face.invoke(graph, None, thread()) == {"log": ["first", "mended", "last"]}
    assert bad.runs == 2


def test_a_failing_router_fails_its_node(face, backend):
    broken = [True]

    def route(state):
        if broken[0]:
            text = "lost"
            raise LookupError(text)
        return "b"

    graph = StateGraph(Log).add_node("a", says("a")).add_node("b", says("b")).add_edge(START, "a")
    compiled = graph.add_conditional_edges("a", route, ["b"]).compile(checkpointer=backend.make())
    with pytest.raises(LookupError, match="lost") as caught:
        face.invoke(compiled, {"log": []}, thread())
    assert "'a'" in "\n".join(caught.value.__notes__)
    broken[0] = False
    assert face.invoke(compiled, None, thread()) == {"log": ["a", "b"]}


def test_a_stream_shows_what_finished_before_the_failure(face):
    graph = chain(a=says("a"), bad=Switch(ValueError("bad"))).compile()
    seen = []

    async def main():
        async for part in graph.astream({"log": []}):
            seen.append(part)  # noqa: PERF401 - what came before the failure is to be seen

    def listen():
        seen.extend(graph.stream({"log": []}))

    with pytest.raises(ValueError, match="bad"):
        listen() if face.name == "sync" else asyncio.run(main())
    assert seen == [{"a": {"log": ["a"]}}]


def test_batch_raises_or_returns_exceptions(face):
    def node(state):
        if state["log"] == ["bad"]:
            text = "bad"
            raise ValueError(text)

    graph = chain(a=node).compile()
    inputs = [{"log": ["good"]}, {"log": ["bad"]}]
    with pytest.raises(ValueError, match="bad"):
        face.batch(graph, inputs)
    good, bad = face.batch(graph, inputs, return_exceptions=True)
    assert good == {"log": ["good"]}
    assert isinstance(bad, ValueError)


def test_a_node_that_cancels_itself_fails_and_cancels_nobody(face):
    async def node(state):
        raise asyncio.CancelledError

    with pytest.raises(NodeCancelledError, match="'a'"):
        face.invoke(chain(a=node).compile(), {"log": []})


def raises_exit(state):
    raise SystemExit(3)


@pytest.mark.parametrize("node", both(raises_exit))
def test_a_node_that_exits_ends_the_call_and_nothing_else(face, backend, node):
    graph = chain(a=node, b=says("b")).compile(checkpointer=backend.make())
    with pytest.raises(SystemExit):
        face.invoke(graph, {"log": []}, thread())
    assert face.get_state(graph, thread()).next == ("a",)
    assert face.invoke(chain(c=both(says("c"))[1]).compile(), {"log": []}) == {"log": ["c"]}


def test_the_exception_of_a_node_in_an_os_thread_comes_through(face):
    graph = parallel(a=Switch(ZeroDivisionError("in a thread")), b=says("b")).compile()
    with pytest.raises(ZeroDivisionError, match="in a thread"):
        face.invoke(graph, {"log": []})


# --- the step limit ---------------------------------------------------------------------------------------------------


def loop(backend):
    graph = StateGraph(Log).add_node("a", lambda state: {"log": [len(state["log"])]}).add_edge(START, "a")
    return graph.add_edge("a", "a").compile(checkpointer=backend.make())


def test_the_step_limit_is_exact_and_the_error_carries_the_state(face, backend):
    graph = loop(backend)
    with pytest.raises(GraphRecursionError) as caught:
        face.invoke(graph, {"log": []}, {**thread(), "recursion_limit": 4})
    assert caught.value.state == {"log": [0, 1, 2, 3]}
    assert isinstance(caught.value, RecursionError)
    assert "4 supersteps" in str(caught.value)
    assert "recursion_limit" in str(caught.value)


def test_a_resume_after_the_step_limit_has_the_same_budget_again(face, backend):
    graph = loop(backend)
    for total in (4, 8, 12):
        given = {"log": []} if total == 4 else None
        with pytest.raises(GraphRecursionError) as caught:
            face.invoke(graph, given, {**thread(), "recursion_limit": 4})
        assert caught.value.state == {"log": list(range(total))}
    assert face.get_state(graph, thread()).next == ("a",)


def test_a_graph_of_as_many_steps_as_the_limit_ends(face):
    graph = chain(a=says("a"), b=says("b")).compile()
    assert face.invoke(graph, {"log": []}, {"recursion_limit": 2}) == {"log": ["a", "b"]}
    with pytest.raises(GraphRecursionError, match="b would be next"):
        face.invoke(graph, {"log": []}, {"recursion_limit": 1})


# --- updates that are refused at the end of a step --------------------------------------------------------------


def test_writes_that_contradict_each_other_leave_the_thread_where_it_was(face, backend):
    values = {"left": 1, "right": 2}
    write = lambda name: lambda state: {"answer": values[name]} if name in values else {}
    graph = chain(start=says("start"))
    for name in ("left", "right"):
        graph.add_node(name, write(name)).add_edge("start", name)
    compiled = graph.compile(checkpointer=backend.make())
    with pytest.raises(InvalidUpdateError, match="'answer'"):
        face.invoke(compiled, {"log": []}, thread())
    snapshot = face.get_state(compiled, thread())
    assert (snapshot.values, snapshot.next) == ({"log": ["start"]}, ("left", "right"))
    assert len(list(face.get_state_history(compiled, thread()))) == 3
    del values["left"]
    assert face.invoke(compiled, None, thread()) == {"log": ["start"], "answer": 2}
