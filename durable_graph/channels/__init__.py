"""How one key of the state accumulates: the channels that a schema's fields become.

    LastValue                  one write a step; the default
    AnyValue                   several equal writes a step; gone after a step without one
    EphemeralValue             visible for one step
    UntrackedValue             kept in memory, never stored
    BinaryOperatorAggregate    reduced: (current, update) -> new; written as Annotated[T, reducer]
    Topic                      a list of everything that was written
    NamedBarrierValue          waits until each of several names was written

A channel is a specification without state: one object serves every run, and the value lives in the run.
"""

from __future__ import annotations

from durable_graph.channels.barrier import NamedBarrierValue
from durable_graph.channels.base import BaseChannel
from durable_graph.channels.reduced import BinaryOperatorAggregate
from durable_graph.channels.topic import Topic
from durable_graph.channels.values import AnyValue, EphemeralValue, LastValue, UntrackedValue

__all__ = [
    "AnyValue",
    "BaseChannel",
    "BinaryOperatorAggregate",
    "EphemeralValue",
    "LastValue",
    "NamedBarrierValue",
    "Topic",
    "UntrackedValue",
]
