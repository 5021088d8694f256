"""Modules are imported whole, and their names are written with dots.

Prints:

    Interrupt: ready?
    {'count': 2}
"""

# ruff: noqa: T201 - a program talks to a person

from typing import TypedDict

import langgraph.graph
import langgraph.types as lg
from langgraph.checkpoint import memory


class State(TypedDict):
    count: int


def add(state: State):
    ready = lg.interrupt("ready?")
    return lg.Command(update={"count": state["count"] + ready}, goto=langgraph.graph.END)


def told(interrupt: lg.Interrupt, how: lg.StreamMode = "values") -> str:
    return f"{type(interrupt).__name__}: {interrupt.value}"


builder = langgraph.graph.StateGraph(State)
builder.add_node("add", add)
builder.add_edge(langgraph.graph.START, "add")
graph = builder.compile(checkpointer=memory.InMemorySaver())

config = {"configurable": {"thread_id": "t"}}
print(told(graph.invoke({"count": 1}, config)["__interrupt__"][0]))
print(graph.invoke(lg.Command(resume=1), config))
