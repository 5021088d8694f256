"""What the promises about the queue do: submit runs, take them, look at them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from durable_graph.persistence.run_rows import RunRow, Taking
from durable_graph.testing.conformance.acting import SYNC, expect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.persistence.run_rows import Clock, RunRows
    from durable_graph.testing.conformance.acting import Face

__all__ = [
    "GRAPH",
    "HOUR",
    "adding_one",
    "begun",
    "change",
    "end",
    "found",
    "keep",
    "named",
    "run",
    "take",
    "take_until_empty",
    "taking",
    "time",
    "waiting",
]

GRAPH: Final = "graph"
HOUR: Final = 3_600_000
"""Milliseconds; as long as no promise takes."""
_MISSING: Final = RunRow(0, "", "", "", "", 0, None, 0, None, 0, 0, 0, None, 0, None, None, b"", None, None)


def run(id: str, thread: str | None = None, **changes: Any) -> RunRow:
    """A run that is due since 1970, of a thread of its own where none is named."""
    row = _MISSING._replace(id=id, thread=f"thread of {id}" if thread is None else thread, graph=GRAPH)
    return row._replace(status="queued", due=0, request=b"request")._replace(**changes)


def keep(checkpointer: Checkpointer, *rows: RunRow) -> None:
    """Submit runs that are new, one transaction each.

    Raises:
        AssertionError: one was not kept.
    """
    for row in rows:
        if not checkpointer.with_runs(lambda known, row=row: known.add(row)):
            raise AssertionError(f"add of run {row.id!r} said that it is there already")


def found(face: Face, checkpointer: Checkpointer, id: str) -> RunRow:
    """A run that must be there."""
    row = face.with_runs(checkpointer, lambda rows: rows.find(id), reads=True)
    if row is None:
        raise AssertionError(f"find({id!r}) knows no such run, though it was submitted")
    return row


def named(rows: Iterable[RunRow]) -> list[str]:
    """The ids of these runs."""
    return [row.id for row in rows]


def time(checkpointer: Checkpointer) -> Clock:
    """What time it is for the rows."""
    return checkpointer.with_runs(lambda rows: rows.clock(), reads=True)


def taking(
    owner: str, *graphs: str, limit: int = 100, lease: int = HOUR, dead: Sequence[str] = ()
) -> Callable[[RunRows], list[RunRow]]:
    """The work that takes runs, of `GRAPH` where no graph is named."""
    wanted = Taking(owner, graphs or (GRAPH,), limit, lease, dead)
    return lambda rows: rows.take(wanted, rows.clock())


def take(face: Face, checkpointer: Checkpointer, *graphs: str, owner: str = "worker", **options: Any) -> list[RunRow]:
    """Take runs for a worker."""
    return face.with_runs(checkpointer, taking(owner, *graphs, **options))


def begun(face: Face, checkpointer: Checkpointer, *rows: RunRow, owner: str = "worker", **options: Any) -> list[RunRow]:
    """Submit runs and take them; as they are then."""
    keep(checkpointer, *rows)
    expect(
        "which runs were taken", sorted(named(take(face, checkpointer, owner=owner, **options))), sorted(named(rows))
    )
    return [found(face, checkpointer, row.id) for row in rows]


def change(face: Face, checkpointer: Checkpointer, row: RunRow, was: str) -> bool:
    """Write a run again."""

    def work(rows: RunRows) -> bool:
        rows.hold(f"thread {row.thread}")
        return rows.change(row, was)

    return face.with_runs(checkpointer, work)


def end(face: Face, checkpointer: Checkpointer, id: str, status: str = "done") -> None:
    """End a run.

    Raises:
        AssertionError: the change was refused.
    """
    row = found(face, checkpointer, id)
    if not change(face, checkpointer, row._replace(status=status, ended=1, due=None), row.status):
        raise AssertionError(f"run {id!r} could not be ended, though nobody else changed it")


def waiting(face: Face, checkpointer: Checkpointer, id: str, **changes: Any) -> RunRow:
    """A run that was taken and waits now; as it is then.

    Raises:
        AssertionError: the change was refused.
    """
    [row] = begun(face, checkpointer, run(id))
    new = row._replace(status="waiting", due=None)._replace(**changes)
    if not change(face, checkpointer, new, "running"):
        raise AssertionError(f"run {id!r} could not be parked, though it is its worker's")
    return new


def take_until_empty(checkpointer: Checkpointer, owner: str, limit: int) -> list[str]:
    """Take runs, and end each, until none is left; their ids."""
    taken: list[str] = []
    while given := take(SYNC, checkpointer, owner=owner, limit=limit):
        taken += named(given)
        for row in given:
            end(SYNC, checkpointer, row.id)
    return taken


def adding_one(id: str) -> Callable[[RunRows], bool]:
    """The work that counts in a run's report, and holds a name while it does."""

    def work(rows: RunRows) -> bool:
        rows.hold("before", "counter")
        row = rows.find(id)
        if row is None:
            raise AssertionError(f"run {id!r} is not there")
        return rows.change(row._replace(report=b"%d" % (int(row.report or b"0") + 1)), row.status)

    return work
