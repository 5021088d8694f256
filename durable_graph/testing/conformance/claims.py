"""Promises about claims: how a thread begins and changes hands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_graph.records import BASE, DELTA, MAIN, Claim, ClaimRequest, CommitItem, LaneInfo, Row
from durable_graph.testing.conformance.acting import (
    FIRST_LANE,
    FIRST_ROW,
    check,
    create,
    expect,
    loaded,
    refusal,
    seqs,
    start,
    step,
    take_over,
    won,
)
from durable_graph.testing.conformance.promise import promise

if TYPE_CHECKING:
    from durable_graph.testing.conformance.acting import Face
    from durable_graph.testing.conformance.promise import Backend

__all__: list[str] = []


@promise()
def an_unknown_thread_is_none(backend: Backend, face: Face) -> None:
    """`load` of a thread that was never claimed is None."""
    expect("load('nobody')", face.load(backend.fresh(), "nobody"), None)


@promise()
def a_claim_makes_the_thread_with_its_lanes_and_rows(backend: Backend, face: Face) -> None:
    """A claim with epoch None makes the thread, its lanes and its rows at once; its status is "running"."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    found = loaded(face, backend.reopen(checkpointer))
    expect("the thread", tuple(found.thread[:5]), (claim.no, "thread", claim.epoch, "first owner", "running"))
    expect("its lanes", found.lanes, (LaneInfo(1, "", 0, 0, 1),))
    expect("the lane and its rows", (found.lane, found.rows), (1, (FIRST_ROW,)))


@promise()
def the_first_epoch_is_the_one_asked_for(backend: Backend, face: Face) -> None:
    """A new thread gets `new_epoch`, up to 62 bits of it."""
    checkpointer = backend.fresh()
    claim = won(checkpointer.claim(create("thread", "me")._replace(new_epoch=2**62)))
    expect("the claim's epoch", claim.epoch, 2**62)
    expect("the thread's epoch", loaded(face, checkpointer).thread.epoch, 2**62)


@promise()
def numbers_of_threads_differ(backend: Backend, face: Face) -> None:
    """Each thread has a number of its own."""
    checkpointer = backend.fresh()
    claims = [start(checkpointer, key=f"thread {n}") for n in range(5)]
    expect("how many numbers five threads have", len({claim.no for claim in claims}), 5)
    numbers = [loaded(face, checkpointer, f"thread {n}").thread.no for n in range(5)]
    expect("their numbers as loaded", numbers, [claim.no for claim in claims])


@promise()
def a_thread_that_exists_is_not_made_again(backend: Backend, face: Face) -> None:
    """A claim with epoch None is refused (None) when the thread exists."""
    checkpointer = backend.fresh()
    _ = start(checkpointer)
    expect("the second claim", checkpointer.claim(create("thread", "other")), None)
    expect("the owner", loaded(face, checkpointer).thread.owner, "first owner")


@promise()
def a_claim_brings_the_epoch_it_asks_for(backend: Backend, face: Face) -> None:
    """Taking a thread over sets its epoch to `new_epoch`."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    expect("the claim", take_over(checkpointer, claim, seen=1), Claim(claim.no, claim.epoch + 1))
    expect("the thread's epoch", loaded(face, checkpointer).thread.epoch, claim.epoch + 1)


@promise()
def a_claim_of_an_unknown_thread_by_epoch_is_refused(backend: Backend, face: Face) -> None:
    """A claim with an epoch is refused (None) when there is no such thread; it makes none."""
    checkpointer = backend.fresh()
    expect("the claim", checkpointer.claim(ClaimRequest("gone", "me", 5, 6, 1, 0, (), ())), None)
    expect("the thread", face.load(checkpointer, "gone"), None)


@promise()
def a_claim_by_an_old_epoch_is_refused(backend: Backend, face: Face) -> None:
    """A claim is refused (None) when the thread has another epoch than its caller saw."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    _ = won(take_over(checkpointer, claim, seen=1))
    expect("the late claim", take_over(checkpointer, claim, seen=1, owner="third owner"), None)
    expect("the owner", loaded(face, checkpointer).thread.owner, "second owner")


@promise()
def a_claim_that_has_not_seen_the_newest_row_is_refused(backend: Backend, face: Face) -> None:
    """A claim is refused (None) when its lane has a row with a seq above `seen`."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    expect("the commit", checkpointer.commit([step(claim, 2)]), ["written"])
    expect("a claim that saw row 1 of 2", take_over(checkpointer, claim, seen=1), None)
    expect("the owner", loaded(face, checkpointer).thread.owner, "first owner")
    _ = won(take_over(checkpointer, claim, seen=2))


@promise()
def a_claim_over_stored_rows_changes_nothing(backend: Backend, face: Face) -> None:
    """A claim whose rows have the place of stored ones is an InternalError; the thread stays as it was."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    row = Row(1, MAIN, 1, BASE, b"other")
    request = ClaimRequest("thread", "other", claim.epoch, claim.epoch + 1, 2, 0, (), (row,))
    _ = refusal(lambda: checkpointer.claim(request))
    expect("epoch and owner", loaded(face, checkpointer).thread[2:4], (claim.epoch, "first owner"))
    expect("the rows", loaded(face, checkpointer).rows, (FIRST_ROW,))


@promise()
def a_claim_of_lanes_that_are_there_changes_nothing(backend: Backend, face: Face) -> None:
    """A claim whose new lanes exist is an InternalError; the thread stays as it was."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    for row in (Row(1, MAIN, 2, DELTA, b""), FIRST_ROW):
        request = ClaimRequest("thread", "other", claim.epoch, claim.epoch + 1, 1, 1, (FIRST_LANE,), (row,))
        _ = refusal(lambda request=request: checkpointer.claim(request))
    expect("epoch and owner", loaded(face, checkpointer).thread[2:4], (claim.epoch, "first owner"))
    expect("the seqs of its rows", seqs(face, checkpointer), [1])


@promise()
def a_claim_sent_again_changes_nothing(backend: Backend, face: Face) -> None:
    """A claim whose answer was lost may be sent again: it is refused, or granted as before, and `load` shows whose."""
    checkpointer = backend.fresh()
    made = create("thread", "me", (FIRST_ROW,))
    claim = won(checkpointer.claim(made))
    row = Row(1, MAIN, 2, DELTA, b"with the claim")
    taken = ClaimRequest("thread", "me again", claim.epoch, claim.epoch + 1, 1, 1, (), (row,))
    for request, rows in ((made, 1), (taken, 2)):
        granted = claim if request is made else won(checkpointer.claim(request))
        if checkpointer.claim(request) not in {None, granted}:
            raise AssertionError("the claim was granted a second time, and otherwise than before")
        found = loaded(face, checkpointer)
        expect("epoch and owner", found.thread[2:4], (granted.epoch, request.owner))
        expect("how many rows there are", len(found.rows), rows)
        check("it still holds", checkpointer.commit([CommitItem(granted, ())]) != ["stale"])
