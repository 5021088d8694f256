"""The graph whose runs go through the chaos, and what each of its runs comes to.

Ten steps: recorded steps, a durable sleep, a fan-out of four, sync and async nodes. Each start of a task, each body of
a recorded step and each line that follows one goes to the ledger.
"""

import asyncio
import operator
import time
from typing import Annotated, TypedDict

from durable_graph import START, Runtime, Send, StateGraph, once, sleep
from tests.chaos.ledger import LEDGER

NAME = "chaos"
STEPS = ("open", "pay", "nap", "split", "part", "join", "fetch", "book", "grind", "close")
NUMBER = {name: number for number, name in enumerate(STEPS, 1)}
PARTS = 4
NAP = 0.3
"""Seconds of the durable sleep."""
WORK = 0.02
"""Seconds a node takes, so that it can be hit."""


class State(TypedDict, total=False):
    """run and number come with each run's input; the rest is what all runs of the thread made of it."""

    run: str
    number: int
    total: int
    log: Annotated[list[str], operator.add]
    parts: Annotated[list[int], operator.add]
    receipts: Annotated[list[str], operator.add]


class Part(TypedDict):
    run: str
    number: int
    index: int


def started(name, state, task=""):
    LEDGER.say("start", state["run"], NUMBER[name], task or name)
    time.sleep(WORK)


def recorded(name, state, key):
    """A recorded step, and a line that says that it is."""

    def body(run: str, runtime: Runtime) -> str:
        LEDGER.say("body", run, NUMBER[name], f"{key} {runtime.idempotency_key}")
        time.sleep(WORK)
        return f"{run}:{key}"

    receipt = once(key, body, state["run"])
    LEDGER.say("after", state["run"], NUMBER[name], key)
    return receipt


def entry(state, name):
    return [f"{state['run']}:{name}"]


def opened(state: State):
    started("open", state)
    return {"log": entry(state, "open")}


def pay(state: State):
    started("pay", state)
    return {"log": entry(state, "pay"), "receipts": [recorded("pay", state, "charge")]}


def nap(state: State):
    started("nap", state)
    receipt = recorded("nap", state, "before the nap")
    sleep(NAP)
    return {"log": entry(state, "nap"), "receipts": [receipt]}


def split(state: State):
    started("split", state)
    return {"log": entry(state, "split")}


def spread(state: State):
    return [Send("part", Part(run=state["run"], number=state["number"], index=index)) for index in range(PARTS)]


def part(state: Part):
    started("part", state, f"part#{state['index']}")
    time.sleep(WORK * state["index"])
    return {"log": entry(state, f"part#{state['index']}"), "parts": [state["number"] * PARTS + state["index"]]}


def join(state: State):
    """Reads what it writes: a step that counted twice would show."""
    started("join", state)
    return {"log": entry(state, "join"), "total": state.get("total", 0) + sum(state["parts"][-PARTS:])}


async def fetch(state: State):
    started("fetch", state)
    await asyncio.sleep(WORK)
    return {"log": entry(state, "fetch")}


def book(state: State):
    started("book", state)
    return {"log": entry(state, "book"), "receipts": [recorded("book", state, f"page {page}") for page in range(3)]}


def grind(state: State):
    started("grind", state)
    time.sleep(2 * WORK)
    return {"log": entry(state, "grind")}


def close(state: State):
    started("close", state)
    return {"log": entry(state, "close"), "total": state["total"] * 2 + 1}


def built():
    nodes = (opened, pay, nap, split, part, join, fetch, book, grind, close)
    builder = StateGraph(State)
    for name, node in zip(STEPS, nodes, strict=True):
        builder.add_node(name, node)
    builder.add_conditional_edges("split", spread, ["part"])
    for before, name in zip((START, *STEPS), STEPS, strict=False):
        if name != "part":
            builder.add_edge(before, name)
    return builder


def given(run, number):
    """The input of a run."""
    return {"run": run, "number": number}


def came_to(before, run, number):
    """The state after a run, from the one before it on the thread."""
    state = {"total": 0, "log": [], "parts": [], "receipts": [], **before, **given(run, number)}
    names = [[f"part#{index}" for index in range(PARTS)] if name == "part" else [name] for name in STEPS]
    parts = [number * PARTS + index for index in range(PARTS)]
    keys = ("charge", "before the nap", *(f"page {page}" for page in range(3)))
    return {
        **state,
        "log": state["log"] + [f"{run}:{name}" for several in names for name in several],
        "parts": state["parts"] + parts,
        "receipts": state["receipts"] + [f"{run}:{key}" for key in keys],
        "total": (state["total"] + sum(parts)) * 2 + 1,
    }
