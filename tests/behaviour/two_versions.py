"""Two versions of a graph over one thread: what tests of changed graphs share."""

import operator
from typing import Annotated, Any, TypedDict

from durable_graph import START, StateGraph, interrupt
from tests.behaviour.small_graphs import thread

CFG = thread()


def asks(*questions, marks=None):
    """A node that asks one question after the other."""

    def node(state):
        if marks is not None:
            marks("asked")
        return {"log": [interrupt(question) for question in questions]}

    return node


def renamed(builder, saver, *, version="2", **aliases):
    return builder.compile(saver, version=version, node_aliases=aliases)


class Old(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    before: str


class New(TypedDict, total=False):
    entries: Annotated[list[Any], operator.add]
    after: str


KEYS = {"log": "entries", "before": "after"}


def old_keys(saver, **more):
    builder = StateGraph(Old).add_node("a", lambda state: {"log": ["a"], "before": "b"}).add_node("ask", ask_old)
    return builder.add_edge(START, "a").add_edge("a", "ask").compile(saver, **more)


def ask_old(state):
    return {"log": [interrupt("?")]}


def new_keys(saver, ask=None, **more):
    def node(state):
        return {"entries": [interrupt("?")]}

    builder = StateGraph(New).add_node("a", lambda state: {"entries": ["a"], "after": "b"})
    builder.add_node("ask", ask or node).add_edge(START, "a").add_edge("a", "ask")
    return builder.compile(saver, key_aliases=KEYS, **more)
