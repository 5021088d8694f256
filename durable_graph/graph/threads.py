"""Looking at threads and editing them: the state API of a compiled graph.

Each async method is the twin of a sync one; what is asked for is in `views`, what an edit means in `core.editing`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from durable_graph.core import history
from durable_graph.errors import NoCheckpointerError
from durable_graph.graph.calls import make_edit
from durable_graph.graph.doctor import diagnose
from durable_graph.graph.inner import graph_at, graphs_at, namespace_of, subgraphs_below, unknown_namespace
from durable_graph.graph.views import ThreadView
from durable_graph.persistence.checkpointer import Checkpointer
from durable_graph.runtime import config as configs
from durable_graph.runtime.session import aask, ask
from durable_graph.types import StateUpdate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from durable_graph.core.program import Program
    from durable_graph.graph.builder import StateGraph
    from durable_graph.graph.calls import Call
    from durable_graph.graph.compiled import CheckpointerLike, CompiledStateGraph
    from durable_graph.graph.doctor import Diagnosis
    from durable_graph.graph.drawing import DrawnGraph
    from durable_graph.graph.lowering import Context
    from durable_graph.records import Address, StoredCheckpoint
    from durable_graph.types import Config, OnBusy, StateSnapshot

__all__ = ["ThreadCalls", "resolved"]


class ThreadCalls(ABC):
    """The part of a compiled graph that reads and edits what is stored."""

    program: Program
    checkpointer: Checkpointer | None
    config: dict[str, Any]
    builder: StateGraph[Any, Any, Any, Any]
    schemas: Context

    # --- looking at threads -------------------------------------------------------------------------------------------

    def get_state(self, config: Mapping[str, Any], *, subgraphs: bool = False) -> StateSnapshot:
        """The state of a thread: its newest checkpoint with what finished tasks of the waiting step wrote; with a
        checkpoint_id, that checkpoint as it was saved. An unknown thread gives an empty snapshot.

        Args:
            config: names the thread; with a checkpoint_ns, the graph inside it.
            subgraphs: `tasks[i].state` is the snapshot of the graph that runs inside the task, not only its config.
        """
        view = self._view(config)
        if subgraphs:
            return ask(view.checkpointer, view.with_graphs_inside())
        return view.show(ask(view.checkpointer, view.one()))

    async def aget_state(self, config: Mapping[str, Any], *, subgraphs: bool = False) -> StateSnapshot:
        """Async `get_state`."""
        view = self._view(config)
        if subgraphs:
            return await aask(view.checkpointer, view.with_graphs_inside())
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

    # --- editing threads ----------------------------------------------------------------------------------------------

    def update_state(
        self,
        config: Mapping[str, Any],
        values: Any,
        as_node: str | None = None,
        task_id: str | None = None,
        *,
        on_busy: OnBusy = "reject",
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
            on_busy: what is done while a run holds the thread, as of `invoke`.

        Returns:
            The config of the new checkpoint.

        Raises:
            InvalidUpdateError: the node is unknown or not clear, or the values do not fit the state.
            ThreadBusy: a run holds the thread.
        """
        return self.bulk_update_state(config, [[StateUpdate(values, as_node, task_id)]], on_busy=on_busy)

    async def aupdate_state(
        self,
        config: Mapping[str, Any],
        values: Any,
        as_node: str | None = None,
        task_id: str | None = None,
        *,
        on_busy: OnBusy = "reject",
    ) -> Config:
        """Async `update_state`."""
        return await self.abulk_update_state(config, [[StateUpdate(values, as_node, task_id)]], on_busy=on_busy)

    def bulk_update_state(
        self,
        config: Mapping[str, Any],
        supersteps: Sequence[Sequence[StateUpdate]],
        *,
        on_busy: OnBusy = "reject",
    ) -> Config:
        """Several supersteps of updates, each with a checkpoint of its own, all of them or none. See `update_state`."""
        merged = self._merged(config)
        view = self._edited(merged)
        edited = None if view is None else ask(view.checkpointer, view.one())
        call = self._edit_call(merged, supersteps, edited, on_busy)
        return history.config_of(call.request.thread, self._apply(call), call.ns)

    async def abulk_update_state(
        self,
        config: Mapping[str, Any],
        supersteps: Sequence[Sequence[StateUpdate]],
        *,
        on_busy: OnBusy = "reject",
    ) -> Config:
        """Async `bulk_update_state`."""
        merged = self._merged(config)
        view = self._edited(merged)
        edited = None if view is None else await aask(view.checkpointer, view.one())
        call = self._edit_call(merged, supersteps, edited, on_busy)
        return history.config_of(call.request.thread, await self._aapply(call), call.ns)

    # --- inside -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def _apply(self, call: Call) -> Address: ...

    @abstractmethod
    async def _aapply(self, call: Call) -> Address: ...

    @abstractmethod
    def _normalise(self, config: Mapping[str, Any] | None) -> dict[str, Any]: ...

    def _view(self, config: Mapping[str, Any]) -> ThreadView:
        return self._view_of(self._merged(config))

    def _view_of(self, merged: dict[str, Any]) -> ThreadView:
        ns = namespace_of(merged)
        return ThreadView(self._graph_at(ns).program, self.checkpointer, merged, ns, self._program_of)

    def _graph_at(self, ns: str, stored: StoredCheckpoint | None = None) -> ThreadCalls:
        """The graph with a namespace: this one, or one inside its nodes.

        Raises:
            InvalidConfigError: no node has a graph there.
        """
        found = graph_at(self, ns, stored)
        if found is None:
            raise unknown_namespace(self, ns)
        return found

    def _program_of(self, ns: str, stored: StoredCheckpoint | None) -> Program | None:
        found = graph_at(self, ns, stored)
        return None if found is None else found.program

    # --- changed graphs -----------------------------------------------------------------------------------------------

    def doctor(self, checkpointer: CheckpointerLike = None) -> Diagnosis:
        """Would the stored threads go on with this graph? Reads all of them; runs no node and changes nothing.

        Args:
            checkpointer: where they are; the graph's own when left out.

        Returns:
            A `Diagnosis`: `ok`, and for each thread its problems. Print it to read it.

        Raises:
            NoCheckpointerError: the graph has none and none was given.
        """
        return ask(self._store(checkpointer), diagnose(self.program, self.schemas, self._parts_of))

    async def adoctor(self, checkpointer: CheckpointerLike = None) -> Diagnosis:
        """Async `doctor`."""
        return await aask(self._store(checkpointer), diagnose(self.program, self.schemas, self._parts_of))

    def _store(self, given: CheckpointerLike) -> Checkpointer:
        found = self.checkpointer if given is None else resolved(given)
        if found is None:
            what = f"graph {self.program.name!r} has no checkpointer whose threads could be looked at"
            raise NoCheckpointerError(what, cure='Pass one: graph.doctor("sqlite:///runs.db").')
        return found

    def _parts_of(self, ns: str, stored: StoredCheckpoint) -> tuple[Program, Context] | None:
        found = graph_at(self, ns, stored)
        return None if found is None else (found.program, found.schemas)

    # --- graphs inside, pictures --------------------------------------------------------------------------------------

    def get_subgraphs(
        self, *, namespace: str | None = None, recurse: bool = False
    ) -> Iterator[tuple[str, CompiledStateGraph[Any, Any, Any, Any]]]:
        """The graphs that nodes are or call, each with its namespace ("node", or "node|inner").

        Args:
            namespace: only the one with this namespace, however deep it is.
            recurse: also those inside of them. A graph that calls itself is not gone into again.

        Raises:
            InvalidConfigError: no node has a graph with this namespace.
        """
        return subgraphs_below(self, namespace, recurse=recurse)

    async def aget_subgraphs(
        self, *, namespace: str | None = None, recurse: bool = False
    ) -> AsyncIterator[tuple[str, CompiledStateGraph[Any, Any, Any, Any]]]:
        """Async `get_subgraphs`."""
        for found in self.get_subgraphs(namespace=namespace, recurse=recurse):
            yield found

    def get_graph(self, config: Mapping[str, Any] | None = None, *, xray: bool | int = False) -> DrawnGraph:
        """The graph as a picture: `draw_mermaid()`, `draw_text()`, `draw_svg()`, `save(path)`. Nothing of it runs.

        Args:
            config: taken for compatibility; the picture does not depend on it.
            xray: nodes that are graphs show their own nodes; a number says how many levels deep.
        """
        from durable_graph.graph.drawing import read_graph

        _ = self._normalise(config)
        program = self.program
        stops = (program.interrupt_before, program.interrupt_after)
        return read_graph(
            self.builder, xray=xray, name=program.name, interrupt_before=stops[0], interrupt_after=stops[1]
        )

    async def aget_graph(self, config: Mapping[str, Any] | None = None, *, xray: bool | int = False) -> DrawnGraph:
        """Async `get_graph`."""
        return self.get_graph(config, xray=xray)

    def _merged(self, config: Mapping[str, Any]) -> dict[str, Any]:
        return configs.merge(self.config, self._normalise(config))

    def _edited(self, merged: dict[str, Any]) -> ThreadView | None:
        """Where only the checkpoint that is to be edited tells which graph is meant: what finds it."""
        ns = namespace_of(merged)
        if not ns or len(graphs_at(self, ns)) < 2:  # noqa: PLR2004 - there are several
            return None
        return self._view_of(merged)

    def _edit_call(
        self,
        merged: dict[str, Any],
        supersteps: Sequence[Sequence[StateUpdate]],
        edited: StoredCheckpoint | None,
        on_busy: OnBusy,
    ) -> Call:
        ns = namespace_of(merged)
        graph = self._graph_at(ns, edited)
        call = make_edit(graph.program, graph.schemas, merged, supersteps, self.checkpointer, on_busy)
        call.program, call.ns, call.request.ns = graph.program, ns, ns
        return call


def resolved(given: CheckpointerLike) -> Checkpointer | None:
    """The checkpointer a user named; None for none, and for True and False, which only mean something inside a node."""
    if given is None or isinstance(given, bool | Checkpointer):
        return given if isinstance(given, Checkpointer) else None
    from durable_graph.persistence.registry import resolve_checkpointer

    return resolve_checkpointer(given)
