"""Looking at a thread: which checkpoints are asked for, and how they are shown. Reading itself is `session`'s."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from durable_graph.core import history, identity
from durable_graph.errors import InvalidConfigError, NoCheckpointerError
from durable_graph.persistence.isolation import own
from durable_graph.runtime import config as configs
from durable_graph.runtime.session import at, lineage, newest, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from durable_graph.core.program import Program
    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.records import StoredCheckpoint
    from durable_graph.runtime.session import Asking
    from durable_graph.types import Config, StateSnapshot

__all__ = ["ThreadView"]


class ThreadView:
    """One thread as one call looks at it. `config` is normalised."""

    __slots__ = ("_config", "_program", "_wanted", "checkpointer", "thread")

    def __init__(self, program: Program, checkpointer: Checkpointer | None, config: dict[str, Any]) -> None:
        if checkpointer is None:
            what = f"graph {program.name!r} has no checkpointer, so it keeps no state"
            raise NoCheckpointerError(what)
        self.checkpointer = checkpointer
        self.thread = configs.thread_of(config)
        self._program = program
        self._config = config
        wanted = config["configurable"].get("checkpoint_id")
        self._wanted = identity.parse_checkpoint_id(wanted) if wanted else None

    def one(self) -> Asking[StoredCheckpoint | None]:
        """The checkpoint that the config names, or the newest."""
        return newest(self.thread) if self._wanted is None else at(self.thread, self._wanted)

    def show(self, stored: StoredCheckpoint | None) -> StateSnapshot:
        """That checkpoint as a user sees it: live when no checkpoint was named."""
        if stored is None:
            return history.empty_snapshot(cast("Config", self._config))
        return history.snapshot(self._program, self.thread, stored, live=self._wanted is None, copy=own)

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
        return walk(self.thread, until, None if wanted else limit)

    def show_all(
        self, found: list[StoredCheckpoint], limit: int | None, wanted: Mapping[str, Any] | None
    ) -> Iterator[StateSnapshot]:
        """Those whose metadata has the wanted values, at most `limit`."""
        count = 0
        for stored in found:
            if limit is not None and count >= limit:
                return
            snapshot = history.snapshot(self._program, self.thread, stored, live=False, copy=own)
            if _fits(snapshot.metadata or {}, wanted or {}):
                count += 1
                yield snapshot


def _fits(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the metadata has these values: the same type, and equal (True is not 1)."""
    return all(
        key in metadata and type(metadata[key]) is type(value) and metadata[key] == value
        for key, value in wanted.items()
    )
