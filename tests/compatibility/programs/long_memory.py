"""What one thread learns, another one knows: a store.

Needs: durable_graph.stores:InMemoryStore durable_graph:get_store

Prints:

    first: ['likes tea']
    second: ['likes tea', 'lives in Oslo']
"""

# ruff: noqa: T201 - a program talks to a person

from typing import TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_store
from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore


class State(TypedDict, total=False):
    fact: str
    known: list[str]


def learn(state: State, *, store: BaseStore):
    store.put(("people", "ada"), state["fact"], {"text": state["fact"]})


def recall(state: State):
    found = get_store().search(("people", "ada"))
    return {"known": sorted(item.value["text"] for item in found)}


graph = (
    StateGraph(State)
    .add_node(learn)
    .add_node(recall)
    .add_edge(START, "learn")
    .add_edge("learn", "recall")
    .compile(checkpointer=InMemorySaver(), store=InMemoryStore())
)
for thread, fact in (("first", "likes tea"), ("second", "lives in Oslo")):
    result = graph.invoke({"fact": fact}, {"configurable": {"thread_id": thread}})
    print(f"{thread}:", result["known"])
