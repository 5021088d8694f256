"""Promises about two writers that meet: one thread in two hands, one item sent twice at the same moment."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING

from durable_graph.records import BASE, MAIN, VALUE, CommitItem, LaneInfo, Row
from durable_graph.testing.conformance.acting import (
    expect,
    loaded,
    seqs,
    start,
    step,
    take_over,
    together,
    won,
    write_until_stale,
)
from durable_graph.testing.conformance.promise import promise
from durable_graph.testing.processes import Process

if TYPE_CHECKING:
    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.records import Claim
    from durable_graph.testing.conformance.acting import Face
    from durable_graph.testing.conformance.promise import Backend

__all__: list[str] = []

_ROUNDS = 10
_TWICE = 4
_AHEAD = 5
"""Rows that are there before somebody else takes the thread."""
_BLIND = 2**40
"""Nothing is newer: so a takeover comes in the middle of its predecessor's commits."""
_PAUSE = 0.003
_PATIENCE = 30.0
"""Seconds within which another process must have begun."""


def _wait_for_rows(face: Face, checkpointer: Checkpointer, newest: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while loaded(face, checkpointer).lanes[0].last < newest:
        if time.monotonic() > deadline:
            raise AssertionError(f"no row with seq {newest} came for {_PATIENCE:g} s")
        time.sleep(0.001)


@promise()
def nothing_is_written_under_a_claim_once_another_was_granted(backend: Backend, face: Face) -> None:
    """Who takes a thread over finds all that its predecessor was told is written; later nothing of it comes."""
    first = backend.fresh()
    second = backend.reopen(first)
    claim, newest = start(first), 1
    for number in range(_ROUNDS):
        told, newest, claim = _taken_over(face, (first, second), claim, newest, f"owner {number}")
        expect("the newest seq that the old owner was told is written", told, newest)
        expect("the seqs of the rows", seqs(face, first), list(range(1, newest + 1)))


def _taken_over(
    face: Face, checkpointers: tuple[Checkpointer, Checkpointer], claim: Claim, newest: int, owner: str
) -> tuple[int, int, Claim]:
    """One writes behind `newest` while the other takes the thread over: what each saw last, and the new claim."""
    writing = threading.Event()
    first, second = checkpointers

    def work(place: int) -> tuple[int, Claim]:
        if place == 0:
            return write_until_stale(first, claim, newest, writing.set), claim
        _ = writing.wait(_PATIENCE)
        time.sleep(random.uniform(0.0, _PAUSE))  # noqa: S311 - else it comes between two commits, never into one
        new = won(take_over(second, claim, _BLIND, owner=owner))
        return seqs(face, second)[-1], new

    (told, _), (found, new) = together(2, work)
    return told, found, new


@promise()
def an_item_sent_twice_at_once_is_written_once(backend: Backend, face: Face) -> None:
    """The same item sent again while it is still under way is "written" once and "already mine" otherwise."""
    first = backend.fresh()
    senders = [first, *(backend.reopen(first) for _ in range(_TWICE - 1))]
    claim = start(first)
    for seq in range(2, 2 + _ROUNDS):
        rows = (Row(seq, MAIN, seq, BASE, b"twice"), *(Row(1, part, seq, VALUE, b"twice") for part in range(1, 5)))
        lane = LaneInfo(seq, f"{seq}", 1, 1, 0)
        for item in (step(claim, seq, b"twice"), CommitItem(claim, rows, (lane,))):
            outcomes = together(_TWICE, lambda n, item=item: senders[n].commit([item])[0])
            expect("the outcomes", sorted(outcomes), ["already mine"] * (_TWICE - 1) + ["written"])
    expect("the seqs of lane 1", [row.seq for row in loaded(face, first, lane=1).rows], list(range(1, 2 + _ROUNDS)))


@promise("durable", "many_processes")
def a_process_writes_until_another_takes_over_and_no_further(backend: Backend, face: Face) -> None:
    """A process that does not know that its thread was taken over writes nothing more to it."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    with Process() as other:
        where = backend.elsewhere(checkpointer)
        other.begin("durable_graph.testing.conformance.children:zombie", **where, no=claim.no, epoch=claim.epoch)
        _wait_for_rows(face, checkpointer, _AHEAD)
        new = won(take_over(checkpointer, claim, _BLIND))
        newest = seqs(face, checkpointer)[-1]
        ended = other.result()
    expect("what went wrong there", ended.error, "")
    expect("the newest seq that it was told is written", ended.value, newest)
    expect("the new owner's outcome", checkpointer.commit([step(new, newest + 1)]), ["written"])
    expect("the seqs of the rows", seqs(face, checkpointer), list(range(1, newest + 2)))
