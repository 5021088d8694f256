"""How a run begins: what a request means for the checkpoint it finds.

Every refusal here happens before anything is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from durable_graph.core import identity
from durable_graph.core.interrupts import listing, resolve_answers
from durable_graph.errors import EmptyInputError, UnfinishedRunError
from durable_graph.types import MISSING

if TYPE_CHECKING:
    from durable_graph.core.request import Request
    from durable_graph.records import ErrorRecord, StoredCheckpoint
    from durable_graph.types import Interrupt

__all__ = ["answers_of", "check_request", "open_interrupts", "unfinished"]


def unfinished(stored: StoredCheckpoint | None) -> bool:
    """Whether a thread's last run waits or was cut short."""
    return stored is not None and bool(stored.step.frontier.nodes or stored.step.frontier.sends)


def open_interrupts(stored: StoredCheckpoint) -> list[Interrupt]:
    """The questions of a checkpoint that nobody answered yet, in path order of their tasks."""
    tasks = [stored.pending[path] for path in sorted(stored.pending, key=identity.path_order)]
    waiting = [task for task in tasks if task.writes is None]
    return [asked for task in waiting for asked in task.interrupts if asked.id not in stored.answers]


def check_request(request: Request, stored: StoredCheckpoint | None) -> None:
    """Refuse what does not fit the thread as it is.

    Raises:
        EmptyInputError: no input, and nothing is stored.
        UnfinishedRunError: new input, and the last run is not over.
    """
    if request.kind == "input":
        if unfinished(stored) and request.on_unfinished != "abandon":
            assert stored is not None  # noqa: S101 - unfinished() looked; this tells the type checker
            raise _refusal(request, stored)
    elif stored is None and (request.kind == "continue" or request.resume is not MISSING):
        what = f"thread {request.thread!r} has no run that could go on, and no input was given"
        raise EmptyInputError(what)


def answers_of(request: Request, stored: StoredCheckpoint | None) -> dict[str, Any]:
    """The answers a Command brings, by interrupt id.

    Raises:
        UnknownInterruptError: they fit no open interrupt.
    """
    if request.resume is MISSING:
        return {}
    return resolve_answers(request.resume, open_interrupts(stored) if stored is not None else [])


def _refusal(request: Request, stored: StoredCheckpoint) -> UnfinishedRunError:
    frontier = stored.step.frontier
    names = ", ".join(sorted({*frontier.nodes, *(send.node for send in frontier.sends)}))
    asked = open_interrupts(stored)
    failed = [f"{task.node} ({_brief(task.error)})" for _, task in sorted(stored.pending.items()) if task.error]
    cure = "Go on with invoke(None, config), or say what shall happen to that run: on_unfinished='finish' or 'abandon'."
    if asked:
        state = f"waits for an answer to {listing(asked)}"
        cure = "Answer with Command(resume=...), or drop that run: on_unfinished='abandon'."
    elif stored.step.stop:
        state = f"stopped at a breakpoint before {names}"
    elif failed:
        state = f"failed in {', '.join(failed)}"
    else:
        state = f"was cut short before {names} had finished"
    return UnfinishedRunError(f"new input for thread {request.thread!r}, whose last run {state}", cure=cure)


def _brief(error: ErrorRecord) -> str:
    first_line, _, _ = error.message.partition("\n")
    return f"{error.type.rpartition('.')[2]}: {first_line}"
