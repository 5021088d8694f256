"""One task for each subject, found out while the graph runs; the best joke wins.

Prints:

    ['a joke about bees', 'a joke about cows', 'a joke about sheep']
    a joke about sheep
"""

# ruff: noqa: T201 - a program talks to a person

import operator
from typing import Annotated, TypedDict

from langgraph.constants import Send
from langgraph.graph import END, START, StateGraph


class Overall(TypedDict, total=False):
    subjects: list[str]
    jokes: Annotated[list[str], operator.add]
    best: str


class Job(TypedDict):
    subject: str


def subjects(state: Overall):
    return {"subjects": ["bees", "cows", "sheep"]}


def each(state: Overall):
    return [Send("joke", {"subject": subject}) for subject in state["subjects"]]


def joke(job: Job):
    return {"jokes": [f"a joke about {job['subject']}"]}


def choose(state: Overall):
    return {"best": max(state["jokes"], key=len)}


builder = StateGraph(Overall)
builder.add_node("subjects", subjects)
builder.add_node("joke", joke)
builder.add_node("choose", choose)
builder.add_edge(START, "subjects")
builder.add_conditional_edges("subjects", each, ["joke"])
builder.add_edge("joke", "choose")
builder.add_edge("choose", END)

result = builder.compile().invoke({})
print(result["jokes"])
print(result["best"])
