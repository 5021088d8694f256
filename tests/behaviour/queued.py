"""Graphs for tests of queued runs, and what they do again and again."""

import operator
from typing import Annotated, TypedDict

from durable_graph import START, StateGraph


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def chain(checkpointer, *nodes, name="chain", **options):
    """Nodes one after the other, by their functions' names."""
    builder = StateGraph(Log)
    before = START
    for node in nodes:
        builder.add_node(node).add_edge(before, node.__name__)
        before = node.__name__
    return builder.compile(checkpointer, name=name, **options)


def note(word):
    """A node that writes a word."""

    def node(state):
        return {"log": [word]}

    node.__name__ = word
    return node


def worked(face, graph, **options):
    """One worker, until nothing is left that could go on."""
    return face.call(graph, "work", until_idle=True, poll=0.02, **options)


def given(word):
    return {"log": [word]}


def on(thread):
    return {"configurable": {"thread_id": thread}}
