"""How a run begins: what a request means for the checkpoint it finds, and what is stored first.

A request that addresses a checkpoint which others follow starts a branch: a copy of that checkpoint ("fork") on a lane
of its own, or the new input's checkpoint. The branch sees no result, answer or recorded step of the other one.

Every refusal here happens before anything is stored.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from durable_graph.core import identity
from durable_graph.core.applying import Blamed, apply_writes
from durable_graph.core.commands import COMMAND_PATH, combined, command_of, extended
from durable_graph.core.effects import Batch
from durable_graph.core.interrupts import listing, resolve_answers
from durable_graph.core.planning import breakpoint_hit
from durable_graph.core.reports import stored_writes
from durable_graph.errors import EmptyInputError, UnfinishedRunError
from durable_graph.records import INPUT_LATER, Frontier, PendingRecord, TaskRecord
from durable_graph.types import MISSING, START, Expired, Interrupt, Send

if TYPE_CHECKING:
    from durable_graph.core.request import Request
    from durable_graph.core.run import Run
    from durable_graph.records import Change, ErrorRecord, StoredCheckpoint

__all__ = [
    "answers_of",
    "asked_at",
    "check_request",
    "expired",
    "open_interrupts",
    "open_run",
    "unfinished",
    "whole_frontier",
]


def unfinished(stored: StoredCheckpoint | None) -> bool:
    """Whether a thread's last run waits or was cut short."""
    return stored is not None and bool(stored.step.frontier.nodes or stored.step.frontier.sends)


def open_interrupts(stored: StoredCheckpoint) -> list[Interrupt]:
    """The questions of a checkpoint that nobody answered yet, in path order of their tasks."""
    tasks = [stored.pending[path] for path in sorted(stored.pending, key=identity.path_order)]
    waiting = [task for task in tasks if task.writes is None]
    return [asked for task in waiting for asked in task.interrupts if asked.id not in stored.answers]


def open_run(run: Run) -> Batch | None:
    """Take the request in. The answer is what is to be stored first; None when the run is over already."""
    request, stored = run.request, run.stored
    check_request(request, stored)
    try:
        if request.kind == "input":
            return _open_input(run)
        given = answers_of(request, stored)
        if stored is not None and stored.pending and not (stored.past or request.nested):
            given = expired(stored, request.called) | given
        command = command_of(request)
        if stored is None or not unfinished(stored):
            if command is not None:
                return _open_command(run, command)
            run.show.values(run.values)
            run.over = True
            return None
        return (_open_past if stored.past else _open_head)(run, stored, command, given)
    except Blamed as blamed:
        raise blamed.error from blamed.error.__cause__


def check_request(request: Request, stored: StoredCheckpoint | None) -> None:
    """Refuse what does not fit the thread as it is.

    Raises:
        EmptyInputError: no input, and nothing is stored.
        UnfinishedRunError: new input, and the last run is not over.
    """
    if request.kind == "input":
        if stored is None or stored.past or request.nested:
            return
        if unfinished(stored) and request.on_unfinished != "abandon":
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
    if stored is None or not unfinished(stored):
        return resolve_answers(request.resume, [])
    return resolve_answers(request.resume, asked_at(stored) if stored.past else open_interrupts(stored))


def expired(stored: StoredCheckpoint, now: float) -> dict[str, Any]:
    """The answers that time gave: of open questions whose deadline passed, by interrupt id. Whoever waits for an event
    looks for it first, and then at the time.
    """
    return {
        asked.id: Expired(asked.deadline) if asked.default is MISSING else asked.default
        for asked in open_interrupts(stored)
        if asked.deadline is not None and asked.deadline <= now and asked.kind != "event"
    }


def _open_input(run: Run) -> Batch:
    """The checkpoint of the input; where START has no routers, also the one after it."""
    start, request = run.program.start, run.request
    if run.stored is not None:
        run.step += 1
    given = {write.key: write.value for write in request.writes}
    frontier = Frontier(sends=(Send(START, given),))
    kept = INPUT_LATER
    if start.routed:
        stored = stored_writes(request.writes, run.program.unstored)
        kept = Send(START, {write.key: write.value for write in stored})
    first = run.record("input", _kept(run), Frontier(sends=(kept,)))
    run.frontier = frontier
    run.plan(run.address)
    if start.routed:
        return Batch([first])
    run.tasks[0].writes = request.writes
    run.keep_input(first, frontier)
    closed = run.close_step()
    return Batch([first, *closed.steps], status=closed.status)


def _kept(run: Run) -> dict[str, Change]:
    """What finished tasks of an abandoned step wrote, where the program keeps it and it fits together."""
    stored = run.stored
    if stored is None or stored.past or not run.program.keeps_finished or not unfinished(stored):
        return {}
    finished = [task for _, task in sorted(stored.pending.items(), key=lambda one: identity.path_order(one[0]))]
    writes = [write for task in finished if task.error is None for write in run.still_known(task.writes) or ()]
    values = dict(run.values)
    try:
        changes = apply_writes(run.program, values, writes)
    except Blamed:  # they would have been refused at the end of their step too
        return {}
    run.values.update(values)
    return changes


def _open_head(run: Run, stored: StoredCheckpoint, command: TaskRecord | None, given: dict[str, Any]) -> Batch:
    """Go on where the thread stopped: answers, writes and routes of the Command, results that are stored."""
    known = dict(stored.pending)
    passed = stored.step.stop is not None or bool(known)
    run.answers = {**stored.answers, **run.request.answers, **given}
    run.calls = {call.place: call for call in stored.calls}
    for path, record in known.items():
        if record.error is not None:
            run.forget_failures(path)
    whole = combined(run.program.channels, known.pop(COMMAND_PATH, None), command)
    run.edited = (stored.step.source == "update" and stored.step.origin is not None) or bool(whole and whole.writes)
    _carry(run, whole)
    run.plan(stored.origin, known)
    run.show.values(run.values)
    run.show_known()
    if not passed and breakpoint_hit(run.before, run.tasks):
        # The step was planned without this breakpoint (it came with this call, or with a goto). The record of a
        # Command, even an empty one, says from now on that the breakpoint was reached: the next call passes it.
        command = whole = whole or TaskRecord(COMMAND_PATH, "", "", writes=())
        run.over = True
        run.show.stopped()
    if command is None and not given:
        return Batch()
    return Batch(pending=_first_pending(run, command and whole, given), status="waiting" if run.over else None)


def _open_past(run: Run, stored: StoredCheckpoint, command: TaskRecord | None, given: dict[str, Any]) -> Batch:
    """Go on from a checkpoint that others follow: on a branch of its own, which starts with a copy of it."""
    asked = [question.id for question in asked_at(stored)]
    run.answers = {**run.request.answers, **given}
    run.frontier = whole_frontier(stored)
    run.step += 1
    record = run.record("fork", {}, run.frontier)
    record.origin, record.names = stored.origin, {new: old for new, old in stored.renamed.items() if new != old}
    _carry(run, command)
    run.plan(stored.origin)
    # What was asked there is known on the branch too: an answer that fits no question is an error, never dropped.
    known = {task.path: _ids(task) for task in stored.pending.values()}
    run.asked = {path: ids for path, ids in known.items() if not given.keys().isdisjoint(ids)}
    run.edited = stored.step.source == "update" or command is not None
    if not run.answers.keys().isdisjoint(asked):  # the questions come from graphs inside: these go on where they asked
        run.directed = {ns: at for task in stored.pending.values() for ns, at in task.children.items()}
    run.directed |= stored.directed
    if stored.step.stop is None and not (given or command) and breakpoint_hit(run.before, run.tasks):
        record.stop = "before"
        run.over = True
    run.show.values(run.values)
    return Batch([record], _first_pending(run, command, given), status="waiting" if run.over else None)


def _ids(task: TaskRecord) -> tuple[str, ...]:
    """What a task asked, in order."""
    return tuple(dict.fromkeys((*task.answered, *(asked.id for asked in task.interrupts))))


def whole_frontier(stored: StoredCheckpoint) -> Frontier:
    """What runs after a checkpoint that others follow; with the input, which may be stored with the next one only."""
    frontier = stored.step.frontier
    start = stored.pending.get(identity.push_path(START, 0))
    if start is None or stored.step.source != "input" or frontier.sends[0].arg is not None:
        return frontier
    given = {write.key: write.value for write in start.writes or ()}
    return replace(frontier, sends=(Send(START, given),))


def asked_at(stored: StoredCheckpoint) -> list[Interrupt]:
    """All questions that were ever asked at a checkpoint. Of those that were answered only the id is known."""
    found: dict[str, Interrupt] = {}
    for path in sorted(stored.pending, key=identity.path_order):
        task = stored.pending[path]
        for asked in (*(Interrupt(None, known) for known in task.answered), *task.interrupts):
            if found.get(asked.id) is None or asked.value is not None:
                found[asked.id] = asked
    return list(found.values())


def _carry(run: Run, command: TaskRecord | None) -> None:
    """Apply the writes and routes of a Command before the step that waits."""
    if command is not None:
        run.carried = apply_writes(run.program, run.values, run.still_known(command.writes) or ())
        run.frontier = extended(run.frontier, command, run.program.deferred)


def _first_pending(run: Run, command: TaskRecord | None, given: dict[str, Any]) -> PendingRecord:
    tasks: tuple[TaskRecord, ...] = ()
    if command is not None:
        command.writes = stored_writes(command.writes or (), run.program.unstored)
        tasks = (command,)
    return PendingRecord(tasks, given)


def _open_command(run: Run, command: TaskRecord) -> Batch:
    """Writes and routes for a thread that has no step to go on with: a checkpoint of their own."""
    changes = apply_writes(run.program, run.values, command.writes or ())
    if run.stored is not None:
        run.step += 1
    run.frontier = extended(Frontier(), command, run.program.deferred)
    record = run.record("update", changes, run.frontier)
    record.stop = run.breakpoint()
    run.show.values(run.values)
    return Batch([record], status=run.ending(record.stop))


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
