"""Nodes that say where to go, a list that is replaced, and errors that a program handles.

Prints:

    {'log': ['fresh', 'done']}
    too many steps
    two writers
"""

# ruff: noqa: T201 - a program talks to a person

import operator
from typing import Annotated, Literal, TypedDict

from langgraph import errors
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Overwrite


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    one: int


def clear(state: State) -> Command[Literal["finish", "again"]]:
    return Command(update={"log": Overwrite(["fresh"])}, goto="again" if "loop" in state["log"] else "finish")


def again(state: State) -> Command[Literal["again"]]:
    return Command(goto="again")


def finish(state: State):
    return {"log": ["done"]}


graph = StateGraph(State).add_node(clear).add_node(again).add_node(finish).add_edge(START, "clear").compile()
print(graph.invoke({"log": ["stale"]}))
try:
    graph.invoke({"log": ["loop"]}, {"recursion_limit": 5})
except errors.GraphRecursionError:
    print("too many steps")

both = StateGraph(State)
for name in ("a", "b"):
    both.add_node(name, lambda state: {"one": 1})
    both.add_edge(START, name)
try:
    both.compile().invoke({"log": []})
except errors.InvalidUpdateError:
    print("two writers")
