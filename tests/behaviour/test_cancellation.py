"""Runs that are cut short: cancelled tasks, streams that nobody listens to any more, Ctrl-C. The thread goes on."""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from durable_graph import END, START, Send, StateGraph
from durable_graph.core import run
from durable_graph.core.planning import plan
from tests.behaviour.making import both, says, until
from tests.behaviour.small_graphs import Log, Marks, chain, thread
from tests.sources import ROOT


class Gate:
    """A node, sync or async, that says it is inside and waits to be let out."""

    def __init__(self):
        self.inside, self.out = threading.Event(), threading.Event()
        self.runs = 0

    def sync(self, state):
        self.runs += 1
        self.inside.set()
        assert self.out.wait(20)
        return {"log": ["gate"]}

    async def asyn(self, state):
        self.runs += 1
        self.inside.set()
        await until(self.out.is_set)
        return {"log": ["gate"]}


async def cancel_inside(graph, gate, config):
    running = asyncio.ensure_future(graph.ainvoke({"log": []}, config))
    await until(gate.inside.is_set)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.mark.parametrize("kind", ["sync", "asyn"])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_cancelled_run_keeps_its_finished_steps_and_can_be_resumed_at_once(backend, durability, kind):
    gate, marks = Gate(), Marks()

    def first(state):
        marks("first")
        return {"log": ["first"]}

    graph = chain(first=first, gate=getattr(gate, kind), last=says("last")).compile(checkpointer=backend.make())

    async def main():
        running = asyncio.ensure_future(graph.ainvoke({"log": []}, thread(), durability=durability))
        await until(gate.inside.is_set)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        gate.out.set()
        snapshot = await graph.aget_state(thread())
        assert (snapshot.values, snapshot.next) == ({"log": ["first"]}, ("gate",))
        return await graph.ainvoke(None, thread())

    assert asyncio.run(main()) == {"log": ["first", "gate", "last"]}
    assert (marks.count("first"), gate.runs) == (1, 2)


def test_a_cancelled_run_keeps_the_results_of_siblings_that_finished(backend):
    gate, marks = Gate(), Marks()

    def worker(arg):
        marks(arg)
        return {"log": [arg]}

    builder = StateGraph(Log).add_node("gate", gate.asyn).add_node("worker", worker)
    builder.add_conditional_edges(START, lambda state: ["gate", *(Send("worker", n) for n in range(3))])
    graph = builder.compile(checkpointer=backend.make())

    async def main():
        running = asyncio.ensure_future(graph.ainvoke({"log": []}, thread()))
        await until(lambda: len(marks.seen) == 3 and gate.inside.is_set())
        await until(lambda: len(graph.get_state(thread()).next) == 1)  # their results are durable
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        gate.out.set()
        return await graph.ainvoke(None, thread())

    assert asyncio.run(main()) == {"log": ["gate", 0, 1, 2]}
    assert sorted(marks.seen) == [0, 1, 2]


def test_an_async_node_can_clean_up_when_its_run_is_cancelled():
    gate, marks = Gate(), Marks()

    async def node(state):
        try:
            await gate.asyn(state)
        finally:
            await asyncio.sleep(0)
            marks("cleaned up")

    asyncio.run(cancel_inside(chain(a=node).compile(), gate, None))
    assert marks.seen == ["cleaned up"]


def test_a_timeout_around_a_run_is_a_timeout(backend):
    gate = Gate()
    graph = chain(first=says("first"), gate=gate.asyn).compile(checkpointer=backend.make())

    async def main():
        with pytest.raises(TimeoutError):  # noqa: PT012 - the block is what raises
            async with asyncio.timeout(None) as limit:
                running = asyncio.ensure_future(graph.ainvoke({"log": []}, thread()))
                await until(gate.inside.is_set)
                limit.reschedule(0)
                await running
        gate.out.set()
        return await graph.ainvoke(None, thread())

    assert asyncio.run(main()) == {"log": ["first", "gate"]}


def test_a_run_may_follow_a_cancelled_one_that_nobody_waited_for(backend):
    gate = Gate()
    graph = chain(first=says("first"), gate=gate.asyn).compile(checkpointer=backend.make())

    async def main():
        running = asyncio.ensure_future(graph.ainvoke({"log": []}, thread()))
        await until(gate.inside.is_set)
        running.cancel()
        gate.out.set()
        result = await graph.ainvoke(None, thread())
        await asyncio.wait([running])
        return result

    assert asyncio.run(main()) == {"log": ["first", "gate"]}


# --- streams that are closed early --------------------------------------------------------------------------------


def take(face, graph, count, *args, **keywords):
    """The first parts of a stream that is then closed."""
    if face.name == "sync":
        stream = graph.stream(*args, **keywords)
        found = [next(stream) for _ in range(count)]
        stream.close()
        return found

    async def main():
        stream = graph.astream(*args, **keywords)
        found = [await anext(stream) for _ in range(count)]
        await stream.aclose()
        return found

    return asyncio.run(main())


@pytest.mark.parametrize("make", [0, 1], ids=["sync", "async"])
@pytest.mark.parametrize("mode", ["updates", "values", "custom"])
def test_a_stream_that_is_closed_early_keeps_what_finished_and_gives_the_thread_back(face, backend, make, mode):
    def node(state, writer):
        writer("event")
        return {"log": [len(state["log"])]}

    node = both(node)[make]
    if make:

        async def node(state, writer):
            writer("event")
            return {"log": [len(state["log"])]}

    graph = chain(a=node, b=node, c=node).compile(checkpointer=backend.make())
    take(face, graph, 1, {"log": []}, thread(), stream_mode=mode)
    snapshot = face.get_state(graph, thread())
    assert snapshot.next
    assert snapshot.values["log"] == list(range(len(snapshot.values["log"])))
    assert face.invoke(graph, None, thread()) == {"log": [0, 1, 2]}


def test_a_stream_closed_after_a_steps_update_has_stored_that_step(face, backend):
    marks = Marks()

    def node(name):
        def run(state):
            marks(name)
            return {"log": [name]}

        return run

    graph = chain(a=node("a"), b=node("b"), c=node("c")).compile(checkpointer=backend.make())
    assert take(face, graph, 2, {"log": []}, thread()) == [{"a": {"log": ["a"]}}, {"b": {"log": ["b"]}}]
    assert face.get_state(graph, thread()).values == {"log": ["a", "b"]}
    assert face.invoke(graph, None, thread()) == {"log": ["a", "b", "c"]}
    assert marks.seen == ["a", "b", "c"]


def test_a_break_out_of_a_loop_over_a_stream_is_enough(backend):
    graph = chain(a=says("a"), b=says("b")).compile(checkpointer=backend.make())
    for _ in graph.stream({"log": []}, thread("sync")):
        break
    assert graph.invoke(None, thread("sync")) == {"log": ["a", "b"]}

    async def main():
        async for _ in graph.astream({"log": []}, thread("async")):
            break
        return await graph.ainvoke(None, thread("async"))

    assert asyncio.run(main()) == {"log": ["a", "b"]}


def test_a_stream_that_is_never_started_stores_nothing(face, backend):
    graph = chain(a=says("a")).compile(checkpointer=backend.make())
    take(face, graph, 0, {"log": []}, thread())
    assert face.get_state(graph, thread()).values == {}


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------

CHILD = """
    import asyncio, sys, threading, time
    from checkpointers import SqliteSaver
    from durable_graph import START, Send
    from tests.behaviour.small_graphs import Log, chain, parallel, thread

    kind, path = sys.argv[1:]

    def hang(state):
        print("inside", flush=True)
        time.sleep(600)

    async def ahang(state):
        print("inside", flush=True)
        await asyncio.sleep(600)

    first = lambda state: {"log": ["first"]}
    node = ahang if kind.startswith("async node") else hang
    builder = chain(first=first, hang=node)
    if "parallel" in kind:
        builder.add_node("quick", lambda state: {"log": ["quick"]}).add_edge("first", "quick")
    graph = builder.compile(checkpointer=SqliteSaver(path))
    try:
        if "asyncio" in kind:
            asyncio.run(graph.ainvoke({"log": []}, thread()))
        else:
            graph.invoke({"log": []}, thread())
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        raise SystemExit(7)
"""


@pytest.mark.crash
@pytest.mark.parametrize(
    "kind",
    [
        "sync node, invoke",
        "async node, invoke",
        "sync node, invoke, parallel",
        "async node, invoke, parallel",
        "sync node, asyncio",
        "async node, asyncio",
        "sync node, asyncio, parallel",
    ],
)
def test_ctrl_c_ends_the_process_and_leaves_the_thread_resumable_at_once(tmp_path, kind):
    """The hanging node would hold the process for ten minutes."""
    from checkpointers import SqliteSaver

    path = tmp_path / "runs.db"
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CHILD), kind, str(path)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert child.stdout.readline() == b"inside\n"
        # CPython notices a signal that comes in the microseconds before an event loop's select() only when the loop
        # wakes up next: the signal is to find the loop asleep.
        threading.Event().wait(0.3)
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == 7
        assert child.stdout.read() == b"interrupted\n"
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    builder = chain(first=says("again"), hang=says("hang"))
    builder.add_node("quick", says("quick")).add_edge("first", "quick")
    with SqliteSaver(path) as saver:
        graph = builder.compile(checkpointer=saver)
        assert "hang" in graph.get_state(thread()).next
        expected = ["first", "hang", "quick"] if "parallel" in kind else ["first", "hang"]
        assert graph.invoke(None, thread()) == {"log": expected}


@pytest.mark.parametrize("durability", ["sync", "async"])
@pytest.mark.parametrize("strike", [3, 4, 5])
def test_ctrl_c_while_the_next_step_is_planned_repeats_no_result(backend, monkeypatch, strike, durability):
    def count(state):
        return {"log": [str(len(state["log"]))]}

    builder = StateGraph(Log).add_node("count", count).add_edge(START, "count")
    builder.add_conditional_edges("count", lambda state: END if len(state["log"]) == 6 else "count")
    graph = builder.compile(backend.make())
    calls = itertools.count(1)

    def struck(*args):
        if next(calls) == strike:
            raise KeyboardInterrupt
        return plan(*args)

    monkeypatch.setattr(run, "plan", struck)
    with pytest.raises(KeyboardInterrupt):
        graph.invoke({"log": []}, {"thread_id": "t"}, durability=durability)
    assert graph.invoke(None, {"thread_id": "t"}) == {"log": [str(number) for number in range(6)]}
