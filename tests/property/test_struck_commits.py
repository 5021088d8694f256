"""Ctrl-C strikes a commit, before or after it is written: the thread has no gap, and no finished work is lost."""

import operator
import threading
from typing import Annotated

import pytest
from typing_extensions import TypedDict

from checkpointers import InMemorySaver
from durable_graph import START, StateGraph


class State(TypedDict, total=False):
    log: Annotated[list, operator.add]


class Struck(InMemorySaver):
    """Ctrl-C comes in the commit with this number."""

    def __init__(self, at, moment):
        super().__init__()
        self.left = at
        self.moment = moment

    def commit(self, items):
        self.left -= 1
        if self.left == 0 and self.moment == "before":
            raise KeyboardInterrupt
        outcomes = super().commit(items)
        if self.left == 0:
            raise KeyboardInterrupt
        return outcomes


def one_after_the_other(names, ran):
    """Parallel nodes; each ends once the results before it are being stored."""
    builder, before = StateGraph(State), None
    for name in names:
        event = threading.Event()

        def run(state, name=name, before=before, event=event):
            if before is not None:
                before.wait(5)
            ran.append(name)
            event.set()
            return {"log": [name]}

        builder.add_node(name, run)
        builder.add_edge(START, name)
        before = event
    builder.add_node("join", lambda state: ran.append("join") or {"log": ["join"]})
    builder.add_edge(list(names), "join")
    return builder


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_commit_that_ctrl_c_struck_leaves_a_thread_that_goes_on(face, at, moment):
    ran = []
    saver = Struck(at, moment)
    graph = one_after_the_other("abc", ran).compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "t"}}
    try:
        face.invoke(graph, {"log": ["given"]}, config)
    except KeyboardInterrupt:
        saver.left = -1
        finished = set(ran) - set(face.get_state(graph, config).next)
        ran.clear()
        face.invoke(graph, None, config)
        assert not finished.intersection(ran)
    assert face.get_state(graph, config).values["log"] == ["given", "a", "b", "c", "join"]
