"""Promises about who gets which queued run: workers take them, give signs of life, and lose them."""

from __future__ import annotations

from contextlib import ExitStack
from time import sleep
from typing import TYPE_CHECKING, Final

from durable_graph.persistence.run_rows import Taking
from durable_graph.testing.conformance.acting import check, expect, start, step, take_over, together, won
from durable_graph.testing.conformance.promise import promise
from durable_graph.testing.conformance.queued import (
    GRAPH,
    HOUR,
    begun,
    change,
    end,
    found,
    keep,
    named,
    run,
    take,
    take_until_empty,
    time,
    waiting,
)
from durable_graph.testing.processes import Process

if TYPE_CHECKING:
    from durable_graph.persistence.run_rows import RunRows
    from durable_graph.testing.conformance.acting import Face
    from durable_graph.testing.conformance.promise import Backend
    from durable_graph.testing.processes import Exit

__all__: list[str] = []

_TAKERS: Final = 16
_OTHERS: Final = 3
_RUNS: Final = 60


@promise("runs")
def a_run_that_is_taken_is_its_takers(backend: Backend, face: Face) -> None:
    """A run that was taken is running, in its next attempt, under its owner's name; `take` tells what it was before."""
    checkpointer = backend.fresh()
    keep(checkpointer, run("taken", answers=b"answers"))
    clock = time(checkpointer)
    [given] = take(face, checkpointer, owner="me", lease=HOUR)
    expect("its id and its status before", (given.id, given.status), ("taken", "queued"))
    row = found(face, backend.reopen(checkpointer), "taken")
    expect("the run", row, given._replace(status="running"))
    expect("attempt and owner", (row.attempt, row.owner, row.answers), (1, "me", b"answers"))
    expect("until when the sign of life is good", row.expires, row.beat + HOUR)
    check("it gave a sign of life then", clock.steady <= row.beat <= time(checkpointer).steady)
    check("it began then", row.started is not None and clock.wall <= row.started <= time(checkpointer).wall)
    expect("what is given to others", take(face, checkpointer), [])


@promise("runs")
def runs_are_taken_by_rank_then_time_then_order(backend: Backend, face: Face) -> None:
    """`take` gives those with the lowest rank first, of those the ones due first, of those the ones submitted first;
    no more than the limit.
    """
    checkpointer = backend.fresh()
    rows = [run(f"{rank} {due} {n}", rank=rank, due=due) for n in range(2) for due in (9, 1, 5) for rank in (2, -1, 0)]
    keep(checkpointer, *rows)
    wanted = [f"{rank} {due} {n}" for rank in (-1, 0, 2) for due in (1, 5, 9) for n in range(2)]
    seen = [named(take(face, checkpointer, limit=limit)) for limit in (1, 4, 0, 100)]
    expect("what is taken, limited to 1, 4, 0 and 100", seen, [wanted[:1], wanted[1:5], [], wanted[5:]])


@promise("runs")
def a_run_is_not_taken_before_its_time(backend: Backend, face: Face) -> None:
    """A run that is due in the future, or not by time, is not given; one that waits is given when it is due."""
    checkpointer = backend.fresh()
    clock = time(checkpointer)
    keep(checkpointer, run("later", due=clock.wall + HOUR), run("never", due=None), run("now", due=clock.wall))
    expect("what is given", named(take(face, checkpointer)), ["now"])
    row = waiting(face, checkpointer, "waits")
    expect("what is given while it waits", take(face, checkpointer), [])
    check("it is changed", change(face, checkpointer, row._replace(due=time(checkpointer).wall), "waiting"))
    seen = [(one.id, one.status, one.attempt) for one in take(face, checkpointer)]
    expect("what is given when it is due", seen, [("waits", "waiting", 2)])


@promise("runs")
def runs_of_other_graphs_are_left_alone(backend: Backend, face: Face) -> None:
    """`take` gives runs of the graphs that are asked for; of none where none is."""
    checkpointer = backend.fresh()
    keep(checkpointer, *(run(name, graph=name) for name in "abcd"))
    expect("what is given", sorted(named(take(face, checkpointer, "b", "d", "unknown"))), ["b", "d"])
    none = face.with_runs(checkpointer, lambda rows: rows.take(Taking("worker", [], 9, HOUR), rows.clock()))
    expect("what is given where no graph is asked for", none, [])
    expect("how many of no graph are pending", face.with_runs(checkpointer, _pending), 0)
    expect("what is left", sorted(named(take(face, checkpointer, "a", "c"))), ["a", "c"])


def _pending(rows: RunRows, *graphs: str) -> int:
    return rows.pending(graphs, rows.clock())


@promise("runs")
def a_run_comes_after_all_before_it_in_its_thread(backend: Backend, face: Face) -> None:
    """A run is never given while one of its thread that was submitted before it has not ended, whatever the rank, the
    time, the graph or the status of that one.
    """
    checkpointer = backend.fresh()
    clock = time(checkpointer)
    keep(checkpointer, run("first", "thread", due=clock.wall + HOUR, graph="other", rank=9))
    keep(checkpointer, run("second", "thread", rank=-9), run("third", "thread", rank=-10), run("alone", rank=8))
    expect("what is given before the first is due", named(take(face, checkpointer)), ["alone"])
    row = found(face, checkpointer, "first")
    check("it is changed", change(face, checkpointer, row._replace(due=0), "queued"))
    expect("what is given of the other graph", named(take(face, checkpointer, "other")), ["first"])
    expect("what is given while the first runs", take(face, checkpointer), [])
    row = found(face, checkpointer, "first")
    check("it is changed", change(face, checkpointer, row._replace(status="waiting", due=None), "running"))
    expect("what is given while the first waits", take(face, checkpointer), [])
    end(face, checkpointer, "first", "failed")
    expect("what is given when it has ended", named(take(face, checkpointer)), ["second"])
    end(face, checkpointer, "third", "cancelled")
    end(face, checkpointer, "second")
    expect("what is given at the end", take(face, checkpointer), [])


@promise("runs")
def a_run_whose_worker_is_gone_is_given_again(backend: Backend, face: Face) -> None:
    """A run whose owner is dead, or gave no sign of life for too long, is given again, in its next attempt; it was
    running, and it began when it first did.
    """
    checkpointer = backend.fresh()
    _ = begun(face, checkpointer, run("alive"), owner="alive")
    rows = begun(face, checkpointer, run("dead"), owner="dead")
    rows += begun(face, checkpointer, run("silent"), owner="silent", lease=50)
    expect(
        "the owners", sorted(face.with_runs(checkpointer, lambda known: known.owners())), ["alive", "dead", "silent"]
    )
    sleep(0.1)
    again = take(face, checkpointer, owner="new", dead=["dead", "nobody"])
    expect("which are given", sorted(named(again)), ["dead", "silent"])
    for row in rows:
        given = next(one for one in again if one.id == row.id)
        expect("status, attempt, owner", (given.status, given.attempt, given.owner), ("running", 2, "new"))
        expect("when it began", given.started, row.started)
    expect("the owners", sorted(face.with_runs(checkpointer, lambda known: known.owners())), ["alive", "new"])
    expect("what is given after that", take(face, checkpointer), [])


@promise("runs")
def no_run_is_given_to_two(backend: Backend, face: Face) -> None:
    """Of those who take at the same time, through one object or several, none gets a run of another."""
    checkpointer = backend.fresh()
    keep(checkpointer, *(run(f"{n}", f"thread {n // 2}") for n in range(_RUNS)))
    objects = [checkpointer, backend.reopen(checkpointer)]
    takers = together(_TAKERS, lambda n: take_until_empty(objects[n % 2], f"taker {n}", 1 + n % 3))
    given = sorted((name for names in takers for name in names), key=int)
    expect("which runs were given", given, [f"{n}" for n in range(_RUNS)])
    last = [found(face, checkpointer, f"{n}").attempt for n in range(_RUNS)]
    expect("their attempts", last, [1] * _RUNS)


@promise("runs", "durable", "many_processes")
def of_many_processes_none_gets_a_run_of_another(backend: Backend, face: Face) -> None:
    """Of processes that take at the same time none gets a run of another."""
    checkpointer = backend.fresh()
    checkpointer.setup()
    where = backend.elsewhere(checkpointer)
    with ExitStack() as stack:
        others = [stack.enter_context(Process()) for _ in range(_OTHERS)]

        def take_there() -> list[Exit]:
            for number, other in enumerate(others):
                other.begin("durable_graph.testing.conformance.children:take", **where, owner=f"process {number}")
            return [other.result() for other in others]

        ended = take_there()  # where there is nothing yet, so that all are ready when there is
        keep(checkpointer, *(run(f"{n}", f"thread {n // 2}") for n in range(_RUNS)))
        ended += take_there()
    expect("what went wrong there", [one.error for one in ended if one.error], [])
    given = sorted((name for one in ended for name in one.value), key=int)
    expect("which runs were given", given, [f"{n}" for n in range(_RUNS)])
    expect("the attempt of the last", found(face, checkpointer, f"{_RUNS - 1}").attempt, 1)


@promise("runs")
def a_sign_of_life_is_of_a_run_that_is_still_ones_own(backend: Backend, face: Face) -> None:
    """`beat` renews runs that run in the attempt it names, and tells whether these, and no others, shall stop."""
    checkpointer = backend.fresh()
    rows = begun(face, checkpointer, *(run(name) for name in ("lost", "mine", "stopped", "ended")), lease=0)
    lost, mine, stopped, ended = rows
    check("it is changed", change(face, checkpointer, stopped._replace(stop=1, expires=2**60), "running"))
    check("it is changed", change(face, checkpointer, mine._replace(expires=2**60), "running"))
    end(face, checkpointer, "ended")
    expect("what is given to another", named(take(face, checkpointer, owner="other")), ["lost"])
    wanted = [(row.no, row.attempt) for row in (stopped, lost, mine, ended)] + [(2**40, 1)]
    clock = time(checkpointer)
    seen = face.with_runs(checkpointer, lambda known: known.beat(wanted, known.clock(), 2 * HOUR))
    expect("which are still theirs", sorted(seen), sorted([(mine.no, False), (stopped.no, True)]))
    for row in (mine, stopped):
        new = found(face, checkpointer, row.id)
        check("the sign of life is of now", clock.steady <= new.beat <= time(checkpointer).steady)
        expect("until when it is good", new.expires, new.beat + 2 * HOUR)
    other = found(face, checkpointer, "lost")
    expect("the lease of the other", other.expires, other.beat + HOUR)


@promise("runs")
def runs_that_shall_stop_are_known_by_their_owner(backend: Backend, face: Face) -> None:
    """`stopped` gives the numbers of the runs of a worker that run and shall stop."""
    checkpointer = backend.fresh()
    rows = begun(face, checkpointer, *(run(f"{n}") for n in range(4)), owner="me")
    [theirs] = begun(face, checkpointer, run("theirs"), owner="other")
    for row in (*rows[1:], theirs):
        check("it is changed", change(face, checkpointer, row._replace(stop=1), "running"))
    end(face, checkpointer, "3")
    stopped = face.with_runs(checkpointer, lambda known: known.stopped("me"), reads=True)
    expect("those to be stopped", sorted(stopped), [rows[1].no, rows[2].no])


@promise("runs")
def what_is_pending_is_counted(backend: Backend, face: Face) -> None:
    """`pending` counts the runs of these graphs that run, could, or were put off after they began, and have nothing of
    their thread before them.
    """
    checkpointer = backend.fresh()
    clock = time(checkpointer)
    [_, again] = begun(face, checkpointer, run("runs"), run("again"))
    later = clock.wall + HOUR
    check("it is changed", change(face, checkpointer, again._replace(status="queued", due=later), "running"))
    _ = waiting(face, checkpointer, "waits for somebody")
    _ = waiting(face, checkpointer, "waits and is due", due=0)
    keep(checkpointer, run("due"), run("later", due=later), run("behind", "thread of later"), run("x", graph="other"))
    keep(checkpointer, run("over"), run("behind the first", "thread of runs"))
    end(face, checkpointer, "over")
    expect("how many", face.with_runs(checkpointer, lambda rows: _pending(rows, GRAPH), reads=True), 4)
    expect("how many of both graphs", face.with_runs(checkpointer, lambda rows: _pending(rows, GRAPH, "other")), 5)
    expect("how many of another", face.with_runs(checkpointer, lambda rows: _pending(rows, "unknown")), 0)


@promise("runs")
def a_run_whose_thread_moved_on_is_woken(backend: Backend, face: Face) -> None:
    """`wake_moved` makes due the waiting runs whose thread has another epoch than they saw and is held by nobody."""
    checkpointer = backend.fresh()
    claims = {name: start(checkpointer, key=f"thread of {name}") for name in ("still", "moved", "held", "no epoch")}
    for claim in claims.values():
        expect("the outcome", checkpointer.commit([step(claim, 2, status="done")]), ["written"])
    for name, claim in claims.items():
        _ = waiting(face, checkpointer, name, epoch=None if name == "no epoch" else claim.epoch)
    _ = waiting(face, checkpointer, "no thread", epoch=5)
    for name in ("moved", "held", "no epoch"):
        new = won(take_over(checkpointer, claims[name], seen=2, key=f"thread of {name}"))
        if name != "held":
            expect("the outcome", checkpointer.commit([step(new, 3, status="done")]), ["written"])
    expect("how many were woken", face.with_runs(checkpointer, lambda rows: rows.wake_moved(rows.clock())), 1)
    expect("and then", face.with_runs(checkpointer, lambda rows: rows.wake_moved(rows.clock())), 0)
    expect("which run is due", named(take(face, checkpointer)), ["moved"])
