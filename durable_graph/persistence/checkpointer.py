"""The `Checkpointer` protocol: a fenced, ordered row log.

A backend is dumb on purpose. It keeps threads (with epoch and owner), lanes, and rows of bytes; it appends rows
under an epoch and reads ranges. Layout, encoding and every decision are the engine's (`persistence.layout`), so they
exist once. The rules a backend must keep (each found by a failure, see ARCHITECTURE.md):

1. Fencing. `commit` writes an item only if the thread still has the item's epoch; otherwise the outcome is "stale"
   and nothing of the item is written. A stale item is an outcome, never an error of its group.
2. Each item is atomic; a group need not be.
3. Nothing inserted although the fence held means the very same rows are there: the outcome is "already mine".
4. Thread numbers are never used again, not even after a delete. Epochs come with the claim (`new_epoch`).
5. Order is seq, never a clock.
6. One object serves sync and async callers, several OS threads, several event loops, and survives `os.fork()`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

from durable_graph.errors import UsageError
from durable_graph.persistence.closing import Closing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from durable_graph.persistence.run_rows import RunRows
    from durable_graph.records import (
        Beat,
        Claim,
        ClaimRequest,
        CommitItem,
        LoadedThread,
        Outcome,
        Row,
        RowRange,
        ThreadInfo,
    )

__all__ = ["Checkpointer"]

T = TypeVar("T")


class Checkpointer(Closing, ABC):
    """Base of all checkpointers. Subclasses give the sync verbs; the async ones run them in a worker thread."""

    instant: bool = False
    """True when every verb returns without waiting for anything (memory): callers never hand it to a thread."""

    one_host: bool = True
    """True when all users of the store run on one machine (memory; SQLite in WAL mode, which shares memory)."""

    lease: float | None = None
    """Seconds for which a claim is good after its owner's last sign of life. None: no leases are kept, and an owner of
    whom nobody can see whether it lives (on another machine, in another container) is taken for alive."""

    @property
    @abstractmethod
    def identity(self) -> tuple[Any, ...]:
        """What two objects over the same data share (e.g. the database file's real path); hashable."""

    @abstractmethod
    def load(self, key: str, *, ns: str = "", lane: int | None = None, upto: int | None = None) -> LoadedThread | None:
        """The thread, its lanes, and rows of one lane; None when the thread is unknown.

        lane: which lane's rows; None is the newest of namespace `ns` (the one with the highest `last`).
        upto: rows start at the last BASE with seq <= upto (None: the newest BASE) and run to the lane's end.
        An unknown lane gives no rows.
        """

    @abstractmethod
    def read(self, no: int, ranges: Sequence[RowRange]) -> list[list[Row]]:
        """The rows of each range, in order of seq."""

    def threads(self, after: int = 0, limit: int = 1000) -> list[ThreadInfo]:
        """The threads with a number above `after`, in order of their numbers; at most `limit`.

        Raises:
            UsageError: this checkpointer cannot list its threads.
        """
        del after, limit
        what = f"{type(self).__name__} cannot list its threads"
        raise UsageError(what, cure="Implement Checkpointer.threads(after, limit), or name the threads yourself.")

    @abstractmethod
    def claim(self, request: ClaimRequest) -> Claim | None:
        """Take a thread over under a new epoch; None when something happened since the caller looked."""

    @abstractmethod
    def commit(self, items: Sequence[CommitItem]) -> list[Outcome]:
        """Append the rows of each item under its claim; one outcome per item, in order.

        Raises InternalError, naming thread, lane and seq, when other rows than these are in an item's places.
        Raises a StorageError when the backend fails; then items of the group may or may not have been written and
        the same items may be sent again ("already mine").
        """

    def renew(self, beats: Sequence[Beat]) -> None:
        """Note signs of life of owners who still have their claims: each is good for `beat.lease` ms from now on.

        Called only where `lease` is not None.
        """

    def with_runs(self, work: Callable[[RunRows], T], *, reads: bool = False) -> T:
        """The result of `work` on the rows of queued runs, events and schedules (`persistence.run_rows`), in one
        transaction: its changes are kept when this returns, or not at all when it raises. It may be called several
        times; only the last call counts. reads: it changes nothing.

        Raises:
            UsageError: this checkpointer keeps none.
        """
        del work, reads
        what = f"{type(self).__name__} keeps no queued runs, events or schedules"
        raise UsageError(
            what, cure="Implement Checkpointer.with_runs, or use SqliteSaver, PostgresSaver or InMemorySaver."
        )

    def listen(self, heard: Callable[[], object], over: Callable[[], bool]) -> None:
        """Call `heard` whenever a run may have become due, from this OS thread, until `over()`. Returns at once where
        nobody can listen; workers look now and then in any case.
        """

    def setup(self) -> None:
        """Make the database ready. Never needed: first use does it."""

    async def aload(
        self, key: str, *, ns: str = "", lane: int | None = None, upto: int | None = None
    ) -> LoadedThread | None:
        """Async `load`."""
        return await asyncio.to_thread(self.load, key, ns=ns, lane=lane, upto=upto)

    async def athreads(self, after: int = 0, limit: int = 1000) -> list[ThreadInfo]:
        """Async `threads`."""
        return await asyncio.to_thread(self.threads, after, limit)

    async def aread(self, no: int, ranges: Sequence[RowRange]) -> list[list[Row]]:
        """Async `read`."""
        return await asyncio.to_thread(self.read, no, ranges)

    async def awith_runs(self, work: Callable[[RunRows], T], *, reads: bool = False) -> T:
        """Async `with_runs`."""
        if self.instant:
            return self.with_runs(work, reads=reads)
        return await asyncio.to_thread(self.with_runs, work, reads=reads)

    async def asetup(self) -> None:
        """Async `setup`."""
        await asyncio.to_thread(self.setup)
