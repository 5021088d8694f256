"""A few small graphs that together store whatever can be: loops, Sends, questions, recorded steps, graphs inside.

`BROKEN` holds the names of nodes that fail right now; of nodes that run at the same time only those that start last, so
that it is no matter of chance which of them finish.
"""

import operator
from typing import Annotated, Any

from typing_extensions import TypedDict

from durable_graph import END, START, Send, StateGraph, interrupt, once

BROKEN = set()
LIMIT = 9
"""Steps after which a run is stopped."""


class State(TypedDict, total=False):
    """`bag` holds what callers put there and nobody else touches."""

    log: Annotated[list, operator.add]
    total: Annotated[int, operator.add]
    bag: Any


def may_break(name):
    if name in BROKEN:
        raise ValueError(f"broken {name}")


def works(name):
    def work(state):
        may_break(name)
        return {"log": [f"{name} after {len(state.get('log', []))}"], "total": 1}

    return work


def counting():
    """One node, until the total divides by four."""
    builder = StateGraph(State).add_node("count", works("count")).add_edge(START, "count")
    return builder.add_conditional_edges("count", lambda state: "count" if state["total"] % 4 else END, ["count", END])


def spreading():
    """Sends, as many as the total says, and what joins them; work is recorded."""

    def work(item):
        found = once("work", lambda: f"worked on {item['item']}")
        if item["last"]:
            may_break("work")
        return {"log": [found], "total": 1}

    def spread(state):
        width = state["total"] % 3 + 1
        return [
            Send("work", {"item": (number, state.get("bag")), "last": number == width})
            for number in range(1, width + 1)
        ]

    builder = StateGraph(State).add_node("plan", works("plan")).add_node(work).add_node("join", works("join"))
    builder.add_edge(START, "plan").add_conditional_edges("plan", spread, ["work"])
    return builder.add_edge("work", "join").add_edge("join", END)


def asking():
    """Two nodes that ask at the same time, one of them twice, beside one that works."""

    def first(state):
        told = once("draft", lambda: f"draft {len(state['log'])}")
        return {"log": [told, interrupt({"first": state.get("bag")}), interrupt("sure?")]}

    def second(state):
        return {"log": [("second", interrupt("second?"))], "total": 1}

    builder = StateGraph(State).add_node("draft", works("draft"))
    builder.add_node(first).add_node(second).add_node("third", works("third")).add_node("end", works("end"))
    builder.add_edge(START, "draft")
    for name in ("first", "second", "third"):
        builder.add_edge("draft", name)
    return builder.add_edge(["first", "second", "third"], "end")


def nesting():
    """A graph with a memory of its own, which asks, and one without, called in turn."""

    def ask(state):
        return {"log": [interrupt(f"inside after {len(state['log'])}")], "total": 1}

    inner = StateGraph(State).add_node("work", works("work")).add_node("ask", ask)
    inner.add_edge(START, "work").add_edge("work", "ask")
    plain = StateGraph(State).add_node("step", works("step")).add_edge(START, "step").compile()
    remembers = inner.compile(checkpointer=True)

    def outer(state):
        may_break("outer")
        found = remembers.invoke({"log": [f"call {state['total']}"]})
        return {"log": [len(found["log"]), *plain.invoke({"log": []})["log"]], "total": 1}

    builder = StateGraph(State).add_node("begin", works("begin")).add_node(outer)
    builder.add_edge(START, "begin").add_edge("begin", "outer")
    return builder.add_conditional_edges("outer", lambda state: "outer" if state["total"] % 3 else END, ["outer", END])


GRAPHS = {"counting": counting, "spreading": spreading, "asking": asking, "nesting": nesting}
NODES = {
    "counting": ["count"],
    "spreading": ["plan", "work", "join"],
    "asking": ["draft", "first", "second", "third", "end"],
    "nesting": ["begin", "outer"],
}
FRAGILE = {
    "counting": ["count"],
    "spreading": ["plan", "work", "join"],
    "asking": ["draft", "third", "end"],
    "nesting": ["begin", "work", "step", "outer"],
}
