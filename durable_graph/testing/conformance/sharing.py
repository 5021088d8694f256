"""Promises about one object, or one database, in many hands: OS threads, event loops, processes, forks."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from durable_graph.records import DELTA, MAIN, CommitItem, Row, RowRange
from durable_graph.testing.conformance.acting import (
    create,
    expect,
    loaded,
    seqs,
    start,
    step,
    take_over,
    together,
)
from durable_graph.testing.conformance.promise import promise
from durable_graph.testing.processes import Process

if TYPE_CHECKING:
    from durable_graph.records import Claim
    from durable_graph.testing.conformance.acting import Face
    from durable_graph.testing.conformance.promise import Backend

__all__: list[str] = []

_ROUNDS = 10
_PROCESSES = 3
_CHILDREN = "durable_graph.testing.conformance.children:"


# --- OS threads and event loops --------------------------------------------------------------------------------------


@promise()
def of_many_claims_exactly_one_wins_each_epoch(backend: Backend, face: Face) -> None:
    """Of claims that come at the same time and saw the same epoch exactly one is granted."""
    first = backend.fresh()
    checkpointers = [first, *(backend.reopen(first) for _ in range(7))]
    claims = together(8, lambda n: checkpointers[n].claim(create("thread", f"{n}")))
    for _ in range(_ROUNDS):
        winners = [(n, claim) for n, claim in enumerate(claims) if claim is not None]
        expect("how many claims were granted", len(winners), 1)
        [(number, winner)] = winners
        thread = loaded(face, first).thread
        expect("epoch and owner", (thread.epoch, thread.owner), (winner.epoch, f"{number}"))
        claims = together(8, lambda n, old=winner: take_over(checkpointers[n], old, seen=0, owner=f"{n}"))


@promise()
def commits_of_many_os_threads_are_all_kept(backend: Backend, face: Face) -> None:
    """Several OS threads may commit through one object."""
    checkpointer = backend.fresh()
    claims = [start(checkpointer, key=f"{n}") for n in range(8)]

    def work(n: int) -> list[str]:
        outcomes: list[str] = []
        for seq in range(2, 52, 5):
            outcomes += checkpointer.commit([step(claims[n], seq, b"%d" % seq)])
            outcomes += checkpointer.commit([step(claims[n], seq + more, b"%d" % n) for more in range(1, 5)])
        return outcomes

    expect("the outcomes", set(together(8, lambda n: tuple(work(n)))), {("written",) * 50})
    for n in range(8):
        expect(f"the seqs of thread {n}", seqs(face, checkpointer, f"{n}"), list(range(1, 52)))


@promise()
def reading_goes_on_while_others_write(backend: Backend, face: Face) -> None:
    """What a load shows is one state of the database: items whole, lanes and rows of one moment."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    done = threading.Event()

    def write() -> list[int]:
        try:
            for seq in range(2, 202, 2):
                pair = (Row(1, MAIN, seq, DELTA, b""), Row(1, MAIN, seq + 1, DELTA, b""))
                expect("an outcome", checkpointer.commit([CommitItem(claim, pair)]), ["written"])
        finally:
            done.set()
        return []

    def look() -> list[int]:
        seen = [1]
        while not done.is_set():
            found = loaded(face, checkpointer)
            expect("the seqs", [row.seq for row in found.rows], list(range(1, len(found.rows) + 1)))
            expect("how many rows items of two left over", (len(found.rows) - 1) % 2, 0)
            expect("the lane's newest seq", found.lanes[0].last, found.rows[-1].seq)
            seen.append(len(found.rows))
        return seen

    for seen in together(3, lambda n: write() if n == 0 else look())[1:]:
        expect("how many rows were there, look by look", seen, sorted(seen))
    expect("how many rows there are", len(seqs(face, checkpointer)), 201)


@promise()
def one_object_serves_several_event_loops(backend: Backend, face: Face) -> None:
    """An object is bound to no event loop."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)

    async def use(seq: int) -> list[int]:
        await checkpointer.asetup()
        _ = await asyncio.gather(*(checkpointer.aload("thread") for _ in range(10)))
        _ = checkpointer.commit([step(claim, seq)])
        [rows] = await checkpointer.aread(claim.no, [RowRange(1, MAIN, 0, 2**40)])
        return [row.seq for row in rows]

    expect("the seqs in the first loop", asyncio.run(use(2)), [1, 2])
    expect("the seqs in the second loop", asyncio.run(use(3)), [1, 2, 3])
    expect("the seqs afterwards", seqs(face, checkpointer), [1, 2, 3])


@promise()
def closing_does_not_end_the_object(backend: Backend, face: Face) -> None:
    """A closed object opens again when it is used; it is a context manager, sync and async."""
    checkpointer = backend.fresh()
    with checkpointer as same:
        expect("what `with` gives", same, checkpointer)
        checkpointer.setup()
    checkpointer.close()

    async def use() -> Any:
        async with checkpointer as same:
            expect("what `async with` gives", same, checkpointer)
            return await checkpointer.aread(1, [])

    expect("a read in between", asyncio.run(use()), [])
    claim = start(checkpointer)
    expect("a commit after closing", checkpointer.commit([step(claim, 2)]), ["written"])
    expect("the seqs", seqs(face, checkpointer), [1, 2])


@promise()
def identity_says_who_shares_data(backend: Backend, face: Face) -> None:
    """Objects over the same data have equal, hashable identities; those over other data have others."""
    checkpointer = backend.fresh()
    same, other = backend.reopen(checkpointer), backend.fresh()
    expect("the identity of an object over the same data", same.identity, checkpointer.identity)
    expect("their hashes", hash(same.identity), hash(checkpointer.identity))
    if other.identity == checkpointer.identity:
        raise AssertionError(f"objects over other data have the same identity {other.identity!r}")
    _ = start(checkpointer)
    expect("what the other data holds", face.load(other, "thread"), None)


@promise("durable")
def what_was_written_is_there_when_it_is_opened_again(backend: Backend, face: Face) -> None:
    """What was acknowledged is there after all objects were closed."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    expect("the outcome", checkpointer.commit([step(claim, 2, b"kept")]), ["written"])
    checkpointer.close()
    again = backend.reopen(checkpointer)
    expect("the data", [row.data for row in loaded(face, again).rows], [b"base", b"kept"])
    expect("a commit under the same claim", again.commit([step(claim, 3)]), ["written"])


# --- processes -------------------------------------------------------------------------------------------------------


@promise("durable", "many_processes")
def of_many_processes_exactly_one_wins_each_epoch(backend: Backend, face: Face) -> None:
    """Of claims of several processes that saw the same epoch exactly one is granted."""
    checkpointer = backend.fresh()
    claim: Claim | None = start(checkpointer)
    where = backend.elsewhere(checkpointer)
    with ExitStack() as stack:
        others = [stack.enter_context(Process()) for _ in range(_PROCESSES)]
        for _ in range(_ROUNDS):
            for number, other in enumerate(others):
                other.begin(f"{_CHILDREN}claim", **where, no=claim.no, epoch=claim.epoch, owner=f"process {number}")
            ended = [other.result() for other in others]
            expect("what went wrong there", [one.error for one in ended if one.error], [])
            won = [number for number, one in enumerate(ended) if one.value]
            expect("how many claims were granted", len(won), 1)
            thread = loaded(face, checkpointer).thread
            expect("epoch and owner", thread[2:4], (claim.epoch + 1, f"process {won[0]}"))
            claim = claim._replace(epoch=thread.epoch)


@promise("durable", "many_processes")
def commits_of_many_processes_are_all_kept(backend: Backend, face: Face) -> None:
    """Several processes may write at the same time, and each sees what the others wrote."""
    checkpointer = backend.fresh()
    checkpointer.setup()
    where = backend.elsewhere(checkpointer)
    with ExitStack() as stack:
        others = [stack.enter_context(Process()) for _ in range(_PROCESSES)]
        for number, other in enumerate(others):
            other.begin(f"{_CHILDREN}write", **where, key=f"process {number}", count=100)
        expect("what went wrong there", [one.error for one in (other.result() for other in others) if one.error], [])
    for number in range(_PROCESSES):
        found = seqs(face, checkpointer, f"process {number}")
        expect(f"the seqs that process {number} wrote", found, list(range(1, 102)))


@promise("durable", "many_processes")
def what_a_killed_process_was_told_is_written_is_there(backend: Backend, face: Face) -> None:
    """SIGKILL loses nothing that was acknowledged."""
    checkpointer = backend.fresh()
    checkpointer.setup()
    with Process() as other:
        other.begin(f"{_CHILDREN}write", **backend.elsewhere(checkpointer), key="killed", count=20, kill=True)
        expect("how the process ended", other.result().code, -signal.SIGKILL)
    expect("the seqs it wrote", seqs(face, backend.reopen(checkpointer), "killed"), list(range(1, 22)))


@promise("survives_fork")
def both_sides_of_a_fork_go_on(backend: Backend, face: Face) -> None:
    """An object that was in use when the process forked can be used by parent and child."""
    checkpointer = backend.fresh()
    checkpointer.setup()
    with Process() as other:
        other.begin(f"{_CHILDREN}fork", **backend.elsewhere(checkpointer))
        ended = other.result()
    expect("what went wrong there", ended.error, "")
    expect("the rows that the parent and the child see of their threads", ended.value, {"parent": 31, "child": 31})
    if "durable" in backend.capabilities:
        for key in ("parent", "child"):
            expect(f"the seqs of the {key}'s thread", seqs(face, checkpointer, key), list(range(1, 32)))
