"""Promises about commits: fencing, sending again, all or nothing, giving a thread back."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from durable_graph.errors import InternalError
from durable_graph.records import BASE, DELTA, MAIN, PENDING, VALUE, Claim, CommitItem, LaneInfo, Row, RowRange
from durable_graph.testing.conformance.acting import check, expect, loaded, refusal, seqs, start, step, take_over, won
from durable_graph.testing.conformance.promise import promise

if TYPE_CHECKING:
    from durable_graph.testing.conformance.acting import Face
    from durable_graph.testing.conformance.promise import Backend

__all__: list[str] = []

_CHILD = LaneInfo(2, "child", 1, 1, 0)


# --- fencing ---------------------------------------------------------------------------------------------------------


@promise()
def a_stale_item_is_refused(backend: Backend, face: Face) -> None:
    """An item under a claim that was taken over is "stale", and nothing of it is written."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    _ = won(take_over(checkpointer, claim, seen=1))
    expect("the outcome", checkpointer.commit([step(claim, 2)]), ["stale"])
    expect("the seqs of the rows", seqs(face, checkpointer), [1])


@promise()
def a_group_of_a_zombie_is_refused_as_a_whole(backend: Backend, face: Face) -> None:
    """Every item of a group under a claim that was taken over is "stale"."""
    checkpointer = backend.fresh()
    old = start(checkpointer)
    new = won(take_over(checkpointer, old, seen=1))
    expect("the new owner's outcome", checkpointer.commit([step(new, 11)]), ["written"])
    outcomes = checkpointer.commit([step(old, seq, b"zombie") for seq in (11, 12, 13)])
    expect("the old owner's outcomes", outcomes, ["stale"] * 3)
    expect("the seqs of the rows", seqs(face, checkpointer), [1, 11])


@promise()
def a_stale_item_does_not_hurt_its_group(backend: Backend, face: Face) -> None:
    """A stale item is an outcome and no error: the others of its group are written."""
    checkpointer = backend.fresh()
    lost, kept = start(checkpointer, key="lost"), start(checkpointer, key="kept")
    _ = won(take_over(checkpointer, lost, seen=1, key="lost"))
    items = [step(kept, 2), step(lost, 2), step(kept, 3), step(lost, 3, status="done")]
    expect("the outcomes", checkpointer.commit(items), ["written", "stale", "written", "stale"])
    expect("the seqs of the thread that was kept", seqs(face, checkpointer, "kept"), [1, 2, 3])
    expect("the seqs of the one that was lost", seqs(face, checkpointer, "lost"), [1])
    expect("the owner of the one that was lost", loaded(face, checkpointer, "lost").thread.owner, "second owner")


@promise()
def a_claim_on_a_thread_that_never_was_is_stale(backend: Backend, face: Face) -> None:
    """An item for a thread number that nobody has is "stale"."""
    checkpointer = backend.fresh()
    _ = start(checkpointer)
    for no in (77, 0):
        expect(f"the outcome for number {no}", checkpointer.commit([step(Claim(no, 5), 1)]), ["stale"])
    expect("the seqs of the thread that is", seqs(face, checkpointer), [1])


@promise()
def a_stale_item_brings_neither_lanes_nor_status(backend: Backend, face: Face) -> None:
    """Of a stale item the new lanes are not made either, and the thread is not given back."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    _ = won(take_over(checkpointer, claim, seen=1))
    item = CommitItem(claim, (Row(2, MAIN, 2, BASE, b""),), (_CHILD,), "done")
    expect("the outcome", checkpointer.commit([item]), ["stale"])
    found = loaded(face, checkpointer)
    expect("the lanes", found.lanes, (LaneInfo(1, "", 0, 0, 1),))
    expect("owner and status", found.thread[3:5], ("second owner", "running"))


# --- sending again ---------------------------------------------------------------------------------------------------


@promise()
def the_same_item_again_is_already_mine(backend: Backend, face: Face) -> None:
    """The very same rows sent again, after an answer that was lost, are "already mine"."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    large = CommitItem(claim, (Row(2, MAIN, 3, BASE, b"a"), Row(2, 7, 3, VALUE, b"b")), (_CHILD,), "done")
    for item in (step(claim, 2), large):
        expect("the first outcome", checkpointer.commit([item]), ["written"])
        expect("the second outcome", checkpointer.commit([item]), ["already mine"])
    again = checkpointer.commit([step(claim, 2), large, step(claim, 4)])
    expect("the outcomes of a group", again, ["already mine", "already mine", "written"])
    expect("the seqs of lane 1", [row.seq for row in loaded(face, checkpointer, lane=1).rows], [1, 2, 4])


@promise()
def an_item_sent_again_after_a_takeover_changes_nothing(backend: Backend, face: Face) -> None:
    """An item whose answer was lost, sent again when another has the thread, does not give it back; nothing is new."""
    checkpointer = backend.fresh()
    old = start(checkpointer)
    item = step(old, 2, status="done")
    expect("the outcome", checkpointer.commit([item]), ["written"])
    _ = won(take_over(checkpointer, old, seen=2))
    before = loaded(face, checkpointer)
    [outcome] = checkpointer.commit([item])
    check(f"{outcome!r} is 'stale' or 'already mine'", outcome in {"stale", "already mine"})
    found = loaded(face, checkpointer)
    expect("owner and status", found.thread[3:5], ("second owner", "running"))
    expect("the lanes and rows", found[1:], before[1:])


@promise()
def other_bytes_at_the_same_place_are_a_bug(backend: Backend, face: Face) -> None:
    """Another row at the place of a stored one, or half an item that is stored, is an InternalError."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    expect("the first outcome", checkpointer.commit([step(claim, 2)]), ["written"])
    pair = (Row(1, MAIN, 2, DELTA, b"step"), Row(1, MAIN, 3, DELTA, b"step"))  # only half of it is stored
    for item in (
        step(claim, 2, b"other"),
        CommitItem(claim, (pair[0]._replace(kind=PENDING),)),
        CommitItem(claim, pair),
    ):
        _ = refusal(lambda item=item: checkpointer.commit([item]))
    expect("the seqs of the rows", seqs(face, checkpointer), [1, 2])


@promise()
def a_refused_item_is_named_in_the_error(backend: Backend, face: Face) -> None:
    """The InternalError for other rows at a stored place names the thread's number, the lane and the seq."""
    checkpointer = backend.fresh()
    claim = start(checkpointer, rows=())
    expect("the first outcome", checkpointer.commit([step(claim, 4711)]), ["written"])
    text = refusal(lambda: checkpointer.commit([step(claim, 4711, b"other")]))
    for name, value in (("thread", claim.no), ("lane", 1), ("seq", 4711)):
        if str(value) not in text:
            raise AssertionError(f"the error does not name {name} {value}: {text}")
    expect("the row", loaded(face, checkpointer).rows[0].data, b"step")


@promise()
def a_lane_sent_again_with_another_parent_is_a_bug(backend: Backend, face: Face) -> None:
    """A lane that is there with another parent or namespace is an InternalError; the same lane is not."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    item = CommitItem(claim, (Row(2, MAIN, 2, BASE, b""),), (_CHILD,))
    expect("the first outcome", checkpointer.commit([item]), ["written"])
    for lane in (LaneInfo(2, "child", 1, 9, 0), LaneInfo(2, "other", 1, 1, 0)):
        _ = refusal(lambda lane=lane: checkpointer.commit([item._replace(new_lanes=(lane,))]))
    expect("again", checkpointer.commit([item, item._replace(rows=())]), ["already mine", "already mine"])
    expect("the lane", loaded(face, checkpointer).lanes[1], LaneInfo(2, "child", 1, 1, 2))


@promise()
def an_item_whose_lane_is_there_and_whose_row_is_not_is_a_bug(backend: Backend, face: Face) -> None:
    """An item is atomic: one whose lane is stored and whose row is not was never sent, and is an InternalError."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    expect("the lane alone", checkpointer.commit([CommitItem(claim, (), (_CHILD,))]), ["written"])
    item = CommitItem(claim, (Row(2, MAIN, 2, BASE, b""),), (_CHILD,))
    _ = refusal(lambda: checkpointer.commit([item]))
    expect("the lane's rows", loaded(face, checkpointer, lane=2).rows, ())


# --- all or nothing --------------------------------------------------------------------------------------------------


@promise()
def an_item_is_stored_whole_or_not_at_all(backend: Backend, face: Face) -> None:
    """Of an item that is refused neither lanes, rows nor status are stored."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    expect("the first outcome", checkpointer.commit([step(claim, 3)]), ["written"])
    clash = CommitItem(claim, (Row(2, MAIN, 2, BASE, b""), Row(1, MAIN, 3, DELTA, b"other")), (_CHILD,), "done")
    with suppress(InternalError):
        expect("an item with other rows at a stored place", checkpointer.commit([clash]), "an InternalError")
    expect("the next outcome", checkpointer.commit([step(claim, 4)]), ["written"])
    taken = (Row(1, MAIN, 3, DELTA, b"step"), Row(1, MAIN, 4, DELTA, b"other"))  # nothing of it could be added anyway
    _ = refusal(lambda: checkpointer.commit([CommitItem(claim, taken, (), "done")]))
    found = loaded(face, checkpointer)
    expect("the lanes", [info.lane for info in found.lanes], [1])
    expect("the owner", found.thread.owner, "first owner")
    expect("its rows of lane 2", face.read(checkpointer, claim.no, [RowRange(2, MAIN, 0, 9)])[0], list[Row]())


@promise()
def an_item_with_nothing_in_it_says_whether_the_claim_holds(backend: Backend, face: Face) -> None:
    """An empty item is "already mine" while the claim holds, else "stale"."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    empty = CommitItem(claim, ())
    expect("while the claim holds", checkpointer.commit([empty]), ["already mine"])
    other = empty._replace(claim=Claim(claim.no, claim.epoch + 1))
    expect("under another epoch", checkpointer.commit([other]), ["stale"])
    expect("the owner", loaded(face, checkpointer).thread.owner, "first owner")


@promise()
def no_items_are_no_outcomes(backend: Backend, face: Face) -> None:
    """A commit of nothing answers nothing."""
    checkpointer = backend.fresh()
    expect("the outcomes", checkpointer.commit([]), [])
    expect("what is there", face.load(checkpointer, "thread"), None)


# --- giving back -----------------------------------------------------------------------------------------------------


@promise()
def giving_back_frees_the_thread_and_keeps_the_epoch(backend: Backend, face: Face) -> None:
    """An item with a status gives the thread back: no owner, that status, the same epoch."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    expect("the outcome", checkpointer.commit([step(claim, 2, status="done")]), ["written"])
    expect("the thread", tuple(loaded(face, checkpointer).thread[:5]), (claim.no, "thread", claim.epoch, None, "done"))
    _ = won(take_over(checkpointer, claim, seen=2))
    expect("its status when somebody has it again", loaded(face, checkpointer).thread.status, "running")


@promise()
def giving_back_needs_no_row(backend: Backend, face: Face) -> None:
    """An item with nothing but a status gives the thread back; sent again it is "already mine"."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    release = CommitItem(claim, (), (), "waiting")
    expect("the outcome", checkpointer.commit([release]), ["written"])
    expect("the second outcome", checkpointer.commit([release]), ["already mine"])
    other = release._replace(claim=Claim(claim.no, claim.epoch + 1))
    expect("under another epoch", checkpointer.commit([other]), ["stale"])
    expect("the status", loaded(face, checkpointer).thread.status, "waiting")
