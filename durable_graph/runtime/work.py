"""What a node does: build its input, call its body, read what it returned, ask its routers.

`NodeWork` is made once when a graph is compiled. Nothing here calls the user's code; `attempt` does.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from durable_graph.core.applying import preview
from durable_graph.errors import InvalidUpdateError, InvalidValueError, UnserializableValueError, shortened
from durable_graph.persistence.isolation import StateView, own
from durable_graph.records import Write
from durable_graph.types import END, MISSING, ROOT, START, Command, Send

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from durable_graph.caches import CachePolicy
    from durable_graph.core.planning import Task
    from durable_graph.runtime.callables import Body
    from durable_graph.runtime.context import RunContext
    from durable_graph.schema import Schema

__all__ = ["BranchWork", "NodeWork", "Reader", "Result", "Scope"]

_SEVERAL = (list, tuple, set, frozenset)
"""What a router may answer several targets in."""


@dataclass(slots=True)
class Scope:
    """What the nodes of one graph share. `targets` are the names a route may lead to; `read_update` turns what a node
    returned into (key, value) pairs, None when it is no update; `validate` checks and coerces one written value.
    `prepare` are functions (write, value) -> write of keys whose updates are to be readied before they are stored.
    """

    graph: str
    keys: frozenset[str]
    targets: frozenset[str]
    unstored: frozenset[str]
    read_update: Callable[[Any], list[tuple[str, Any]] | None]
    validate: Callable[[str, Any, Mapping[str, Any]], Any] | None
    strict: bool
    root: bool
    prepare: Mapping[str, Callable[[Any, Any], Any]] = field(default_factory=dict[str, "Callable[[Any, Any], Any]"])


@dataclass(slots=True)
class Reader:
    """How a node's input is made: which keys, which computed values, which shape."""

    schema: Schema
    keys: tuple[str, ...] | None
    managed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    plain: bool = False
    root: bool = False

    def read(self, values: Mapping[str, Any], shared: RunContext) -> Any:
        """The input; nothing of it is shared with the run."""
        if self.root:
            return own(values.get(ROOT))
        if self.keys is None:
            seen = StateView(values, shared.copies.of)
        else:
            seen = StateView({key: values[key] for key in self.keys if key in values}, shared.copies.of)
        if self.managed:
            run = shared.run
            assert run is not None  # noqa: S101 - tasks exist only in a run; this tells the type checker
            for key, managed in self.managed.items():
                seen[key] = managed.value(run.steps, run.request.limit)
        return seen if self.plain else self.schema.build(dict(seen.items()))


@dataclass(slots=True)
class BranchWork:
    """A router: its body, what it reads, and what its answers mean."""

    name: str
    body: Body
    reader: Reader
    path_map: Mapping[Any, str] | None = None


@dataclass(slots=True)
class NodeWork:
    """Everything that running a node needs. `body` is None for START, which passes its input on.

    needs_loop: some of its code is async only.   threaded: all of its code has a sync form and its body has no async
    one, so that under asyncio the whole task runs in an OS thread.   cache: how long its results are kept, by what key.
    """

    name: str
    scope: Scope
    reader: Reader
    body: Body | None
    branches: tuple[BranchWork, ...] = ()
    needs_loop: bool = False
    threaded: bool = False
    cache: CachePolicy | None = None

    def read(self, task: Task, shared: RunContext) -> Any:
        """The input of a task: what its Send brought, or the state."""
        if task.arg is not MISSING:
            return own(task.arg)
        assert shared.run is not None  # noqa: S101 - tasks exist only in a run; this tells the type checker
        return self.reader.read(shared.run.values, shared)


class Result:
    """What one attempt produced so far. Reads outputs into writes and routes, refusing what does not fit."""

    __slots__ = ("routes", "shared", "work", "writes")

    def __init__(self, work: NodeWork, shared: RunContext) -> None:
        self.work = work
        self.shared = shared
        self.writes: list[Write] = []
        self.routes: list[str | Send | Command[Any]] = []

    def take(self, output: Any) -> None:
        """Read what a node returned.

        Raises:
            InvalidUpdateError: it is no update, or names an unknown key or node.
            InvalidValueError: a value violates the schema.
            UnserializableValueError: a value cannot be stored.
        """
        root = self.work.scope.root  # the state is one value, and a dict can be one
        if output.__class__ is dict and not root:  # the usual case; `type(...) is` would lose the type of the items
            for key, value in output.items():
                self.write(key, value)
        elif output is None:
            return
        elif isinstance(output, Command):
            self._take_command(cast("Command[Any]", output))
        elif isinstance(output, Send):
            self.route(output)
        elif isinstance(output, list | tuple) and any(
            isinstance(one, Command | Send) for one in cast("list[Any]", output)
        ):
            for one in cast("list[Any]", output):
                self.take(one)
        else:
            self._take_update(output)

    def take_from_below(self, commands: Iterable[Command[Any]]) -> None:
        """Read what a graph inside the node said to this one, or to one above it."""
        for command in commands:
            here = command.graph in (Command.PARENT, self.work.scope.graph)
            self._take_command(replace(command, graph=None) if here else command)

    def _take_command(self, command: Command[Any]) -> None:
        if command.graph is not None:
            self._send_up(command)
            return
        if command.resume is not MISSING:
            what = f"node {self.work.name!r} returned a Command with resume"
            raise InvalidUpdateError(what, cure="Pass Command(resume=...) as the input of invoke() or stream().")
        if command.update is not None:
            self._take_update(command.update)
        goto: Any = command.goto
        for target in cast("list[Any]", goto) if isinstance(goto, list | tuple) else (goto,):
            self.route(target)

    def _send_up(self, command: Command[Any]) -> None:
        """A Command for a graph above: the run of this one ends with it."""
        name, above, graphs = self.work.name, self.shared.parent, list[str]()
        while above is not None:
            graphs.append(above.task.spec.work.scope.graph)
            above = above.shared.parent
        if not graphs:
            what = f"node {name!r} returned {command!r}, but graph {self.work.scope.graph!r} has no parent"
            raise InvalidUpdateError(what, cure="Leave `graph` out to address this graph.")
        if command.graph != Command.PARENT and command.graph not in graphs:
            known = ", ".join(map(repr, graphs))
            what = f"node {name!r} returned {command!r}, but no graph above has this name (there are {known})"
            raise InvalidUpdateError(what, cure="Write graph=Command.PARENT, or the name of a graph above.")
        if self.shared.encode is not None:
            try:
                _ = self.shared.encode(command)
            except UnserializableValueError as error:
                error.what = f"the Command of node {name!r} for a graph above cannot be stored: {error.what}"
                raise
        self.routes += (own(command),)

    def _take_update(self, update: Any) -> None:
        pairs = self.work.scope.read_update(update)
        if pairs is None:
            what = f"node {self.work.name!r} returned {shortened(update)}; expected dict, got {type(update).__name__}"
            raise InvalidUpdateError(what)
        for key, value in pairs:
            self.write(key, value)

    def write(self, key: str, value: Any) -> None:
        """Add one write, checked and encoded."""
        scope = self.work.scope
        if key not in scope.keys:
            if scope.strict:
                raise InvalidUpdateError(self._unknown_key(key))
            return
        if key in scope.prepare:
            run = self.shared.run
            value = scope.prepare[key](value, run.values.get(key, MISSING) if run is not None else MISSING)
        if scope.validate is not None:
            value = self._validated(scope.validate, key, value)
        encode = self.shared.encode
        if encode is None or key in scope.unstored:
            self.writes += (Write(key, own(value)),)
            return
        try:
            data = encode(value)
        except UnserializableValueError as error:
            error.what = f"node {self.work.name!r} wrote to key {key!r}: {error.what}"
            raise
        self.writes += (Write(key, own(value), data),)

    def _validated(self, validate: Callable[[str, Any, Mapping[str, Any]], Any], key: str, value: Any) -> Any:
        run = self.shared.run
        try:
            return validate(key, value, run.values if run is not None else {})
        except InvalidValueError as error:
            error.what = f"node {self.work.name!r} wrote an invalid value: {error.what}"
            raise

    def _unknown_key(self, key: object) -> str:
        known = ", ".join(repr(one) for one in sorted(self.work.scope.keys))
        return f"node {self.work.name!r} wrote to key {key!r}, which the state does not have (it has {known})"

    def route(self, target: Any) -> None:
        """Add one place to go to."""
        scope = self.work.scope
        if type(target) is str and target in scope.targets:
            if target != END:
                self.routes += (target,)
        elif type(target) is Send:
            self._take_send(target)
        elif isinstance(target, str) and str(target) in scope.targets:  # a StrEnum, say
            self.route(str(target))
        elif scope.strict or target is None or target == START:
            raise self._unknown_target("goes to", target)

    def _take_send(self, send: Any) -> None:
        scope, name = self.work.scope, send.node
        if type(name) is str and name in scope.targets and name != END:
            if self.shared.encode is not None:
                self._check_storable(send)
            arg = own(send.arg)
            self.routes += (send if arg is send.arg else Send(name, arg, timeout=send.timeout),)
        elif name == END:
            what = f"node {self.work.name!r} sent to END, which takes no input"
            raise InvalidUpdateError(what, cure="Route to END by its name, without Send.")
        elif isinstance(name, str) and str(name) in scope.targets:  # a StrEnum, say
            self._take_send(Send(str(name), send.arg, timeout=send.timeout))
        elif scope.strict:
            raise self._unknown_target("sends to", name)

    def _unknown_target(self, verb: str, name: object) -> InvalidUpdateError:
        scope = self.work.scope
        nodes = ", ".join(repr(one) for one in sorted(scope.targets))
        what = f"node {self.work.name!r} {verb} {name!r}, which is no node of graph {scope.graph!r} (it has {nodes})"
        return InvalidUpdateError(what, cure="Route to one of these nodes, or add the node.")

    def _check_storable(self, send: Send) -> None:
        assert self.shared.encode is not None  # noqa: S101 - the caller looked; this tells the type checker
        try:
            _ = self.shared.encode(send.arg)
        except UnserializableValueError as error:
            error.what = f"the input that node {self.work.name!r} sends to {send.node!r} cannot be stored: {error.what}"
            raise

    def seen(self) -> Mapping[str, Any]:
        """The state as this node's routers see it: with its own writes."""
        run = self.shared.run
        assert run is not None  # noqa: S101 - tasks exist only in a run; this tells the type checker
        if not self.writes:
            return run.values
        return preview(run.program.channels, run.values, self.writes, own)

    def take_route(self, branch: BranchWork, answer: Any) -> None:
        """Read what a router answered: names, keys of its map, Sends, or a list of them."""
        if type(answer) is str and branch.path_map is None:  # by far the most common case
            self.route(answer)
        elif isinstance(answer, _SEVERAL):
            for one in cast("Iterable[Any]", answer):
                self._take_answer(branch, one)
        else:
            self._take_answer(branch, answer)

    def _take_answer(self, branch: BranchWork, answer: Any) -> None:
        target: Any
        if branch.path_map is None or type(answer) is Send:
            target = answer
        elif answer in branch.path_map:
            target = branch.path_map[answer]
        else:
            known = ", ".join(repr(key) for key in branch.path_map)
            what = (
                f"router {branch.name!r} of node {self.work.name!r} answered {answer!r}, which its map does not have "
                f"(it has {known})"
            )
            raise InvalidUpdateError(what, cure="Answer one of these, or add the answer to the map.")
        if target is True or target is False:
            target = str(target)
        self.route(target)
