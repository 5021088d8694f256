"""The decisions of a run: what runs next, what a result means, when it stops.

A `Run` is told things (`open`, `receive`, `withdraw`, `arrive`) and answers with what is to be stored. It performs
nothing; the order of things is in `scripts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from durable_graph.core import opening, streaming
from durable_graph.core.applying import Blamed, apply_tasks, apply_writes, merge_changes, preview
from durable_graph.core.commands import COMMAND_PATH, combined, command_of, extended
from durable_graph.core.effects import Batch
from durable_graph.core.mail import Failed, Finished, Interrupted, Said
from durable_graph.core.planning import breakpoint_hit, follow, plan
from durable_graph.core.reports import error_record, failure_of, stored_writes, task_record
from durable_graph.core.retrying import delay_before_retry
from durable_graph.core.showing import Show
from durable_graph.errors import GraphRecursionError, NodeFailure, StorageError
from durable_graph.records import (
    Address,
    Change,
    Frontier,
    PendingRecord,
    StepRecord,
    StoredCheckpoint,
    TaskRecord,
)
from durable_graph.types import START, Send

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durable_graph.core.mail import Mail
    from durable_graph.core.planning import Task
    from durable_graph.core.program import NodeNames, Program
    from durable_graph.core.request import Request
    from durable_graph.records import Write
    from durable_graph.types import Interrupt

__all__ = ["Outcome", "Run"]


class Outcome:
    """How a run ended. `values` is the state, with the results of finished siblings where it waits."""

    __slots__ = ("interrupts", "values")

    def __init__(self, values: dict[str, Any], interrupts: tuple[Interrupt, ...]) -> None:
        self.values = values
        self.interrupts = interrupts


class Run:
    """One run over one thread. `values` is its own: nobody else holds a mutable part of it."""

    def __init__(self, program: Program, request: Request, stored: StoredCheckpoint | None) -> None:
        self.program = program
        self.request = request
        self.stored = stored
        self.values = program.initial_values()
        self.frontier = Frontier()
        self.step = -1
        self.parent: Address | None = None
        self.address = Address(0, 0, 0)
        self.answers: dict[str, Any] = {}
        if stored is not None:
            self.values.update((key, value) for key, value in stored.values.items() if key in program.channels)
            self.frontier = stored.step.frontier
            self.step = stored.step.step
            self.address = stored.address
            self.parent = stored.parent
            self.answers = dict(stored.answers)
        self.tasks: list[Task] = []
        self.busy = 0
        self.over = False
        self.released = False
        self.failed = False
        self.again: list[Task] = []
        self.show = Show(program, request)
        self._known: dict[str, TaskRecord] = {}
        self._fresh = True
        self._carried: dict[str, Change] = {}
        self.steps = 0
        self._closing = False
        self._input: tuple[dict[str, Any], Frontier] | None = None
        self._before: NodeNames = request.before or program.interrupt_before
        self._after: NodeNames = request.after or program.interrupt_after

    # --- how it begins ----------------------------------------------------------------------------------------

    def open(self) -> Batch | None:
        """Take the request in. The answer is what is to be stored first; None when the run is over already."""
        opening.check_request(self.request, self.stored)
        try:
            return self._open_input() if self.request.kind == "input" else self._open_stored()
        except Blamed as blamed:
            raise blamed.error from blamed.error.__cause__

    def _open_input(self) -> Batch:
        """The checkpoint of the input; where START has no routers, also the one after it."""
        start = self.program.start
        if self.stored is not None:
            self.step += 1
        given = {write.key: write.value for write in self.request.writes}
        frontier = Frontier(sends=(Send(START, given),))
        # Where the next checkpoint comes in the same commit, it holds the input: storing it here too would double it.
        kept = None
        if start.routed:
            kept = {write.key: write.value for write in stored_writes(self.request.writes, self.program.unstored)}
        first = self._record("input", {}, Frontier(sends=(Send(START, kept),)))
        self.frontier = frontier
        self._plan(self.address)
        if start.routed:
            return Batch([first])
        self.tasks[0].writes = self.request.writes
        if self.show.checkpoints:
            self._input = ({key: self.request.copy(value) for key, value in self.values.items()}, frontier)
        closed = self.close_step()
        return Batch([first, *closed.steps], status=closed.status)

    def _open_stored(self) -> Batch | None:
        """Go on where the thread stopped: answers, writes and routes of the Command, results that are stored."""
        stored = self.stored
        given = opening.answers_of(self.request, stored)
        command = command_of(self.request)
        if stored is None or not opening.unfinished(stored):
            if command is not None:
                return self._open_command(command)
            self.show.values(self.values)
            self.over = True
            return None
        self._known = dict(stored.pending)
        passed = stored.step.stop is not None or bool(self._known)
        self.answers.update(given)
        whole = combined(self.program.channels, self._known.pop(COMMAND_PATH, None), command)
        if whole is not None:
            self._carried = apply_writes(self.program, self.values, self._still_known(whole.writes) or ())
            self.frontier = extended(self.frontier, whole)
        self._plan(self.address)
        self.show.values(self.values)
        self._show_stored()
        if not passed and breakpoint_hit(self._before, self.tasks):
            # The step was planned without this breakpoint (it came with this call, or with a goto). The record of a
            # Command, even an empty one, says from now on that the breakpoint was reached: the next call passes it.
            command = whole = whole or TaskRecord(COMMAND_PATH, "", "", writes=())
            self.over = True
            self.show.stopped()
        if command is None and not given:
            return Batch()
        stored_command: tuple[TaskRecord, ...] = ()
        if command is not None and whole is not None:
            whole.writes = stored_writes(whole.writes or (), self.program.unstored)
            stored_command = (whole,)
        return Batch(pending=PendingRecord(stored_command, given), status="waiting" if self.over else None)

    def _open_command(self, command: TaskRecord) -> Batch:
        """Writes and routes for a thread that has no step to go on with: a checkpoint of their own."""
        changes = apply_writes(self.program, self.values, command.writes or ())
        if self.stored is not None:
            self.step += 1
        self.frontier = extended(Frontier(), command)
        record = self._record("update", changes, self.frontier)
        record.stop = self._breakpoint()
        self.show.values(self.values)
        return Batch([record], status=self._ending(record.stop))

    def _show_stored(self) -> None:
        for task in sorted(self.tasks, key=lambda task: task.writes is None):  # questions that stay open come last
            if task.writes is not None:
                self.show.known(task)
            elif not self._runnable(task):
                self.show.question(task, self.values)

    # --- planning ---------------------------------------------------------------------------------------------

    def _plan(self, address: Address) -> None:
        """Make the tasks of the step that follows `address`, with what is known of them already."""
        self.tasks = plan(self.program, self.frontier, (self.request.thread, address))
        self._fresh = not self._known
        if self._fresh:
            return
        for task in self.tasks:
            record = self._known.get(task.path)
            if record is None:
                continue
            task.writes, task.routes = self._still_known(record.writes), record.routes
            task.interrupts, task.answered = record.interrupts, record.answered
            task.started, task.duration, task.attempt = record.started, record.duration, record.attempt
            task.stored = True
            if record.error is not None:
                task.stored, task.attempt = False, 1

    def _still_known(self, writes: Sequence[Write] | None) -> Sequence[Write] | None:
        """Stored writes without those to keys that the state lost since."""
        channels = self.program.channels
        return writes and tuple(write for write in writes if write.key in channels)

    def arrive(self, stored: Sequence[Address] | None) -> None:
        """The newest checkpoints have these addresses (None: nothing is stored). The next step is planned from it."""
        if stored is None:
            self.address = Address(0, self.step + 1, 0)
        else:
            self.parent = stored[-2] if stored[1:] else (self.address if self.address.seq else None)
            self.address = stored[-1]
        self._closing = False
        self._known, self._fresh = {}, True
        self.tasks = plan(self.program, self.frontier, (self.request.thread, self.address))
        show = self.show
        if show.modes and stored is not None and show.checkpoints:
            self._show_checkpoints(stored)
        if self.over and (self.frontier.nodes or self.frontier.sends):  # at a breakpoint
            show.stopped()

    def _show_checkpoints(self, stored: Sequence[Address]) -> None:
        if self._input is not None and stored[1:]:
            values, frontier = self._input
            before = self.stored.address if self.stored is not None else None
            later = self.show.take()  # the values it led to come after it
            self.show.checkpoint(self._checkpoint(stored[0], before, self.step - 1, frontier, values))
            self.show.events += later
            self._input = None
        self.show.checkpoint(self._checkpoint(self.address, self.parent, self.step, self.frontier, self.values))

    def _checkpoint(
        self, address: Address, parent: Address | None, step: int, frontier: Frontier, values: dict[str, Any]
    ) -> StoredCheckpoint:
        source = "input" if frontier.sends and frontier.sends[0].node == START else "loop"
        record = StepRecord(step, source, {}, frontier, run_id=self.request.run_id, metadata=self.request.metadata)
        return StoredCheckpoint(address, parent, values, {}, record)

    def launch(self) -> list[Task]:
        """The tasks to start now.

        Raises:
            GraphRecursionError: the run used up its supersteps.
        """
        tasks = self.tasks if self._fresh else [task for task in self.tasks if self._runnable(task)]
        if not tasks:
            return tasks
        first = tasks[0].spec
        if first.name != START:
            if self.steps >= self.request.limit:
                names = ", ".join(sorted({task.name for task in tasks}))
                what = f"Recursion limit of {self.steps} reached: {self.steps} supersteps ran, {names} would be next"
                state = streaming.state(self.program, self.values, self.request.copy)
                raise GraphRecursionError(what, state=state)
            self.steps += 1
        if self.show.modes:
            for task in tasks:
                self.show.started(task, self.values, self.step + 1)
        return tasks

    def _runnable(self, task: Task) -> bool:
        if task.writes is not None:
            return False
        return not task.interrupts or any(asked.id in self.answers for asked in task.interrupts)

    # --- results ----------------------------------------------------------------------------------------------

    def receive(self, mails: Sequence[Mail]) -> None:
        """Take reports about tasks in."""
        for mail in mails:
            task = mail.task
            if type(mail) is Said:
                self.show.note("custom", mail.data)
                continue
            if type(mail) is Finished:
                self.busy -= 1
                task.writes, task.routes = mail.writes, mail.routes
                task.interrupts, task.answered = (), mail.answered
            elif type(mail) is Interrupted:
                self.busy -= 1
                task.interrupts, task.answered = mail.interrupts, mail.answered
            else:
                self._fail(task, mail)
            task.started, task.duration, task.stored = mail.started, mail.duration, False
            if self.show.modes and task not in self.again:
                self.show.ended(task, self.values, self.step + 1)

    def _fail(self, task: Task, mail: Failed) -> None:
        task.rejected = mail.rejected
        wait = None if self.failed else delay_before_retry(task.spec.retry, mail.error, task.attempt)
        if wait is not None:
            task.delay, task.jitter = wait
            task.attempt += 1
            self.again.append(task)
            return
        self.busy -= 1
        task.error, task.failure = mail.error, mail.record
        self.failed = True

    def take_again(self) -> list[Task]:
        """The tasks to try again."""
        tasks, self.again = self.again, []
        return tasks

    def withdraw(self, tasks: Sequence[Task]) -> None:
        """These tasks were never started."""
        self.busy -= len(tasks)

    def interim(self) -> Batch | None:
        """Results that arrived while other tasks still run."""
        fresh = self._unsaved()
        return Batch(pending=PendingRecord(fresh)) if fresh else None

    def _unsaved(self) -> tuple[TaskRecord, ...]:
        """Records of results that are not stored yet; they count as stored from here on."""
        found: list[TaskRecord] = []
        for task in self.tasks:
            if not task.stored and (task.writes is not None or task.interrupts or task.failure is not None):
                found.append(task_record(task, self.program.unstored))
                task.stored = True
        return tuple(found)

    # --- the end of a step --------------------------------------------------------------------------------------

    def close_step(self) -> Batch:
        """All tasks answered: make the next checkpoint, or pause where a task waits for a human.

        Raises:
            BaseException: what the failed task raised, or a group of it where several failed.
        """
        if self.failed:
            raise failure_of(self.tasks, self.request, self.step + 1)
        for task in self.tasks:
            if task.writes is None:
                return self._pause()
        self._closing = True
        tasks = self.tasks
        arrived = self.frontier.arrived
        changes = apply_tasks(self.program, self.values, tasks)
        nodes, sends, arrived = follow(self.program, tasks, arrived)
        if self._carried:
            changes = merge_changes(self._carried, changes)
            self._carried = {}
        self.frontier = Frontier(tuple(sorted(nodes)), tuple(sends), arrived)
        self.step += 1
        record = self._record("loop", changes, self.frontier)
        if self.request.durable:
            fresh: list[TaskRecord] = []
            for task in tasks:
                if not task.stored:
                    fresh += (task_record(task, self.program.unstored, routes=False),)
            record.tasks = tuple(fresh)
        if self._before or self._after:
            record.stop = self._breakpoint()
        if self.show.modes and (changes or self.step == 0):
            self.show.values(self.values)
        goes_on = (nodes or sends) and record.stop is None
        return Batch([record], status=None if goes_on else self._ending(record.stop))

    def _breakpoint(self) -> str | None:
        """Whether the run stops here at a static breakpoint."""
        frontier = self.frontier
        if not (frontier.nodes or frontier.sends):
            return None
        if breakpoint_hit(self._after, self.tasks):
            return "after"
        upcoming = plan(self.program, frontier, (self.request.thread, self.address))
        return "before" if breakpoint_hit(self._before, upcoming) else None

    def _ending(self, stop: str | None = None) -> str | None:
        """The thread's status when the run ends with this checkpoint; None when it goes on."""
        if not (self.frontier.nodes or self.frontier.sends):
            self.over = True
            return "done"
        if stop is not None:
            self.over = True
            return "waiting"
        return None

    def _pause(self) -> Batch:
        self.over = True
        if self.show.modes and any(task.writes for task in self.tasks):
            self.show.values(self._live_values())
        return Batch(pending=PendingRecord(self._unsaved()), status="waiting")

    def _record(self, source: str, changes: dict[str, Change], frontier: Frontier) -> StepRecord:
        request, unstored = self.request, self.program.unstored
        if unstored and not unstored.isdisjoint(changes):
            changes = {key: change for key, change in changes.items() if key not in unstored}
        return StepRecord(
            self.step,
            source,
            changes,
            frontier,
            run_id=request.run_id,
            fingerprint=self.program.fingerprint,
            metadata=request.metadata,
        )

    # --- how it ends --------------------------------------------------------------------------------------------

    def stop(self, error: BaseException) -> Batch | None:
        """The run ends with an error: what is still to be stored. None where the backend itself failed.

        Results of finished tasks are kept; results that took part in a refused update are void, so that a resume
        runs these tasks again.
        """
        self.over = True
        if isinstance(error, StorageError):
            return None
        culprits: frozenset[str] = frozenset()
        if isinstance(error, Blamed):
            culprits = frozenset(error.paths)
            where = f" of thread {self.request.thread!r}" if self.request.thread else ""
            error.error.add_note(f"In step {self.step + 1}{where}; these tasks run again when the thread is resumed.")
        elif self._closing and isinstance(error, NodeFailure):
            culprits = frozenset(task.path for task in self.tasks if task.writes)
        for task in self.tasks:
            if task.path not in culprits:
                continue
            task.writes, task.routes, task.stored = None, (), False
            task.error = error.error if isinstance(error, Blamed) else error
            task.failure = error_record(task.error)
        if not isinstance(error, Exception):
            for task in self.tasks:  # cut short: say what was in flight
                if task.writes is None and task.failure is None and not task.interrupts and self.busy:
                    task.failure = error_record(error)
        status = "failed" if isinstance(error, Exception) else "stopped"
        if self._closing and not isinstance(error, Exception):
            # Cut short while a checkpoint was handed over. It may be stored, and these results in it: behind it they
            # would count as results of the next step.
            return Batch(status=status)
        return Batch(pending=PendingRecord(self._unsaved()), status=status)

    def outcome(self) -> Outcome:
        """What the caller gets."""
        interrupts = tuple(
            asked
            for task in self.tasks
            if task.writes is None
            for asked in task.interrupts
            if asked.id not in self.answers
        )
        return Outcome(self._live_values() if interrupts else self.values, interrupts)

    def _live_values(self) -> dict[str, Any]:
        """The state with what finished siblings of a waiting task wrote."""
        writes = [write for task in self.tasks for write in task.writes or ()]
        if not writes:
            return self.values
        return preview(self.program.channels, self.values, writes, self.request.copy)
