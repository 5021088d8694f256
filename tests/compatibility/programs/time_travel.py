"""Back to an earlier checkpoint, with another value: a fork.

Needs: durable_graph:CompiledStateGraph.update_state

Prints:

    ('publish',) a draft
    {'text': 'a better draft, published'}
"""

# ruff: noqa: T201 - a program talks to a person

from typing import TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph


class State(TypedDict, total=False):
    text: str


def draft(state: State):
    return {"text": "a draft"}


def publish(state: State):
    return {"text": state["text"] + ", published"}


graph = (
    StateGraph(State)
    .add_node(draft)
    .add_node(publish)
    .add_edge(START, "draft")
    .add_edge("draft", "publish")
    .compile(checkpointer=InMemorySaver())
)
config = {"configurable": {"thread_id": "t"}}
graph.invoke({}, config)
before = next(snapshot for snapshot in graph.get_state_history(config) if snapshot.next == ("publish",))
print(before.next, before.values["text"])
fork = graph.update_state(before.config, {"text": "a better draft"})
print(graph.invoke(None, fork))
