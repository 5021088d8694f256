"""Attempts that were given up because of their time and go on all the same: nothing they do counts."""

import asyncio
import re
import threading
import time
from contextlib import contextmanager

import pytest

from checkpointers import InMemorySaver
from durable_graph import END, START, StateGraph, get_runtime, get_stream_writer, interrupt
from durable_graph.errors import AttemptOver, NodeTimeoutError
from durable_graph.types import TimeoutPolicy
from tests.behaviour.held_nodes import AGAIN, KINDS, LONG, SOON, fails, one_node
from tests.behaviour.making import says, until
from tests.behaviour.small_graphs import Log, Marks, thread

# --- what was given up counts for nothing -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_attempt_counts_and_the_late_result_does_not(face, backend, hold, kind):
    late = hold("late", refuses=True)

    def second(state):
        late.out.set()
        assert late.ended.wait(20)
        return {"log": ["second"]}

    def first(state):
        if late.runs:
            return second(state)
        return late.sync(state)

    async def afirst(state):
        if late.runs:
            late.out.set()
            await until(late.ended.is_set)
            return {"log": ["second"]}
        return await late.asyn(state)

    node = first if kind == "sync" else afirst
    policy = TimeoutPolicy(run_timeout=0.3)
    graph = one_node(node, policy, retry_policy=AGAIN).compile(checkpointer=backend.make())
    assert face.invoke(graph, {"log": []}, thread()) == {"log": ["second"]}
    assert face.get_state(graph, thread()).values == {"log": ["second"]}


def test_every_attempt_has_the_whole_time_and_the_last_ones_error_is_raised(face, hold):
    held = hold()
    error = fails(face, one_node(held.sync, SOON, retry_policy=AGAIN).compile())
    assert "attempt 3" in "\n".join(error.__notes__)


def test_a_node_that_was_given_up_cannot_ask_write_or_say_that_it_is_alive(face, backend, hold):
    held, after = hold(), threading.Event()
    seen = {}

    def node(state, writer):
        if held.runs:
            held.out.set()
            assert after.wait(20)
            writer("second")
            return {"log": ["second"]}
        writer("first")
        try:
            held.sync(state)
            runtime = get_runtime()
            for write in (writer, get_stream_writer(), runtime.stream_writer):
                write("late")
            for name, call in (("ask", lambda: interrupt("?")), ("heartbeat", runtime.heartbeat)):
                try:
                    call()
                except BaseException as error:  # noqa: BLE001 - what is raised is looked at
                    seen[name] = type(error)
            seen["attempt"] = runtime.execution_info.node_attempt
        finally:
            after.set()

    policy = TimeoutPolicy(run_timeout=0.3)
    graph = one_node(node, policy, retry_policy=AGAIN).compile(checkpointer=backend.make())
    assert face.stream(graph, {"log": []}, thread(), stream_mode="custom") == ["first", "second"]
    assert seen == {"ask": AttemptOver, "heartbeat": AttemptOver, "attempt": 1}
    assert face.get_state(graph, thread()).interrupts == ()


def test_a_loop_that_beats_ends_soon_after_it_was_given_up(face):
    ended = threading.Event()

    def node(state, runtime):
        try:
            while True:
                time.sleep(0.001)
                runtime.heartbeat()
        except Exception:  # noqa: BLE001 - as nodes write it: control flow must pass
            raise AssertionError from None
        finally:
            ended.set()

    fails(face, one_node(node, 0.3).compile())
    assert ended.wait(20)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ends", ["returns", "raises"])
def test_history_says_that_a_node_ended_late_and_its_router_is_not_asked(face, backend, hold, kind, ends):
    held, asked = hold(refuses=True), Marks()
    if ends == "raises":
        held.last = lambda: interrupt("?")

    def error():
        return next((task.error or "" for task in graph.get_state(thread()).tasks if task.name == "a"), "")

    async def sibling(state):
        await until(error)
        assert "late" not in error()
        held.out.set()
        await until(lambda: "late" in error())
        return {"log": ["sibling"]}

    def router(state):
        asked("router")
        return END

    builder = one_node(getattr(held, kind), 0.3).add_conditional_edges("a", router)
    builder.add_node("sibling", sibling).add_edge(START, "sibling")
    graph = builder.compile(checkpointer=backend.make())
    fails(face, graph, thread())
    assert held.ended.is_set() or not held.runs  # on a very slow machine its time was over before it began
    assert asked.seen == []
    assert re.search(r"run_timeout is 0.3 s \(ended \d+\.\d\d s late\)", error())
    assert graph.get_state(thread()).next == ("a",)
    held.times = 0
    assert face.invoke(graph, None, thread()) == {"log": ["held", "sibling"]}
    assert asked.count("router") == 1


# --- async nodes are cancelled ----------------------------------------------------------------------------------------


def test_an_async_node_is_cancelled_and_can_clean_up(face, hold):
    held, cleaned = hold(), threading.Event()

    async def node(state):
        try:
            return await held.asyn(state)
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    graph = one_node(node, 0.3).compile()

    async def main():  # asyncio.run cancels what still runs when this ends, also who is cleaning up
        with pytest.raises(NodeTimeoutError):
            await graph.ainvoke({"log": []})
        await until(cleaned.is_set)

    if face.name == "sync":
        fails(face, graph)
        assert cleaned.wait(20)
    else:
        asyncio.run(main())
    assert held.cancelled
    assert not held.ended.is_set()


def test_a_cancelled_run_cancels_its_node_that_has_a_time_limit(hold):
    held = hold()

    async def main():
        running = asyncio.ensure_future(one_node(held.asyn, LONG).compile().ainvoke({"log": []}))
        await until(held.inside.is_set)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: held.cancelled)

    asyncio.run(main())


def test_a_sync_node_with_an_async_router_is_given_up_on_time(face, hold):
    held, asked = hold(), Marks()

    async def router(state):
        asked("router")
        return "b"

    builder = one_node(held.sync, SOON).add_node("b", says("b")).add_conditional_edges("a", router, ["b"])
    fails(face, builder.compile())
    assert not held.ended.is_set()
    assert asked.seen == []


def test_a_graph_inside_a_node_does_not_hold_up_the_caller(face, hold):
    held = hold()
    child = StateGraph(Log).add_node("deep", held.sync).add_edge(START, "deep").compile()
    error = fails(face, one_node(lambda state: child.invoke({"log": []}), SOON).compile())
    assert not held.ended.is_set()
    assert error.node == "a"


@contextmanager
def set_at_the_end(held, event):
    """Of the first attempt."""
    first = not held.runs
    try:
        yield
    finally:
        if first:
            event.set()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "not stored"])
def test_a_graph_inside_an_attempt_that_was_given_up_goes_no_further(face, hold, kind, depth, stored):
    held, marks, over = hold(refuses=True), Marks(), threading.Event()

    def deep(state):
        if not held.runs:
            return held.sync(state)
        held.out.set()
        assert over.wait(20)
        return {"log": ["second"]}

    async def adeep(state):
        if not held.runs:
            return await held.asyn(state)
        held.out.set()
        await until(over.is_set)
        return {"log": ["second"]}

    def after(state):
        marks(state["log"][-1])
        return {"log": ["after"]}

    def node(state):
        with set_at_the_end(held, over):
            return graph.invoke(state)

    async def anode(state):
        with set_at_the_end(held, over):
            return await graph.ainvoke(state)

    builder = StateGraph(Log).add_sequence([("deep", adeep if kind == "asyn" else deep), ("after", after)])
    graph = builder.add_edge(START, "deep").compile()
    if depth == 2:
        graph = StateGraph(Log).add_node("middle", graph).add_edge(START, "middle").compile()
    saver = InMemorySaver() if stored else None
    built = one_node(anode if kind == "asyn" else node, 0.3, retry_policy=AGAIN).compile(checkpointer=saver)
    assert face.invoke(built, {"log": []}, thread()) == {"log": ["second", "after"]}
    assert set(marks.seen) == {"second"}


def test_steps_of_a_graph_inside_are_signs_of_life(face):
    def pause(state):
        time.sleep(0.4)
        return {"log": ["pause"]}

    builder = StateGraph(Log).add_sequence([(f"n{index}", pause) for index in range(4)]).add_edge(START, "n0")
    child = builder.compile()
    graph = one_node(child, TimeoutPolicy(idle_timeout=1)).compile()
    assert face.invoke(graph, {"log": []}) == {"log": ["pause"] * 4}
