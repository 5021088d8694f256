"""One writer per thread of a conversation; many conversations at once."""

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from checkpointers import SqliteSaver
from durable_graph import START, Send, StateGraph, interrupt
from durable_graph.errors import ThreadBusy
from tests.behaviour.small_graphs import Log, chain, dump, parallel, thread

CFG = thread()


class Gate:
    """A node that waits inside, so that a run can be looked at while it runs."""

    def __init__(self):
        self.inside = threading.Event()
        self.go = threading.Event()

    def __call__(self, state):
        self.inside.set()
        assert self.go.wait(20)
        return {"log": ["gate"]}


@pytest.fixture
def running(backend):
    """A graph with a run of thread "t" under way; ends it afterwards."""
    gate = Gate()
    saver = backend.make()
    builder = chain(gate=gate, after=lambda state: {"log": ["after"]})
    graph = builder.compile(saver)
    with ThreadPoolExecutor(1) as executor:
        run = executor.submit(graph.invoke, {}, CFG)
        assert gate.inside.wait(20)
        yield graph, saver, builder
        gate.go.set()
        assert run.result(20)["log"] == ["gate", "after"]


def test_a_second_run_is_refused_names_the_owner_and_changes_nothing(face, running):
    import os

    graph, saver, _ = running
    rows = dump(saver)
    for given in ({}, None):
        with pytest.raises(ThreadBusy, match=f"'t' is held by another run.*{os.getpid()}") as caught:
            face.invoke(graph, given, CFG)
        assert str(os.getpid()) in caught.value.owner
    assert dump(saver) == rows


def test_all_ways_to_start_a_second_run_are_refused(face, running):
    graph, saver, _ = running
    rows = dump(saver)
    for policy in ("reject", "finish", "abandon"):
        with pytest.raises(ThreadBusy):
            face.stream(graph, {}, CFG, on_unfinished=policy)
    assert dump(saver) == rows


def test_a_second_saver_over_the_same_data_sees_the_owner_too(face, backend, running):
    _, _, builder = running
    elsewhere = builder.compile(backend.reopen())
    with pytest.raises(ThreadBusy):
        face.invoke(elsewhere, {}, CFG)


def test_looking_at_a_running_thread_is_allowed(face, running):
    graph, _, _ = running
    assert face.get_state(graph, CFG).next == ("gate",)
    assert len(face.get_state_history(graph, CFG)) == 2


def test_other_threads_run_meanwhile(face, backend, running):
    graph = chain(a=lambda state: {"log": ["a"]}).compile(running[1])
    assert face.invoke(graph, {}, thread("other"))["log"] == ["a"]


def test_a_second_task_of_one_event_loop_is_refused(backend):
    async def main():
        inside, go = asyncio.Event(), asyncio.Event()

        async def wait(state):
            inside.set()
            await go.wait()
            return {"log": ["waited"]}

        graph = chain(wait=wait).compile(backend.make())
        first = asyncio.create_task(graph.ainvoke({}, CFG))
        await inside.wait()
        with pytest.raises(ThreadBusy):
            await graph.ainvoke({}, CFG)
        go.set()
        assert (await first)["log"] == ["waited"]
        assert (await graph.ainvoke({}, CFG))["log"] == ["waited", "waited"]

    asyncio.run(main())


def test_a_node_that_runs_its_own_thread_is_refused_and_does_not_hang(face, backend):
    def again(state):
        graph.invoke({}, CFG)

    graph = chain(again=again).compile(backend.make())
    with pytest.raises(ThreadBusy):
        face.invoke(graph, {}, CFG)


@pytest.mark.parametrize("end", ["finished", "failed", "waiting", "stopped", "base exception"])
def test_however_a_run_ended_the_thread_is_free(face, backend, end):
    healed = []

    def node(state):
        if not healed and end == "failed":
            raise ValueError("broken")
        if not healed and end == "base exception":
            raise KeyboardInterrupt
        return {"log": [interrupt("?") if end == "waiting" and not healed else "done"]}

    saver = backend.make()
    graph = chain(node=node).compile(saver, interrupt_before=["node"] if end == "stopped" else None)
    if end == "base exception" and face.name == "async":
        pytest.skip("asyncio hands a KeyboardInterrupt of a task to the loop")
    with contextlib.suppress(ValueError, KeyboardInterrupt):
        face.invoke(graph, {}, CFG)
    assert saver.load("t").thread.owner is None
    healed.append(True)
    assert face.invoke(graph, {}, CFG, on_unfinished="abandon", interrupt_before=[])["log"][-1:] in (["done"], [])


def test_an_abandoned_stream_leaves_the_thread_free(backend):
    saver = backend.make()
    graph = chain(**{name: lambda state, name=name: {"log": [name]} for name in "ab"}).compile(saver)
    for _ in graph.stream({}, CFG):
        break
    assert saver.load("t").thread.owner is None
    assert graph.invoke(None, CFG)["log"] == ["a", "b"]


def test_of_many_runs_of_one_thread_at_once_one_wins_and_none_is_mixed_in(backend):
    graph = parallel(a=lambda state: {"log": ["a"]}, b=lambda state: {"log": ["b"]}).compile(backend.make())
    together = threading.Barrier(8)

    def run(number):
        together.wait(20)
        try:
            return graph.invoke({"log": [number]}, CFG)
        except ThreadBusy:
            return None

    with ThreadPoolExecutor(8) as executor:
        results = [one for one in executor.map(run, range(8)) if one]
    assert results
    log = graph.get_state(CFG).values["log"]
    assert len(log) == 3 * len(results)
    for at in range(0, len(log), 3):
        assert isinstance(log[at], int)
        assert log[at + 1 : at + 3] == ["a", "b"]


def test_eight_os_threads_share_one_saver_with_both_faces(backend):
    def fan_out(state):
        return [Send("work", n) for n in range(3)]

    async def awork(n):
        await asyncio.sleep(0)
        return {"log": [n]}

    builder = StateGraph(Log).add_node("work", lambda n: {"log": [n]}, afunc=awork)
    builder.add_conditional_edges(START, fan_out)
    builder.add_node("end", lambda state: {"log": ["end"]}).add_edge("work", "end")
    graph = builder.compile(backend.make())

    def runs(number):
        for index in range(20):
            config = thread(f"{number}.{index}")
            if (number + index) % 2:
                graph.invoke({"log": [number]}, config)
            else:
                asyncio.run(graph.ainvoke({"log": [number]}, config))

    with ThreadPoolExecutor(8) as executor:
        list(executor.map(runs, range(8)))
    for number in range(8):
        for index in range(20):
            state = graph.get_state(thread(f"{number}.{index}"))
            assert state.values["log"] == [number, 0, 1, 2, "end"]
            assert state.next == ()


def test_one_saver_serves_several_event_loops_at_once(backend):
    graph = chain(a=lambda state: {"log": ["a"]}, b=lambda state: {"log": ["b"]}).compile(backend.make())

    def loop(number):
        async def main():
            jobs = [graph.ainvoke({}, thread(f"{number}.{index}")) for index in range(10)]
            return await asyncio.gather(*jobs)

        return asyncio.run(main())

    with ThreadPoolExecutor(4) as executor:
        for results in executor.map(loop, range(4)):
            assert all(result["log"] == ["a", "b"] for result in results)


def test_one_saver_serves_event_loops_one_after_the_other_and_sync_calls_between(backend):
    graph = chain(a=lambda state: {"log": ["a"]}).compile(backend.make())
    for count in range(1, 7):
        result = asyncio.run(graph.ainvoke({}, CFG)) if count % 3 else graph.invoke({}, CFG)
        assert len(result["log"]) == count


def test_a_path_is_enough_and_any_os_thread_may_use_it(tmp_path):
    with SqliteSaver(tmp_path / "runs.db") as saver, ThreadPoolExecutor(2) as executor:
        graph = chain(a=lambda state: {"log": ["a"]}).compile(saver)
        assert executor.submit(graph.invoke, {}, CFG).result(20)["log"] == ["a"]
        assert graph.invoke({}, CFG)["log"] == ["a", "a"]
