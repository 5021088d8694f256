"""What a run says about its tasks: records for storage, payloads for streams, errors for the caller."""

from __future__ import annotations

import traceback
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from durable_graph.core import history
from durable_graph.errors import GraphDrained
from durable_graph.records import ErrorRecord, TaskRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from durable_graph.core.planning import Task
    from durable_graph.core.program import Program
    from durable_graph.core.request import Request
    from durable_graph.records import StoredCheckpoint, Write

_NONE: Mapping[str, tuple[int, int]] = MappingProxyType({})

__all__ = ["error_record", "failure_of", "snapshot_payload", "stored_writes", "task_record"]


def error_record(error: BaseException) -> ErrorRecord:
    """An exception as it is stored."""
    kind = type(error)
    return ErrorRecord(f"{kind.__module__}.{kind.__qualname__}", str(error), "".join(traceback.format_exception(error)))


def task_record(task: Task, unstored: frozenset[str], *, routes: bool = True) -> TaskRecord:
    """A task as it is stored: without its writes to `unstored` keys. `routes=False` where the next frontier says it
    already.
    """
    return TaskRecord(
        task.path,
        task.spec.name,
        "",
        task.attempt,
        task.started,
        task.duration,
        None if task.writes is None else (stored_writes(task.writes, unstored) if unstored else tuple(task.writes)),
        tuple(task.routes) if routes else (),
        task.failure,
        task.interrupts,
        task.answered,
        task.rejected,
        dict(task.children) if task.children else _NONE,
    )


def stored_writes(writes: Sequence[Write], unstored: frozenset[str]) -> tuple[Write, ...]:
    """Writes as they are stored: those to `unstored` keys stay in memory."""
    return tuple(write for write in writes if write.key not in unstored) if unstored else tuple(writes)


def failure_of(tasks: Sequence[Task], request: Request, step: int) -> BaseException:
    """What a failed step raises: the node's own exception, or a group of them where several nodes failed.

    That graphs inside were asked to stop is told once, and only where nothing failed.
    """
    ended = [(task, task.error) for task in tasks if task.error is not None and task.handler is None]
    failed = [one for one in ended if not isinstance(one[1], GraphDrained)] or ended[:1]
    for task, error in failed:
        place = f"step {step}" + (f" of thread {request.thread!r}" if request.thread else "")
        tried = f", attempt {task.attempt}" if task.attempt > 1 else ""
        error.add_note(f"During task with name {task.name!r} and id {task.id!r} ({place}{tried}).")
        if task.cause is not None and task.cause.error is not error:
            error.add_note(f"It was to handle {task.cause.error!r} of node {task.cause.node!r}.")
            error.__context__ = error.__context__ or task.cause.error
    if len(failed) == 1:
        return failed[0][1]
    names = ", ".join(repr(task.name) for task, _ in failed)
    return BaseExceptionGroup(f"{len(failed)} tasks of step {step} failed: {names}", [error for _, error in failed])


def snapshot_payload(program: Program, request: Request, stored: StoredCheckpoint) -> dict[str, Any]:
    """The "checkpoints" payload of a checkpoint."""
    shown = history.snapshot(program, request.thread, stored, live=False, copy=request.copy, ns=request.ns)
    return {
        "config": shown.config,
        "parent_config": shown.parent_config,
        "values": shown.values,
        "metadata": shown.metadata,
        "next": list(shown.next),
        "tasks": [{"id": task.id, "name": task.name, "interrupts": (), "state": None} for task in shown.tasks],
    }
