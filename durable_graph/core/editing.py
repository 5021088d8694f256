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
from durable_graph.core.applying import Blamed, apply_tasks, apply_writes, merge_changes
from durable_graph.core.commands import COMMAND_PATH, live_frontier, replaces
from durable_graph.core.effects import Batch, Flush, Launch, Load, Persist, Receive, Script
from durable_graph.core.opening import whole_frontier
from durable_graph.core.planning import Task, breakpoint_hit, follow, hold_back
from durable_graph.core.program import matches
from durable_graph.core.reports import failure_of, stored_writes, task_record
from durable_graph.core.run import Run
from durable_graph.errors import EmptyInputError, InvalidUpdateError
from durable_graph.records import Frontier, PendingRecord
from durable_graph.types import END, MISSING, START, Send

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from durable_graph.core.program import NodeSpec, Program
    from durable_graph.core.request import Request
    from durable_graph.records import Address, CallRecord, Change, StepRecord, StoredCheckpoint, TaskRecord, Write

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
    began: Callable[[Run], None],
) -> Script[Address]:
    """Apply edits, one superstep after the other; the address of the last checkpoint.

    taking: the node's spec with a body that returns its input.   began: is told the run once it exists.

    Raises:
        InvalidUpdateError: an edit names no node, or which node it means is not clear, or it does not fit the state.
        EmptyInputError: the thread is unknown, and there is nothing to copy or to end.
    """
    stored: StoredCheckpoint | None = yield Load()  # not `yield from`: see `scripts`
    run = Run(program, request, stored)
    began(run)
    editor = _Editor(run, run.stored, taking)
    steps: list[StepRecord] = []
    for edits in supersteps:
        if steps:
            _freeze(steps[-1], request.copy)
        try:
            tasks = editor.plan(edits)
            yield from _ask_routers(run, tasks)
            steps.append(editor.close(edits, tasks))
        except Blamed as blamed:
            raise blamed.error from blamed.error.__cause__
    addresses: Sequence[Address] = yield Persist(Batch(steps, editor.pending, editor.status))
    run.released = True
    yield Flush()
    return addresses[-1]


def _ask_routers(run: Run, tasks: list[Task]) -> Script[None]:
    """Read the edits as what their nodes returned, and find out where these lead."""
    if not tasks:
        return
    run.tasks, run.busy = tasks, len(tasks)
    run.receive((yield Launch(tasks)))
    while run.busy:
        run.receive((yield from Receive()))
    if run.failed:
        raise failure_of(run.tasks, run.request, run.step + 1)


def _freeze(record: StepRecord, copy: Callable[[Any], Any]) -> None:
    """Later edits change values in place, and this record is stored together with theirs."""
    for key, change in record.changes.items():
        if change.value is not MISSING and (change.data is None or change.suffix is not None):
            record.changes[key] = replace(change, value=copy(change.value))


class _Editor:
    """The thread as it is between edits.

    known, answers, calls: what is known of the step that is to come.   origin, names: what the ids of its tasks are
    made of.   keeps: these go along with the tasks that stay in it; they do not to a branch, or behind a new input.
    """

    def __init__(self, run: Run, stored: StoredCheckpoint | None, taking: Callable[[NodeSpec], NodeSpec]) -> None:
        self._run = run
        self._taking = taking
        self._stored = stored
        self._first = True
        self._ran: tuple[str, ...] = () if stored is None else stored.ran
        self._origin: Address | None = None if stored is None else stored.origin
        self._names: Mapping[str, str] = {} if stored is None else stored.renamed
        self._stop: str | None = None if stored is None else stored.step.stop
        self._keeps = stored is not None and not stored.past
        self._known: dict[str, TaskRecord] = {}
        self._answers: Mapping[str, Any] = {}
        self._calls: Sequence[CallRecord] = ()
        self._carried: dict[str, Change] = {}
        if stored is not None and stored.past:
            run.frontier = whole_frontier(stored)
        elif stored is not None:
            self._known, self._answers, self._calls = dict(stored.pending), stored.answers, stored.calls
            run.frontier = live_frontier(stored, run.program.deferred)

    @property
    def pending(self) -> PendingRecord:
        """What is known of the step that is to come. An answer belongs to the task that asked."""
        if not self._known:
            return PendingRecord(calls=tuple(self._calls))
        known = tuple(self._known.values())
        asked = {one for record in known for one in (*record.answered, *(asked.id for asked in record.interrupts))}
        answers = {one: answer for one, answer in self._answers.items() if one in asked}
        return PendingRecord(known, answers, tuple(self._calls))

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
        self._take_in()
        tasks: list[Task] = []
        for edit in edits:
            if edit.as_node == END and edit.values is None:
                continue
            tasks.append(self._task(edit, [task.path for task in tasks]))
        return tasks

    def _take_in(self) -> None:
        """What a Command wrote before the waiting step is there when the edits are read."""
        record = self._known.pop(COMMAND_PATH, None)
        if record is not None:
            run = self._run
            self._carried = apply_writes(run.program, run.values, run.still_known(record.writes) or ())

    def _task(self, edit: Edit, taken: Sequence[str]) -> Task:
        run = self._run
        path = None if edit.task_id is None else self._path_with(edit.task_id)
        name = self._node_of(edit, path)
        spec = run.program.nodes.get(START if name == END else name)
        if spec is None:
            known = ", ".join(repr(one) for one, other in run.program.nodes.items() if not other.hidden)
            what = f"node {name!r} does not exist (there are {known})"
            raise InvalidUpdateError(what, cure="Name a node of the graph as as_node.")
        spec = self._taking(spec)
        if name == END:
            spec = replace(spec, name=END, edges=(), joins=(), routed=False)
        if path in taken:
            what = f"two updates of one superstep have the task_id {edit.task_id!r}"
            raise InvalidUpdateError(what, cure="Give a task one update.")
        return Task(spec, path or self._path_for(name, taken), (run.request.thread, run.address), edit.values)

    def _node_of(self, edit: Edit, path: str | None) -> str:
        """The node an edit stands for: the one it names, that of its task, or the only one that ran before."""
        if path is not None:
            node = path.partition("#")[0]
            if edit.as_node in (None, node):
                return node
            what = f"task {edit.task_id!r} is one of node {node!r}, but as_node is {edit.as_node!r}"
            raise InvalidUpdateError(what, cure="Leave one of the two out.")
        if edit.as_node is not None:
            return edit.as_node
        ran = sorted(set(self._ran)) or [START]
        if len(ran) == 1:
            return ran[0]
        what = f"Ambiguous update, specify as_node: {', '.join(map(repr, ran))} ran before this checkpoint"
        raise InvalidUpdateError(what, cure=f"Pass as_node={ran[0]!r}, say.")

    def _path_with(self, task_id: str) -> str:
        """The path of the waiting task with this id."""
        run = self._run
        origin = self._origin or run.address
        for path in _paths(run.frontier):
            if identity.task_id(run.request.thread, origin, self._names.get(path, path)) == task_id:
                return path
        what = f"task {task_id!r} is not among those that are to run next"
        raise InvalidUpdateError(what, cure="Pass an id of get_state(config).tasks.")

    def _path_for(self, name: str, taken: Sequence[str]) -> str:
        """The path of the waiting task that an edit answers for, of several the first that has not finished; the node's
        name where it answers for none.
        """
        waiting = [path for path in _paths(self._run.frontier) if _node(path) == name and path not in taken]
        if waiting:
            return min(waiting, key=self._has_finished)
        path, number = name, 0
        while path in taken:
            number += 1
            path = identity.push_path(name, number)
        return path

    def _has_finished(self, path: str) -> bool:
        records = (self._known.get(path), self._known.get(identity.HANDLER + path))
        return any(record is not None and record.writes is not None for record in records)

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
        self._keeps, self._ran = False, (START,)
        record = run.record("input", {}, run.frontier)
        self._stop = None
        self._carry_on({}, record)
        return record

    def _as_copy(self) -> StepRecord:
        run = self._run
        run.step -= 1
        record = run.record("fork", {}, run.frontier)
        record.origin, record.names, record.stop = self._origin, dict(self._names), self._stop
        return record

    def _as_nodes(self, tasks: Sequence[Task], *, ends: bool) -> StepRecord:
        run = self._run
        program, before = run.program, run.frontier
        led = follow(program, tasks, Frontier(arrived=before.arrived))
        again = self._sends_again(tasks)
        stays = set[str]() if ends else self._staying({task.path for task in tasks}, led, again=again)
        over = self._over(tasks, stays, again=again)
        late = follow(program, over, Frontier(arrived=led.arrived)) if over else Frontier(arrived=led.arrived)
        if not ends:  # what finished siblings lead to may be there already, and wait
            stays |= {path for path in before.nodes if path in late.nodes and not self._has_finished(path)}
            stays -= {task.path for task in tasks}
        kept = [] if again else [(path, send) for path, send in _sends(before) if path in stays]
        moved = {path: identity.push_path(_node(path), number) for number, (path, _) in enumerate(kept)}
        nodes = {path for path in stays if "#" not in path}
        if ends:
            run.frontier = Frontier()
        else:
            run.frontier = hold_back(
                program.deferred,
                Frontier(
                    tuple(sorted({*nodes, *led.nodes, *late.nodes})),
                    (*(send for _, send in kept), *led.sends, *late.sends),
                    late.arrived,
                    (*before.deferred, *led.deferred, *late.deferred),
                ),
                released=nodes,
            )
        closing = [*over, *tasks]
        changes = merge_changes(self._carried, apply_tasks(program, run.values, closing) if closing else {})
        self._carried = {}
        record = run.record("update", changes, run.frontier)
        record.tasks = tuple([task_record(task, program.unstored, routes=False) for task in tasks])
        record.stop = self._stop = self._stopped(tasks, stays)
        self._carry_on({path: moved.get(path, path) for path in stays}, record)
        self._ran = tuple([task.spec.name for task in tasks if task.spec.name != END]) or self._ran
        return record

    def _stopped(self, tasks: Sequence[Task], stays: AbstractSet[str]) -> str | None:
        """Who edits a thread at a breakpoint has been there: the call that goes on passes it."""
        program, frontier = self._run.program, self._run.frontier
        if not (frontier.nodes or frontier.sends):
            return None
        if stays and self._stop is not None:
            return self._stop
        if breakpoint_hit(program.interrupt_after, tasks):
            return "after"
        ahead = [program.nodes[name] for name in map(_node, _paths(frontier)) if name in program.nodes]
        return "before" if any(matches(program.interrupt_before, spec) for spec in ahead) else None

    def _sends_again(self, tasks: Sequence[Task]) -> bool:
        """Whether an edit stands for a node that ran before the checkpoint, so that its routers decide anew which Sends
        are to run.
        """
        waiting = _paths(self._run.frontier)
        redone = [task for task in tasks if task.path not in waiting]
        return len(redone) == len(tasks) and any(task.spec.routed and task.name in self._ran for task in redone)

    def _staying(self, done: AbstractSet[str], led: Frontier, *, again: bool) -> set[str]:
        """The waiting tasks that are still to run."""
        before = self._run.frontier
        waiting = _paths(before)
        if not done.isdisjoint(waiting):  # in the place of a task: siblings that finished are closed with it
            return {path for path in waiting if path not in done and not self._has_finished(path)}
        nodes = {path for path in before.nodes if path in led.nodes}
        if again:
            sent = zip(_sends(before), led.sends, strict=False)
            return nodes | {path for (path, send), other in sent if _same(send, other)}
        return nodes | {path for path, send in _sends(before) if send.node != START}

    def _over(self, tasks: Sequence[Task], stays: AbstractSet[str], *, again: bool) -> list[Task]:
        """Tasks that finished, and whose step the edits close.

        Where the edits say what a key holds, they have the last word.
        """
        if not self._known:
            return []
        channels = self._run.program.channels
        written = [write for task in tasks for write in task.writes or ()]
        replaced = {write.key for write in written if replaces(channels.get(write.key), write.value)}
        edited = {task.path for task in tasks}
        found: list[Task] = []
        for path in sorted(self._known, key=identity.path_order):
            base = path.removeprefix(identity.HANDLER)
            if base in stays or base in edited or (again and "#" in base):
                continue
            task = self._finished(path)
            if task is not None:
                task.writes = [write for write in task.writes or () if write.key not in replaced]
                found.append(task)
        return found

    def _finished(self, path: str) -> Task | None:
        run, record = self._run, self._known[path]
        spec = self._spec_of(path, record.node)
        if record.writes is None or spec is None:
            return None
        task = Task(spec, path, (run.request.thread, run.address), MISSING)
        task.writes, task.routes = run.still_known(record.writes), record.routes
        return task

    def _spec_of(self, path: str, node: str) -> NodeSpec | None:
        nodes = self._run.program.nodes
        if path.startswith(identity.HANDLER):
            failed = nodes.get(node.removeprefix(identity.HANDLER))
            return None if failed is None else failed.handler
        return nodes.get(node)

    def _carry_on(self, stays: Mapping[str, str], record: StepRecord) -> None:
        """Keep what is known of the tasks that stay (path -> new path), and the names that their ids are made of."""
        if not (stays and self._keeps):
            self._known, self._answers, self._calls, self._names, self._origin = {}, {}, (), {}, None
            return
        was = {new: old for old, new in stays.items()}
        names: dict[str, str] = {}
        for path in _paths(self._run.frontier):
            # A task that is new must not be taken for one that had this path before.
            names[path] = self._names.get(was[path], was[path]) if path in was else f"{path}##{record.step}"
        self._names = record.names = {path: name for path, name in names.items() if path != name}
        record.origin = self._origin
        known: dict[str, TaskRecord] = {}
        for path, one in self._known.items():
            base = path.removeprefix(identity.HANDLER)
            if base in stays:
                new = path.removesuffix(base) + stays[base]
                known[new] = replace(one, path=new)
        self._known = known
        self._calls = [call._replace(task=stays[call.task]) for call in self._calls if call.task in stays]


def _paths(frontier: Frontier) -> list[str]:
    return [*frontier.nodes, *[path for path, _ in _sends(frontier)]] if frontier.sends else [*frontier.nodes]


def _sends(frontier: Frontier) -> list[tuple[str, Send]]:
    return [(identity.push_path(send.node, index), send) for index, send in enumerate(frontier.sends)]


def _node(path: str) -> str:
    return path.partition("#")[0]


def _same(send: Send, other: Send) -> bool:
    """Whether it is the same task. Values that cannot be compared, such as arrays, are taken for others."""
    try:
        return send == other
    except Exception:  # noqa: BLE001 - the user's own __eq__ may raise anything
        return False


_VERBS: Final = {COPY: "copy", END: "end"}
