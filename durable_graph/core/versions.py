"""Stored threads and code that changed since: other names of nodes and keys, other values.

A checkpoint is adapted when it is read; what is stored stays as it is. The next one has the new names and values.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from durable_graph.core.identity import HANDLER, push_path
from durable_graph.errors import InvalidGraphError, MigrationError
from durable_graph.records import Change, Frontier, StoredCheckpoint, TaskRecord, Write
from durable_graph.types import END, MISSING, START, Send

if TYPE_CHECKING:
    from durable_graph.core.program import Program
    from durable_graph.types import Command

__all__ = ["HIDDEN", "OWNER", "PIN", "Changes", "adapted", "rewritten", "stamp", "version_of"]

HIDDEN: Final = "\0"
"""Before keys that lie among those of the state and are the engine's own."""
PIN: Final = "\0pin:"
"""Before a namespace: the key that says where the graph of this namespace stands, as [lane, seq]."""
OWNER: Final = "\0owner"
"""In a graph inside another: the key that says for which checkpoint of that one it runs, as [lane, seq]."""

_MARK = " "
"""Between fingerprint and version, as they are stored."""


@dataclass(slots=True, frozen=True)
class Changes:
    """What a graph says of its past.

    version: what the user calls this state of the code.   nodes, keys: old name -> new name.
    migrate: (values, version they were stored under) -> values.
    """

    version: str = ""
    nodes: Mapping[str, str] = field(default_factory=dict[str, str])
    keys: Mapping[str, str] = field(default_factory=dict[str, str])
    migrate: Callable[[dict[str, Any], str], Mapping[str, Any]] | None = None

    def check(self, program: Program) -> None:
        """Refuse aliases that lead nowhere, or stand for a name that is in use.

        Raises:
            InvalidGraphError: an alias is of no use.
        """
        if _MARK in self.version or not self.version.isprintable():
            what = f"version {self.version!r} holds a space or what cannot be printed"
            raise InvalidGraphError(what, cure='Write something like version="2024-06-1".')
        if self.migrate is not None and not self.version:
            what = f"graph {program.name!r} has a migrate_state and no version, so no thread would ever be migrated"
            raise InvalidGraphError(what, cure='Say what its state is called now: compile(version="2", ...).')
        if inspect.iscoroutinefunction(self.migrate):
            what = f"migrate_state of graph {program.name!r} is async; it is called wherever a checkpoint is read"
            raise InvalidGraphError(what, cure="Pass a plain function of (values, version).")
        nodes = {name for name, spec in program.nodes.items() if not spec.hidden}
        for kind, aliases, known in (("node", self.nodes, nodes), ("key", self.keys, program.channels.keys())):
            for old, new in aliases.items():
                if new not in known:
                    what = f"the alias {old!r} leads to {kind} {new!r}, which graph {program.name!r} does not have"
                    raise InvalidGraphError(what, cure=f"Name one of its {kind}s.")
                if old in known or old in (START, END):
                    what = f"{kind} alias {old!r} is the name of a {kind} of graph {program.name!r}"
                    raise InvalidGraphError(what, cure="Give an alias to names the graph no longer has.")


def stamp(fingerprint: str, version: str) -> str:
    """Fingerprint and version as they are stored with a checkpoint."""
    return f"{fingerprint}{_MARK}{version}" if version else fingerprint


def version_of(stored: StoredCheckpoint) -> str:
    """The version a checkpoint was stored under; "" when it had none."""
    return stored.step.fingerprint.partition(_MARK)[2]


def adapted(program: Program, stored: StoredCheckpoint | None, thread: str = "") -> StoredCheckpoint | None:
    """A stored checkpoint in today's terms.

    Raises:
        MigrationError: `migrate_state` raised, or what it returned is no state of this graph; or two stored keys have
            become one.
    """
    changes = program.changes
    if stored is None or not (changes.nodes or changes.keys or changes.migrate is not None):
        return stored
    found = replace(stored)
    if changes.nodes or changes.keys:
        found = _renamed(program, stored, thread)
    was = version_of(stored)
    if changes.migrate is not None and was != changes.version:
        found.values = _migrated(program, changes.migrate, found.values, was, thread)
    return found


def rewritten(program: Program, stored: StoredCheckpoint | None, today: StoredCheckpoint | None) -> dict[str, Change]:
    """What the next checkpoint has to say anew, for nothing of it to depend on aliases and migrations any more.

    today: the stored checkpoint, adapted.
    """
    if stored is None or today is None or stored is today:
        return {}
    anew = program.changes.migrate is not None and version_of(stored) != program.changes.version
    found = {key: Change(MISSING) for key in stored.values if key not in today.values}
    for key, value in today.values.items():
        if key not in stored.values or (anew and not key.startswith(HIDDEN)):
            found[key] = Change(value)
    return found


def _renamed(program: Program, stored: StoredCheckpoint, thread: str) -> StoredCheckpoint:
    changes = program.changes
    frontier = stored.step.frontier
    pending = [_record(changes, record) for record in stored.pending.values()]
    return replace(
        stored,
        step=replace(stored.step, frontier=_frontier(program, frontier)),
        values=_values(changes, stored.values, thread),
        pending={record.path: record for record in pending},
        renamed=_names(changes, stored),
        calls=tuple(call._replace(task=_path(changes, call.task)) for call in stored.calls),
        ran=tuple(changes.nodes.get(name, name) for name in stored.ran),
    )


def _names(changes: Changes, stored: StoredCheckpoint) -> dict[str, str]:
    """Path of a task -> the path that its id is made of: the one under which it was first known."""
    found: dict[str, str] = {}
    known = sorted(stored.pending, key=lambda path: path != _path(changes, path))  # old names have the last word
    for path in (*known, *_paths(stored.step.frontier)):
        found[_path(changes, path)] = stored.renamed.get(path, path)
    return found


def _values(changes: Changes, values: Mapping[str, Any], thread: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for key, value in values.items():
        new = changes.keys.get(key, key)
        if key.startswith(PIN):
            new = PIN + _namespace(changes, key.removeprefix(PIN))
        if new in found:
            one, other = sorted((origin[new], key))
            what = f"thread {thread!r} has stored keys {one!r} and {other!r}, and both have become {new!r}"
            cure = "Leave one of the aliases out, and join the two in migrate_state."
            raise MigrationError(what, cure=cure)
        found[new], origin[new] = value, key
    return found


def _migrated(
    program: Program,
    migrate: Callable[[dict[str, Any], str], Mapping[str, Any]],
    values: dict[str, Any],
    version: str,
    thread: str,
) -> dict[str, Any]:
    given = {key: value for key, value in values.items() if not key.startswith(HIDDEN)}
    known = frozenset(given)
    where = f"for the state of thread {thread!r}, stored under version {version!r}"
    try:
        found: Any = migrate(given, version)
    except Exception as error:
        what = f"migrate_state raised {error!r} {where}"
        raise MigrationError(what) from error
    if not isinstance(found, Mapping):
        what = f"migrate_state returned {type(found).__name__} {where}, expected a dict"
        raise MigrationError(what)
    made = cast("Mapping[str, Any]", found)
    unknown = sorted(str(key) for key in made if key not in program.channels and key not in known)
    if unknown:
        names = ", ".join(map(repr, sorted(program.channels)))
        what = f"migrate_state returned key {', '.join(map(repr, unknown))} {where}, and the state has no such key"
        raise MigrationError(f"{what} (it has {names})")
    state = {key: value for key, value in made.items() if key in program.channels}
    try:
        state = _checked(program, state)
    except Exception as error:
        what = f"migrate_state returned what the state cannot hold, {where}: {getattr(error, 'what', repr(error))}"
        raise MigrationError(what) from error
    return {**state, **{key: value for key, value in values.items() if key.startswith(HIDDEN)}}


def _checked(program: Program, values: dict[str, Any]) -> dict[str, Any]:
    """The values, coerced where the schema says so."""
    checks = program.checks
    if checks is None:
        return values
    found = {
        key: checks.validate_result(key, checks.validate_write(key, value, values), values)
        for key, value in values.items()
    }
    checks.validate_state(found)
    return found


# --- names -----------------------------------------------------------------------------------------------------------


def _frontier(program: Program, frontier: Frontier) -> Frontier:
    changes = program.changes
    nodes = changes.nodes
    return Frontier(
        tuple(sorted({nodes.get(name, name) for name in frontier.nodes})),
        tuple(_send(changes, send) for send in frontier.sends),
        dict(_progress(program, name, came) for name, came in frontier.arrived.items()),
        tuple(sorted({nodes.get(name, name) for name in frontier.deferred})),
    )


def _progress(program: Program, join: str, came: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """A barrier edge and the sources that arrived; under its own name where the graph still has it."""
    nodes = program.changes.nodes
    if join in program.joins:
        return join, came
    sources, _, target = join.rpartition("->")
    renamed = "+".join(sorted(nodes.get(one, one) for one in sources.split("+")))
    return f"{renamed}->{nodes.get(target, target)}", tuple(sorted(nodes.get(one, one) for one in came))


def _send(changes: Changes, send: Send) -> Send:
    """A Send to a node by its name of today. What START is sent is the input: keys of the state."""
    arg = send.arg
    if send.node == START and isinstance(arg, dict) and changes.keys:
        given = cast("dict[str, Any]", arg)
        arg = {changes.keys.get(key, key): value for key, value in given.items()}
    return Send(changes.nodes.get(send.node, send.node), arg, timeout=send.timeout)


def _route(changes: Changes, route: str | Send | Command[Any]) -> str | Send | Command[Any]:
    """Where a task led. A Command is for the graph above, which has aliases of its own."""
    if isinstance(route, Send):
        return _send(changes, route)
    return _node(changes, route) if isinstance(route, str) else route


def _record(changes: Changes, record: TaskRecord) -> TaskRecord:
    writes = record.writes
    return replace(
        record,
        path=_path(changes, record.path),
        node=_node(changes, record.node),
        writes=None
        if writes is None
        else tuple(Write(changes.keys.get(write.key, write.key), write.value, write.data) for write in writes),
        routes=tuple(_route(changes, route) for route in record.routes),
    )


def _node(changes: Changes, node: str) -> str:
    """A node's name; that of an error handler goes with its node."""
    name = node.removeprefix(HANDLER)
    return node.removesuffix(name) + changes.nodes.get(name, name)


def _paths(frontier: Frontier) -> list[str]:
    return [*frontier.nodes, *(push_path(send.node, index) for index, send in enumerate(frontier.sends))]


def _path(changes: Changes, path: str) -> str:
    node, mark, number = path.partition("#")
    return f"{_node(changes, node)}{mark}{number}"


def _namespace(changes: Changes, ns: str) -> str:
    """The namespace of a graph inside a node of this one, which is the last level of it."""
    above, level, segment = ns.rpartition("|")
    node = segment.partition(":")[0]
    return f"{above}{level}{_node(changes, node)}{segment.removeprefix(node)}"
