"""What every promise does: begin a thread, take it over, append a step, read it back, and say what was seen."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from durable_graph.errors import InternalError, shortened
from durable_graph.records import BASE, DELTA, MAIN, Claim, ClaimRequest, CommitItem, LaneInfo, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.persistence.run_rows import RunRows
    from durable_graph.records import LoadedThread, RowRange, ThreadInfo

__all__ = [
    "ASYNC",
    "FACES",
    "FIRST_LANE",
    "FIRST_ROW",
    "SYNC",
    "Async",
    "Face",
    "Sync",
    "check",
    "create",
    "expect",
    "loaded",
    "refusal",
    "seqs",
    "start",
    "step",
    "take_over",
    "together",
    "won",
    "write_until_stale",
]

T = TypeVar("T")

FIRST_LANE: Final = LaneInfo(1, "", 0, 0, 0)
FIRST_ROW: Final = Row(1, MAIN, 1, BASE, b"base")


# --- faces -----------------------------------------------------------------------------------------------------------


class Face(Protocol):
    """The verbs that both faces have, sync or async, under one set of names."""

    @property
    def name(self) -> str:
        """Either "sync" or "async"."""
        ...

    def load(self, checkpointer: Checkpointer, key: str, **options: Any) -> LoadedThread | None:
        """As `Checkpointer.load`."""
        ...

    def read(self, checkpointer: Checkpointer, no: int, ranges: Sequence[RowRange]) -> list[list[Row]]:
        """As `Checkpointer.read`."""
        ...

    def threads(self, checkpointer: Checkpointer, **options: int) -> list[ThreadInfo]:
        """As `Checkpointer.threads`."""
        ...

    def with_runs(self, checkpointer: Checkpointer, work: Callable[[RunRows], T], *, reads: bool = False) -> T:
        """As `Checkpointer.with_runs`."""
        ...


class Sync:
    """Calls the verbs."""

    name = "sync"

    def load(self, checkpointer: Checkpointer, key: str, **options: Any) -> LoadedThread | None:
        """As `Checkpointer.load`."""
        return checkpointer.load(key, **options)

    def read(self, checkpointer: Checkpointer, no: int, ranges: Sequence[RowRange]) -> list[list[Row]]:
        """As `Checkpointer.read`."""
        return checkpointer.read(no, ranges)

    def threads(self, checkpointer: Checkpointer, **options: int) -> list[ThreadInfo]:
        """As `Checkpointer.threads`."""
        return checkpointer.threads(**options)

    def with_runs(self, checkpointer: Checkpointer, work: Callable[[RunRows], T], *, reads: bool = False) -> T:
        """As `Checkpointer.with_runs`."""
        return checkpointer.with_runs(work, reads=reads)


class Async:
    """Calls the async verbs, each in an event loop of its own."""

    name = "async"

    def load(self, checkpointer: Checkpointer, key: str, **options: Any) -> LoadedThread | None:
        """As `Checkpointer.load`."""
        return asyncio.run(checkpointer.aload(key, **options))

    def read(self, checkpointer: Checkpointer, no: int, ranges: Sequence[RowRange]) -> list[list[Row]]:
        """As `Checkpointer.read`."""
        return asyncio.run(checkpointer.aread(no, ranges))

    def threads(self, checkpointer: Checkpointer, **options: int) -> list[ThreadInfo]:
        """As `Checkpointer.threads`."""
        return asyncio.run(checkpointer.athreads(**options))

    def with_runs(self, checkpointer: Checkpointer, work: Callable[[RunRows], T], *, reads: bool = False) -> T:
        """As `Checkpointer.with_runs`."""
        return asyncio.run(checkpointer.awith_runs(work, reads=reads))


SYNC: Final = Sync()
ASYNC: Final = Async()
FACES: Final[tuple[Face, ...]] = (SYNC, ASYNC)


# --- acting ----------------------------------------------------------------------------------------------------------


def create(key: str, owner: str, rows: Sequence[Row] = ()) -> ClaimRequest:
    """A request for a new thread with one lane."""
    epoch = random.randrange(2, 2**31)  # noqa: S311 - an epoch guards no secret
    return ClaimRequest(key, owner, None, epoch, 1, 0, (FIRST_LANE,), tuple(rows))


def start(
    checkpointer: Checkpointer, key: str = "thread", owner: str = "first owner", rows: Sequence[Row] = (FIRST_ROW,)
) -> Claim:
    """A new thread with one lane and one row."""
    return won(checkpointer.claim(create(key, owner, rows)))


def take_over(
    checkpointer: Checkpointer, claim: Claim, seen: int, key: str = "thread", owner: str = "second owner"
) -> Claim | None:
    """Ask for a thread that another owner holds; `seen` is the newest seq that was seen."""
    return checkpointer.claim(ClaimRequest(key, owner, claim.epoch, claim.epoch + 1, 1, seen, (), ()))


def step(claim: Claim, seq: int, data: bytes = b"step", **options: Any) -> CommitItem:
    """One row behind the others."""
    return CommitItem(claim, (Row(1, MAIN, seq, DELTA, data),), **options)


_PATIENCE: Final = 30.0
"""Seconds within which a thread that somebody writes to must have been taken over."""


def write_until_stale(
    checkpointer: Checkpointer, claim: Claim, newest: int, begun: Callable[[], object] | None = None
) -> int:
    """Append rows behind `newest`, one or two at a time, until somebody else has the thread.

    Answers the newest seq that was acknowledged. `begun` is called when the first is.
    """
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        rows = tuple(Row(1, MAIN, newest + place, DELTA, b"until stale") for place in range(1, 2 + newest // 2 % 2))
        if checkpointer.commit([CommitItem(claim, rows)]) == ["stale"]:
            return newest
        newest = rows[-1].seq
        if begun is not None:
            _ = begun()
        time.sleep(0)  # whoever takes the thread over must come to it
    raise AssertionError(f"nobody took the thread over for {_PATIENCE:g} s")


def won(claim: Claim | None) -> Claim:
    """A claim that must have been granted."""
    if claim is None:
        raise AssertionError("a claim that nothing stands against was refused")
    return claim


def loaded(face: Face, checkpointer: Checkpointer, key: str = "thread", **options: Any) -> LoadedThread:
    """A thread that must be there."""
    found = face.load(checkpointer, key, **options)
    if found is None:
        raise AssertionError(f"load({key!r}) knows no such thread, though it was claimed")
    return found


def seqs(face: Face, checkpointer: Checkpointer, key: str = "thread") -> list[int]:
    """The seqs of the rows that a load shows."""
    return [row.seq for row in loaded(face, checkpointer, key).rows]


def expect(what: str, seen: object, wanted: object) -> None:
    """Say what was seen where it is not what was promised.

    Raises:
        AssertionError: it is not.
    """
    if seen != wanted:
        raise AssertionError(f"{what}: {shortened(seen, 300)} instead of {shortened(wanted, 300)}")


def check(what: str, seen: object) -> None:
    """Say what does not hold.

    Raises:
        AssertionError: it does not.
    """
    if not seen:
        raise AssertionError(f"this is not so: {what}")


def refusal(call: Callable[[], object]) -> str:
    """The text of the InternalError with which the call ends.

    Raises:
        AssertionError: it ends well.
    """
    try:
        accepted = call()
    except InternalError as error:
        return str(error)
    raise AssertionError(f"no InternalError was raised; accepted: {accepted!r}")


def together(count: int, work: Callable[[int], T]) -> list[T]:
    """Runs `work(n)` in `count` OS threads that start together; their results."""
    gate, results, errors = threading.Barrier(count), cast("list[T]", [None] * count), list[BaseException]()

    def run(n: int) -> None:
        try:
            _ = gate.wait()
            results[n] = work(n)
        except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's OS thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
