"""From a frontier to tasks: which nodes run in a superstep, and under which name.

Order is the order in which results are applied: nodes by name, then Sends as they were sent.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeGuard

from durable_graph.core import identity
from durable_graph.core.program import matches
from durable_graph.errors import LostLease, NodeError, UnknownNodeError
from durable_graph.records import Frontier
from durable_graph.types import MISSING, Send

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from durable_graph.core.mail import Late
    from durable_graph.core.program import NodeNames, NodeSpec, Program
    from durable_graph.records import Address, ErrorRecord, TaskRecord, Write
    from durable_graph.types import Command, Interrupt, TimeoutPolicy

__all__ = [
    "Task",
    "breakpoint_hit",
    "can_be_handled",
    "follow",
    "hand_over",
    "handed_over",
    "hold_back",
    "plan",
    "with_handlers",
]

_NONE: Any = MappingProxyType[str, Any]({})
"""What most tasks share: nothing, and nobody can write it."""


class Task:
    """One execution of a node in one superstep. `arg` is the input of a Send, MISSING for a node that reads the state.

    After it ran: `writes` and `routes` when it finished, `interrupts` when it waits, `error` when it failed.
    `stored` says that this result is durable already; `delay` (seconds) comes before the next attempt.
    `started` is when that attempt began, `began` when the first one did, where it was not the same.
    `children` are the graphs that ran inside: namespace -> (lane, seq). `handler` is the task that runs because this
    one failed for good, `cause` what such a task is told. `timeout` is what limits each attempt: the Send's, else the
    node's.
    """

    __slots__ = (
        "answered",
        "arg",
        "attempt",
        "began",
        "cached",
        "cause",
        "children",
        "delay",
        "duration",
        "error",
        "failure",
        "handler",
        "interrupts",
        "jitter",
        "known_as",
        "origin",
        "path",
        "rejected",
        "routes",
        "spec",
        "started",
        "stored",
        "timeout",
        "writes",
    )

    def __init__(
        self,
        spec: NodeSpec,
        path: str,
        origin: tuple[str, Address],
        arg: Any = MISSING,
        timeout: TimeoutPolicy | None = None,
    ) -> None:
        self.spec = spec
        self.path = path
        self.origin = origin
        self.arg = arg
        self.timeout = timeout or spec.timeout
        self.attempt = 1
        self.delay = 0.0
        self.jitter = False
        self.started = 0.0
        self.began = 0.0
        self.duration = 0.0
        self.stored = False
        self.writes: Sequence[Write] | None = None
        self.routes: Sequence[str | Send | Command[Any]] = ()
        self.interrupts: tuple[Interrupt, ...] = ()
        self.answered: tuple[str, ...] = ()
        self.rejected: tuple[str, ...] = ()
        self.error: BaseException | None = None
        self.failure: ErrorRecord | None = None
        self.children: dict[str, tuple[int, int]] = _NONE
        self.cached = False
        self.handler: Task | None = None
        self.known_as: str | None = None  # the path it was stored under, where that was another one
        self.cause: NodeError | None = None

    @property
    def id(self) -> str:
        """Computed when somebody asks: most tasks are never asked."""
        return identity.task_id(*self.origin, self.known_as or self.path)

    @property
    def name(self) -> str:
        """The node's name."""
        return self.spec.name

    def note_late(self, mail: Late) -> None:
        """An attempt that was given up has ended after all: the record of its failure says so from now on."""
        failure = self.failure
        if failure is None or self.attempt != mail.attempt:  # another attempt took its place
            return
        what, line, cure = failure.message.partition("\n")
        late = mail.duration - self.duration
        self.failure = failure._replace(message=f"{what} (ended {late:.2f} s late){line}{cure}")
        self.stored = False

    def __repr__(self) -> str:
        return f"Task({self.path!r}, attempt={self.attempt})"


def plan(program: Program, frontier: Frontier, origin: tuple[str, Address]) -> list[Task]:
    """The tasks of the step that follows a checkpoint; `origin` is its thread and address.

    Raises:
        UnknownNodeError: the frontier names a node this program lacks (the graph changed since it was stored).
    """
    nodes = program.nodes
    try:
        tasks: list[Task] = []
        for name in frontier.nodes:
            tasks += (Task(nodes[name], name, origin),)
        for name in frontier.deferred:
            _ = nodes[name]  # it will run: that it is gone is to be found now
        if frontier.sends:
            tasks += [
                Task(nodes[send.node], identity.push_path(send.node, index), origin, send.arg, send.timeout)
                for index, send in enumerate(frontier.sends)
            ]
    except KeyError as missing:
        known = ", ".join(sorted(repr(name) for name, spec in nodes.items() if not spec.hidden))
        what = (
            f"thread {origin[0]!r} goes on at node {missing.args[0]!r}, which graph {program.name!r} does not have "
            f"(it has {known}); the thread was left untouched"
        )
        raise UnknownNodeError(what) from None
    return tasks


def can_be_handled(error: BaseException) -> TypeGuard[Exception]:
    """Whether an error of a node is for its error handler: control flow is not, nor is a thread that was lost."""
    return isinstance(error, Exception) and not isinstance(error, LostLease)


def hand_over(task: Task, error: Exception, record: ErrorRecord) -> Task:
    """The task failed for good: the task that runs its handler instead, in the same step and with the same input.

    That it was handed over is stored as its route: a resume runs the handler then, and not the node again.
    """
    spec = task.spec.handler
    assert spec is not None  # noqa: S101 - the callers looked; this tells the type checker
    handler = Task(spec, identity.handler_path(task.path), task.origin, task.arg)
    handler.cause = NodeError(task.name, error)
    if task.known_as is not None:
        handler.known_as = identity.handler_path(task.known_as)
    task.error, task.failure, task.routes = error, record, (spec.name,)
    task.handler = handler
    return handler


def handed_over(task: Task, record: TaskRecord) -> bool:
    """Whether the stored record of a failed task says that its handler is to run."""
    return task.spec.handler is not None and task.spec.handler.name in record.routes


def with_handlers(tasks: Sequence[Task]) -> list[Task]:
    """Tasks with those that handle their failures, each behind the one it stands for."""
    return [one for task in tasks for one in ((task,) if task.handler is None else (task, task.handler))]


def breakpoint_hit(names: NodeNames, tasks: Iterable[Task]) -> bool:
    """Whether one of the tasks' nodes is among the names of a static breakpoint."""
    return bool(names) and any(matches(names, task.spec) for task in tasks)


def follow(program: Program, finished: Iterable[Task], before: Frontier) -> Frontier:
    """Where finished tasks lead: nodes, Sends, and how far each barrier edge has come.

    Deferred nodes wait until nothing else would run.
    """
    nodes: set[str] = set()
    sends: list[Send] = []
    waiting = dict(before.arrived)
    came: dict[str, set[str]] = {}
    for task in finished:
        spec = task.spec
        if spec.edges:
            nodes.update(spec.edges)
        for route in task.routes:
            if type(route) is Send:
                sends += (route,)
            else:
                nodes.add(str(route))
        for name in spec.joins:
            came.setdefault(name, set()).add(spec.name)
    for name, sources in came.items() if came else ():
        # At the end of the step: a source that ran twice in it arrived once.
        join = program.joins[name]
        seen = {*waiting.get(name, ()), *sources}
        if seen.issuperset(join.sources):
            nodes.add(join.target)
            _ = waiting.pop(name, None)
        else:
            waiting[name] = tuple(sorted(seen))
    found = Frontier(tuple(sorted(nodes)), tuple(sends), waiting)
    if before.deferred or (program.deferred and not program.deferred.isdisjoint(nodes)):
        found.deferred = before.deferred
        return hold_back(program.deferred, found)
    return found


def hold_back(deferred: frozenset[str], frontier: Frontier, released: Collection[str] = ()) -> Frontier:
    """A frontier whose deferred nodes wait as long as anything else would run.

    released: nodes that are in their step already, and stay in it.
    """
    late = {*frontier.deferred, *deferred.intersection(frontier.nodes).difference(released)}
    if not late:
        return frontier
    nodes = [node for node in frontier.nodes if node in released or node not in deferred]
    if frontier.sends or not deferred.issuperset(nodes):
        return Frontier(tuple(nodes), frontier.sends, frontier.arrived, tuple(sorted(late.difference(nodes))))
    return Frontier(tuple(sorted({*nodes, *late})), frontier.sends, frontier.arrived)
