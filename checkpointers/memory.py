"""Keeps runs in this process's memory, as the same bytes a database would hold.

For tests and for runs that need not outlive the process: time travel, interrupts and resumes work, a crash loses all.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self, TypeVar

from typing_extensions import override

from checkpointers.fencing import RUNNING, different_rows
from checkpointers.forking import survive_forks
from checkpointers.memory_runs import MemoryRuns, RunTables
from durable_graph.errors import InvalidConfigError
from durable_graph.persistence.checkpointer import Checkpointer
from durable_graph.records import BASE, MAIN, Claim, LaneInfo, LoadedThread, Row, ThreadInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from durable_graph.persistence.run_rows import RunRows
    from durable_graph.records import ClaimRequest, CommitItem, Outcome, RowRange

__all__ = ["InMemorySaver", "MemorySaver"]

T = TypeVar("T")

_seq = attrgetter("seq")


class _Thread:
    """One thread: its row, its lanes, and its rows by (lane, part), each list in order of seq."""

    __slots__ = ("epoch", "key", "lanes", "no", "owner", "parts", "status")

    def __init__(self, no: int, key: str) -> None:
        self.no = no
        self.key = key
        self.epoch = 0
        self.owner: str | None = None
        self.status = RUNNING
        self.lanes: dict[int, LaneInfo] = {}
        self.parts: dict[tuple[int, int], list[Row]] = {}

    def info(self) -> ThreadInfo:
        return ThreadInfo(self.no, self.key, self.epoch, self.owner, self.status)

    def last(self, lane: int) -> int:
        """The seq of the lane's newest row, 0 when it has none."""
        rows = self.parts.get((lane, MAIN))
        return rows[-1].seq if rows else 0

    def find(self, row: Row) -> Row | None:
        """The stored row at the place of `row`."""
        rows = self.parts.get((row.lane, row.part), [])
        at = bisect_left(rows, row.seq, key=_seq)
        return rows[at] if at < len(rows) and rows[at].seq == row.seq else None

    def append(self, row: Row) -> bool:
        """Add the row; False when its place is taken."""
        place = (row.lane, row.part)
        if place not in self.parts:
            self.parts[place] = []
        rows = self.parts[place]
        if not rows or rows[-1].seq < row.seq:
            rows += (row,)
            return True
        at = bisect_left(rows, row.seq, key=_seq)
        if rows[at].seq == row.seq:
            return False
        rows.insert(at, row)
        return True

    def check_free(self, request: ClaimRequest) -> None:
        """Refuse a claim that would write over what is there: its caller has seen another history."""
        for lane in request.new_lanes:
            if lane.lane in self.lanes:
                raise different_rows(Claim(self.no, self.epoch), lane.lane, 0)
        for row in request.rows:
            if self.find(row) is not None:
                raise different_rows(Claim(self.no, self.epoch), row.lane, row.seq)

    def extend(self, lanes: Iterable[LaneInfo], rows: Iterable[Row]) -> None:
        """Add lanes and rows whose places are known to be free."""
        for lane in lanes:
            self.lanes[lane.lane] = LaneInfo(*lane[:4], 0)
        for row in rows:
            self.append(row)


class InMemorySaver(Checkpointer):
    """A checkpointer in memory. Every object is a database of its own.

    Rows are kept as bytes, so what a run returns is what a database would return. All verbs answer at once, may be
    called from any OS thread or event loop, and a forked child goes on with its own copy.
    """

    instant = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._by_number: dict[int, _Thread] = {}
        self._runs = RunTables()
        self._token = object()
        self._resting = False
        survive_forks(self)

    @classmethod
    def from_conn_string(cls, url: str = "memory://") -> Self:
        """A new, empty checkpointer; `url` is "memory://".

        Raises:
            InvalidConfigError: the URL names something, and memory has no names. Share the object instead.
        """
        if url not in {"memory://", "memory:", ":memory:"}:
            raise InvalidConfigError(
                f"{url!r}: a database in memory has no name.",
                cure='Write "memory://", and pass the same InMemorySaver() object to share what it holds.',
            )
        return cls()

    @property
    @override
    def identity(self) -> tuple[Any, ...]:
        # The token lives as long as anybody holds the identity; a bare id() could come back with another object.
        return ("memory", self._token)

    @override
    def load(self, key: str, *, ns: str = "", lane: int | None = None, upto: int | None = None) -> LoadedThread | None:
        with self._lock:
            no = self._numbers.get(key)
            if no is None:
                return None
            thread = self._by_number[no]
            lanes = tuple([LaneInfo(*thread.lanes[n][:4], thread.last(n)) for n in sorted(thread.lanes)])
            if lane is None:
                lane = max([(info.last, info.lane) for info in lanes if info.ns == ns], default=(0, 0))[1]
            return LoadedThread(thread.info(), lanes, lane, _from_last_base(thread.parts.get((lane, MAIN), []), upto))

    @override
    def read(self, no: int, ranges: Sequence[RowRange]) -> list[list[Row]]:
        with self._lock:
            thread = self._by_number.get(no)
            parts = thread.parts if thread is not None else {}
            return [_between(parts.get((lane, part), []), first, last) for lane, part, first, last in ranges]

    @override
    def threads(self, after: int = 0, limit: int = 1000) -> list[ThreadInfo]:
        with self._lock:
            return [self._by_number[no].info() for no in sorted(no for no in self._by_number if no > after)[:limit]]

    @override
    def claim(self, request: ClaimRequest) -> Claim | None:
        with self._lock:
            no = self._numbers.get(request.key)
            if request.epoch is None:
                if no is not None:
                    return None
                thread = _Thread(len(self._by_number) + 1, request.key)
                self._by_number[thread.no] = thread
                self._numbers[request.key] = thread.no
            else:
                if no is None:
                    return None
                thread = self._by_number[no]
                if thread.epoch != request.epoch or thread.last(request.lane) > request.seen:
                    return None
                thread.check_free(request)
            thread.epoch = request.new_epoch
            thread.owner = request.owner
            thread.status = RUNNING
            thread.extend(request.new_lanes, request.rows)
            return Claim(thread.no, thread.epoch)

    @override
    def commit(self, items: Sequence[CommitItem]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        with self._lock:
            for item in items:
                outcomes += (self._commit(item),)
        return outcomes

    def _commit(self, item: CommitItem) -> Outcome:
        (no, epoch), rows, new_lanes, status = item
        thread = self._by_number.get(no)
        if thread is None or thread.epoch != epoch:
            return "stale"
        outcome: Outcome = "written"
        if rows and not rows[1:] and not new_lanes:
            if not thread.append(rows[0]):
                outcome = _already_mine(thread, item)
        elif any(row.lane in thread.lanes for row in new_lanes) or any(thread.find(row) is not None for row in rows):
            outcome = _already_mine(thread, item)
        else:
            thread.extend(new_lanes, rows)
        if status is not None:
            if not rows and not new_lanes and thread.owner is None and thread.status == status:
                outcome = "already mine"
            thread.owner = None
            thread.status = status
        elif not rows and not new_lanes:
            outcome = "already mine"
        return outcome

    @override
    def with_runs(self, work: Callable[[RunRows], T], *, reads: bool = False) -> T:
        with self._lock:
            rows = MemoryRuns(self._runs, self._known)
            try:
                return work(rows)
            except BaseException:
                rows.undo()
                raise

    def _known(self, key: str) -> ThreadInfo | None:
        no = self._numbers.get(key)
        return None if no is None else self._by_number[no].info()

    def before_fork(self, deadline: float) -> None:
        """Hold still while the process forks."""
        self._resting = self._lock.acquire(timeout=max(0.0, deadline - time.monotonic()))

    def after_fork(self, *, child: bool) -> None:
        """Go on; the child gets a lock that no OS thread of the parent holds."""
        if child:
            self._lock = threading.Lock()
        elif self._resting:
            self._lock.release()


MemorySaver = InMemorySaver


def _between(rows: list[Row], first: int, last: int) -> list[Row]:
    return rows[bisect_left(rows, first, key=_seq) : bisect_right(rows, last, key=_seq)]


def _from_last_base(rows: list[Row], upto: int | None) -> tuple[Row, ...]:
    """The rows from the last BASE at or before `upto` on; all of them when there is none."""
    at = len(rows) if upto is None else bisect_right(rows, upto, key=_seq)
    while at > 0:
        at -= 1
        if rows[at].kind == BASE:
            return tuple(rows[at:])
    return tuple(rows)


def _already_mine(thread: _Thread, item: CommitItem) -> Outcome:
    """The outcome of an item some of whose places are taken.

    Raises:
        InternalError: not all of it is stored, or with another content.
    """
    for lane in item.new_lanes:
        if thread.lanes.get(lane.lane) != lane._replace(last=0):
            raise different_rows(item.claim, lane.lane, 0)
    for row in item.rows:
        if thread.find(row) != row:
            raise different_rows(item.claim, row.lane, row.seq)
    return "already mine"
