"""Some names are only needed by type checkers; some have another name here.

Prints:

    a -> b
    nothing waits
"""

# ruff: noqa: T201 - a program talks to a person

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph
    from langgraph.types import Durability, PregelTask, StateSnapshot
    from langgraph.types import StreamMode as Mode


class State(TypedDict):
    value: str


def build(how: Durability = "sync", mode: Mode = "updates") -> CompiledStateGraph:
    def b(state: State) -> State:
        return {"value": state["value"] + " -> b"}

    builder = StateGraph(State).add_node("b", b).add_edge(START, "b")
    return builder.compile(checkpointer=InMemorySaver())


def waiting(snapshot: StateSnapshot) -> list[str]:
    tasks: tuple[PregelTask, ...] = snapshot.tasks
    return [task.name for task in tasks]


graph = build()
config = {"configurable": {"thread_id": "t"}}
print(graph.invoke({"value": "a"}, config)["value"])
print(waiting(graph.get_state(config)) or "nothing waits")
