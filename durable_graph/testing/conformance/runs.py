"""Promises about the rows of queued runs: how they are kept, found and changed."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from durable_graph.persistence.run_rows import RunFilter, ScheduleRow
from durable_graph.testing.conformance.acting import check, expect, together
from durable_graph.testing.conformance.promise import promise
from durable_graph.testing.conformance.queued import (
    GRAPH,
    HOUR,
    adding_one,
    begun,
    change,
    end,
    found,
    keep,
    named,
    run,
    take,
)
from durable_graph.testing.processes import Process

if TYPE_CHECKING:
    from durable_graph.persistence.run_rows import RunRow, RunRows
    from durable_graph.testing.conformance.acting import Face
    from durable_graph.testing.conformance.promise import Backend

__all__: list[str] = []

ODD_TEXTS: Final = (
    "",
    "a",
    "a\0",
    "a\0b",
    "\ud800",
    "\ud83d\ude00",
    "😀",
    "é",
    "e\u0301",
    "A",
    "a ",
    "%_'\"",
    "x" * 1000,
)
"""Texts that are easily taken for one another, or refused."""
_OTHERS: Final = 3
_TIMES: Final = 30


class _GivenUpError(Exception):
    """The work of a transaction fails."""


# --- transactions ----------------------------------------------------------------------------------------------------


@promise("runs")
def a_transaction_of_the_queue_is_kept_as_a_whole(backend: Backend, face: Face) -> None:
    """`with_runs` gives what its work gives; what the work changed is there for each that comes after it."""
    checkpointer = backend.fresh()

    def work(rows: RunRows) -> str:
        rows.hold("name")
        _ = rows.add(run("first"))
        _ = rows.add(run("second"))
        _ = rows.emit(("event", ""), b"data", 1)
        rows.tell()
        seen = rows.find("first")
        expect("what the transaction sees of itself", seen is not None and seen.id, "first")
        return "answer"

    expect("what with_runs gives", face.with_runs(checkpointer, work), "answer")
    again = backend.reopen(checkpointer)
    expect("the runs", named([found(face, again, one) for one in ("first", "second")]), ["first", "second"])
    expect("the event", face.with_runs(again, lambda rows: rows.event(("event", "")), reads=True), b"data")


@promise("runs")
def a_transaction_that_fails_keeps_nothing(backend: Backend, face: Face) -> None:
    """When the work raises, `with_runs` raises it, and nothing that the work did is kept."""
    checkpointer = backend.fresh()
    [waits, runs] = begun(face, checkpointer, run("waits"), run("runs"))
    check("it is changed", change(face, checkpointer, waits._replace(status="waiting", due=None), "running"))
    schedule = ScheduleRow("kept", GRAPH, "* * * * *", "UTC", 5, b"")

    def before(rows: RunRows) -> None:
        rows.await_events(waits.no, [("event", "")])
        rows.put_schedule(schedule)

    face.with_runs(checkpointer, before)
    seen = [found(face, checkpointer, one) for one in ("waits", "runs")]

    def fail(rows: RunRows) -> None:
        clock = rows.clock()
        _ = rows.add(run("new"))
        _ = rows.emit(("event", ""), b"data", 1)
        _ = rows.wake_awaiting(("event", ""), clock)
        rows.await_events(waits.no, [])
        _ = rows.beat([(runs.no, runs.attempt)], clock, 9 * HOUR)
        _ = rows.change(runs._replace(status="done", ended=1), "running")
        _ = rows.drop_schedule("kept")
        rows.put_schedule(schedule._replace(name="new"))
        raise _GivenUpError

    try:
        face.with_runs(checkpointer, fail)
    except _GivenUpError:
        pass
    else:
        raise AssertionError("with_runs did not raise what its work raised")
    expect("the runs", [found(face, checkpointer, one) for one in ("waits", "runs")], seen)
    expect("the new run", face.with_runs(checkpointer, lambda rows: rows.find("new")), None)
    expect("the event", face.with_runs(checkpointer, lambda rows: rows.event(("event", ""))), None)
    expect("the schedules", face.with_runs(checkpointer, lambda rows: rows.schedules()), [schedule])
    left = face.with_runs(checkpointer, lambda rows: rows.open_runs(runs.thread))
    expect("the open runs", named(left), ["runs"])
    woken = face.with_runs(checkpointer, lambda rows: rows.wake_awaiting(("event", ""), rows.clock()))
    expect("how many wait for the event", woken, 1)


@promise("runs")
def who_holds_a_name_is_alone(backend: Backend, face: Face) -> None:
    """Of transactions that hold the same name one comes after the other, and sees what that one wrote."""
    checkpointer = backend.fresh()
    keep(checkpointer, run("counter"))
    objects = [checkpointer, backend.reopen(checkpointer)]

    def work(n: int) -> int:
        return sum(objects[n % 2].with_runs(adding_one("counter")) for _ in range(_TIMES))

    expect("how many changes were accepted", together(4, work), [_TIMES] * 4)
    expect("what was counted", found(face, checkpointer, "counter").report, b"%d" % (4 * _TIMES))


@promise("runs", "durable", "many_processes")
def of_many_processes_each_holds_a_name_alone(backend: Backend, face: Face) -> None:
    """Transactions of several processes that hold the same name come one after the other too."""
    checkpointer = backend.fresh()
    keep(checkpointer, run("counter"))
    where = backend.elsewhere(checkpointer)
    with ExitStack() as stack:
        others = [stack.enter_context(Process()) for _ in range(_OTHERS)]
        for times in (0, _TIMES):  # first nothing, so that all are ready when they count
            for other in others:
                other.begin("durable_graph.testing.conformance.children:count", **where, id="counter", times=times)
            failed = [one.error for one in (other.result() for other in others) if one.error]
            expect("what went wrong there", failed, [])
    expect("what was counted", found(face, checkpointer, "counter").report, b"%d" % (_OTHERS * _TIMES))


# --- runs ------------------------------------------------------------------------------------------------------------


@promise("runs")
def a_run_is_kept_as_it_was_submitted(backend: Backend, face: Face) -> None:
    """`find` gives all of a run as `add` got it, but its number, which is the backend's; an unknown id is None."""
    checkpointer = backend.fresh()
    whole = run("whole", rank=-(2**31), due=2**45, stop=1, epoch=2**62, submitted=2**44, answers=b"\0", report=b"")
    whole = whole._replace(attempt=3, owner="owner", beat=7, expires=8, started=9)
    keep(checkpointer, whole, run("bare", due=None, request=b""))
    again = backend.reopen(checkpointer)
    for wanted in (whole, run("bare", due=None, request=b"")):
        expect("the run", found(face, again, wanted.id)._replace(no=0), wanted)
    expect("an unknown run", face.with_runs(again, lambda rows: rows.find("unknown"), reads=True), None)


@promise("runs")
def a_run_whose_id_is_taken_is_not_kept(backend: Backend, face: Face) -> None:
    """`add` of an id that is there is False, and changes nothing."""
    checkpointer = backend.fresh()
    keep(checkpointer, run("taken", request=b"old"))
    again = run("taken", thread="other", request=b"new", rank=9)
    check("it is refused", not face.with_runs(checkpointer, lambda rows: rows.add(again)))
    expect("the run", found(face, checkpointer, "taken")._replace(no=0), run("taken", request=b"old"))
    expect("the other thread", face.with_runs(checkpointer, lambda rows: rows.open_runs("other")), [])


@promise("runs")
def any_text_names_runs_threads_graphs_events_and_schedules(backend: Backend, face: Face) -> None:
    """Ids and names may hold NUL, lone surrogates and anything else; no two are taken for one."""
    checkpointer = backend.fresh()

    def fill(rows: RunRows) -> None:
        rows.hold(*ODD_TEXTS)
        for number, text in enumerate(ODD_TEXTS):
            check(f"run {text!r} is new", rows.add(run(text, text, graph=text, request=b"%d" % number)))
            check(f"event {text!r} is new", rows.emit((text, text), b"%d" % number, 1))
            check(f"event (a, {text!r}) is new", text == "a" or rows.emit(("a", text), b"a%d" % number, 1))
            rows.put_schedule(ScheduleRow(text, text, "* * * * *", "UTC", number, b""))

    face.with_runs(checkpointer, fill)
    again = backend.reopen(checkpointer)

    def look(rows: RunRows) -> None:
        for number, text in enumerate(ODD_TEXTS):
            data = b"%d" % number
            expect(f"the open runs of {text!r}", [one.request for one in rows.open_runs(text)], [data])
            expect(f"the runs of graph {text!r}", named(rows.search(RunFilter(graph=text), 9)), [text])
            expect(f"the event {text!r}", rows.event((text, text)), data)
            expect(f"how many runs of {text!r} are due", rows.pending([text], rows.clock()), 1)
        kept = [(one.name, one.graph, ODD_TEXTS[one.due]) for one in rows.schedules()]
        expect("the schedules", kept, [(text, text, text) for text in sorted(ODD_TEXTS)])

    face.with_runs(again, look, reads=True)
    for text in ODD_TEXTS:
        expect("the run", found(face, again, text).thread, text)


@promise("runs")
def runs_are_numbered_in_the_order_they_were_submitted(backend: Backend, face: Face) -> None:
    """`open_runs` gives the runs of a thread that have not ended, in the order in which they were submitted."""
    checkpointer = backend.fresh()
    ids = [f"run {n}" for n in (5, 1, 4, 2, 3)]
    keep(checkpointer, *(run(name, "thread", rank=n, due=9 - n) for n, name in enumerate(ids)), run("other"))
    numbers = [found(face, checkpointer, one).no for one in (*ids, "other")]
    check("each number is higher than the one before", numbers == sorted(set(numbers)))

    def left() -> list[RunRow]:
        return face.with_runs(checkpointer, lambda rows: rows.open_runs("thread"), reads=True)

    expect("the open runs", named(left()), ids)
    for name, status in zip(ids[1:4], ("done", "failed", "cancelled"), strict=True):
        end(face, checkpointer, name, status)
    expect("the open runs", left(), [found(face, checkpointer, one) for one in (ids[0], ids[4])])
    expect("those of an unknown thread", face.with_runs(checkpointer, lambda rows: rows.open_runs("unknown")), [])


@promise("runs")
def how_the_run_before_ended_is_known(backend: Backend, face: Face) -> None:
    """`ended_before` gives the status of the newest run of a thread that ended, of those before a number."""
    checkpointer = backend.fresh()
    keep(checkpointer, *(run(f"{n}", "thread") for n in range(5)), run("other"))
    numbers = [found(face, checkpointer, f"{n}").no for n in range(5)]
    end(face, checkpointer, "other")
    for name, status in (("0", "cancelled"), ("1", "failed"), ("3", "done")):
        end(face, checkpointer, name, status)

    def look(rows: RunRows) -> list[str | None]:
        return [rows.ended_before("thread", no) for no in numbers]

    seen = face.with_runs(checkpointer, look, reads=True)
    expect("how the run before each of five ended", seen, [None, "cancelled", "failed", "failed", "done"])
    nobody = face.with_runs(checkpointer, lambda rows: rows.ended_before("unknown", 2**40), reads=True)
    expect("how the run before ended in an unknown thread", nobody, None)


@promise("runs")
def a_search_gives_the_newest_first(backend: Backend, face: Face) -> None:
    """`search` gives the newest runs that fit all that is asked for, newest first, and no more than the limit."""
    checkpointer = backend.fresh()
    keep(checkpointer, *(run(f"{n}", f"{n % 2}", graph=f"{n % 3}") for n in range(12)))
    end(face, checkpointer, "4")
    before = found(face, checkpointer, "7").no

    def search(limit: int = 100, **wanted: Any) -> list[int]:
        rows = face.with_runs(checkpointer, lambda rows: rows.search(RunFilter(**wanted), limit), reads=True)
        return [int(row.id) for row in rows]

    expect("all", search(), list(range(11, -1, -1)))
    expect("three", search(3), [11, 10, 9])
    expect("those of a thread", search(thread="1"), [11, 9, 7, 5, 3, 1])
    expect("those of a graph", search(graph="2"), [11, 8, 5, 2])
    expect("those that are done", search(status="done"), [4])
    expect("those before one", search(2, before=before), [6, 5])
    expect("what fits all", search(thread="0", graph="0", status="queued", before=before), [6, 0])
    expect("what fits all, at most one", search(1, thread="0", graph="0", status="queued", before=before), [6])


@promise("runs")
def a_change_of_a_run_is_kept(backend: Backend, face: Face) -> None:
    """`change` writes all of a run that can change."""
    checkpointer = backend.fresh()
    [row] = begun(face, checkpointer, run("changed"))
    new = row._replace(status="waiting", due=2**45, owner=None, beat=3, expires=4, stop=1, epoch=2**62)
    new = new._replace(started=5, answers=b"answers", report=b"report")
    check("it is accepted", change(face, checkpointer, new, "running"))
    expect("the run", found(face, backend.reopen(checkpointer), "changed"), new)
    bare = new._replace(status="failed", due=None, epoch=None, stop=0, ended=6, answers=None, report=None)
    check("it is accepted", change(face, checkpointer, bare, "waiting"))
    expect("the run", found(face, checkpointer, "changed"), bare)


@promise("runs")
def a_change_of_a_run_that_is_another_by_now_is_refused(backend: Backend, face: Face) -> None:
    """`change` is False, and changes nothing, when the run's attempt or status is another one than it was made for."""
    checkpointer = backend.fresh()
    [old] = begun(face, checkpointer, run("again"), lease=0)
    check("a change of a waiting run is refused", not change(face, checkpointer, old._replace(report=b"x"), "waiting"))
    expect("which run is given again", named(take(face, checkpointer)), ["again"])
    new = found(face, checkpointer, "again")
    late = old._replace(status="done", ended=1)
    check("a change by who had it before is refused", not change(face, checkpointer, late, "running"))
    check("a change of an unknown run is refused", not change(face, checkpointer, late._replace(no=2**40), "running"))
    expect("the run", found(face, checkpointer, "again"), new)
