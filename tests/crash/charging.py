"""An order that charges, asks and ships, and one process's life of it. Every effect is a line in a ledger.

A payment provider takes the same idempotency key twice and charges once; so a charge is counted by its key.
"""

import asyncio
import operator
import time
from typing import Annotated, TypedDict

from checkpointers import PostgresSaver, SqliteSaver
from durable_graph import START, Command, Runtime, StateGraph, aonce, interrupt, once
from durable_graph.runtime.session import ask, newest
from durable_graph.testing import Ledger
from durable_graph.testing.ledger import write_to
from durable_graph.testing.life import Life, WatchedCheckpointer, kill_this_process
from durable_graph.testing.playing import call_in_life
from tests.backends import open_url

LEDGER = Ledger()
NAP = 0.002
"""Seconds that the provider takes, before and after the effect, so that a kill from outside can hit it."""


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def charge(order, runtime: Runtime):
    return _effect("charge", order, runtime)


def ship(order, runtime: Runtime):
    return _effect("ship", order, runtime)


def _effect(name, order, runtime):
    time.sleep(NAP)
    LEDGER.append(name, runtime.idempotency_key)
    time.sleep(NAP)
    return f"{name} {order}"


def sync_order(state: State):
    charged = once("charge", charge, "A17")
    answer = interrupt({"charged": charged})
    return {"log": [charged, answer, once("ship", ship, "A17")]}


async def async_order(state: State):
    charged = await aonce("charge", charge, "A17")
    answer = interrupt({"charged": charged})
    return {"log": [charged, answer, await aonce("ship", ship, "A17")]}


def graph(face, checkpointer):
    builder = StateGraph(State).add_node("order", sync_order if face == "sync" else async_order)
    builder.add_node("thank", lambda state: {"log": ["thank"]}).add_edge(START, "order").add_edge("order", "thank")
    return builder.compile(checkpointer)


DONE = ["charge A17", "yes", "ship A17", "thank"]


def config(thread):
    return {"configurable": {"thread_id": thread}}


def live(face, database, thread, ledger, dies_at=None):
    """One process's life: start the order, answer what it asks, or go on with it; where it dies, by SIGKILL.

    Args:
        face: "sync" or "async".
        database: its URL.
        thread: the order's thread.
        ledger: the file of its effects.
        dies_at: at which moment (before and after each verb of the checkpointer, after each effect).
    """
    write_to(ledger)
    life = Life(1, dies_at=dies_at, die=kill_this_process)
    looking = graph(face, open_url(database))
    snapshot = looking.get_state(config(thread))
    given = {"log": []} if snapshot.metadata is None else Command(resume="yes") if snapshot.interrupts else None
    order = graph(face, WatchedCheckpointer(open_url(database), life))

    def call():
        if face == "sync":
            order.invoke(given, config(thread))
        else:
            asyncio.run(order.ainvoke(given, config(thread)))

    call_in_life(life, call)
    return life.moments


def load():
    """In the fork server: all that a life needs, but nothing that is open."""
    for face in ("sync", "async"):
        for saver in (SqliteSaver("never made.db"), PostgresSaver("dbname=never_opened")):
            _ = graph(face, saver)


def recorded(checkpointer, thread):
    """The names of the steps whose result is durable, or whose whole node is."""
    stored = ask(checkpointer, newest(thread))
    if stored is None:
        return set()
    if stored.values.get("log"):
        return {"charge", "ship"}
    node = stored.pending.get("order")
    if node is not None and node.writes is not None:
        return {"charge", "ship"}
    return {call.name for call in stored.calls if call.data is not None}
