"""Routes by a function with a map, and tries a node again that failed.

Prints:

    {'score': 3, 'path': ['grade', 'fetch', 'improve', 'grade', 'publish']}
    attempts: 2
"""

# ruff: noqa: T201 - a program talks to a person

import operator
from typing import (
    Annotated,
    Literal,
    TypedDict,
)

from langgraph.graph import (
    END,
    START,  # where it begins
    StateGraph,
)
from langgraph.pregel.types import RetryPolicy

attempts = 0


class State(TypedDict):
    score: int
    path: Annotated[list[str], operator.add]


def grade(state: State):
    return {"path": ["grade"]}


def good_enough(state: State) -> Literal["yes", "no"]:
    return "yes" if state["score"] >= 3 else "no"


def fetch(state: State):
    global attempts  # noqa: PLW0603 - the program counts
    attempts += 1
    if attempts == 1:
        raise ConnectionError("try again")
    return {"path": ["fetch"]}


def improve(state: State):
    return {"score": state["score"] + 2, "path": ["improve"]}


def publish(state: State):
    return {"path": ["publish"]}


builder = StateGraph(State)
builder.add_node(grade)
builder.add_node(fetch, retry_policy=RetryPolicy(initial_interval=0.01, max_attempts=3, jitter=False))
builder.add_node(improve)
builder.add_node(publish)
builder.add_edge(START, "grade")
builder.add_conditional_edges("grade", good_enough, {"yes": "publish", "no": "fetch"})
builder.add_edge("fetch", "improve")
builder.add_edge("improve", "grade")
builder.add_edge("publish", END)
graph = builder.compile()

print(graph.invoke({"score": 1, "path": []}))
print("attempts:", attempts)
