"""Stored threads and code that changed since: other names of nodes and keys, other values.

A checkpoint is adapted when it is read; what is stored stays as it is. The next one has the new names and values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from durable_graph.core.identity import push_path
from durable_graph.errors import InvalidGraphError, MigrationError
from durable_graph.records import Frontier, StoredCheckpoint, TaskRecord, Write
from durable_graph.types import Send

if TYPE_CHECKING:
    from durable_graph.core.program import Program

__all__ = ["Changes", "adapted", "stamp", "version_of"]

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
        for kind, aliases, known in (("node", self.nodes, program.nodes), ("key", self.keys, program.channels)):
            for old, new in aliases.items():
                if new not in known:
                    what = f"the alias {old!r} leads to {kind} {new!r}, which graph {program.name!r} does not have"
                    raise InvalidGraphError(what, cure=f"Name one of its {kind}s.")
                if old in known:
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
        MigrationError: `migrate_state` raised, or did not return a mapping.
    """
    changes = program.changes
    if stored is None or not (changes.nodes or changes.keys or changes.migrate is not None):
        return stored
    renamed = replace(stored, step=replace(stored.step, frontier=_frontier(program, stored.step.frontier)))
    if changes.nodes or changes.keys:
        renamed.values = {changes.keys.get(key, key): value for key, value in stored.values.items()}
        renamed.pending = {}
        for record in stored.pending.values():
            changed = _record(changes, record)
            renamed.pending[changed.path] = changed
        renamed.renamed = {_path(changes, path): path for path in _paths(stored.step.frontier)}
        renamed.calls = tuple(call._replace(task=_path(changes, call.task)) for call in stored.calls)
        renamed.ran = tuple(changes.nodes.get(name, name) for name in stored.ran)
    was = version_of(stored)
    if changes.migrate is not None and was != changes.version:
        renamed.values = _migrated(changes.migrate, renamed.values, was, thread)
    return renamed


def _migrated(
    migrate: Callable[[dict[str, Any], str], Mapping[str, Any]], values: dict[str, Any], version: str, thread: str
) -> dict[str, Any]:
    hidden = {key: value for key, value in values.items() if key.startswith("\0")}
    try:
        found: Any = migrate({key: value for key, value in values.items() if key not in hidden}, version)
    except Exception as error:
        what = f"migrate_state raised {error!r} for the state of thread {thread!r}, stored under version {version!r}"
        raise MigrationError(what) from error
    if not isinstance(found, Mapping):
        what = f"migrate_state returned {type(found).__name__} for the state of thread {thread!r}, expected a dict"
        raise MigrationError(what)
    return {**found, **hidden}


def _frontier(program: Program, frontier: Frontier) -> Frontier:
    nodes = program.changes.nodes
    if not nodes:
        return frontier
    arrived: dict[str, tuple[str, ...]] = {}
    for name, came in frontier.arrived.items():
        sources, _, target = name.rpartition("->")
        renamed = "+".join(sorted(nodes.get(one, one) for one in sources.split("+")))
        arrived[f"{renamed}->{nodes.get(target, target)}"] = tuple(sorted(nodes.get(one, one) for one in came))
    return Frontier(
        tuple(sorted(nodes.get(name, name) for name in frontier.nodes)),
        tuple(Send(nodes.get(send.node, send.node), send.arg, timeout=send.timeout) for send in frontier.sends),
        arrived,
        tuple(sorted(nodes.get(name, name) for name in frontier.deferred)),
    )


def _record(changes: Changes, record: TaskRecord) -> TaskRecord:
    writes = record.writes
    return replace(
        record,
        path=_path(changes, record.path),
        node=changes.nodes.get(record.node, record.node),
        writes=None
        if writes is None
        else tuple(Write(changes.keys.get(write.key, write.key), write.value, write.data) for write in writes),
        routes=tuple(changes.nodes.get(route, route) if isinstance(route, str) else route for route in record.routes),
    )


def _paths(frontier: Frontier) -> list[str]:
    return [*frontier.nodes, *(push_path(send.node, index) for index, send in enumerate(frontier.sends))]


def _path(changes: Changes, path: str) -> str:
    node, mark, number = path.partition("#")
    return f"{changes.nodes.get(node, node)}{mark}{number}"
