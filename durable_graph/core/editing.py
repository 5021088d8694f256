"""Editing a thread: `update_state` and `bulk_update_state`.

An edit is a step in which given values take the place of what a node returned: the node's routers and edges follow from
them as if it had run. Each superstep of edits is a checkpoint of its own (source "update"); all are one commit.

What the edited thread waits for stays: open questions, results of siblings that finished and recorded steps go along
where their task is still to run. Editing a checkpoint that others follow starts a branch, which takes nothing along.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from durable_graph.core import identity
from durable_graph.core.applying import Blamed, apply_tasks
from durable_graph.core.commands import COMMAND_PATH, live_frontier
from durable_graph.core.effects import Batch, Flush, Launch, Load, Persist, Receive, Script
from durable_graph.core.planning import Task, follow
from durable_graph.core.reports import failure_of, stored_writes, task_record
from durable_graph.core.run import Run
from durable_graph.errors import EmptyInputError, InvalidUpdateError
from durable_graph.records import Frontier, PendingRecord
from durable_graph.types import END, MISSING, START, Send

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from durable_graph.core.program import NodeSpec, Program
    from durable_graph.core.request import Request
    from durable_graph.records import Address, StepRecord, StoredCheckpoint, TaskRecord, Write

__all__ = ["COPY", "INPUT", "Edit", "edit_thread"]

INPUT: Final = "__input__"
"""As this node, values are a new input."""
COPY: Final = "__copy__"
"""As this node, the checkpoint is copied to a branch of its own."""


@dataclass(slots=True)
class Edit:
    """One update. `values` as a node returns them; `writes`: those of a new input, already checked."""

    values: Any
    as_node: str | None = None
    task_id: str | None = None
    writes: Sequence[Write] = ()


def edit_thread(
    program: Program,
    request: Request,
    supersteps: Sequence[Sequence[Edit]],
    taking: Callable[[NodeSpec], NodeSpec],
) -> Script[Address]:
    """Apply edits, one superstep after the other; the address of the last checkpoint.

    taking: the node's spec with a body that returns its input.

    Raises:
        InvalidUpdateError: an edit names no node, or which node it means is not clear, or it does not fit the state.
        EmptyInputError: the thread is unknown, and there is nothing to copy or to end.
    """
    stored = yield from Load()
    run = Run(program, request, stored)
    request.began(run)
    editor = _Editor(run, stored, taking)
    steps: list[StepRecord] = []
    for edits in supersteps:
        tasks = editor.plan(edits)
        if tasks:
            run.tasks, run.busy = tasks, len(tasks)
            run.receive((yield from Launch(tasks)))
            while run.busy:
                run.receive((yield from Receive()))
            if run.failed:
                raise failure_of(run.tasks, request, run.step + 1)
        try:
            steps.append(editor.close(edits, tasks))
        except Blamed as blamed:
            raise blamed.error from blamed.error.__cause__
    addresses = yield from Persist(Batch(steps, editor.pending, editor.status))
    run.released = True
    yield from Flush()
    return addresses[-1]


class _Editor:
    """The thread as it is between edits.

    known: records of the step that is to come; they are kept as long as their task is still to run.
    """

    def __init__(self, run: Run, stored: StoredCheckpoint | None, taking: Callable[[NodeSpec], NodeSpec]) -> None:
        self._run = run
        self._taking = taking
        self._stored = stored
        self._first = True
        self._ran: tuple[str, ...] = () if stored is None else stored.ran
        self._origin: Address | None = None if stored is None else stored.origin
        self._known: dict[str, TaskRecord] = {}
        self._answers: Mapping[str, Any] = {}
        if stored is not None and not stored.past:
            self._known, self._answers = dict(stored.pending), stored.answers
            run.frontier = live_frontier(stored)
            run.calls = {call.place: call for call in stored.calls}

    @property
    def pending(self) -> PendingRecord:
        """What is known of the step that is to come."""
        if not self._known:
            return PendingRecord()
        calls = tuple(call for call in self._run.calls.values() if call.task in self._known)
        return PendingRecord(tuple(self._known.values()), self._answers, calls)

    @property
    def status(self) -> str:
        """The thread's, when the edits are done."""
        frontier = self._run.frontier
        return "waiting" if frontier.nodes or frontier.sends else "done"

    # --- before the routers ran -----------------------------------------------------------------------------------

    def plan(self, edits: Sequence[Edit]) -> list[Task]:
        """The tasks whose results the edits are; none for the special nodes."""
        if len(edits) > 1 and any(edit.as_node is None for edit in edits):
            what = "several updates of one superstep, and not all of them name their node"
            raise InvalidUpdateError(what, cure="Give each StateUpdate an as_node.")
        special = [edit.as_node for edit in edits if edit.as_node in (INPUT, COPY)]
        if special:
            if len(edits) > 1:
                what = f"an update as {special[0]!r} stands together with others"
                raise InvalidUpdateError(what, cure="Give it a superstep of its own.")
            return []
        tasks: list[Task] = []
        for edit in edits:
            if edit.as_node == END and edit.values is None:
                continue
            tasks.append(self._task(edit, [task.path for task in tasks]))
        return tasks

    def _task(self, edit: Edit, taken: Sequence[str]) -> Task:
        run = self._run
        name = self._node_of(edit)
        spec = run.program.nodes.get(START if name == END else name)
        if spec is None:
            known = ", ".join(repr(one) for one, other in run.program.nodes.items() if not other.hidden)
            what = f"node {name!r} does not exist (there are {known})"
            raise InvalidUpdateError(what, cure="Name a node of the graph as as_node.")
        spec = self._taking(spec)
        if name == END:
            spec = replace(spec, name=END, edges=(), joins=(), routed=False)
        path = self._path_of(edit, name)
        number = 0
        while path in taken:
            number += 1
            path = identity.push_path(name, number)
        return Task(spec, path, (run.request.thread, run.address), edit.values)

    def _node_of(self, edit: Edit) -> str:
        """The node an edit stands for: the one it names, or the only one that ran before."""
        if edit.as_node is not None:
            return edit.as_node
        ran = sorted(set(self._ran)) or [START]
        if len(ran) == 1:
            return ran[0]
        what = f"Ambiguous update, specify as_node: {', '.join(map(repr, ran))} ran before this checkpoint"
        raise InvalidUpdateError(what, cure=f"Pass as_node={ran[0]!r}, say.")

    def _path_of(self, edit: Edit, name: str) -> str:
        """The path of the waiting task that the edit answers for; the node's name where it answers for none."""
        paths = self._paths()
        if edit.task_id is None:
            return next((path for path in paths if path.partition("#")[0] == name), name)
        run = self._run
        origin = self._origin or run.address
        for path in paths:
            if identity.task_id(run.request.thread, origin, path) == edit.task_id:
                return path
        what = f"task {edit.task_id!r} is not among those that are to run next"
        raise InvalidUpdateError(what, cure="Pass an id of get_state(config).tasks.")

    def _paths(self) -> list[str]:
        frontier = self._run.frontier
        sends = [identity.push_path(send.node, index) for index, send in enumerate(frontier.sends)]
        return [*frontier.nodes, *sends]

    # --- after the routers ran --------------------------------------------------------------------------------------

    def close(self, edits: Sequence[Edit], tasks: Sequence[Task]) -> StepRecord:
        """The checkpoint of one superstep of edits."""
        run, as_node = self._run, edits[0].as_node
        if as_node in (COPY, END) and self._stored is None and self._first:
            what = f"thread {run.request.thread!r} has no checkpoint yet, so there is nothing to {_VERBS[as_node]}"
            raise EmptyInputError(what)
        if self._stored is not None or not self._first:
            run.step += 1
        elif as_node != INPUT:
            run.step = 0
        self._first = False
        if as_node == INPUT:
            return self._as_input(edits[0])
        if as_node == COPY:
            return self._as_copy()
        return self._as_nodes(tasks, ends=any(edit.as_node == END for edit in edits))

    def _as_input(self, edit: Edit) -> StepRecord:
        run = self._run
        given = {write.key: write.value for write in stored_writes(edit.writes, run.program.unstored)}
        run.frontier = Frontier(sends=(Send(START, given),))
        self._forget(START)
        return run.record("input", {}, run.frontier)

    def _as_copy(self) -> StepRecord:
        run = self._run
        run.step -= 1
        record = run.record("fork", {}, run.frontier)
        record.origin = self._origin
        self._known = {}
        return record

    def _as_nodes(self, tasks: Sequence[Task], *, ends: bool) -> StepRecord:
        run = self._run
        before = run.frontier
        waiting = self._paths()
        done = {task.path for task in tasks}
        found = follow(run.program, tasks, Frontier(arrived=before.arrived, deferred=before.deferred))
        nodes, sends = set(found.nodes), [*before.sends, *found.sends]
        if done.intersection(waiting):  # an answer in the place of a task: its siblings are still to run
            nodes |= {node for node in before.nodes if node not in done}
            sends = [
                send for index, send in enumerate(before.sends) if identity.push_path(send.node, index) not in done
            ]
            sends += found.sends
        frontier = Frontier(tuple(sorted(nodes)), tuple(sends), found.arrived, found.deferred)
        run.frontier = Frontier() if ends else frontier
        still = {path for path in self._paths() if path in waiting and path not in done}
        if list(before.sends) != sends[: len(before.sends)]:  # the numbers of Sends behind a gap have changed
            still = {path for path in still if "#" not in path}
        over = [self._finished(path) for path in sorted(self._known, key=identity.path_order) if path not in still]
        closing = [*(task for task in over if task is not None), *tasks]
        changes = apply_tasks(run.program, run.values, closing) if closing else {}
        if not ends:
            late = follow(run.program, [task for task in over if task is not None], run.frontier)
            run.frontier = Frontier(
                tuple(sorted({*late.nodes, *run.frontier.nodes})), (*run.frontier.sends, *late.sends), late.arrived
            )
        record = run.record("update", changes, run.frontier)
        record.tasks = tuple(task_record(task, run.program.unstored, routes=False) for task in tasks)
        self._known = {path: known for path, known in self._known.items() if path in still}
        if self._known:
            record.origin = self._origin
        else:
            self._origin = None
        self._ran = tuple(task.name for task in tasks) or self._ran
        return record

    def _finished(self, path: str) -> Task | None:
        """A task that finished and whose step the edit closes; also what a Command said before that step."""
        run, record = self._run, self._known[path]
        spec = run.program.start if path == COMMAND_PATH else run.program.nodes.get(record.node)
        if record.writes is None or spec is None:
            return None
        if path == COMMAND_PATH:
            spec = replace(spec, edges=(), joins=())
        task = Task(spec, path, (run.request.thread, run.address), MISSING)
        task.writes, task.routes = run.still_known(record.writes), () if path == COMMAND_PATH else record.routes
        return task

    def _forget(self, ran: str) -> None:
        self._known, self._answers, self._origin, self._ran = {}, {}, None, (ran,)


_VERBS: Final = {COPY: "copy", END: "end"}
