"""What happens to queued runs, one transaction each: functions of the rows (`persistence.run_rows`).

Each function here gives the work for one `Checkpointer.with_runs`, which both faces perform alike.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from durable_graph.errors import InvalidConfigError, RunNotFoundError, ThreadBusy, UnknownInterruptError
from durable_graph.persistence.codec import CODEC
from durable_graph.runs.record import RunReport, answers_in, shown
from durable_graph.runtime import owner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from durable_graph.persistence.run_rows import EventKey, RunFilter, RunRow, RunRows, Taking
    from durable_graph.runs.record import RunPolicy, RunRecord
    from durable_graph.types import Interrupt

__all__ = [
    "Ending",
    "Parking",
    "adopting",
    "answering",
    "beating",
    "cancelling",
    "emitting",
    "finding",
    "fresh_row",
    "idle",
    "is_held",
    "listing",
    "noting",
    "row_of",
    "settling",
    "submitting",
    "taking",
    "waiting_for",
]


_SKEW = 250
"""Milliseconds until a run is looked at again that still waits though its time has come."""


class Ending(NamedTuple):
    """A run is over."""

    status: str
    report: RunReport


class Parking(NamedTuple):
    """A run goes on later.

    status: "queued" where nothing is in its way, "waiting" where it waits.   delay: milliseconds until it is due; None
    with `due` None: not by time.   due: wall.   events: what it waits for.   epoch: of its thread, as it stands.
    """

    status: str
    report: RunReport
    delay: int | None = None
    due: int | None = None
    events: Sequence[EventKey] = ()
    epoch: int | None = None


def fresh_row(
    id: str, thread: str, graph: str, request: bytes, *, priority: int = 0, answers: Mapping[str, Any] | None = None
) -> RunRow:
    """A run that is not kept yet; times are filled in when it is."""
    from durable_graph.persistence.run_rows import RunRow

    kept = None if not answers else CODEC.encode(dict(answers))
    return RunRow(
        0, id, thread, graph, "queued", -priority, None, 0, None, 0, 0, 0, None, 0, None, None, request, kept, None
    )


def submitting(row: RunRow, policy: RunPolicy, due: int | None, delay: int) -> Callable[[RunRows], RunRow]:
    """Keep a run, due at a time or in so many milliseconds. One that is kept already stays as it is.

    Raises:
        ThreadBusy: its thread has runs that have not ended, and the policy is to reject it.
        InvalidConfigError: the id is that of another run.
    """

    def work(rows: RunRows) -> RunRow:
        rows.hold(_thread(row.thread))
        known = rows.find(row.id)
        if known is not None:
            if (known.thread, known.graph, known.request) != (row.thread, row.graph, row.request):
                what = f"run id {row.id!r} is that of another run, of thread {known.thread!r}"
                raise InvalidConfigError(what, cure="Give each run an id of its own, or leave run_id out.")
            return known
        clock = rows.clock()
        for before in rows.open_runs(row.thread) if policy != "queue" else ():
            if policy == "reject":
                what = f"thread {row.thread!r} has a run that has not ended: {before.id!r} is {before.status}"
                raise ThreadBusy(what, cure="Wait for it, or say policy='queue' or 'replace'.")
            _ = _cancel(rows, before.id)
        new = row._replace(submitted=clock.wall, due=clock.wall + delay if due is None else due)
        if rows.add(new) and (new.due or 0) <= clock.wall:
            rows.tell()
        return new

    return work


def adopting(row: RunRow) -> Callable[[RunRows], bool]:
    """Keep a run that goes on with what a dead process left, unless its thread has one that will; whether it is new."""

    def work(rows: RunRows) -> bool:
        rows.hold(_thread(row.thread))
        if rows.open_runs(row.thread):
            return False
        now = rows.clock().wall
        rows.tell()
        return rows.add(row._replace(submitted=now, due=now))

    return work


def answering(thread: str, graph: str, answers: Mapping[str, Any]) -> Callable[[RunRows], RunRow | None]:
    """Give answers, by interrupt id, to the run of a thread that asked; None where no run did.

    Raises:
        UnknownInterruptError: one was answered before, in another way.
    """

    def work(rows: RunRows) -> RunRow | None:
        rows.hold(_thread(thread))
        row = next(iter(rows.open_runs(thread)), None)
        if row is None or row.graph != graph or not row.attempt:
            return None
        rows.tell()
        return _change(rows, row.id, partial(_answered, answers=answers, now=rows.clock().wall))

    return work


def _answered(row: RunRow, *, answers: Mapping[str, Any], now: int) -> RunRow:
    given = answers_in(row)
    twice = [
        asked for asked in answers if asked in given and CODEC.encode(given[asked]) != CODEC.encode(answers[asked])
    ]
    if twice:
        what = f"{', '.join(twice)} was answered before, and run {row.id!r} has not taken the answer yet"
        raise UnknownInterruptError(what, interrupt_ids=twice)
    new = row._replace(answers=CODEC.encode({**given, **answers}))
    return new if row.status == "running" else new._replace(due=now)  # one that runs looks for answers when it stops


def taking(wanted: Taking, *, one_host: bool) -> Callable[[RunRows], list[RunRow]]:
    """Take runs for a worker."""

    def work(rows: RunRows) -> list[RunRow]:
        dead = [one for one in rows.owners() if owner.is_dead(one, one_host=one_host)]
        return rows.take(wanted._replace(dead=dead), rows.clock())

    return work


def beating(runs: Sequence[tuple[int, int]], lease: int) -> Callable[[RunRows], list[tuple[int, bool]]]:
    """Signs of life of runs: those that are still theirs, and whether they are to stop."""
    return lambda rows: rows.beat(runs, rows.clock(), lease)


def is_held(row: RunRow) -> Callable[[RunRows], bool]:
    """Whether a worker still has the run that it took."""

    def work(rows: RunRows) -> bool:
        known = rows.find(row.id)
        return known is not None and (known.attempt, known.status) == (row.attempt, "running")

    return work


def noting(row: RunRow, report: RunReport) -> Callable[[RunRows], bool]:
    """A worker that has a run notes something with it; False when it is no longer the worker's."""

    def work(rows: RunRows) -> bool:
        rows.hold(_thread(row.thread))
        known = rows.find(row.id)
        return (
            known is not None
            and known.attempt == row.attempt
            and rows.change(known._replace(report=report.packed()), "running")
        )

    return work


def settling(row: RunRow, outcome: Ending | Parking) -> Callable[[RunRows], str | None]:
    """A worker lets go of a run it took: what the run is from now on; None where it is no longer the worker's."""

    def work(rows: RunRows) -> str | None:
        events = outcome.events if isinstance(outcome, Parking) else ()
        rows.hold(_thread(row.thread), *(_event(event) for event in events))
        known = rows.find(row.id)
        if known is None or known.attempt != row.attempt:
            return None
        if known.status != "running":  # told before, and the answer was lost
            return known.status if known.owner == row.owner else None
        new = known._replace(report=outcome.report.packed())
        if isinstance(outcome, Ending) or known.stop:
            status = outcome.status if isinstance(outcome, Ending) else "cancelled"
            new = new._replace(status=status, ended=rows.clock().wall, due=None, answers=None)
            rows.tell()  # the next run of its thread may begin
        else:
            new = _parked(rows, known, new, outcome)
        rows.await_events(row.no, events if new.status == "waiting" else ())
        return new.status if rows.change(new, "running") else None

    return work


def _parked(rows: RunRows, known: RunRow, new: RunRow, outcome: Parking) -> RunRow:
    clock = rows.clock()
    due = outcome.due if outcome.delay is None else clock.wall + outcome.delay
    if outcome.delay is None and due is not None and due <= clock.wall:
        due = clock.wall + _SKEW  # the worker's clock is behind this one: by that one it is too early
    open_ids = {asked.id for asked in outcome.report.interrupts}
    answers = answers_in(known)
    if outcome.status == "waiting":  # what is not asked any more was taken
        answers = {asked: answer for asked, answer in answers.items() if asked in open_ids}
        if answers or any(rows.event(event) is not None for event in outcome.events):
            due = clock.wall
    return new._replace(
        status=outcome.status,
        due=due,
        epoch=outcome.epoch,
        answers=CODEC.encode(answers) if answers else None,
    )


def cancelling(id: str) -> Callable[[RunRows], RunRecord]:
    """Cancel a run: at once where nobody runs it, else before its next superstep. One that ended stays as it is.

    Raises:
        RunNotFoundError: there is no such run.
    """

    def work(rows: RunRows) -> RunRecord:
        rows.hold(_thread(_found(rows, id).thread))
        return shown(_cancel(rows, id), rows.clock())

    return work


def _cancel(rows: RunRows, id: str) -> RunRow:
    now = rows.clock().wall

    def cancelled(row: RunRow) -> RunRow:
        if row.ended is not None:
            return row
        if row.status == "running":
            return row._replace(stop=1)
        return row._replace(status="cancelled", ended=now, due=None, answers=None)

    row = _change(rows, id, cancelled)
    if row.ended is not None:
        rows.await_events(row.no, ())
        rows.tell()  # the next run of its thread may begin
    return row


def _change(rows: RunRows, id: str, change: Callable[[RunRow], RunRow]) -> RunRow:
    """Change a run whose thread is held. Where a worker took it between the look and the change: look again."""
    while True:
        row = _found(rows, id)
        new = change(row)
        if new == row or rows.change(new, row.status):
            return new


def row_of(id: str) -> Callable[[RunRows], RunRow | None]:
    """The row of the run with this id."""
    return lambda rows: rows.find(id)


def finding(id: str) -> Callable[[RunRows], RunRecord | None]:
    """The run with this id."""

    def work(rows: RunRows) -> RunRecord | None:
        row = rows.find(id)
        return None if row is None else shown(row, rows.clock())

    return work


def listing(wanted: RunFilter, limit: int) -> Callable[[RunRows], list[RunRecord]]:
    """The newest runs that are wanted, newest first."""

    def work(rows: RunRows) -> list[RunRecord]:
        clock = rows.clock()
        return [shown(row, clock) for row in rows.search(wanted, limit)]

    return work


def idle(graphs: Sequence[str]) -> Callable[[RunRows], bool]:
    """Whether no run of these graphs runs or could."""
    return lambda rows: not rows.pending(graphs, rows.clock())


def emitting(event: EventKey, data: bytes) -> Callable[[RunRows], bool]:
    """Keep an event, and wake who waits for it; False when it is there already."""

    def work(rows: RunRows) -> bool:
        rows.hold(_event(event))
        clock = rows.clock()
        new = rows.emit(event, data, clock.wall)
        if new and rows.wake_awaiting(event, clock):
            rows.tell()
        return new

    return work


def _found(rows: RunRows, id: str) -> RunRow:
    row = rows.find(id)
    if row is None:
        raise RunNotFoundError(f"there is no run {id!r}")
    return row


def waiting_for(interrupts: Sequence[Interrupt]) -> tuple[int | None, list[EventKey]]:
    """When the first of these waits is over (wall; None: never), and the events that are waited for."""
    deadlines = [asked.deadline for asked in interrupts if asked.deadline is not None]
    events = [(asked.value["event"], asked.value["key"]) for asked in interrupts if asked.kind == "event"]
    return (int(min(deadlines) * 1000) + 1 if deadlines else None), events


def _thread(key: str) -> str:
    return f"thread\0{key}"


def _event(event: EventKey) -> str:
    return "\0".join(("event", *event))
