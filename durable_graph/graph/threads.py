"""Looking at threads and editing them: the state API of a compiled graph.

Each async method is the twin of a sync one; what is asked for is in `views`, what an edit means in `core.editing`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from durable_graph.core import history
from durable_graph.graph.calls import make_edit
from durable_graph.graph.views import ThreadView
from durable_graph.runtime import config as configs
from durable_graph.runtime.session import aask, ask
from durable_graph.types import StateUpdate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from durable_graph.core.program import Program
    from durable_graph.graph.calls import Call
    from durable_graph.graph.lowering import Context
    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.records import Address
    from durable_graph.types import Config, StateSnapshot

__all__ = ["ThreadCalls"]


class ThreadCalls(ABC):
    """The part of a compiled graph that reads and edits what is stored."""

    program: Program
    checkpointer: Checkpointer | None
    config: dict[str, Any]
    schemas: Context

    # --- looking at threads -------------------------------------------------------------------------------------------

    def get_state(self, config: Mapping[str, Any]) -> StateSnapshot:
        """The state of a thread: its newest checkpoint with what finished tasks of the waiting step wrote; with a
        checkpoint_id, that checkpoint as it was saved. An unknown thread gives an empty snapshot.
        """
        view = self._view(config)
        return view.show(ask(view.checkpointer, view.one()))

    async def aget_state(self, config: Mapping[str, Any]) -> StateSnapshot:
        """Async `get_state`."""
        view = self._view(config)
        return view.show(await aask(view.checkpointer, view.one()))

    def get_state_history(
        self,
        config: Mapping[str, Any],
        *,
        filter: Mapping[str, Any] | None = None,
        before: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """The checkpoints of a thread, newest first: those of all branches; where the config names a checkpoint, that
        one and those it came from.

        Args:
            config: names the thread.
            filter: only checkpoints whose metadata has these values (same type, equal).
            before: only checkpoints older than the one this config addresses.
            limit: at most so many.
        """
        view = self._view(config)
        asking = view.many(self._normalise(before) if before else None, limit, filter)
        return view.show_all(ask(view.checkpointer, asking), limit, filter)

    async def aget_state_history(
        self,
        config: Mapping[str, Any],
        *,
        filter: Mapping[str, Any] | None = None,
        before: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """Async `get_state_history`."""
        view = self._view(config)
        asking = view.many(self._normalise(before) if before else None, limit, filter)
        for snapshot in view.show_all(await aask(view.checkpointer, asking), limit, filter):
            yield snapshot

    # --- editing threads ------------------------------------------------------------------------------------------------

    def update_state(
        self, config: Mapping[str, Any], values: Any, as_node: str | None = None, task_id: str | None = None
    ) -> Config:
        """Change the state of a thread as if a node had returned `values`; its routers and edges follow from them.

        Without a checkpoint_id the newest checkpoint is edited, and what the thread waits for stays where its node is
        still to run. With the id of an older one, a branch starts there, and is the newest from then on.

        Args:
            config: names the thread.
            values: what a node could return; None writes nothing.
            as_node: the node; the only one that ran before the checkpoint when left out. END: the run is over, finished
                tasks count, what else was to run is dropped. "__input__": the values are a new input.
                "__copy__": the checkpoint is copied to a branch of its own.
            task_id: which of several waiting tasks of this node the values are from (see `get_state(config).tasks`).

        Returns:
            The config of the new checkpoint.

        Raises:
            InvalidUpdateError: the node is unknown or not clear, or the values do not fit the state.
            ThreadBusy: a run holds the thread.
        """
        return self.bulk_update_state(config, [[StateUpdate(values, as_node, task_id)]])

    async def aupdate_state(
        self, config: Mapping[str, Any], values: Any, as_node: str | None = None, task_id: str | None = None
    ) -> Config:
        """Async `update_state`."""
        return await self.abulk_update_state(config, [[StateUpdate(values, as_node, task_id)]])

    def bulk_update_state(self, config: Mapping[str, Any], supersteps: Sequence[Sequence[StateUpdate]]) -> Config:
        """Several supersteps of updates, each with a checkpoint of its own, all of them or none. See `update_state`."""
        call = self._edit_call(config, supersteps)
        return history.config_of(call.request.thread, self._apply(call))

    async def abulk_update_state(
        self, config: Mapping[str, Any], supersteps: Sequence[Sequence[StateUpdate]]
    ) -> Config:
        """Async `bulk_update_state`."""
        call = self._edit_call(config, supersteps)
        return history.config_of(call.request.thread, await self._aapply(call))

    # --- inside -----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _apply(self, call: Call) -> Address: ...

    @abstractmethod
    async def _aapply(self, call: Call) -> Address: ...

    @abstractmethod
    def _normalise(self, config: Mapping[str, Any] | None) -> dict[str, Any]: ...

    def _view(self, config: Mapping[str, Any]) -> ThreadView:
        return ThreadView(self.program, self.checkpointer, self._merged(config))

    def _merged(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return configs.merge(self.config, self._normalise(config))

    def _edit_call(self, config: Mapping[str, Any], supersteps: Sequence[Sequence[StateUpdate]]) -> Call:
        return make_edit(self.program, self.schemas, self._merged(config), supersteps, self.checkpointer)
