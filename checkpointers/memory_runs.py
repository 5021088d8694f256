"""Queued runs, events and schedules in this process's memory."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from durable_graph.persistence.run_rows import Clock, RunRow, ScheduleRow

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from durable_graph.persistence.run_rows import EventKey, RunFilter, Taking
    from durable_graph.records import ThreadInfo

__all__ = ["MemoryRuns", "RunTables"]

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class RunTables:
    """All that is kept. runs: by number, in the order they were submitted.   of_thread: their numbers by thread, and in
    `open` of those that have not ended.
    """

    runs: dict[int, RunRow] = field(default_factory=dict[int, RunRow])
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    of_thread: dict[str, list[int]] = field(default_factory=dict[str, "list[int]"])
    open: dict[str, list[int]] = field(default_factory=dict[str, "list[int]"])
    events: dict[EventKey, tuple[bytes, int]] = field(default_factory=dict[Any, Any])
    awaited: dict[int, frozenset[EventKey]] = field(default_factory=dict[Any, Any])
    schedules: dict[str, ScheduleRow] = field(default_factory=dict[str, ScheduleRow])


class MemoryRuns:
    """The rows as one transaction sees them (`durable_graph.persistence.run_rows.RunRows`); its saver's lock is held.

    thread: what is known of a thread by its key.
    """

    def __init__(self, tables: RunTables, thread: Callable[[str], ThreadInfo | None]) -> None:
        self._tables = tables
        self._thread = thread
        self._undo: list[Callable[[], object]] = []

    def undo(self) -> None:
        """Take all changes back."""
        while self._undo:
            _ = self._undo.pop()()

    def _set(self, table: dict[K, V], key: K, value: V) -> None:
        if key in table:
            before = table[key]
            self._undo.append(lambda: table.__setitem__(key, before))
        else:
            self._undo.append(lambda: table.pop(key))
        table[key] = value

    def _drop(self, table: dict[K, V], key: K) -> None:
        before = table.pop(key)
        self._undo.append(lambda: table.__setitem__(key, before))

    def clock(self) -> Clock:
        """What time it is."""
        return Clock(time.time_ns() // 1_000_000, time.monotonic_ns() // 1_000_000)

    def hold(self, *names: str) -> None:
        """Nothing to do: a transaction is alone."""

    def tell(self) -> None:
        """Nobody listens: workers look now and then."""

    # --- runs --------------------------------------------------------------------------------------------------------

    def add(self, row: RunRow) -> bool:
        """Keep a new run."""
        tables = self._tables
        if row.id in tables.numbers:
            return False
        row = row._replace(no=len(tables.runs) + 1)
        self._set(tables.numbers, row.id, row.no)
        self._set(tables.runs, row.no, row)
        for table in (tables.of_thread, tables.open):
            self._set(table, row.thread, [*table.get(row.thread, ()), row.no])
        return True

    def find(self, id: str) -> RunRow | None:
        """The run with this id."""
        no = self._tables.numbers.get(id)
        return None if no is None else self._tables.runs[no]

    def open_runs(self, thread: str) -> list[RunRow]:
        """The runs of a thread that have not ended, in order."""
        return [self._tables.runs[no] for no in self._tables.open.get(thread, ())]

    def ended_before(self, thread: str, no: int) -> str | None:
        """How the run of a thread ended that came before this one."""
        before = [self._tables.runs[one] for one in self._tables.of_thread.get(thread, ()) if one < no]
        return next((row.status for row in reversed(before) if row.ended is not None), None)

    def search(self, wanted: RunFilter, limit: int) -> list[RunRow]:
        """The newest runs that are wanted."""
        found = [
            row
            for row in reversed(self._tables.runs.values())
            if (wanted.before is None or row.no < wanted.before)
            and all(
                value is None or getattr(row, name) == value
                for name, value in zip(wanted._fields[:3], wanted[:3], strict=True)
            )
        ]
        return found[:limit]

    def _unended(self) -> list[RunRow]:
        return [self._tables.runs[no] for numbers in self._tables.open.values() for no in numbers]

    def owners(self) -> list[str]:
        """The owners of the runs that run."""
        return sorted({row.owner for row in self._unended() if row.status == "running" and row.owner is not None})

    def take(self, taking: Taking, clock: Clock) -> list[RunRow]:
        """Give runs to a worker."""
        due: list[RunRow] = []
        for numbers in self._tables.open.values():
            row = self._tables.runs[numbers[0]] if numbers else None
            if row is None or row.graph not in taking.graphs:
                continue
            if row.status == "running":
                if row.expires <= clock.steady or row.owner in taking.dead:
                    due.append(row)
            elif row.due is not None and row.due <= clock.wall:
                due.append(row)
        due.sort(key=lambda row: (row.rank, row.due or 0, row.no))
        taken: list[RunRow] = []
        for row in due[: taking.limit]:
            given = row._replace(
                status="running",
                attempt=row.attempt + 1,
                owner=taking.owner,
                beat=clock.steady,
                expires=clock.steady + taking.lease,
                started=clock.wall if row.started is None else row.started,
            )
            self._set(self._tables.runs, row.no, given)
            taken.append(given._replace(status=row.status))
        return taken

    def change(self, row: RunRow, was: str) -> bool:
        """Write a run again."""
        known = self._tables.runs.get(row.no)
        if known is None or known.attempt != row.attempt or known.status != was:
            return False
        self._set(self._tables.runs, row.no, row)
        if row.ended is not None:
            left = [no for no in self._tables.open.get(row.thread, ()) if no != row.no]
            self._set(self._tables.open, row.thread, left)
            if not left:
                self._drop(self._tables.open, row.thread)
        return True

    def beat(self, runs: Sequence[tuple[int, int]], clock: Clock, lease: int) -> list[tuple[int, bool]]:
        """Signs of life."""
        found: list[tuple[int, bool]] = []
        for no, attempt in runs:
            row = self._tables.runs.get(no)
            if row is not None and row.attempt == attempt and row.status == "running":
                self._set(self._tables.runs, no, row._replace(beat=clock.steady, expires=clock.steady + lease))
                found.append((no, bool(row.stop)))
        return found

    def _wake(self, rows: Sequence[RunRow], clock: Clock) -> int:
        for row in rows:
            self._set(self._tables.runs, row.no, row._replace(due=clock.wall))
        return len(rows)

    def wake_moved(self, clock: Clock) -> int:
        """Make due the waiting runs whose thread moved on."""

        def moved(row: RunRow) -> bool:
            if row.status != "waiting" or row.epoch is None:
                return False
            thread = self._thread(row.thread)
            return thread is not None and thread.epoch != row.epoch and thread.owner is None

        return self._wake([row._replace(epoch=None) for row in self._unended() if moved(row)], clock)

    def stopped(self, owner: str) -> list[int]:
        """The runs of a worker that somebody cancelled."""
        return [row.no for row in self._unended() if row.status == "running" and row.stop and row.owner == owner]

    def pending(self, graphs: Sequence[str], clock: Clock) -> int:
        """How many runs of these graphs run, or could."""
        first = [self._tables.runs[numbers[0]] for numbers in self._tables.open.values()]
        return sum(
            row.graph in graphs
            and ((row.status != "waiting" and row.attempt > 0) or (row.due is not None and row.due <= clock.wall))
            for row in first
        )

    # --- events ------------------------------------------------------------------------------------------------------

    def emit(self, event: EventKey, data: bytes, at: int) -> bool:
        """Keep an event."""
        if event in self._tables.events:
            return False
        self._set(self._tables.events, event, (data, at))
        return True

    def event(self, event: EventKey) -> bytes | None:
        """The data of an event."""
        return self._tables.events.get(event, (None, 0))[0]

    def await_events(self, no: int, events: Collection[EventKey]) -> None:
        """A run waits for these events, and for none before."""
        self._set(self._tables.awaited, no, frozenset(events))

    def wake_awaiting(self, event: EventKey, clock: Clock) -> int:
        """Make due the runs that wait for an event."""
        waiting = [self._tables.runs[no] for no, events in self._tables.awaited.items() if event in events]
        return self._wake(
            [row for row in waiting if row.status == "waiting" and (row.due is None or row.due > clock.wall)], clock
        )

    # --- schedules ---------------------------------------------------------------------------------------------------

    def put_schedule(self, row: ScheduleRow) -> None:
        """Keep a schedule."""
        self._set(self._tables.schedules, row.name, row)

    def drop_schedule(self, name: str) -> bool:
        """Remove a schedule."""
        known = name in self._tables.schedules
        if known:
            self._drop(self._tables.schedules, name)
        return known

    def schedules(self) -> list[ScheduleRow]:
        """All of them."""
        return [self._tables.schedules[name] for name in sorted(self._tables.schedules)]

    def advance_schedule(self, row: ScheduleRow, due: int) -> bool:
        """The next run of a schedule comes then."""
        known = self._tables.schedules.get(row.name)
        if known is None or known[2:5] != row[2:5]:
            return False
        self._set(self._tables.schedules, row.name, known._replace(due=due))
        return True
