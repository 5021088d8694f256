"""The conformance kit's verbs, for tests of single backends."""

from durable_graph.testing.conformance.acting import (
    FIRST_LANE,
    FIRST_ROW,
    Async,
    Sync,
    create,
    refusal,
    seqs,
    start,
    step,
    take_over,
    together,
)

__all__ = [
    "FIRST_LANE",
    "FIRST_ROW",
    "Async",
    "Sync",
    "create",
    "refusal",
    "seqs",
    "start",
    "step",
    "take_over",
    "together",
]
