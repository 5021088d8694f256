"""Version 1 of a graph for orders, as it was deployed when the threads of threads_v1.db were stored.

    receive ─► check, stock ─► approve ─► payment (a graph inside) ─► notify ─► pack (one for each item) ─► ship

`approve` asks, and so does `confirm` inside `payment`. `notify` and `pack` have other names in version 2, or none.
"""

import operator
import os
import signal
import time
from typing import Annotated, TypedDict

from pydantic import BaseModel

from durable_graph import START, Send, StateGraph, interrupt, once

ITEMS = 3


class Order(TypedDict, total=False):
    order: str
    amount: int
    priority: str
    paid: str
    trail: Annotated[list[str], operator.add]


class OrderModel(BaseModel):
    order: str
    amount: int = 0
    priority: str = "low"
    paid: str = ""
    trail: Annotated[list[str], operator.add] = []


class Payment(TypedDict, total=False):
    order: str
    amount: int
    steps: Annotated[list[str], operator.add]
    paid: str


TROUBLE = ""
"""What goes wrong in this process: "kill NODE" or "fail NODE"."""


def troubled(node):
    """The trouble that this process has in a node."""
    if f"fail {node}" == TROUBLE:
        what = f"{node} has a bug in version 1"
        raise ValueError(what)
    if f"kill {node}" == TROUBLE:
        time.sleep(0.05)  # what runs beside it may be stored by then
        os.kill(os.getpid(), signal.SIGKILL)


def noting(node, mark):
    def note(state):
        troubled(node)
        return {"trail": [mark]}

    return note


def approve(state: Order):
    quote = once("quote", lambda: "quote of version 1")
    return {"trail": [f"approved {interrupt({'approve': quote})} by {quote}"]}


def approve_model(state: OrderModel):
    return approve({})


def split(state):
    order = state["order"] if isinstance(state, dict) else state.order
    return [Send("pack", f"{order}, item {number}") for number in range(ITEMS)]


def pack(item: str):
    if item.endswith("item 2"):
        troubled("pack")
    return {"trail": [f"packed {item}"]}


def confirm(state: Payment):
    return {"steps": [f"confirmed {interrupt({'pay': state['amount']}, key='pay')}"]}


def book(state: Payment):
    troubled("book")
    return {"paid": " ".join([*state["steps"], "booked"])}


def payment():
    """The graph inside."""
    builder = StateGraph(Payment).add_node("open", lambda state: {"steps": [f"opened {state['amount']}"]})
    builder.add_node("confirm", confirm).add_node("book", book)
    builder.add_edge(START, "open").add_edge("open", "confirm").add_edge("confirm", "book")
    return builder.compile(version="1", name="payment")


def orders(schema, checkpointer=None):
    """The graph, with one of the two states."""
    builder = StateGraph(schema).add_node("receive", noting("receive", "received"))
    builder.add_node("check", noting("check", "checked")).add_node("stock", noting("stock", "stocked"))
    builder.add_node("approve", approve if schema is Order else approve_model)
    builder.add_node("payment", payment()).add_node("notify", noting("notify", "notified"))
    builder.add_node("pack", pack).add_node("ship", noting("ship", "shipped"))
    builder.add_edge(START, "receive").add_edge("receive", "check").add_edge("receive", "stock")
    builder.add_edge(["check", "stock"], "approve").add_edge("approve", "payment").add_edge("payment", "notify")
    builder.add_conditional_edges("notify", split, ["pack"]).add_edge("pack", "ship")
    return builder.compile(checkpointer, version="1", name="orders")
