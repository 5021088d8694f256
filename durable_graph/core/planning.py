"""From a frontier to tasks: which nodes run in a superstep, and under which name.

Order is the order in which results are applied: nodes by name, then Sends as they were sent.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from durable_graph.core import identity
from durable_graph.core.program import matches
from durable_graph.errors import UnknownNodeError
from durable_graph.records import Frontier
from durable_graph.types import MISSING, Send

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from durable_graph.core.mail import Late
    from durable_graph.core.program import NodeNames, NodeSpec, Program
    from durable_graph.errors import NodeError
    from durable_graph.records import Address, ErrorRecord, Write
    from durable_graph.types import Command, Interrupt, TimeoutPolicy

__all__ = ["Task", "breakpoint_hit", "follow", "plan"]

_NONE: Any = MappingProxyType[str, Any]({})
"""What most tasks share: nothing, and nobody can write it."""


class Task:
    """One execution of a node in one superstep. `arg` is the input of a Send, MISSING for a node that reads the state.

    After it ran: `writes` and `routes` when it finished, `interrupts` when it waits, `error` when it failed.
    `stored` says that this result is durable already; `delay` (seconds) comes before the next attempt.
    `children` are the graphs that ran inside: namespace -> (lane, seq). `handler` is the task that runs because this
    one failed for good, `cause` what such a task is told. `timeout` is what limits each attempt: the Send's, else the
    node's.
    """

    __slots__ = (
        "answered",
        "arg",
        "attempt",
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
    if program.deferred and (before.deferred or not program.deferred.isdisjoint(nodes)):
        deferred = {*before.deferred, *(program.deferred & nodes)}
        nodes -= program.deferred
        if nodes or sends:
            return Frontier(tuple(sorted(nodes)), tuple(sends), waiting, tuple(sorted(deferred)))
        nodes = deferred
    return Frontier(tuple(sorted(nodes)), tuple(sends), waiting)
