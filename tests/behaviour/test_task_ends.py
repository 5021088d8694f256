"""How tasks end: in time, with their node, cancelled, or shown in a stream."""

import asyncio
import concurrent.futures
import contextvars
import os
import signal
import threading
import time

import pytest

from durable_graph import Command, interrupt
from durable_graph.errors import (
    NodeTimeoutError,
)
from durable_graph.functional import entrypoint, task
from tests.behaviour.making import Odd
from tests.behaviour.small_graphs import Log, Marks, asked, chain, thread

CFG = thread()


# --- time limits ------------------------------------------------------------------------------------------------------


def test_a_sync_task_that_takes_too_long_is_given_up(face):
    release = threading.Event()

    @task(timeout=0.02)
    def slow():
        release.wait(30)

    @entrypoint()
    def flow(_):
        with pytest.raises(NodeTimeoutError, match="slow"):
            slow().result()
        return "in time"

    assert face.invoke(flow, 0) == "in time"
    release.set()


def test_an_async_task_that_takes_too_long_is_cancelled(face):
    ended = []

    @task(timeout=0.02)
    async def slow():
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("cancelled")

    @entrypoint()
    async def flow(_):
        with pytest.raises(NodeTimeoutError, match="slow"):
            await slow()
        return "in time"

    assert face.invoke(flow, 0) == "in time"
    assert ended == ["cancelled"]


def test_a_timeout_error_of_its_own_is_no_time_limit(face):
    @task(timeout=30)
    def fail():
        raise TimeoutError("my own")

    @task(timeout=30)
    async def afail():
        raise TimeoutError("my own")

    @entrypoint()
    def flow(_):
        return [str(fail().exception()), str(afail().exception())]

    assert face.invoke(flow, 0) == ["my own", "my own"]


# --- the end of a node ------------------------------------------------------------------------------------------------


def test_a_node_that_ends_waits_for_its_tasks(face, backend):
    marks = Marks()
    running = threading.Barrier(2, timeout=30)

    @task
    def late(how):
        running.wait()
        time.sleep(0.02)
        marks("late")
        return "late"

    @entrypoint(backend.make())
    def flow(how):
        future = late(how)
        if not future.done():
            running.wait()
        if how == "fails":
            raise Odd
        if how == "asks":
            interrupt("?")
        return how

    with pytest.raises(Odd):
        face.invoke(flow, "fails", thread("fails"))
    assert marks.count("late") == 1
    face.invoke(flow, "asks", thread("asks"))
    assert marks.count("late") == 2
    assert face.invoke(flow, "returns", thread("returns")) == "returns"
    assert marks.count("late") == 3
    for how in ("fails", "asks"):
        calls = face.get_state(flow, thread(how)).tasks[0].calls
        assert calls == ("late",)


def test_a_task_that_ends_waits_for_its_own_tasks(face, backend):
    """They are part of it: what they ask is asked before its result is recorded."""
    marks = Marks()

    @task
    def inner(name):
        marks(name)
        return interrupt(name)

    @task
    def outer():
        inner("a")
        inner("b")
        return "outer"

    @task
    async def aouter():
        inner("c")
        return "async outer"

    @entrypoint(backend.make())
    def flow(_):
        return [outer().result(), aouter().result()]

    given = 0
    for names in (["a", "b"], ["c"]):
        waiting = asked(face.invoke(flow, given, CFG)["__interrupt__"])
        assert list(waiting) == names
        given = Command(resume=dict.fromkeys(waiting.values(), "yes"))
    assert face.invoke(flow, given, CFG) == ["outer", "async outer"]
    assert sorted(marks.seen) == ["a", "a", "b", "b", "c", "c"]


def test_sync_code_in_the_os_thread_of_an_event_loop_waits_for_results(backend):
    """As in a notebook: `invoke` in a cell. Nobody could await there."""

    @task
    async def inner(n):
        await asyncio.sleep(0)
        return n

    @task
    def outer(n):
        return inner(n).result()

    @entrypoint(backend.make())
    def flow(n):
        async def main():
            return [await inner(1), *await asyncio.gather(inner(2), inner(3))]

        in_a_loop_of_its_own = concurrent.futures.ThreadPoolExecutor(1)
        context = contextvars.copy_context()
        with in_a_loop_of_its_own as executor:
            found = executor.submit(context.run, asyncio.run, main()).result()
        return [outer(n).result(), inner(n).result(), *found]

    async def cell():
        return flow.invoke(5, CFG)

    assert asyncio.run(cell()) == [5, 5, 1, 2, 3]


def test_async_tasks_of_an_attempt_that_was_given_up_are_cancelled(face):
    ended = threading.Event()

    @task
    async def forever():
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    @entrypoint(timeout=0.05)
    async def flow(_):
        await asyncio.gather(forever(), asyncio.sleep(60))

    def check():
        with pytest.raises(NodeTimeoutError):
            flow.invoke(0)
        assert ended.wait(30)

    async def acheck():
        with pytest.raises(NodeTimeoutError):
            await flow.ainvoke(0)
        assert await asyncio.to_thread(ended.wait, 30)

    check() if face.name == "sync" else asyncio.run(acheck())


def test_ctrl_c_while_a_node_waits_for_a_task_ends_the_run(backend):
    release = threading.Event()
    marks = Marks()

    @task
    def slow():
        marks("slow")
        if marks.count("slow") == 1:
            os.kill(os.getpid(), signal.SIGINT)
            release.wait(30)
        return "there"

    @entrypoint(backend.make())
    def flow(_):
        future = slow()
        time.sleep(0.01)  # a worker begins it, so that this OS thread waits
        return future.result()

    with pytest.raises(KeyboardInterrupt):
        flow.invoke(0, CFG)
    release.set()
    assert flow.invoke(None, CFG) == "there"


def test_a_run_that_is_cancelled_cancels_its_async_tasks():
    ended = []

    @task
    async def forever(n):
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(n)

    @entrypoint()
    async def flow(_):
        forever(1)
        await forever(2)

    async def main():
        running = asyncio.create_task(flow.ainvoke(0))
        await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert sorted(ended) == [1, 2]

    asyncio.run(main())


def test_a_stream_shows_tasks_as_they_end(face):
    gate = threading.Event()

    @task
    def first():
        return "one"

    @task
    def second():
        assert gate.wait(30)
        return "two"

    @entrypoint()
    def flow(_):
        return [first().result(), second().result()]

    def sync():
        seen = []
        for part in flow.stream(0):
            seen.append(part)
            gate.set()  # the first part comes while the second task still runs
        return seen

    async def asynchronous():
        seen = []
        async for part in flow.astream(0):
            seen.append(part)
            gate.set()
        return seen

    seen = sync() if face.name == "sync" else asyncio.run(asynchronous())
    assert seen == [{"first": "one"}, {"second": "two"}, {"flow": ["one", "two"]}]


def test_nodes_of_graphs_show_their_tasks_where_somebody_listens_live(face):
    @task
    def work():
        return 1

    graph = chain(Log, node=lambda state: {"answer": work().result()}).compile()
    shown = face.stream(graph, {}, stream_mode=["updates", "custom"])
    assert shown == [("updates", {"work": 1}), ("updates", {"node": {"answer": 1}})]
