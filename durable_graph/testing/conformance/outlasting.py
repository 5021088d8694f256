"""Promises about what outlasts an object or a process: fences, numbers, answers that were lost, items cut short."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any, Final

from durable_graph.testing.conformance.acting import check, expect, loaded, seqs, start, step, take_over, won
from durable_graph.testing.conformance.cutting import writes_of
from durable_graph.testing.conformance.promise import promise
from durable_graph.testing.processes import ForkServer

if TYPE_CHECKING:
    from durable_graph.records import Claim
    from durable_graph.testing.conformance.acting import Face
    from durable_graph.testing.conformance.promise import Backend
    from durable_graph.testing.processes import Exit

__all__: list[str] = []

_CUTTING: Final = "durable_graph.testing.conformance.cutting:"
_MOMENTS: Final = 16
"""At how many moments of a claim and a commit a process is killed; spread evenly over the calls that these make."""


@promise("durable")
def fences_and_numbers_outlast_the_object(backend: Backend, face: Face) -> None:
    """Opened again, the data know every number and epoch: old claims stay stale, new threads get new numbers."""
    checkpointer = backend.fresh()
    old, other = start(checkpointer), start(checkpointer, key="other")
    new = won(take_over(checkpointer, old, seen=1))
    expect("the outcome", checkpointer.commit([step(new, 2, status="waiting")]), ["written"])
    before = loaded(face, checkpointer)
    checkpointer.close()
    again = backend.reopen(checkpointer)
    expect("the thread, its lanes and rows", loaded(face, again), before)
    expect("the outcome of the old owner", again.commit([step(old, 3)]), ["stale"])
    expect("a claim by the old epoch", take_over(again, old, seen=2, owner="third owner"), None)
    born = start(again, key="born later")
    if born.no in {old.no, other.no}:
        raise AssertionError(f"a new thread got the number {born.no}, which another one has")
    expect("the seqs of the rows", seqs(face, again), [1, 2])


@promise("durable")
def an_item_is_known_again_when_the_data_are_opened_again(backend: Backend, face: Face) -> None:
    """An answer may be lost together with the object: the item sent again through another one is "already mine"."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    item = step(claim, 2, b"asked again")
    expect("the outcome", checkpointer.commit([item]), ["written"])
    checkpointer.close()
    again = backend.reopen(checkpointer)
    expect("the outcomes", again.commit([item, step(claim, 3)]), ["already mine", "written"])
    expect("the seqs of the rows", seqs(face, again), [1, 2, 3])


@promise("durable", "many_processes")
def what_a_kill_cuts_short_is_there_whole_or_not_at_all(backend: Backend, face: Face) -> None:
    """SIGKILL between any two calls of a claim or a commit leaves the claim, and each item, whole or not begun."""
    checkpointer = backend.fresh()
    with ForkServer() as server:

        def live(key: str, dies_at: int = 0) -> tuple[Claim, Exit]:
            claim = start(checkpointer, key=key)
            given: dict[str, Any] = {"key": key, "no": claim.no, "epoch": claim.epoch, "dies_at": dies_at}
            given |= backend.elsewhere(checkpointer)
            return claim, server.call(f"{_CUTTING}cut_short", **given)

        calls = 0
        for key in ("with imports", "without"):
            claim, ended = live(key)
            expect("what went wrong in a process that nobody killed", ended.error, "")
            expect("how many of its writes are there", writes_of(face, checkpointer, key, claim), 3)
            server.here(f"{_CUTTING}bring", names=ended.value["modules"])
            calls = ended.value["calls"]
        first = 1 if face.name == "sync" else 1 + calls // (2 * _MOMENTS)
        kills = 0
        for number in range(_MOMENTS):
            key = f"cut {number}"
            claim, ended = live(key, first + number * calls // _MOMENTS)
            kills += ended.code == -signal.SIGKILL
            again = backend.reopen(checkpointer)
            there = writes_of(face, again, key, claim)
            held = claim._replace(epoch=claim.epoch + min(there, 1))
            claim = won(take_over(again, held, seen=4, key=key))
            expect("the outcome of who goes on", again.commit([step(claim, 5)]), ["written"])
    check("most of the processes were killed", kills > _MOMENTS // 2)
