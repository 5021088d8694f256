"""The decisions of a run: what runs next, what a result means, when it stops.

A `Run` is told things (`open`, `receive`, `withdraw`, `arrive`) and answers with what is to be stored. It performs
nothing; the order of things is in `scripts`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from durable_graph.core import streaming
from durable_graph.core.applying import apply_tasks, merge_changes
from durable_graph.core.effects import Batch
from durable_graph.core.ending import live_values
from durable_graph.core.mail import Failed, Finished, Interrupted, Late, Relayed, Said
from durable_graph.core.planning import (
    Task,
    breakpoint_hit,
    can_be_handled,
    follow,
    hand_over,
    handed_over,
    plan,
    with_handlers,
)
from durable_graph.core.reports import failure_of, task_record
from durable_graph.core.retrying import delay_before_retry
from durable_graph.core.showing import Show
from durable_graph.core.versions import OWNER, PIN, adapted, rewritten
from durable_graph.errors import GraphDrained, GraphRecursionError, StoredError
from durable_graph.records import (
    Address,
    Change,
    Frontier,
    PendingRecord,
    StepRecord,
    StoredCheckpoint,
    TaskRecord,
)
from durable_graph.types import START, Command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from durable_graph.core.mail import Mail
    from durable_graph.core.program import NodeNames, Program
    from durable_graph.core.request import Request
    from durable_graph.records import CallRecord, Write

__all__ = ["OWNER", "PIN", "Run", "owner_of"]


def owner_of(stored: StoredCheckpoint) -> tuple[int, int] | None:
    """(lane, seq) of the checkpoint for which a graph inside another one ran; None for the outermost graph."""
    found = stored.values.get(OWNER)
    return None if found is None else (found[0], found[1])


class Run:
    """One run over one thread. `values` is its own: nobody else holds a mutable part of it.

    pins: where the graphs with a memory of their own stand: namespace -> (lane, seq).   stateful: the namespaces that
    were called in this step and have one.   directed: where graphs inside go on, on a branch.
    calls: the recorded steps of the step that is under way; results: what they gave, where nothing is stored.
    asked: on a branch, what its first tasks asked where it started: path -> ids, in order.
    edited: somebody edited the state that this step reads.   carried: what a Command changed before this step.
    migrated: what `migrate_state` and aliases changed, until a checkpoint has it.
    """

    def __init__(self, program: Program, request: Request, stored: StoredCheckpoint | None) -> None:
        self.program = program
        self.request = request
        self.stored = today = None if stored is None else adapted(program, stored, request.thread)
        self.values = program.initial_values()
        self.frontier = Frontier()
        self.step = -1
        self.parent: Address | None = None
        self.address = Address(0, 0, 0)
        self.answers: dict[str, Any] = dict(request.answers)
        self.pins: dict[str, tuple[int, int]] = {}
        self.stateful: set[str] = set()
        self.directed: dict[str, tuple[int, int]] = {}
        self.calls: dict[Any, CallRecord] = {}
        self.results: dict[Any, Any] = {}
        self._owner: tuple[Any, ...] | None = None
        self.migrated = {} if today is stored else rewritten(program, stored, today)
        if today is not None:
            self._take(today)
        self.tasks: list[Task] = []
        self.busy = 0
        self.over = False
        self.released = False
        self.failed = False
        self.again: list[Task] = []
        self.show = Show(program, request)
        self.carried: dict[str, Change] = {}
        self.steps = 0
        self.before: NodeNames = request.before or program.interrupt_before
        self._after: NodeNames = request.after or program.interrupt_after
        self.edited = False
        self.asked: dict[str, tuple[str, ...]] = {}
        self._fresh = True
        self.closing = False
        self._shown: StepRecord | None = None
        self._input: tuple[dict[str, Any], StepRecord] | None = None
        self.used: list[str] = []

    def _take(self, stored: StoredCheckpoint) -> None:
        channels = self.program.channels
        for key, value in stored.values.items():
            if key in channels:
                self.values[key] = value
            elif key.startswith(PIN):
                self.pins[key[len(PIN) :]] = tuple(value)
            elif key == OWNER:
                self._owner = tuple(value)
        self.frontier = stored.step.frontier
        self.step = stored.step.step
        self.address = stored.address
        self.parent = stored.parent

    # --- planning ---------------------------------------------------------------------------------------------

    def plan(self, origin: Address, known: Mapping[str, TaskRecord] | None = None) -> None:
        """Make the tasks of the step that comes next, with what is known of them already.

        origin: what their ids are made of; the address of the checkpoint, where it is no copy of another one.
        """
        thread = self.request.thread
        self.tasks = plan(self.program, self.frontier, (thread, origin))
        self._fresh = not known
        if self.stored is not None and self.stored.renamed:
            for task in self.tasks:
                task.known_as = self.stored.renamed.get(task.path)
        for task in self.tasks if known else ():
            record = (known or {}).get(task.path)
            if record is None:
                continue
            self._recall(task, record)
            if record.error is not None and handed_over(task, record):
                handler = hand_over(task, StoredError(record.error), record.error)
                task.stored = True
                if (known or {}).get(handler.path) is not None:
                    self._recall(handler, (known or {})[handler.path])
        if known:
            self.tasks = with_handlers(self.tasks)
        self.again = []

    def _recall(self, task: Task, record: TaskRecord) -> None:
        task.writes, task.routes = self.still_known(record.writes), record.routes
        task.interrupts, task.answered = record.interrupts, record.answered
        task.started, task.duration, task.attempt = record.started, record.duration, record.attempt
        task.children = dict(record.children)
        task.stored = record.error is None
        if record.writes is not None:  # it may have a memory of its own, and nobody will call it again to say so
            self.stateful.update(record.children)
        if record.error is not None:  # it is to run anew
            task.attempt, task.routes = 1, ()

    def still_known(self, writes: Sequence[Write] | None) -> Sequence[Write] | None:
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
        self._fresh = True
        shown = self._shown
        origin = shown.origin if shown is not None and shown.origin is not None else self.address
        self.tasks = plan(self.program, self.frontier, (self.request.thread, origin))
        self.closing = False  # not before: until then Ctrl-C finds the tasks whose results are in the checkpoint
        if shown is not None and shown.names:
            for task in self.tasks:
                task.known_as = shown.names.get(task.path)
        if shown is None or shown.source != "fork":  # a fork is where the run begins
            self.edited, self.asked = False, {}
        if self.calls:
            self.calls, self.results = {}, {}
        show = self.show
        if show.modes and stored is not None and show.checkpoints:
            self._show_checkpoints(stored)
        if self.over and (self.frontier.nodes or self.frontier.sends):  # at a breakpoint
            show.stopped()

    def keep_input(self, record: StepRecord, frontier: Frontier) -> None:
        """The checkpoint of the input is stored together with the one after it, and somebody wants to see both."""
        if self.show.modes and self.show.checkpoints:
            values = {key: self.request.copy(value) for key, value in self.values.items()}
            self._input = (values, replace(record, frontier=frontier))

    def _show_checkpoints(self, stored: Sequence[Address]) -> None:
        if self._input is not None and stored[1:]:
            values, record = self._input
            before = self.stored.address if self.stored is not None else None
            later = self.show.take()  # the values it led to come after it
            self.show.checkpoint(StoredCheckpoint(stored[0], before, values, {}, record))
            self.show.events += later
            self._input = None
        if self._shown is not None:
            record = replace(self._shown, frontier=self.frontier, tasks=())
            self.show.checkpoint(StoredCheckpoint(self.address, self.parent, self.values, {}, record))

    def show_known(self) -> None:
        """Show what earlier calls stored of the step that goes on."""
        for task in sorted(self.tasks, key=lambda task: task.writes is None):  # questions that stay open come last
            if task.writes is not None:
                self.show.known(task)
            elif task.interrupts and not self._runnable(task):
                self.show.question(task, self.values)

    def launch(self) -> list[Task]:
        """The tasks to start now.

        Raises:
            GraphRecursionError: the run used up its supersteps.
            GraphDrained: somebody asked the run to stop.
        """
        tasks = self.tasks if self._fresh else [task for task in self.tasks if self._runnable(task)]
        if not tasks:
            return tasks
        first = tasks[0].spec
        if first.name != START:
            control = self.request.control
            if control is not None and control.drain_requested:
                raise GraphDrained(control.drain_reason or "")
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
        if task.writes is not None or task.handler is not None:
            return False
        if not task.interrupts or (self.stored is not None and task.path in self.stored.touched):
            return True
        # Whether an event happened only the task can find out: it looks again.
        return any(asked.kind == "event" or asked.id in self.answers for asked in task.interrupts)

    # --- results ----------------------------------------------------------------------------------------------

    def receive(self, mails: Sequence[Mail]) -> None:
        """Take reports about tasks in."""
        for mail in mails:
            task = mail.task
            if type(mail) is Said:
                self.show.note(mail.mode, mail.data)
                continue
            if type(mail) is Finished:
                self.busy -= 1
                task.writes, task.routes, task.cached = mail.writes, mail.routes, mail.cached
                task.interrupts, task.answered = (), mail.answered
                if mail.answered:
                    self.used += mail.answered
            elif type(mail) is Interrupted:
                self.busy -= 1
                task.interrupts, task.answered = mail.interrupts, mail.answered
                self.used += mail.answered
            elif type(mail) is Relayed:
                self.show.relay(mail)
                continue
            elif type(mail) is Late:
                if task in self.tasks:
                    task.note_late(mail)
                continue
            else:
                self._fail(task, mail)
            task.started, task.duration, task.stored = mail.started, mail.duration, False
            if self.show.modes:
                show = self.show.started if task in self.again else self.show.ended
                show(task, self.values, self.step + 1)

    def _fail(self, task: Task, mail: Failed) -> None:
        task.rejected = mail.rejected
        wait = delay_before_retry(task.spec.retry, mail.error, task.attempt, task.id)
        if wait is not None and not self.failed:
            task.delay, task.jitter = wait
            task.attempt += 1
            task.began = task.began or mail.started
            self.again.append(task)
            self.forget_failures(task.path)
            return
        if wait is None and task.spec.handler is not None and can_be_handled(mail.error):
            handler = hand_over(task, mail.error, mail.record)
            self.tasks.insert(self.tasks.index(task) + 1, handler)
            if self.failed:  # nothing is started any more; the resume runs it
                self.busy -= 1
            else:
                self.again.append(handler)
            return
        self.busy -= 1
        task.error = mail.error
        task.failure = None if isinstance(mail.error, GraphDrained) else mail.record
        self.failed = True

    def forget_failures(self, path: str) -> None:
        """A task failed, maybe because a step of it did: the failed steps of a task run again when it does."""
        for place, call in tuple(self.calls.items()):  # a copy: tasks that run meanwhile add to it
            if call.task == path and call.error is not None:
                del self.calls[place]

    def take_again(self) -> list[Task]:
        """The tasks to try again."""
        tasks, self.again = self.again, []
        return tasks

    def withdraw(self, tasks: Sequence[Task]) -> None:
        """These tasks were never started."""
        self.busy -= len(tasks)

    def interim(self) -> Batch | None:
        """Results that arrived while other tasks still run."""
        fresh = self.unsaved()
        return Batch(pending=PendingRecord(fresh)) if fresh else None

    def unsaved(self) -> tuple[TaskRecord, ...]:
        """Records of results that are not stored yet; they count as stored from here on."""
        found: list[TaskRecord] = []
        for task in self.tasks:
            if not task.stored and (task.writes is not None or task.interrupts or task.failure is not None):
                found.append(task_record(task, self.program.unstored))
                task.stored = True
        return tuple(found)

    # --- the end of a step --------------------------------------------------------------------------------------

    def close_step(self) -> Batch:  # noqa: C901, PLR0912 - every function on the way of each step costs a call
        """All tasks answered: make the next checkpoint, or pause where a task waits for a human.

        Raises:
            BaseException: what the failed task raised, or a group of it where several failed.
        """
        if self.failed:
            raise failure_of(self.tasks, self.request, self.step + 1)
        tasks, handled = self.tasks, False
        for task in tasks:
            if task.writes is None:
                if task.handler is None:
                    return self._pause()
                handled = True
        if handled:
            tasks = [task for task in tasks if task.handler is None]
        if self.request.nested and self._leaving():
            return self._pause()
        self.closing = True
        changes = apply_tasks(self.program, self.values, tasks)
        self.frontier = frontier = follow(self.program, tasks, self.frontier)
        if self.carried:
            changes = merge_changes(self.carried, changes)
            self.carried = {}
        if self.stateful:
            self._pin(changes)
        self.step += 1
        record = self.record("loop", changes, frontier)
        if self.request.durable:
            fresh: list[TaskRecord] = []
            for task in self.tasks:
                if not task.stored:
                    fresh += (task_record(task, self.program.unstored, routes=False),)
            record.tasks = tuple(fresh)
        if self.before or self._after:
            record.stop = self.breakpoint()
        if self.show.modes and (changes or self.step == 0):
            self.show.values(self.values)
        goes_on = (frontier.nodes or frontier.sends) and record.stop is None
        return Batch([record], status=None if goes_on else self.ending(record.stop))

    def _leaving(self) -> bool:
        """Whether a task said something to the parent graph: this graph ends with it, as it is."""
        for task in self.tasks:
            for route in task.routes:
                if type(route) is Command:
                    return True
        return False

    def _pin(self, changes: dict[str, Change]) -> None:
        """The checkpoint says where graphs with a memory of their own stand, so that travelling to it takes them along.

        Pins lie among the keys of the state, under names that no key has.
        """
        for task in self.tasks:
            for ns, at in task.children.items():
                if ns in self.stateful and self.pins.get(ns) != at:
                    self.pins[ns] = at
                    changes[PIN + ns] = Change(list(at))
        self.stateful = set()

    def breakpoint(self) -> str | None:
        """Whether the run stops here at a static breakpoint."""
        frontier = self.frontier
        if not (frontier.nodes or frontier.sends):
            return None
        if breakpoint_hit(self._after, self.tasks):
            return "after"
        upcoming = plan(self.program, frontier, (self.request.thread, self.address))
        return "before" if breakpoint_hit(self.before, upcoming) else None

    def ending(self, stop: str | None = None) -> str | None:
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
            self.show.values(live_values(self.program, self.values, self.tasks, self.request))
        waiting = [task for task in self.tasks if task.writes is None and task.handler is None]
        if waiting and not any(task.interrupts for task in waiting):  # a graph inside stopped at a breakpoint
            self.show.stopped()
        return Batch(pending=PendingRecord(self.unsaved()), status="waiting")

    def record(self, source: str, changes: dict[str, Change], frontier: Frontier) -> StepRecord:
        """The record of a checkpoint, in the step that `self.step` says."""
        request, unstored = self.request, self.program.unstored
        if unstored and not unstored.isdisjoint(changes):
            changes = {key: change for key, change in changes.items() if key not in unstored}
        if self.migrated:
            changes, self.migrated = merge_changes(self.migrated, changes), {}
        if request.nested and request.owner != self._owner:
            self._owner = request.owner
            changes = {**changes, OWNER: Change(list(request.owner or ()))}
        self._shown = record = StepRecord(
            self.step,
            source,
            changes,
            frontier,
            run_id=request.run_id,
            fingerprint=self.program.fingerprint,
            metadata=request.metadata,
        )
        return record
