"""How a run ends: what is stored when it fails or is cut short, and what its caller gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from durable_graph.core.applying import Blamed, preview
from durable_graph.core.effects import Batch
from durable_graph.core.reports import error_record
from durable_graph.errors import NodeFailure, StorageError
from durable_graph.records import PendingRecord
from durable_graph.types import Command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durable_graph.core.planning import Task
    from durable_graph.core.program import Program
    from durable_graph.core.request import Request
    from durable_graph.core.run import Run
    from durable_graph.types import Interrupt

__all__ = ["Outcome", "live_values", "outcome_of", "stop_run"]


class Outcome:
    """How a run ended. `values` is the state, with the results of finished siblings where it waits.

    used: ids of the interrupts whose answers it used.   left: what its nodes told the parent graph.
    """

    __slots__ = ("interrupts", "left", "used", "values")

    def __init__(
        self,
        values: dict[str, Any],
        interrupts: tuple[Interrupt, ...],
        used: tuple[str, ...] = (),
        left: tuple[Command[Any], ...] = (),
    ) -> None:
        self.values = values
        self.interrupts = interrupts
        self.used = used
        self.left = left


def stop_run(run: Run, error: BaseException) -> Batch | None:
    """The run ends with an error: what is still to be stored. None where the backend itself failed.

    Results of finished tasks are kept; results that took part in a refused update are void, so that a resume
    runs these tasks again.
    """
    run.over = True
    if isinstance(error, StorageError):
        return None
    culprits: frozenset[str] = frozenset()
    if isinstance(error, Blamed):
        culprits = frozenset(error.paths)
        where = f" of thread {run.request.thread!r}" if run.request.thread else ""
        error.error.add_note(f"In step {run.step + 1}{where}; these tasks run again when the thread is resumed.")
    elif run.closing and isinstance(error, NodeFailure):
        culprits = frozenset(task.path for task in run.tasks if task.writes)
    for task in run.tasks:
        if task.path not in culprits:
            continue
        task.writes, task.routes, task.stored = None, (), False
        task.error = error.error if isinstance(error, Blamed) else error
        task.failure = error_record(task.error)
    if not isinstance(error, Exception):
        for task in run.tasks:  # cut short: say what was in flight
            if task.writes is None and task.failure is None and not task.interrupts and run.busy:
                task.failure = error_record(error)
    status = "failed" if isinstance(error, Exception) else "stopped"
    if run.closing and not isinstance(error, Exception):
        # Cut short while a checkpoint was handed over. It may be stored, and these results in it: behind it they
        # would count as results of the next step.
        return Batch(status=status)
    return Batch(pending=PendingRecord(run.unsaved()), status=status)


def outcome_of(run: Run) -> Outcome:
    """What the caller gets."""
    interrupts = tuple(
        asked for task in run.tasks if task.writes is None for asked in task.interrupts if asked.id not in run.answers
    )
    left: tuple[Command[Any], ...] = ()
    if run.request.nested:
        left = tuple(route for task in run.tasks for route in task.routes if isinstance(route, Command))
    return Outcome(
        run.values if left else live_values(run.program, run.values, run.tasks, run.request),
        interrupts,
        tuple(run.used),
        left,
    )


def live_values(program: Program, values: dict[str, Any], tasks: Sequence[Task], request: Request) -> dict[str, Any]:
    """The state with what finished siblings of a waiting task wrote."""
    writes = [write for task in tasks for write in task.writes or ()]
    if not writes:
        return values
    return preview(program.channels, values, writes, request.copy)
