"""Nodes and steps that take too long. No test measures time.

What shows that nobody waited: the caller is back while the node is still inside.
"""

import contextvars
import threading
import time

import pytest

from durable_graph import START, Command, RetryPolicy, Send, StateGraph, interrupt
from durable_graph.errors import NodeTimeoutError
from durable_graph.runtime import pool
from durable_graph.types import TimeoutPolicy
from tests.behaviour.held_nodes import AGAIN, KINDS, LONG, SOON, fails, one_node
from tests.behaviour.making import both, says
from tests.behaviour.small_graphs import Log, Marks, thread


@pytest.fixture
def two_os_threads(monkeypatch):
    """The pool has no more."""
    monkeypatch.setattr(pool, "LIMIT", 2)
    monkeypatch.setattr(pool, "_pool", pool._Pool())


# --- run_timeout ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_caller_is_back_while_the_node_is_still_inside(face, hold, kind):
    held = hold()
    error = fails(face, one_node(getattr(held, kind), SOON).compile())
    assert not held.ended.is_set()
    assert (error.node, error.kind, error.run_timeout, error.idle_timeout) == ("a", "run", SOON, None)
    assert error.elapsed >= SOON
    assert "run_timeout is 0.05 s" in str(error)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_ends_while_the_node_is_still_inside(face, hold, kind):
    held = hold()
    with pytest.raises(NodeTimeoutError):
        face.stream(one_node(getattr(held, kind), SOON).compile(), {"log": []}, stream_mode=["values", "custom"])
    assert not held.ended.is_set()


@pytest.mark.parametrize("make", [0, 1], ids=KINDS)
def test_a_node_that_is_in_time_is_not_disturbed(face, backend, make):
    variable = contextvars.ContextVar("variable", default="unset")

    def node(state):
        seen = variable.get()
        variable.set("of the node")
        return {"log": [seen]}

    graph = one_node(both(node)[make], TimeoutPolicy(LONG, LONG)).add_node("b", both(node)[make], timeout=LONG)
    graph = graph.add_edge("a", "b").compile(checkpointer=backend.make(), step_timeout=LONG)
    variable.set("of the caller")
    assert face.invoke(graph, {"log": []}, thread()) == {"log": ["of the caller"] * 2}
    assert variable.get() == "of the caller"


@pytest.mark.parametrize("make", [0, 1], ids=KINDS)
def test_a_node_that_asks_in_time_is_answered(face, backend, make):
    graph = one_node(both(lambda state: {"answer": interrupt("?")})[make], LONG).compile(checkpointer=backend.make())
    assert face.invoke(graph, {"log": []}, thread())["__interrupt__"][0].value == "?"
    assert face.invoke(graph, Command(resume="yes"), thread())["answer"] == "yes"


@pytest.mark.parametrize("make", [0, 1], ids=KINDS)
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, ValueError])
def test_what_a_node_raises_in_time_reaches_the_caller(face, make, error):
    def node(state):
        raise error("own")

    with pytest.raises(error, match="own"):
        face.invoke(one_node(both(node)[make], LONG).compile(), {"log": []})


def test_who_ends_after_the_time_is_too_late_even_if_nobody_had_noticed():
    """The caller of a stream is busy while the node ends."""
    ended = threading.Event()

    def node(state, writer):
        writer("begun")
        time.sleep(0.6)
        ended.set()
        return {"log": ["a"]}

    running = one_node(node, 0.3).compile().stream({"log": []}, stream_mode="custom")
    assert next(running) == "begun"
    assert ended.wait(20)
    with pytest.raises(NodeTimeoutError):
        list(running)


# --- idle_timeout -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_without_a_sign_of_life_is_given_up(face, hold, kind):
    held = hold()
    error = fails(face, one_node(getattr(held, kind), TimeoutPolicy(LONG, SOON)).compile())
    assert not held.ended.is_set()
    assert (error.kind, error.run_timeout, error.idle_timeout) == ("idle", LONG, SOON)


@pytest.mark.parametrize("sign", ["writer", "heartbeat"])
def test_signs_of_life_keep_a_node_going(face, sign):
    def node(state, runtime, writer):
        began = time.monotonic()
        while time.monotonic() - began < 1.2:
            time.sleep(0.01)
            if sign == "writer":
                writer("alive")
            else:
                runtime.heartbeat()
        return {"log": ["a"]}

    graph = one_node(node, TimeoutPolicy(idle_timeout=1)).compile()
    assert face.invoke(graph, {"log": []}) == {"log": ["a"]}


@pytest.mark.parametrize("mode", ["values", "custom"])
def test_where_only_heartbeats_count_a_node_that_writes_is_given_up(face, hold, mode):
    held = hold()

    def node(state, writer):
        while not held.out.wait(0.001):
            writer("alive")

    graph = one_node(node, TimeoutPolicy(idle_timeout=SOON, refresh_on="heartbeat")).compile()
    with pytest.raises(NodeTimeoutError, match="no sign of life"):
        face.stream(graph, {"log": []}, stream_mode=mode)
    assert not held.out.is_set()


# --- siblings, handlers, Sends ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_started_sibling_finishes_and_is_not_repeated(face, backend, hold, kind):
    held, gone, marks = hold(), hold("sibling"), Marks()

    def sibling(state):
        marks("sibling")
        return gone.sync(state)

    builder = one_node(getattr(held, kind), SOON).add_node("sibling", sibling).add_edge(START, "sibling")
    graph = builder.compile(checkpointer=backend.make())

    def let_out():
        while not any(task.error for task in graph.get_state(thread()).tasks):
            time.sleep(0.001)
        gone.out.set()

    helper = threading.Thread(target=let_out, daemon=True)
    helper.start()
    fails(face, graph, thread())
    helper.join(20)
    held.times = 0
    assert face.invoke(graph, None, thread()) == {"log": ["held", "sibling"]}
    assert marks.count("sibling") == 1


def test_a_send_brings_its_own_limit(face, hold):
    held = hold()
    builder = StateGraph(Log).add_node("worker", held.sync, timeout=LONG)
    builder.add_conditional_edges(START, lambda state: [Send("worker", 1, timeout=SOON)], ["worker"])
    assert fails(face, builder.compile()).run_timeout == SOON


def test_a_limit_for_all_nodes_holds_for_those_that_have_none(face, hold):
    held = hold()
    builder = StateGraph(Log).set_node_defaults(timeout=SOON)
    builder.add_node("a", says("a"), timeout=LONG).add_node("b", held.sync).add_edge(START, "a").add_edge("a", "b")
    error = fails(face, builder.compile())
    assert (error.node, error.run_timeout) == ("b", SOON)


def test_an_error_handler_is_told(face, hold):
    held = hold()
    graph = one_node(held.sync, SOON, error_handler=lambda state, error: {"log": [type(error.error)]}).compile()
    assert face.invoke(graph, {"log": []}) == {"log": [NodeTimeoutError]}
    assert not held.ended.is_set()


# --- who hangs holds nothing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [None, 1])
def test_hanging_nodes_take_nothing_from_those_that_come_after_them(face, hold, two_os_threads, kind, limit):
    held = hold()

    def gone(state, error):
        return Command(update={"log": ["gone"]}, goto="last")

    builder = StateGraph(Log).add_node("worker", getattr(held, kind), timeout=SOON, error_handler=gone)
    builder.add_node("last", says("last"), timeout=LONG)
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in range(6)], ["worker"])
    config = None if limit is None else {"max_concurrency": limit}
    assert face.invoke(builder.compile(), {"log": []}, config) == {"log": ["gone"] * 6 + ["last"]}
    assert not held.ended.is_set()


# --- step_timeout -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_all_tasks_that_are_not_done_when_the_steps_time_is_over_are_given_up(face, backend, hold, kind):
    first, second, marks = hold(), hold(), Marks()

    def quick(state):
        marks("quick")
        return {"log": ["quick"]}

    builder = one_node(getattr(first, kind), None).add_node("b", getattr(second, kind), timeout=LONG)
    builder.add_node("quick", quick).add_edge(START, "b").add_edge(START, "quick")
    graph = builder.compile(checkpointer=backend.make(), step_timeout=0.5)
    with pytest.raises(ExceptionGroup) as caught:
        face.invoke(graph, {"log": []}, thread())
    assert [(error.node, error.kind) for error in caught.value.exceptions] == [("a", "step"), ("b", "step")]
    assert not first.ended.is_set()
    assert not second.ended.is_set()
    first.times = second.times = 0
    patient = builder.compile(checkpointer=graph.checkpointer)
    assert face.invoke(patient, None, thread()) == {"log": ["held", "held", "quick"]}
    assert marks.count("quick") == 1


def test_a_step_that_is_out_of_time_is_not_tried_again(face, hold):
    held = hold()
    policy = AGAIN._replace(retry_on=Exception)
    error = fails(face, one_node(held.sync, None, retry_policy=policy).compile(step_timeout=SOON))
    assert error.kind == "step"
    assert "attempt" not in "\n".join(error.__notes__)


def test_the_time_of_a_step_goes_on_while_a_retry_is_waited_for(face):
    def node(state):
        raise ConnectionError

    policy = RetryPolicy(initial_interval=LONG, jitter=False)
    assert fails(face, one_node(node, None, retry_policy=policy).compile(step_timeout=SOON)).kind == "step"


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_that_never_began_are_out_of_time_too(face, hold, kind):
    held = hold()
    builder = StateGraph(Log).add_node("worker", getattr(held, kind))
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in range(3)], ["worker"])
    with pytest.raises(ExceptionGroup) as caught:
        face.invoke(builder.compile(step_timeout=SOON), {"log": []}, {"max_concurrency": 1})
    never_began = [error for error in caught.value.exceptions if "before node 'worker' began" in str(error)]
    assert len(never_began) >= 2
    assert {error.elapsed for error in never_began} == {0.0}
    assert held.runs <= 1


def test_every_step_has_the_whole_time(face):
    def pause(state):
        time.sleep(0.3)
        return {"log": ["pause"]}

    builder = StateGraph(Log).add_sequence([(f"n{index}", pause) for index in range(4)]).add_edge(START, "n0")
    assert face.invoke(builder.compile(step_timeout=1), {"log": []}) == {"log": ["pause"] * 4}


def test_the_handler_of_a_node_that_was_out_of_time_has_time(face, hold):
    held = hold()

    def handler(state, error):
        time.sleep(2 * SOON)
        return {"log": [error.error.kind]}

    graph = one_node(held.sync, None, error_handler=handler).compile(step_timeout=SOON)
    assert face.invoke(graph, {"log": []}) == {"log": ["step"]}
