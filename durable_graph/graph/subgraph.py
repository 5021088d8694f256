"""A compiled graph as a node: it takes the keys it knows from the outer state, and gives back those that one has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from durable_graph.graph.compiled import CompiledStateGraph

__all__ = ["GraphNode"]


class GraphNode:
    """What runs in the place of a compiled graph. `keys`: those of the outer state; None when it is one bare value."""

    def __init__(self, graph: CompiledStateGraph[Any, Any, Any, Any], keys: frozenset[str] | None) -> None:
        self.graph = graph
        self.name = graph.name
        self._keys = keys

    def get_name(self) -> str:
        """The graph's name."""
        return self.graph.get_name()

    def invoke(self, state: Any) -> Any:
        """Run the graph as part of the outer run."""
        return self._given_back(self.graph.invoke(self._taken(state)))

    async def ainvoke(self, state: Any) -> Any:
        """Async `invoke`."""
        return self._given_back(await self.graph.ainvoke(self._taken(state)))

    def _taken(self, state: Any) -> Any:
        schema = self.graph.schemas.input
        if schema.kind == "root":
            return state
        pairs = schema.read_update(state)
        return state if pairs is None else {key: value for key, value in pairs if key in schema.keys}

    def _given_back(self, output: Any) -> Any:
        if self._keys is None or not isinstance(output, dict):
            return output
        found = cast("dict[str, Any]", output)
        return {key: value for key, value in found.items() if key in self._keys}
