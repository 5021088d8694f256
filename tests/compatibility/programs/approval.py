"""A person is asked before money is moved.

Prints:

    asked: Transfer 40 to Ada?
    waits at: ('transfer',)
    {'amount': 40, 'status': 'moved 40'}
"""

# ruff: noqa: T201 - a program talks to a person

from typing import TypedDict

from langgraph.checkpoint.memory import MemorySaver  # keeps threads in memory
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt


class State(TypedDict, total=False):
    amount: int
    status: str


def transfer(state: State):
    answer = interrupt({"question": f"Transfer {state['amount']} to Ada?"})
    return {"status": f"moved {state['amount']}" if answer == "yes" else "kept"}


builder = StateGraph(State)
builder.add_node("transfer", transfer)
builder.add_edge(START, "transfer")
graph = builder.compile(checkpointer=MemorySaver())

config = {"configurable": {"thread_id": "1"}}
result = graph.invoke({"amount": 40}, config)
print("asked:", result["__interrupt__"][0].value["question"])
print("waits at:", graph.get_state(config).next)
print(graph.invoke(Command(resume="yes"), config))
