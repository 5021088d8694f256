"""Nodes that take too long, for the tests of time limits: they wait for an event that the test sets."""

import asyncio
import threading

import pytest

from durable_graph import START, RetryPolicy, StateGraph
from durable_graph.errors import NodeTimeoutError
from tests.behaviour.small_graphs import Log

SOON = 0.05
"""Seconds. A node that waits for an event takes longer than this."""

LONG = 60.0
"""Seconds. Nothing here takes that long."""

KINDS = ["sync", "asyn"]
AGAIN = RetryPolicy(initial_interval=0.001, jitter=False)


class Held:
    """A node, sync or async, whose first `times` runs wait to be let out; `log` is what it adds.

    An async one that is cancelled ends, unless it `refuses`.
    """

    def __init__(self, log="held", times=1000, *, refuses=False):
        self.inside, self.out, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.log, self.times, self.refuses = log, times, refuses
        self.runs = 0
        self.cancelled = False
        self.last = None  # what runs behind the door

    def _enter(self):
        self.runs += 1
        self.inside.set()
        return self.runs <= self.times

    def _leave(self):
        try:
            if self.last is not None:
                self.last()
        finally:
            self.ended.set()
        return {"log": [self.log]}

    def sync(self, state):
        if not self._enter():
            return {"log": [self.log]}
        assert self.out.wait(20)
        return self._leave()

    async def asyn(self, state):
        if not self._enter():
            return {"log": [self.log]}
        while not self.out.is_set():
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                self.cancelled = True
                if not self.refuses:
                    raise
        return self._leave()


def held_nodes():
    """For a fixture: makes `Held`s and lets them out at the end."""
    made = []

    def make(*args, **keywords):
        made.append(Held(*args, **keywords))
        return made[-1]

    yield make
    for one in made:
        one.out.set()


def one_node(node, timeout, schema=Log, **more):
    return StateGraph(schema).add_node("a", node, timeout=timeout, **more).add_edge(START, "a")


def fails(face, graph, *args, **keywords):
    with pytest.raises(NodeTimeoutError) as caught:
        face.invoke(graph, {"log": []}, *args, **keywords)
    return caught.value
