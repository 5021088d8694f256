"""Looking at a thread: which checkpoints are asked for, and how they are shown. Reading itself is `session`'s."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from durable_graph.core import history, identity
from durable_graph.errors import InvalidConfigError, NoCheckpointerError
from durable_graph.persistence.isolation import own
from durable_graph.runtime import config as configs
from durable_graph.runtime.nested import path_inside
from durable_graph.runtime.session import at, begun, lineage, newest, placed, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from durable_graph.core.program import Program
    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.records import StoredCheckpoint
    from durable_graph.runtime.session import Asking
    from durable_graph.types import Config, StateSnapshot, StateTask

    Finder = Callable[[str, StoredCheckpoint | None], Program | None]

__all__ = ["ThreadView"]


class ThreadView:
    """One thread as one call looks at it. `config` is normalised.

    ns: the namespace of the graph that is meant.   find: the program of the graph with a namespace, for a checkpoint of
    it; None when it cannot be found.
    """

    __slots__ = ("_config", "_find", "_program", "_wanted", "checkpointer", "ns", "thread")

    def __init__(
        self, program: Program, checkpointer: Checkpointer | None, config: dict[str, Any], ns: str, find: Finder
    ) -> None:
        if checkpointer is None:
            what = f"graph {program.name!r} has no checkpointer, so it keeps no state"
            raise NoCheckpointerError(what)
        self.checkpointer = checkpointer
        self.thread = configs.thread_of(config)
        self.ns = ns
        self._program = program
        self._find = find
        self._config = config
        wanted = config["configurable"].get("checkpoint_id")
        self._wanted = identity.parse_checkpoint_id(wanted) if wanted else None

    def one(self) -> Asking[StoredCheckpoint | None]:
        """The checkpoint that the config names, or the newest."""
        if self._wanted is not None:
            return at(self.thread, self._wanted)
        return newest(self.thread, ns=self.ns)

    def with_graphs_inside(self) -> Asking[StateSnapshot]:
        """That checkpoint, and in its tasks the snapshots of the graphs that ran inside them."""
        stored = yield from self.one()
        if stored is None:
            return self.show(None)
        return (yield from self._deep(stored, self.ns, live=self._wanted is None))

    def _deep(self, stored: StoredCheckpoint, ns: str, *, live: bool) -> Asking[StateSnapshot]:
        program = self._find(ns, stored) or self._program
        shown = history.snapshot(program, self.thread, stored, live=live, copy=own, ns=ns)
        tasks: list[StateTask] = []
        for task in shown.tasks:
            below, child = yield from self._inside(stored, ns, _path_of(task), live=live)
            if child is not None and self._find(below, child) is not None:
                deep = yield from self._deep(child, below, live=live)
                tasks.append(task._replace(state=deep))
            else:
                tasks.append(task)
        return shown._replace(tasks=tuple(tasks))

    def _inside(
        self, stored: StoredCheckpoint, ns: str, path: str, *, live: bool
    ) -> Asking[tuple[str, StoredCheckpoint | None]]:
        """The graph that runs inside a task, the first where it called several: its namespace and checkpoint."""
        record = stored.pending.get(path)
        children: Mapping[str, tuple[int, int]] = record.children if record is not None else {}
        below = min(children, default=path_inside(ns, stored.renamed.get(path, path)))
        if live and self._find(below, None) is not None:
            child = yield from begun(self.thread, below, stored)
            if child is not None:
                return below, child
        if below not in children:
            return below, None
        return below, (yield from placed(self.thread, *children[below]))

    def show(self, stored: StoredCheckpoint | None) -> StateSnapshot:
        """That checkpoint as a user sees it: live when no checkpoint was named."""
        if stored is None:
            return history.empty_snapshot(cast("Config", self._config))
        return self._snapshot(stored, live=self._wanted is None)

    def _snapshot(self, stored: StoredCheckpoint, *, live: bool) -> StateSnapshot:
        program = (self._find(self.ns, stored) if self.ns else None) or self._program
        return history.snapshot(program, self.thread, stored, live=live, copy=own, ns=self.ns)

    def many(
        self, before: Mapping[str, Any] | None, limit: int | None, wanted: Mapping[str, Any] | None
    ) -> Asking[list[StoredCheckpoint]]:
        """Checkpoints, newest first; where metadata is filtered, more are read than will be shown.

        Those of all branches; where the config names a checkpoint, that one and those it came from.
        """
        if self._wanted is not None and before is None:
            return lineage(self.thread, self._wanted)
        until = None
        if before is not None:
            named = before["configurable"].get("checkpoint_id")
            if not named:
                what = "`before` is a config without checkpoint_id"
                raise InvalidConfigError(what, cure="Pass the config of a snapshot.")
            until = identity.parse_checkpoint_id(named)
        return walk(self.thread, until, None if wanted else limit, ns=self.ns)

    def show_all(
        self, found: list[StoredCheckpoint], limit: int | None, wanted: Mapping[str, Any] | None
    ) -> Iterator[StateSnapshot]:
        """Those whose metadata has the wanted values, at most `limit`."""
        count = 0
        for stored in found:
            if limit is not None and count >= limit:
                return
            snapshot = self._snapshot(stored, live=False)
            if _fits(snapshot.metadata or {}, wanted or {}):
                count += 1
                yield snapshot


def _path_of(task: StateTask) -> str:
    return task.name if len(task.path) == 2 else identity.push_path(task.name, task.path[2])  # noqa: PLR2004 - pull, push


def _fits(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the metadata has these values: the same type, and equal (True is not 1)."""
    return all(
        key in metadata and type(metadata[key]) is type(value) and metadata[key] == value
        for key, value in wanted.items()
    )
