"""Two nodes, one after the other; what they write to `notes` is appended.

Prints:

    {'topic': 'cats', 'notes': ['looked up cats', 'wrote about cats']}
"""

# ruff: noqa: T201 - a program talks to a person

import operator
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph


class State(TypedDict):
    topic: str
    notes: Annotated[list[str], operator.add]


def research(state: State):
    return {"notes": [f"looked up {state['topic']}"]}


def write(state: State):
    return {"notes": [f"wrote about {state['topic']}"]}


graph = StateGraph(State).add_sequence([research, write]).add_edge(START, "research").add_edge("write", END).compile()
print(graph.invoke({"topic": "cats", "notes": []}))
