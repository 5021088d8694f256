"""Small graphs and looks into storage that many behaviour tests share."""

import operator
from typing import Annotated, Any, TypedDict

from durable_graph import START, Command, StateGraph
from durable_graph.records import MAIN, PENDING, RowRange

PARTS = 32
"""More parts than any graph here has channels."""


class Log(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    answer: Any
    other: Any


class Marks:
    """Counts what happened outside of the state: the side effects of nodes."""

    def __init__(self):
        self.seen = []

    def __call__(self, name):
        self.seen.append(name)

    def count(self, name):
        return self.seen.count(name)


def thread(name="t", **more):
    return {"configurable": {"thread_id": name, **more}}


def chain(schema=Log, /, **nodes):
    """START -> each node in turn."""
    builder = StateGraph(schema)
    before = START
    for name, action in nodes.items():
        builder.add_node(name, action).add_edge(before, name)
        before = name
    return builder


def parallel(schema=Log, /, **nodes):
    """START -> all nodes at once."""
    builder = StateGraph(schema)
    for name, action in nodes.items():
        builder.add_node(name, action).add_edge(START, name)
    return builder


def dump(saver, key="t"):
    """Everything a backend holds of a thread but for how old its lease is; None when it holds nothing."""
    loaded = saver.load(key)
    if loaded is None:
        return None
    ranges = [RowRange(lane.lane, part, 0, 2**40) for lane in loaded.lanes for part in range(PARTS)]
    return loaded.thread._replace(lease=None), loaded.lanes, saver.read(loaded.thread.no, ranges)


def main_rows(saver, key="t"):
    """The rows of a thread's line, oldest first."""
    loaded = saver.load(key)
    if loaded is None:
        return []
    return saver.read(loaded.thread.no, [RowRange(loaded.lane, MAIN, 0, 2**40)])[0]


def count_checkpoints(saver, key="t"):
    return sum(row.kind != PENDING for row in main_rows(saver, key))


def asked(snapshot):
    """The questions of a snapshot or of a list of interrupts: what was asked -> id."""
    interrupts = getattr(snapshot, "interrupts", snapshot)
    return {one.value: one.id for one in interrupts}


def log(values):
    return values["log"]


def history(face, graph, config=None):
    """The checkpoints of a thread, oldest first."""
    return face.get_state_history(graph, config or thread())[::-1]


def answered(face, graph, answers, config=None, **options):
    """Run, and give one answer after the other."""
    config = config or thread()
    found = face.invoke(graph, {}, config, **options)
    for answer in answers:
        assert "__interrupt__" in found
        found = face.invoke(graph, Command(resume=answer), config, **options)
    return found
