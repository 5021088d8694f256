"""The custom stream: from nodes, helpers and OS threads, live."""

import asyncio
import contextvars
import threading

import pytest

from durable_graph import get_runtime, get_stream_writer
from durable_graph.errors import OutsideRunError
from tests.behaviour.making import says, until
from tests.behaviour.small_graphs import chain, parallel


def custom(face, graph, **keywords):
    return face.stream(graph.compile(), {"log": []}, stream_mode="custom", **keywords)


def by_parameter(state, writer):
    writer("event")


def by_runtime(state, runtime):
    runtime.stream_writer("event")


def helper():
    get_stream_writer()("event")


def by_helper(state):
    helper()


def by_get_runtime(state):
    get_runtime().stream_writer("event")


async def by_async_parameter(state, *, writer):
    writer("event")


async def by_async_helper(state):
    await asyncio.sleep(0)
    helper()


async def by_inner_task(state):
    async def inner():
        helper()

    await asyncio.create_task(inner())


@pytest.mark.parametrize(
    "node",
    [by_parameter, by_runtime, by_helper, by_get_runtime, by_async_parameter, by_async_helper, by_inner_task],
)
def test_a_node_writes_events_in_many_ways(face, node):
    assert custom(face, chain(a=node)) == ["event"]


def with_writer(state, writer):
    worker = threading.Thread(target=writer, args=("event",))
    worker.start()
    worker.join()


def with_context(state):
    context = contextvars.copy_context()
    worker = threading.Thread(target=context.run, args=(helper,))
    worker.start()
    worker.join()


async def with_to_thread(state):
    await asyncio.to_thread(helper)


@pytest.mark.parametrize("node", [with_writer, with_context, with_to_thread])
def test_an_os_thread_that_a_node_starts_writes_events(face, node):
    assert custom(face, chain(a=node)) == ["event"]


def test_many_os_threads_of_a_node_lose_no_event(face):
    def node(state, writer):
        workers = [threading.Thread(target=lambda: [writer(n) for n in range(50)]) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    assert sorted(custom(face, chain(a=node))) == sorted(list(range(50)) * 8)


def test_events_of_one_node_come_in_its_order_before_its_update(face):
    def node(state, writer):
        for n in range(5):
            writer(n)
        return {"log": ["done"]}

    parts = face.stream(chain(a=node).compile(), {"log": []}, stream_mode=["updates", "custom"])
    assert parts == [*(("custom", n) for n in range(5)), ("updates", {"a": {"log": ["done"]}})]


@pytest.mark.parametrize("event", [None, 0, "", [], {"a": 1}, (1, 2), object])
def test_an_event_may_be_anything(face, event):
    assert custom(face, chain(a=lambda state, writer: writer(event))) == [event]


def test_without_a_listener_a_writer_does_nothing(face):
    assert face.invoke(chain(a=by_parameter, b=by_helper).compile(), {"log": ["in"]}) == {"log": ["in"]}


def test_events_are_live_on_the_sync_face():
    """The node is let out only once its event has arrived."""
    out = threading.Event()

    def node(state, writer):
        writer("inside")
        assert out.wait(10)
        return {"log": ["left"]}

    stream = chain(a=node).compile().stream({"log": []}, stream_mode=["custom", "updates"])
    assert next(stream) == ("custom", "inside")
    out.set()
    assert list(stream) == [("updates", {"a": {"log": ["left"]}})]


@pytest.mark.parametrize("kind", ["sync", "async", "os thread"])
def test_events_are_live_on_the_async_face(kind):
    out = threading.Event()

    def node(state, writer):
        writer("inside")
        assert out.wait(10)

    def threaded(state, writer):
        worker = threading.Thread(target=writer, args=("inside",))
        worker.start()
        assert out.wait(10)
        worker.join()

    async def anode(state, writer):
        writer("inside")
        await until(out.is_set)

    chosen = {"sync": node, "async": anode, "os thread": threaded}[kind]

    async def main():
        stream = chain(a=chosen).compile().astream({"log": []}, stream_mode="custom")
        assert await anext(stream) == "inside"
        out.set()
        return [part async for part in stream]

    assert asyncio.run(main()) == []


def test_events_of_async_nodes_are_live_on_the_sync_face():
    out = threading.Event()

    async def node(state, writer):
        writer("inside")
        await until(out.is_set)

    stream = chain(a=node).compile().stream({"log": []}, stream_mode="custom")
    assert next(stream) == "inside"
    out.set()
    assert list(stream) == []


def test_events_of_parallel_nodes_are_live():
    out = threading.Event()

    def node(state, writer):
        writer("inside")
        assert out.wait(10)

    stream = parallel(a=node, b=node).compile().stream({"log": []}, stream_mode="custom")
    assert [next(stream), next(stream)] == ["inside", "inside"]
    out.set()
    assert list(stream) == []


def test_a_late_event_of_a_run_that_is_over_disturbs_nobody(face):
    writers = []
    graph = chain(a=lambda state, writer: writers.append(writer), b=says("b"))
    assert custom(face, graph) == []
    writers[0]("late")
    assert custom(face, graph) == []


def test_outside_of_a_node_there_is_no_writer():
    with pytest.raises(OutsideRunError, match=r"get_stream_writer\(\)"):
        get_stream_writer()
