# ruff: noqa: S608 - every name in these texts is our own
"""The rows of queued runs, events and schedules in one transaction of a database.

The texts stand here once for all dialects: `?` is a parameter, and `@` stands before the name of a table. What differs
is how a transaction keeps others off: on SQLite it is alone, elsewhere it locks names and rows.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final

from checkpointers.sql.text import as_bytes, as_text
from durable_graph.persistence.run_rows import Clock, RunRow, ScheduleRow

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from durable_graph.persistence.run_rows import EventKey, RunFilter, Taking

__all__ = ["COLUMNS", "TableRuns"]

COLUMNS: Final = RunRow._fields
_ALL: Final = ", ".join(f"run.{name}" for name in COLUMNS)
_NEW: Final = COLUMNS[1:]
_TEXTS: Final = frozenset({"id", "thread", "graph"})
"""Columns that hold the user's text, as bytes."""
_CHANGING: Final = (
    "status",
    "due",
    "owner",
    "beat",
    "expires",
    "stop",
    "epoch",
    "started",
    "ended",
    "answers",
    "report",
)

_FIRST: Final = """\
NOT EXISTS (
        SELECT 1 FROM @run AS earlier
        WHERE earlier.thread = run.thread AND earlier.no < run.no AND earlier.ended IS NULL
    )"""
"""No run of its thread that was submitted before it is left."""

ADD: Final = f"""\
INSERT INTO @run ({", ".join(_NEW)}) VALUES ({", ".join("?" * len(_NEW))}) ON CONFLICT (id) DO NOTHING"""
FIND: Final = f"SELECT {_ALL} FROM @run AS run WHERE id = ?"
OPEN_RUNS: Final = f"SELECT {_ALL} FROM @run AS run WHERE thread = ? AND ended IS NULL ORDER BY no"
ENDED_BEFORE: Final = """\
SELECT status FROM @run WHERE thread = ? AND no < ? AND ended IS NOT NULL ORDER BY no DESC LIMIT 1"""
SEARCH: Final = f"SELECT {_ALL} FROM @run AS run WHERE {{wanted}} ORDER BY no DESC LIMIT ?"
OWNERS: Final = "SELECT DISTINCT owner FROM @run WHERE status = 'running' AND ended IS NULL"
DUE: Final = f"""\
SELECT {_ALL} FROM @run AS run
WHERE ended IS NULL AND graph IN ({{graphs}})
    AND (status <> 'running' AND due <= ? OR status = 'running' AND (expires <= ? OR owner IN ({{dead}})))
    AND {_FIRST}
ORDER BY rank, due, no LIMIT ?"""
TAKE: Final = """\
UPDATE @run SET status = 'running', attempt = attempt + 1, owner = ?, beat = ?, expires = ?, started = ? WHERE no = ?"""
CHANGE: Final = f"""\
UPDATE @run SET {", ".join(f"{name} = ?" for name in _CHANGING)} WHERE no = ? AND attempt = ? AND status = ?"""
BEAT: Final = """\
UPDATE @run SET beat = ?, expires = ? WHERE no = ? AND attempt = ? AND status = 'running' RETURNING stop"""
WAKE_MOVED: Final = """\
UPDATE @run AS run SET due = ?, epoch = NULL WHERE ended IS NULL AND status = 'waiting' AND EXISTS (
    SELECT 1 FROM @thread AS thread
    WHERE thread.key = run.thread AND thread.epoch <> run.epoch AND thread.owner IS NULL
)"""
STOPPED: Final = "SELECT no FROM @run WHERE ended IS NULL AND status = 'running' AND stop <> 0 AND owner = ?"
PENDING: Final = f"""\
SELECT count(*) FROM @run AS run
WHERE ended IS NULL AND graph IN ({{graphs}}) AND (status <> 'waiting' AND attempt > 0 OR due <= ?) AND {_FIRST}"""

EMIT: Final = "INSERT INTO @event (name, key, data, at) VALUES (?, ?, ?, ?) ON CONFLICT (name, key) DO NOTHING"
EVENT: Final = "SELECT data FROM @event WHERE name = ? AND key = ?"
FORGET_AWAITED: Final = "DELETE FROM @awaited WHERE run = ?"
AWAIT: Final = "INSERT INTO @awaited (name, key, run) VALUES (?, ?, ?)"
WAKE_AWAITING: Final = """\
UPDATE @run SET due = ? WHERE ended IS NULL AND status = 'waiting' AND (due IS NULL OR due > ?)
    AND no IN (SELECT run FROM @awaited WHERE name = ? AND key = ?)"""

PUT_SCHEDULE: Final = """\
INSERT INTO @schedule (name, graph, cron, zone, due, request) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET
    graph = excluded.graph, cron = excluded.cron, zone = excluded.zone, due = excluded.due,
    request = excluded.request"""
DROP_SCHEDULE: Final = "DELETE FROM @schedule WHERE name = ?"
SCHEDULES: Final = "SELECT name, graph, cron, zone, due, request FROM @schedule ORDER BY name"
ADVANCE_SCHEDULE: Final = "UPDATE @schedule SET due = ? WHERE name = ? AND due = ? AND cron = ? AND zone = ?"


class TableRuns(ABC):
    """The rows as one transaction sees them (`durable_graph.persistence.run_rows.RunRows`). A dialect gives verbs."""

    alone: ClassVar[str] = ""
    """What follows a SELECT whose rows nobody else may take meanwhile."""

    @abstractmethod
    def _run(self, statement: str, values: Iterable[Any]) -> Any:
        """Run a statement; the answer has `fetchone` and `fetchall`."""

    def _changed(self, statement: str, values: Iterable[Any]) -> int:
        """Run a statement that changes rows; how many. Asked of the rows: inside a pipeline no count is known yet."""
        return len(self._run(f"{statement} RETURNING 1", values).fetchall())

    @abstractmethod
    def clock(self) -> Clock:
        """What time it is."""

    @abstractmethod
    def hold(self, *names: str) -> None:
        """Let nobody else hold one of these names until the transaction ends."""

    def tell(self) -> None:  # noqa: B027 - where nobody can listen, there is nothing to do
        """Let those who listen know that a run may be due."""

    # --- runs --------------------------------------------------------------------------------------------------------

    def add(self, row: RunRow) -> bool:
        """Keep a new run; False where its id is taken."""
        return self._changed(ADD, _written(row, _NEW)) == 1

    def find(self, id: str) -> RunRow | None:
        """The run with this id."""
        found = self._run(FIND, (as_bytes(id),)).fetchone()
        return None if found is None else _row(found)

    def open_runs(self, thread: str) -> list[RunRow]:
        """The runs of a thread that have not ended, in order."""
        return [_row(found) for found in self._run(OPEN_RUNS, (as_bytes(thread),)).fetchall()]

    def ended_before(self, thread: str, no: int) -> str | None:
        """How the run of a thread ended that came before this one."""
        found = self._run(ENDED_BEFORE, (as_bytes(thread), no)).fetchone()
        return None if found is None else found[0]

    def search(self, wanted: RunFilter, limit: int) -> list[RunRow]:
        """The newest runs that are wanted."""
        names = [name for name in ("thread", "graph", "status") if getattr(wanted, name) is not None]
        values = [as_bytes(value) if name in _TEXTS else value for name in names for value in (getattr(wanted, name),)]
        conditions = [f"{name} = ?" for name in names]
        if wanted.before is not None:
            conditions.append("no < ?")
            values.append(wanted.before)
        text = SEARCH.format(wanted=" AND ".join(conditions) or "1 = 1")
        return [_row(found) for found in self._run(text, (*values, limit)).fetchall()]

    def owners(self) -> list[str]:
        """The owners of the runs that run."""
        return [owner for (owner,) in self._run(OWNERS, ()).fetchall() if owner is not None]

    def take(self, taking: Taking, clock: Clock) -> list[RunRow]:
        """Give runs to a worker."""
        text = DUE.format(graphs=_marks(taking.graphs), dead=_marks(taking.dead)) + self.alone
        graphs = map(as_bytes, taking.graphs)
        values = (*graphs, clock.wall, clock.steady, *taking.dead, taking.limit)
        taken: list[RunRow] = []
        found = self._run(text, values).fetchall()
        if found:  # looked at again: the run before one of these may have ended between that time and this
            clock = self.clock()
        for row in map(_row, found):
            given = row._replace(
                attempt=row.attempt + 1,
                owner=taking.owner,
                beat=clock.steady,
                expires=clock.steady + taking.lease,
                started=clock.wall if row.started is None else row.started,
            )
            _ = self._run(TAKE, (given.owner, given.beat, given.expires, given.started, row.no))
            taken.append(given)
        return taken

    def change(self, row: RunRow, was: str) -> bool:
        """Write a run again; False when its attempt or status is another one."""
        return self._changed(CHANGE, (*_written(row, _CHANGING), row.no, row.attempt, was)) == 1

    def beat(self, runs: Sequence[tuple[int, int]], clock: Clock, lease: int) -> list[tuple[int, bool]]:
        """Signs of life."""
        found: list[tuple[int, bool]] = []
        for no, attempt in sorted(runs):  # in order, so that no two wait for each other in a ring
            stop = self._run(BEAT, (clock.steady, clock.steady + lease, no, attempt)).fetchone()
            if stop is not None:
                found.append((no, bool(stop[0])))
        return found

    def wake_moved(self, clock: Clock) -> int:
        """Make due the waiting runs whose thread moved on."""
        return self._changed(WAKE_MOVED, (clock.wall,))

    def stopped(self, owner: str) -> list[int]:
        """The runs of a worker that somebody cancelled."""
        return [no for (no,) in self._run(STOPPED, (owner,)).fetchall()]

    def pending(self, graphs: Sequence[str], clock: Clock) -> int:
        """How many runs of these graphs run, or could."""
        text = PENDING.format(graphs=_marks(graphs))
        return self._run(text, (*map(as_bytes, graphs), clock.wall)).fetchone()[0]

    # --- events ------------------------------------------------------------------------------------------------------

    def emit(self, event: EventKey, data: bytes, at: int) -> bool:
        """Keep an event; False when it is there."""
        return self._changed(EMIT, (*map(as_bytes, event), data, at)) == 1

    def event(self, event: EventKey) -> bytes | None:
        """The data of an event."""
        found = self._run(EVENT, tuple(map(as_bytes, event))).fetchone()
        return None if found is None else found[0]

    def await_events(self, no: int, events: Collection[EventKey]) -> None:
        """A run waits for these events, and for none before."""
        _ = self._run(FORGET_AWAITED, (no,))
        for event in dict.fromkeys(events):  # two nodes may wait for the same one
            _ = self._run(AWAIT, (*map(as_bytes, event), no))

    def wake_awaiting(self, event: EventKey, clock: Clock) -> int:
        """Make due the runs that wait for an event."""
        return self._changed(WAKE_AWAITING, (clock.wall, clock.wall, *map(as_bytes, event)))

    # --- schedules ---------------------------------------------------------------------------------------------------

    def put_schedule(self, row: ScheduleRow) -> None:
        """Keep a schedule."""
        _ = self._run(PUT_SCHEDULE, (as_bytes(row.name), as_bytes(row.graph), *row[2:]))

    def drop_schedule(self, name: str) -> bool:
        """Remove a schedule."""
        return self._changed(DROP_SCHEDULE, (as_bytes(name),)) == 1

    def schedules(self) -> list[ScheduleRow]:
        """All of them."""
        found = self._run(SCHEDULES, ()).fetchall()
        return [ScheduleRow(as_text(name), as_text(graph), *rest) for name, graph, *rest in found]

    def advance_schedule(self, row: ScheduleRow, due: int) -> bool:
        """The next run of a schedule comes then."""
        return self._changed(ADVANCE_SCHEDULE, (due, as_bytes(row.name), row.due, row.cron, row.zone)) == 1


def wall() -> int:
    """Milliseconds since 1970 by this machine's clock."""
    return time.time_ns() // 1_000_000


def _marks(values: Sequence[str]) -> str:
    """Parameters for these values; for none something that equals nothing."""
    return ", ".join("?" * len(values)) or "NULL"


def _written(row: RunRow, names: Sequence[str]) -> tuple[Any, ...]:
    return tuple([as_bytes(value) if name in _TEXTS else value for name in names for value in (getattr(row, name),)])


def _row(found: Sequence[Any]) -> RunRow:
    values: list[Any] = [as_text(one) if name in _TEXTS else one for name, one in zip(COLUMNS, found, strict=True)]
    return RunRow(*values)
