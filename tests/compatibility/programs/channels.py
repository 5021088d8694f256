"""Channels other than the usual two, and a loop that knows how many steps remain.

Prints:

    {'seen': ['tick', 'tick', 'tick'], 'total': 6, 'last': 'stopped early'}
"""

# ruff: noqa: T201 - a program talks to a person

import operator
from typing import Annotated, TypedDict

import langgraph.channels as ch
from langgraph.channels.last_value import LastValue
from langgraph.graph import END, START, StateGraph
from langgraph.managed import IsLastStep, RemainingSteps
from langgraph.types import Command


class State(TypedDict, total=False):
    seen: Annotated[list[str], ch.Topic(str, accumulate=True)]
    total: Annotated[int, ch.BinaryOperatorAggregate(int, operator.add)]
    once: Annotated[int, ch.EphemeralValue(int)]
    last: Annotated[str, LastValue(str)]
    is_last: IsLastStep
    remaining: RemainingSteps


def tick(state: State) -> Command:
    if state["total"] >= 6 or state["is_last"] or state["remaining"] < 2:
        return Command(update={"last": "stopped early"}, goto=END)
    return Command(update={"seen": ["tick"], "total": 2}, goto="tick")


builder = StateGraph(State)
builder.add_node("tick", tick, destinations=("tick", END))
builder.add_edge(START, "tick")
print(builder.compile().invoke({"total": 0}, {"recursion_limit": 25}))
