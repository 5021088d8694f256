"""What runs at the same time, and where: OS threads, event loops, limits, context variables. No test measures time."""

import asyncio
import contextvars
import threading

import pytest

from durable_graph import START, Send, StateGraph
from durable_graph.errors import EventLoopError
from tests.behaviour.making import until
from tests.behaviour.small_graphs import Log, chain, parallel, thread

VARIABLE = contextvars.ContextVar("variable", default="unset")


def sends(worker, count):
    """START sends 0 … count - 1 to `worker`."""
    builder = StateGraph(Log).add_node("worker", worker)
    builder.add_conditional_edges(START, lambda state: [Send("worker", n) for n in range(count)], ["worker"])
    return builder.compile()


class Meter:
    """How many are inside at once, at the most."""

    def __init__(self):
        self.lock = threading.Lock()
        self.inside = self.most = 0

    def __enter__(self):
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)

    def __exit__(self, *error):
        with self.lock:
            self.inside -= 1


# --- at the same time -------------------------------------------------------------------------------------------------


def test_sync_nodes_of_one_step_run_at_the_same_time(face):
    barrier = threading.Barrier(4)

    def node(state):
        barrier.wait(10)  # breaks, and fails the node, unless all four are inside at once
        return {"log": [1]}

    graph = parallel(a=node, b=node, c=node, d=node).compile()
    assert face.invoke(graph, {"log": []}) == {"log": [1] * 4}


def test_async_nodes_of_one_step_run_at_the_same_time(face):
    """On the sync face they share the private loop."""
    inside, all_inside = [], []

    async def node(state):
        inside.append(1)
        await until(lambda: len(inside) == 3)
        all_inside.append(asyncio.get_running_loop())
        return {"log": [1]}

    graph = parallel(a=node, b=node, c=node).compile()
    assert face.invoke(graph, {"log": []}) == {"log": [1] * 3}
    assert len(set(map(id, all_inside))) == 1


def test_sync_and_async_nodes_of_one_step_run_at_the_same_time(face):
    sync_inside, async_inside = threading.Event(), threading.Event()

    def node(state):
        sync_inside.set()
        assert async_inside.wait(10)

    async def anode(state):
        async_inside.set()
        await until(sync_inside.is_set)

    graph = parallel(a=node, b=anode).compile()
    assert face.invoke(graph, {"log": ["in"]}) == {"log": ["in"]}


def test_sends_of_one_step_run_at_the_same_time(face):
    barrier = threading.Barrier(5)

    def worker(arg):
        barrier.wait(10)
        return {"log": [arg]}

    assert face.invoke(sends(worker, 5), {"log": []}) == {"log": [0, 1, 2, 3, 4]}


def test_a_sync_node_does_not_block_the_callers_event_loop():
    release = threading.Event()

    def node(state):
        assert release.wait(10)
        return {"log": ["done"]}

    async def main():
        running = asyncio.ensure_future(chain(a=node).compile().ainvoke({"log": []}))
        await asyncio.sleep(0)
        release.set()  # never reached if the node holds the loop
        return await running

    assert asyncio.run(main()) == {"log": ["done"]}


def test_batch_runs_its_inputs_at_the_same_time_and_returns_them_in_order(face):
    barrier = threading.Barrier(3)

    def node(state):
        barrier.wait(10)
        return {"log": ["done"]}

    graph = chain(a=node).compile()
    assert face.batch(graph, [{"log": [n]} for n in range(3)]) == [{"log": [n, "done"]} for n in range(3)]


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("limit", [1, 2])
def test_max_concurrency_limits_how_many_run_at_once_and_all_run(face, limit, asynchronous):
    meter = Meter()

    def worker(arg):
        with meter:
            threading.Event().wait(0.002)
        return {"log": [arg]}

    async def aworker(arg):
        with meter:
            await asyncio.sleep(0.002)
        return {"log": [arg]}

    graph = sends(aworker if asynchronous else worker, 6)
    assert face.invoke(graph, {"log": []}, {"max_concurrency": limit}) == {"log": [0, 1, 2, 3, 4, 5]}
    assert meter.most <= limit


def test_max_concurrency_limits_a_batch(face):
    meter = Meter()

    def node(state):
        with meter:
            threading.Event().wait(0.002)

    face.batch(chain(a=node).compile(), [{"log": []}] * 5, {"max_concurrency": 2})
    assert meter.most <= 2


def test_more_sends_than_there_are_os_threads_all_run(face):
    assert face.invoke(sends(lambda arg: {"log": [arg]}, 300), {"log": []})["log"] == list(range(300))


# --- event loops ------------------------------------------------------------------------------------------------------


def test_invoke_runs_async_nodes_on_one_loop_that_stays(request):
    loops = []

    async def node(state):
        loops.append(asyncio.get_running_loop())

    graph = chain(a=node, b=node).compile()
    graph.invoke({"log": []})
    graph.invoke({"log": []})
    assert len(loops) == 4
    assert len(set(map(id, loops))) == 1


def test_invoke_of_an_async_node_inside_a_running_loop_is_a_clear_error():
    async def fetch(state):
        return {}

    async def main():
        chain(fetch=fetch).compile().invoke({"log": []})

    with pytest.raises(EventLoopError, match=r"async node 'fetch'(.|\n)*await graph.ainvoke"):
        asyncio.run(main())


def test_invoke_inside_a_running_loop_works_where_all_nodes_are_sync():
    async def main():
        return chain(a=lambda state: {"log": ["a"]}).compile().invoke({"log": []})

    assert asyncio.run(main()) == {"log": ["a"]}


def test_ainvoke_runs_async_nodes_on_the_callers_loop():
    async def node(state):
        return {"log": [asyncio.get_running_loop()]}

    async def main():
        result = await parallel(a=node, b=node).compile().ainvoke({"log": []})
        assert result["log"] == [asyncio.get_running_loop()] * 2

    asyncio.run(main())


def test_a_compiled_graph_serves_one_loop_after_the_other_and_several_os_threads(backend):
    async def node(state):
        return {"log": ["done"]}

    graph = chain(a=node).compile(checkpointer=backend.make())
    results = []

    def work(name):
        results.append(asyncio.run(graph.ainvoke({"log": [name]}, thread(name))))
        results.append(graph.invoke({"log": [name]}, thread(name + "2")))

    workers = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(20)
    assert sorted(result["log"] for result in results) == sorted([[name, "done"] for name in "abcd"] * 2)


# --- context variables --------------------------------------------------------------------------------------------


def read(state):
    return {"log": [VARIABLE.get()]}


async def aread(state):
    return {"log": [VARIABLE.get()]}


def write(state):
    VARIABLE.set("written by a node")


async def awrite(state):
    VARIABLE.set("written by a node")
    await asyncio.sleep(0)
    VARIABLE.set("written again")


@pytest.mark.parametrize("node", [read, aread])
@pytest.mark.parametrize("build", [chain, parallel])
def test_nodes_see_the_callers_context_variables(face, build, node):
    graph = build(a=node, b=node).compile()
    token = VARIABLE.set("the caller's")
    try:
        assert face.invoke(graph, {"log": []})["log"] == ["the caller's"] * 2
        assert face.batch(graph, [{"log": []}] * 2) == [{"log": ["the caller's"] * 2}] * 2
    finally:
        VARIABLE.reset(token)


@pytest.mark.parametrize("reader", [read, aread])
@pytest.mark.parametrize("writer", [write, awrite])
@pytest.mark.parametrize("mode", ["values", "custom"])
def test_a_context_variable_set_in_a_node_is_not_seen_by_the_next_node(face, writer, reader, mode):
    graph = chain(a=writer, b=reader).compile()
    if mode == "values":
        assert face.invoke(graph, {"log": []})["log"] == ["unset"]
    else:
        assert face.stream(graph, {"log": []}, stream_mode=["updates", "custom"])[-1] == (
            "updates",
            {"b": {"log": ["unset"]}},
        )


@pytest.mark.parametrize("writer", [write, awrite])
def test_a_context_variable_set_in_a_node_does_not_leak_to_the_sync_caller(writer):
    chain(a=writer).compile().invoke({"log": []})
    for _ in chain(a=writer).compile().stream({"log": []}):
        assert VARIABLE.get() == "unset"
    assert VARIABLE.get() == "unset"


@pytest.mark.parametrize("writer", [write, awrite])
def test_a_context_variable_set_in_a_node_does_not_leak_to_the_async_caller(writer):
    async def main():
        graph = chain(a=writer).compile()
        await graph.ainvoke({"log": []})
        async for _ in graph.astream({"log": []}):
            assert VARIABLE.get() == "unset"
        return VARIABLE.get()

    assert asyncio.run(main()) == "unset"


def test_a_router_sees_what_its_node_set_or_the_callers_but_never_another_nodes(face):
    seen = []

    def route(state):
        seen.append(VARIABLE.get())
        return "b"

    graph = StateGraph(Log).add_node("a", write).add_node("b", read).add_edge(START, "a")
    graph.add_conditional_edges("a", route, ["b"])
    assert face.invoke(graph.compile(), {"log": []})["log"] == ["unset"]
    assert set(seen) <= {"unset", "written by a node"}
