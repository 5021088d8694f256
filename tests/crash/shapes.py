"""The graphs that are killed. Every start of a task is a line in a ledger that survives the process."""

import operator
import os
import time
from typing import Annotated, TypedDict

from durable_graph import END, START, RetryPolicy, Runtime, Send, StateGraph

NAP = 0.003
"""Seconds a node takes, so that a run lasts long enough to be hit."""


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    total: int


class Ledger:
    """Lines "incarnation task attempt", flushed to the disk before the node does anything else."""

    def __init__(self):
        self._file = -1
        self._incarnation = 0

    def open(self, path, incarnation):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._incarnation = incarnation

    def start(self, runtime):
        info = runtime.execution_info
        os.write(self._file, f"{self._incarnation} {info.task_id} {info.node_attempt}\n".encode())
        os.fsync(self._file)
        time.sleep(NAP)


LEDGER = Ledger()


def working(name):
    def node(state: State, runtime: Runtime):
        LEDGER.start(runtime)
        return {"log": [f"{name} after {len(state['log'])}"], "total": state.get("total", 0) + 1}

    return node


def only_logging(name):
    def node(state: State, runtime: Runtime):
        LEDGER.start(runtime)
        return {"log": [f"{name} after {len(state['log'])}"]}

    return node


def chain():
    names = [f"n{index}" for index in range(12)]
    builder = StateGraph(State)
    for before, name in zip([START, *names], names, strict=False):
        builder.add_node(name, working(name)).add_edge(before, name)
    return builder


def barrier():
    """Three rounds of a fan-out whose branches have one, two and three nodes, joined by a barrier edge."""
    builder = StateGraph(State)
    builder.add_node("split", working("split")).add_edge(START, "split")
    ends = []
    for length in (1, 2, 3):
        before = "split"
        for index in range(length):
            name = f"b{length}{index}"
            builder.add_node(name, only_logging(name)).add_edge(before, name)
            before = name
        ends.append(before)
    builder.add_node("join", working("join")).add_edge(ends, "join")
    return builder.add_conditional_edges("join", lambda state: "split" if state["total"] < 6 else END)


def send_map():
    """Two rounds of eight Sends."""

    def work(item, runtime: Runtime):
        LEDGER.start(runtime)
        return {"log": [f"work {item}"]}

    builder = StateGraph(State).add_node("plan", working("plan")).add_edge(START, "plan")
    builder.add_node("work", work).add_node("reduce", working("reduce")).add_edge("work", "reduce")
    builder.add_conditional_edges("plan", lambda state: [Send("work", n) for n in range(8)], ["work"])
    return builder.add_conditional_edges("reduce", lambda state: "plan" if state["total"] < 4 else END)


def loop():
    builder = StateGraph(State).add_node("turn", working("turn")).add_edge(START, "turn")
    return builder.add_conditional_edges("turn", lambda state: "turn" if state["total"] < 14 else END)


def retry():
    """Every second node fails in its first attempt of each process."""

    def shaky(name):
        def node(state: State, runtime: Runtime):
            LEDGER.start(runtime)
            if runtime.execution_info.node_attempt == 1:
                raise ConnectionError(name)
            return {"log": [f"{name} after {len(state['log'])}"]}

        return node

    builder = StateGraph(State)
    before = START
    for index in range(5):
        for name, node in ((f"shaky{index}", shaky), (f"steady{index}", working)):
            builder.add_node(name, node(name), retry_policy=RetryPolicy(NAP, jitter=False)).add_edge(before, name)
            before = name
    return builder


SHAPES = {"chain": chain, "barrier": barrier, "send_map": send_map, "loop": loop, "retry": retry}
