"""Version 2 of the graph for orders: other names, a node less, a new required key. Without and with what helps.

    receive ─► check, inventory ─► review ─► checkout (a graph inside) ─► dispatch ─► box (one for each item) ─► ship

`notify` is gone; threads that were to run it go on at `dispatch`, which tells nobody.
"""

import operator
from typing import Annotated, TypedDict

from pydantic import BaseModel

from durable_graph import START, Send, StateGraph, interrupt, once
from tests.compatibility.orders_v1 import ITEMS


class Order(TypedDict):
    order: str
    total: float
    currency: str
    priority: int
    paid: str
    trail: Annotated[list[str], operator.add]


class OrderModel(BaseModel):
    order: str
    total: float = 0.0
    currency: str
    priority: int = 0
    paid: str = ""
    trail: Annotated[list[str], operator.add] = []


class Payment(TypedDict):
    order: str
    total: float
    currency: str
    steps: Annotated[list[str], operator.add]
    paid: str


HELPS = ("node_aliases", "key_aliases", "migrate_state")
"""What helps threads of version 1."""

RENAMED = {
    "stock": "inventory",
    "approve": "review",
    "payment": "checkout",
    "notify": "dispatch",
    "pack": "box",
}


def noting(mark):
    return lambda state: {"trail": [mark]}


def review(state: Order):
    quote = once("quote", lambda: "quote of version 2")
    return {"trail": [f"approved {interrupt({'approve': quote})} by {quote}"]}


def review_model(state: OrderModel):
    return review({})


def split(state):
    order = state["order"] if isinstance(state, dict) else state.order
    return [Send("box", f"{order}, item {number}") for number in range(ITEMS)]


def dispatch(state):
    """Only its router matters."""


def box(item: str):
    return {"trail": [f"packed {item}"]}


def authorise(state: Payment):
    return {"steps": [f"confirmed {interrupt({'pay': state['total']}, key='pay')}"]}


def book(state: Payment):
    return {"paid": " ".join([*state["steps"], "booked", state["currency"]])}


def migrate(values, version):
    """Values of version 1 as those of version 2: amounts were cents, priorities words."""
    assert version == "1"
    found = {**values, "currency": "EUR"}
    if "total" in found:
        found["total"] = found["total"] / 100
    if "priority" in found:
        found["priority"] = {"low": 0, "high": 1}[found["priority"]]
    return found


def payment(*, helps):
    """The graph inside."""
    builder = StateGraph(Payment).add_node("open", lambda state: {"steps": [f"opened {state['total']}"]})
    builder.add_node("authorise", authorise).add_node("book", book)
    builder.add_edge(START, "open").add_edge("open", "authorise").add_edge("authorise", "book")
    return builder.compile(version="2", name="payment", **_chosen(helps, {"confirm": "authorise"}))


def _chosen(helps, nodes):
    every = {"node_aliases": nodes, "key_aliases": {"amount": "total"}, "migrate_state": migrate}
    return {name: every[name] for name in helps}


def orders(schema, checkpointer=None, *, helps=HELPS, inside=HELPS):
    """The graph, with one of the two states. `helps`: what it and (`inside`) the graph inside are compiled with."""
    builder = StateGraph(schema).add_node("receive", noting("received"))
    builder.add_node("check", noting("checked")).add_node("inventory", noting("stocked"))
    builder.add_node("review", review if schema is Order else review_model)
    builder.add_node("checkout", payment(helps=inside)).add_node("dispatch", dispatch)
    builder.add_node("box", box).add_node("ship", noting("shipped"))
    builder.add_edge(START, "receive").add_edge("receive", "check").add_edge("receive", "inventory")
    builder.add_edge(["check", "inventory"], "review").add_edge("review", "checkout").add_edge("checkout", "dispatch")
    builder.add_conditional_edges("dispatch", split, ["box"]).add_edge("box", "ship")
    return builder.compile(checkpointer, version="2", name="orders", **_chosen(helps, RENAMED))


def helped():
    """What is deployed: with everything that helps."""
    return orders(Order)


def alone():
    """What would be deployed by somebody who thinks of nothing."""
    return orders(Order, helps=(), inside=())
