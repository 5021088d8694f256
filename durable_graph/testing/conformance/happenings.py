"""Promises about events that runs wait for, and about schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from durable_graph.persistence.run_rows import ScheduleRow
from durable_graph.runs import queue
from durable_graph.runs.record import RunReport
from durable_graph.testing.conformance.acting import check, expect, together
from durable_graph.testing.conformance.promise import promise
from durable_graph.testing.conformance.queued import GRAPH, HOUR, begun, found, named, run, take, time, waiting
from durable_graph.testing.processes import Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.persistence.run_rows import RunRow, RunRows
    from durable_graph.testing.conformance.acting import Face
    from durable_graph.testing.conformance.promise import Backend

__all__: list[str] = []

_EVENT: Final = ("event", "key")
_OTHER: Final = ("event", "other key")
_TIMES: Final = 20


# --- events ----------------------------------------------------------------------------------------------------------


@promise("runs")
def the_first_of_an_event_counts(backend: Backend, face: Face) -> None:
    """`emit` keeps an event with its data; a second one is False and changes nothing. Key and name make the event."""
    checkpointer = backend.fresh()

    def emit(rows: RunRows) -> list[bool]:
        return [rows.emit(_EVENT, data, 1) for data in (b"first", b"second")]

    expect("what two emits answer", face.with_runs(checkpointer, emit), [True, False])
    again = backend.reopen(checkpointer)
    check("a third one is refused", not face.with_runs(again, lambda rows: rows.emit(_EVENT, b"third", 2)))
    expect("the data", face.with_runs(again, lambda rows: rows.event(_EVENT), reads=True), b"first")
    expect("one with another key", face.with_runs(again, lambda rows: rows.event(_OTHER), reads=True), None)


@promise("runs")
def an_event_wakes_who_waits_for_it(backend: Backend, face: Face) -> None:
    """`wake_awaiting` makes due the waiting runs that wait for an event and are not due yet; how many."""
    checkpointer = backend.fresh()
    names = ("waits", "for both", "for the other", "for none any more", "for a time too", "is due")
    rows = {name: waiting(face, checkpointer, name) for name in names[:4]}
    rows["for a time too"] = waiting(face, checkpointer, "for a time too", due=time(checkpointer).wall + HOUR)
    [runs] = begun(face, checkpointer, run("runs"))
    rows["is due"] = waiting(face, checkpointer, "is due", due=0)

    def wait(known: RunRows) -> None:
        for name in ("waits", "for a time too", "is due"):
            known.await_events(rows[name].no, [_EVENT])
        known.await_events(rows["for both"].no, [_OTHER, _EVENT])
        known.await_events(rows["for the other"].no, [_EVENT])
        known.await_events(rows["for the other"].no, [_OTHER])
        known.await_events(rows["for none any more"].no, [_EVENT])
        known.await_events(rows["for none any more"].no, [])
        known.await_events(runs.no, [_EVENT])

    face.with_runs(checkpointer, wait)

    def wake() -> int:
        return face.with_runs(checkpointer, lambda known: known.wake_awaiting(_EVENT, known.clock()))

    expect("how many were woken", wake(), 3)
    due = [found(face, checkpointer, name).due for name in names]
    now = time(checkpointer).wall
    expect("which are due", [one is not None and one <= now for one in due], [True, True, False, False, True, True])
    expect("when the one is due that was due before", due[-1], 0)
    expect("which are taken", sorted(named(take(face, checkpointer))), sorted({*names} - set(names[2:4])))


@promise("runs")
def an_event_that_is_waited_for_twice_is_one(backend: Backend, face: Face) -> None:
    """A run may name an event several times among those it waits for."""
    checkpointer = backend.fresh()
    row = waiting(face, checkpointer, "waits")
    face.with_runs(checkpointer, lambda rows: rows.await_events(row.no, [_EVENT, _OTHER, _EVENT]))
    woken = face.with_runs(checkpointer, lambda rows: rows.wake_awaiting(_EVENT, rows.clock()))
    expect("how many were woken", woken, 1)


@promise("runs")
def no_event_is_missed_by_a_run_that_begins_to_wait(backend: Backend, face: Face) -> None:
    """Whether an event comes before a run waits for it, after it, or at the same moment: the run is due then."""
    checkpointer = backend.fresh()
    rows = begun(face, checkpointer, *(run(f"{n}") for n in range(_TIMES)))
    objects = [checkpointer, backend.reopen(checkpointer)]

    def act(n: int, row: RunRow) -> object:
        work = queue.emitting((row.id, ""), b"data") if n else _parking(row)
        return objects[n].with_runs(work)

    for number, row in enumerate(rows):
        if number % 3 == 0:
            _ = together(2, lambda n, row=row: act(n, row))
        else:
            for n in (0, 1) if number % 3 == 1 else (1, 0):
                _ = act(n, row)
    expect("which runs were missed", [row.id for row in rows if not _due(face, checkpointer, row)], [])


@promise("runs", "durable", "many_processes")
def no_event_of_another_process_is_missed(backend: Backend, face: Face) -> None:
    """An event that another process emits while a run begins to wait for it makes the run due."""
    checkpointer = backend.fresh()
    rows = begun(face, checkpointer, *(run(f"{n}") for n in range(_TIMES)))
    where = backend.elsewhere(checkpointer)
    with Process() as other:
        for row in rows:
            other.begin("durable_graph.testing.conformance.children:emit", **where, name=row.id)
            _ = checkpointer.with_runs(_parking(row))
            ended = other.result()
            expect("what went wrong there, and its answer", (ended.error, ended.value), ("", True))
    expect("which runs were missed", [row.id for row in rows if not _due(face, checkpointer, row)], [])


def _parking(row: RunRow) -> Callable[[RunRows], str | None]:
    return queue.settling(row, queue.Parking("waiting", RunReport(), events=[(row.id, "")]))


def _due(face: Face, checkpointer: Checkpointer, row: RunRow) -> bool:
    known = found(face, checkpointer, row.id)
    check("it waits", known.status == "waiting")
    return known.due is not None and known.due <= time(checkpointer).wall


# --- schedules -------------------------------------------------------------------------------------------------------


@promise("runs")
def schedules_are_kept_by_name(backend: Backend, face: Face) -> None:
    """A schedule takes the place of one with its name; `schedules` gives all, by name; `drop_schedule` removes one."""
    checkpointer = backend.fresh()
    first = ScheduleRow("b", GRAPH, "0 9 * * 1-5", "Europe/Berlin", 2**45, b"request")
    second = ScheduleRow("a", "other", "* * * * *", "UTC", 0, b"")
    for one in (first._replace(graph="old", cron="x", zone="y", due=1, request=b"old"), second, first):
        face.with_runs(checkpointer, lambda rows, one=one: rows.put_schedule(one))
    again = backend.reopen(checkpointer)
    expect("the schedules", face.with_runs(again, lambda rows: rows.schedules(), reads=True), [second, first])
    dropped = face.with_runs(again, lambda rows: [rows.drop_schedule(name) for name in ("a", "a", "c")])
    expect("what dropping one, the same and an unknown one says", dropped, [True, False, False])
    expect("the schedules", face.with_runs(again, lambda rows: rows.schedules(), reads=True), [first])


@promise("runs")
def a_schedule_is_advanced_by_one_of_two(backend: Backend, face: Face) -> None:
    """`advance_schedule` says when the next run comes, unless somebody said so before or the schedule is another
    one.
    """
    checkpointer = backend.fresh()
    row = ScheduleRow("nightly", GRAPH, "0 0 * * *", "UTC", 5, b"request")
    checkpointer.with_runs(lambda rows: rows.put_schedule(row))
    objects = [checkpointer, backend.reopen(checkpointer)]
    answers = together(4, lambda n: objects[n % 2].with_runs(lambda rows: rows.advance_schedule(row, 9)))
    expect("how many of four were first", sum(answers), 1)
    expect("the schedules", face.with_runs(checkpointer, lambda rows: rows.schedules()), [row._replace(due=9)])
    now = row._replace(due=9)
    others = [now._replace(cron="1 0 * * *"), now._replace(zone="Asia/Tokyo"), now._replace(name="gone"), row]
    seen = face.with_runs(checkpointer, lambda rows: [rows.advance_schedule(one, 12) for one in others])
    expect("what is said of others", seen, [False] * 4)
    check("it is advanced again", face.with_runs(checkpointer, lambda rows: rows.advance_schedule(now, 12)))
    expect("the schedules", face.with_runs(checkpointer, lambda rows: rows.schedules()), [row._replace(due=12)])
