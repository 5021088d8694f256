"""Conversations in one SQLite file; each thread has a state of its own, and a history.

Prints:

    ann: {'said': ['hello', 'again']}
    bob: {'said': ['good day']}
    4 () ['hello', 'again']
    3 ('listen',) ['hello', 'again']
    2 ('__start__',) ['hello']
    1 () ['hello']
    0 ('listen',) ['hello']
    -1 ('__start__',) []
"""

# ruff: noqa: T201 - a program talks to a person

import operator
import tempfile
from pathlib import Path
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph


class State(TypedDict):
    said: Annotated[list[str], operator.add]


def listen(state: State) -> State:
    return {"said": []}


builder = StateGraph(State).add_node(listen).add_edge(START, "listen")

with tempfile.TemporaryDirectory() as folder:
    with SqliteSaver.from_conn_string(str(Path(folder, "threads.db"))) as saver:
        graph = builder.compile(checkpointer=saver)
        ann = {"configurable": {"thread_id": "ann"}}
        bob = {"configurable": {"thread_id": "bob"}}
        graph.invoke({"said": ["hello"]}, ann)
        graph.invoke({"said": ["good day"]}, bob)
        graph.invoke({"said": ["again"]}, ann)

    with SqliteSaver.from_conn_string(str(Path(folder, "threads.db"))) as saver:
        graph = builder.compile(checkpointer=saver)
        print("ann:", graph.get_state(ann).values)
        print("bob:", graph.get_state(bob).values)
        for snapshot in graph.get_state_history(ann):
            print(snapshot.metadata["step"], snapshot.next, snapshot.values["said"])
