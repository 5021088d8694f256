"""Graphs inside nodes that the tests of nested runs share."""

import contextvars
import operator
import threading
from typing import Annotated, Any, TypedDict

import pytest

from durable_graph import START, Send, StateGraph, interrupt
from durable_graph.records import PENDING
from tests.behaviour.small_graphs import Log, Marks, chain


class Part(TypedDict, total=False):
    """A state with a log, which outer states have too, and a number of its own."""

    log: Annotated[list[Any], operator.add]
    number: int


DURABILITIES = pytest.mark.parametrize("durability", ["sync", "async", "exit"])


def working(marks, name, *words):
    """A node that marks each of its runs and adds its name to the log."""

    def node(state):
        marks(name)
        return {"log": [*words] or [name]}

    return node


def asking(marks, name, question=None):
    """A node that marks each run that gets an answer, and logs it."""

    def node(state):
        marks(f"{name} began")
        answer = interrupt(question or f"{name}?")
        marks(name)
        return {"log": [f"{name}={answer}"]}

    return node


def fresh(graph, given=None):
    """A node that calls a graph with an input of its own and logs what came of it."""
    return lambda state: {"log": graph.invoke(given or {"log": []})["log"]}


def afresh(graph, given=None):
    """Async `fresh`."""

    async def node(state):
        return {"log": (await graph.ainvoke(given or {"log": []}))["log"]}

    return node


def calling(face, graph, given=None):
    """A node of this face that calls a graph."""
    return (fresh if face.name == "sync" else afresh)(graph, given)


def deep(levels, bottom):
    """A graph in a graph in a graph: each has a node before and one after the next; `bottom` is a dict of nodes."""
    marks = Marks()
    graph = chain(**bottom(marks)).compile()
    for level in range(levels):
        nodes = {f"before{level}": working(marks, f"before{level}"), f"g{level}": fresh(graph)}
        graph = chain(**nodes, **{f"after{level}": working(marks, f"after{level}")})
        graph = graph.compile() if level < levels - 1 else graph
    return graph, marks


def map_of(width, node):
    """`width` Sends to one node, each with its number."""
    builder = StateGraph(Log).add_node("part", node)
    return builder.add_conditional_edges(START, lambda _: [Send("part", {"number": n}) for n in range(width)], ["part"])


def in_os_threads(jobs):
    """Run jobs at the same time, each in an OS thread with the caller's context; their results in order."""
    results = [None] * len(jobs)
    failed = []

    def work(index):
        try:
            results[index] = jobs[index]()
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            failed.append(error)

    contexts = [contextvars.copy_context() for _ in jobs]
    threads = [threading.Thread(target=one.run, args=(work, index)) for index, one in enumerate(contexts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return results


def checkpoints(saver, key="t"):
    """How many checkpoints each namespace of a thread has."""
    from durable_graph.records import MAIN, RowRange

    loaded = saver.load(key)
    found = {}
    for lane in loaded.lanes:
        rows = saver.read(loaded.thread.no, [RowRange(lane.lane, MAIN, 0, 2**40)])[0]
        found[lane.ns] = found.get(lane.ns, 0) + sum(row.kind != PENDING for row in rows)
    return found
