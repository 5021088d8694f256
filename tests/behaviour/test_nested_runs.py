"""Runs inside the nodes of other runs."""

import asyncio
import threading
from typing import TypedDict

import pytest

from durable_graph import START, Send, StateGraph
from durable_graph.errors import ThreadBusy
from durable_graph.runtime.pool import LIMIT
from tests.behaviour.small_graphs import Log, thread


class Part(TypedDict):
    """What one Send carries."""

    number: int


def fan_out(width, body):
    """`width` Sends to one node, at the same time."""
    builder = StateGraph(Log)
    builder.add_node("part", body, input_schema=Part)
    builder.add_conditional_edges(START, lambda _: [Send("part", {"number": n}) for n in range(width)], ["part"])
    return builder


def plain(part):
    return {"log": [part["number"]]}


async def awaiting(part):
    await asyncio.sleep(0)
    return {"log": [part["number"]]}


def inner_invoke(graph):
    return graph.invoke({})["log"]


def inner_loop(graph):
    return asyncio.run(graph.ainvoke({}))["log"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("call", [inner_invoke, inner_loop])
@pytest.mark.parametrize("body", [plain, awaiting])
def test_as_many_nodes_as_there_are_os_threads_may_each_run_a_fan_out_of_their_own(face, body, call):
    inner = fan_out(3, body).compile()
    together = threading.Barrier(LIMIT)

    def outer(part):
        together.wait(30)  # from here on every OS thread of the pool is taken
        return {"log": [sum(call(inner))]}

    result = face.invoke(fan_out(LIMIT, outer).compile(), {})
    assert result["log"] == [3] * LIMIT


@pytest.mark.timeout(60)
def test_as_many_nodes_as_there_are_os_threads_may_each_run_a_durable_graph(face, backend):
    checkpointer = backend.make()
    builder = StateGraph(Log)
    builder.add_node("only", awaiting_log)
    builder.add_edge(START, "only")
    inner = builder.compile(checkpointer=checkpointer)
    together = threading.Barrier(LIMIT)

    def outer(part):
        together.wait(30)
        config = thread(f"inner-{part['number']}")
        return {"log": asyncio.run(inner.ainvoke({}, config))["log"]}

    result = face.invoke(fan_out(LIMIT, outer).compile(), {})
    assert result["log"] == ["done"] * LIMIT


async def awaiting_log(_):
    await asyncio.sleep(0)
    return {"log": ["done"]}


def test_os_threads_that_nested_runs_needed_end_again(face):
    before = set(threading.enumerate())  # other tests had pools of their own, whose idle OS threads are still there
    inner = fan_out(3, plain).compile()
    outer = fan_out(LIMIT, lambda _: {"log": inner_invoke(inner)}).compile()
    for _ in range(3):
        face.invoke(outer, {})
    face.invoke(fan_out(LIMIT * 2, plain).compile(), {})
    serving = [
        thread for thread in threading.enumerate() if thread.name.startswith("durable_graph-") and thread not in before
    ]
    assert len(serving) <= 2 * LIMIT


def test_a_node_that_calls_its_own_thread_is_told_so(face, backend):
    graphs = []
    config = thread("mine")
    builder = StateGraph(Log)
    builder.add_node("selfish", lambda _: graphs[0].invoke({"log": ["again"]}, config))
    builder.add_edge(START, "selfish")
    graphs.append(builder.compile(checkpointer=backend.make()))
    with pytest.raises(ThreadBusy, match=r"'selfish' called a graph on its own thread 'mine'(.|\n)*of its own"):
        face.invoke(graphs[0], {"log": ["start"]}, config)
    assert face.get_state(graphs[0], config).next == ("selfish",)
