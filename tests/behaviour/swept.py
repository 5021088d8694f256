"""Graphs that the crash kit is tried on: in this process, and in children that import them by name."""

import operator
import re
import time
from typing import Annotated, TypedDict

from durable_graph import END, START, RetryPolicy, Runtime, Send, StateGraph, interrupt
from durable_graph.testing import Ledger, crash_sweep

LEDGER = Ledger()


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    turns: int
    seen: int


def noting(name, key=lambda state: state.get("turns", 0)):
    """A node that has one effect and counts a turn."""

    def node(state: State):
        LEDGER.append(name, key(state))
        return {"log": [name], "turns": state.get("turns", 0) + 1}

    return node


# --- sound ones ------------------------------------------------------------------------------------------------------


def chain():
    """Three nodes in a row, one of them async."""

    async def second(state: State):
        LEDGER.append("second", state["turns"])
        return {"log": ["second"], "turns": state["turns"] + 1}

    return (
        StateGraph(State)
        .add_sequence([("first", noting("first")), ("second", second), ("third", noting("third"))])
        .add_edge(START, "first")
    )


def branch():
    """A router, taken twice."""
    builder = StateGraph(State).add_node("plan", noting("plan")).add_edge(START, "plan")
    builder.add_node("odd", noting("odd")).add_node("even", noting("even")).add_edge("odd", "plan")
    return builder.add_conditional_edges(
        "plan", lambda state: "odd" if state["turns"] % 2 and state["turns"] < 4 else "even"
    )


def fan_out():
    """Six Sends and what comes after them."""

    def work(item: int):
        LEDGER.append("work", item)
        return {"log": [f"work {item}"]}

    builder = StateGraph(State).add_node("plan", noting("plan")).add_edge(START, "plan")
    builder.add_conditional_edges("plan", lambda state: [Send("work", n) for n in range(6)], ["work"])
    return builder.add_node("work", work).add_node("join", noting("join")).add_edge("work", "join")


def asking():
    """A loop that asks three times, each time the same."""

    def ask(state: State):
        LEDGER.append("look", state.get("turns", 0))
        answer = interrupt("Go on?")
        LEDGER.append("act", state.get("turns", 0))
        return {"log": [f"{answer}"], "turns": state.get("turns", 0) + 1}

    builder = StateGraph(State).add_node("ask", ask).add_edge(START, "ask")
    return builder.add_conditional_edges("ask", lambda state: "ask" if state["turns"] < 3 else END)


def asking_at_once():
    """Two nodes that ask at the same time, one of them twice, beside one that only works."""

    def left(state: State):
        return {"log": [f"{interrupt('left?')} {interrupt('more?')}"]}

    def right(state: State):
        return {"log": [f"{interrupt('right?')}"]}

    builder = StateGraph(State).add_node("left", left).add_node("right", right).add_node("work", noting("work"))
    return builder.add_edge(START, "left").add_edge(START, "right").add_edge(START, "work")


def shaky():
    """A node whose first attempt fails."""

    def node(state: State, runtime: Runtime):
        LEDGER.append("attempt", runtime.execution_info.node_attempt)
        if runtime.execution_info.node_attempt == 1:
            raise ConnectionError("not yet")
        return {"log": ["done"]}

    builder = (
        StateGraph(State).add_node("before", noting("before")).add_edge(START, "before").add_edge("before", "node")
    )
    builder.add_node("node", node, retry_policy=RetryPolicy(0.001, jitter=False, retry_on=ConnectionError))
    return builder.add_node("after", noting("after")).add_edge("node", "after")


def stopping():
    """A graph that stops at breakpoints."""
    return chain().compile(interrupt_before=["second"], interrupt_after=["third"])


# --- those with a fault ----------------------------------------------------------------------------------------------


def counting():
    """Its state depends on how often the node ran: it is not idempotent."""

    def node(state: State):
        LEDGER.append("charge", "A17")
        return {"seen": LEDGER.counts()["charge", "A17"]}

    return (
        StateGraph(State)
        .add_node("node", node)
        .add_edge(START, "node")
        .add_edge("node", "end")
        .add_node("end", noting("end"))
    )


def forgetting():
    """It notes that it is going to charge, and after a crash believes that it has."""

    def node(state: State):
        if not LEDGER.counts()["intent", "A17"]:
            LEDGER.append("intent", "A17")
            LEDGER.append("charge", "A17")
        return {"log": ["charged"]}

    return StateGraph(State).add_node("node", node).add_edge(START, "node")


def wavering():
    """What it asks depends on how often it ran."""

    def node(state: State):
        LEDGER.append("run", "")
        answer = interrupt(f"Ship, after {LEDGER.counts()['run', '']} runs?", key="ship")
        return {"log": [answer]}

    return StateGraph(State).add_node("node", node).add_edge(START, "node")


def giving_up():
    """It fails when it runs a second time."""

    def node(state: State):
        LEDGER.append("run", "")
        if LEDGER.counts()["run", ""] > 1:
            raise ValueError("was here before")
        return {"log": ["done"]}

    return StateGraph(State).add_node("node", node).add_edge(START, "node")


def failing():
    """It never ends."""

    def node(state: State):
        raise ValueError("broken from the start")

    return StateGraph(State).add_node("node", node).add_edge(START, "node")


def hang(seconds):
    time.sleep(seconds)


def add(left, right):
    return left + right


# --- sweeping them ---------------------------------------------------------------------------------------------------


def sweep(graph, given=None, **options):
    """Of one face, quietly."""
    options = {"ledger": LEDGER, "faces": ["sync"], "report": None, **options}
    return crash_sweep(graph, {"log": ["in"]} if given is None else given, **options)


def places(report):
    return [point.where for point in report.points]


def found(report, what):
    """The points whose problems say so."""
    return [point for point in report.points if any(re.search(what, problem) for problem in point.problems)]
