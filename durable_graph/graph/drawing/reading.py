"""From a builder to a `DrawnGraph`: what may follow what, as far as it is written down.

Known before anything runs are edges, barrier edges, path maps, `destinations=` and what type hints say (Literal answers
of a router, Command[Literal[...]] of a node). A router without any of these may lead anywhere, and is drawn so.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

from durable_graph.core.identity import HANDLER
from durable_graph.graph.branches import command_targets
from durable_graph.graph.discovery import is_compiled, plain_function
from durable_graph.graph.drawing.labels import shown
from durable_graph.graph.drawing.model import DrawnEdge, DrawnGraph, DrawnNode
from durable_graph.types import END, START, Command, Send

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from durable_graph.graph.branches import Branch
    from durable_graph.graph.builder import StateGraph
    from durable_graph.graph.drawing.model import NodeKind
    from durable_graph.graph.nodes import Node

    Graph = StateGraph[Any, Any, Any, Any]

__all__ = ["read_graph"]

_UNDECLARED: Final = "undeclared"
_ON_ERROR: Final = "on error"
_EVERY_LEVEL: Final = 1 << 30
_ROUTES = re.compile(r"\b(?:Command|Send)\b")


def read_graph(
    builder: Graph,
    *,
    xray: bool | int = False,
    name: str = "LangGraph",
    interrupt_before: Collection[str] | Literal["*"] = (),
    interrupt_after: Collection[str] | Literal["*"] = (),
) -> DrawnGraph:
    """Read what was added to a builder. The graph need not be valid: what is missing is drawn as missing.

    Args:
        builder: the graph as it was written down.
        xray: whether nodes that are compiled graphs show their own nodes; a number says how many levels deep.
        name: of the graph, as the title of the picture.
        interrupt_before: nodes before which a run stops, or "*" for all.
        interrupt_after: nodes after which a run stops, or "*".
    """
    graph = DrawnGraph(name)
    depth = int(xray) if xray is not True else _EVERY_LEVEL
    _Reader(graph, builder, (interrupt_before, interrupt_after), None, ()).read(depth)
    return graph


class _Reader:
    """Reads one graph, nested ones too. `parent` is the cluster that its nodes lie in."""

    def __init__(
        self,
        graph: DrawnGraph,
        builder: Graph,
        stops: tuple[Collection[str], Collection[str]],
        parent: str | None,
        above: tuple[int, ...],
    ) -> None:
        self._graph = graph
        self._builder = builder
        self._stops = stops
        self._parent = parent
        self._prefix = "" if parent is None else f"{parent}:"
        self._above = (*above, id(builder))
        self._place = {name: place for place, name in enumerate((START, *builder.nodes))}
        self._handlers: dict[int, str] = {}

    def read(self, depth: int) -> None:
        """Add nodes and edges. END is left out where nothing leads to it; a nested graph keeps it as its way out."""
        self._add(START, "start")
        for node in self._builder.nodes.values():
            self._node(node, depth)
        edges = [edge for source in (START, *self._builder.nodes) for edge in self._leaving(source)]
        edges += [edge for source in self._strangers() for edge in self._leaving(source)]
        names = {name for edge in edges for name in (edge.source, edge.target)}
        if END in names or self._parent is not None:
            self._add(END, "end")
        for name in sorted(names):
            if self._prefix + name not in self._graph.nodes:
                self._add(name, "missing", notes=("missing",))
        prefix = self._prefix
        self._graph.edges += [
            DrawnEdge(prefix + edge.source, prefix + edge.target, edge.data, edge.conditional, edge.kind)
            for edge in dict.fromkeys(edges)
        ]

    def _add(
        self,
        name: str,
        kind: NodeKind,
        metadata: Mapping[str, Any] | None = None,
        notes: tuple[str, ...] = (),
        label: str | None = None,
    ) -> None:
        found = DrawnNode(self._prefix + name, label or name, metadata or {}, kind, notes, self._parent)
        self._graph.nodes[found.id] = found

    # --- nodes ------------------------------------------------------------------------------------------------------

    def _node(self, node: Node, depth: int) -> None:
        action = node.body.target
        nested = is_compiled(action)
        inside = nested and depth > 0 and id(action.builder) not in self._above
        metadata = dict(node.metadata)
        notes: list[str] = []
        if node.defer:
            metadata["defer"] = True
            notes.append("deferred")
        stops = [when for when, names in zip(("before", "after"), self._stops, strict=True) if _names(names, node.name)]
        if stops:
            metadata["__interrupt"] = ",".join(stops)
            notes.append(f"interrupt {' and '.join(stops)}")
        if self._silent(node) and self._ways(node.name):
            notes.append("undeclared routes")
        self._add(node.name, "cluster" if inside else "graph" if nested else "node", metadata, tuple(notes))
        if inside:
            program = action.program
            stops_inside = (program.interrupt_before, program.interrupt_after)
            child = _Reader(self._graph, action.builder, stops_inside, self._prefix + node.name, self._above)
            child.read(depth - 1)
        self._handler(node)

    def _handler(self, node: Node) -> None:
        """A node for what runs when this one failed; one for all nodes that share it."""
        action = self._handling(node)
        if action is None or id(action) in self._handlers:
            return
        self._handlers[id(action)] = f"{HANDLER}{node.name}"
        self._add(f"{HANDLER}{node.name}", "handler", notes=("error handler",), label=_name(action))

    def _handling(self, node: Node) -> Any:
        """What runs when this node failed for good, None for nothing."""
        handler = node.error_handler or self._builder.defaults.error_handler
        return None if handler is None else handler.target

    # --- edges ------------------------------------------------------------------------------------------------------

    def _strangers(self) -> list[str]:
        """Sources that were never added."""
        named = {source for source, _ in self._builder.edges} | set(self._builder.branches)
        named |= {source for sources, _ in self._builder.waiting_edges for source in sources}
        return sorted(named - set(self._place))

    def _leaving(self, source: str) -> Iterator[DrawnEdge]:
        """All edges of a node, by plain names. Where none is known, the run may end there."""
        node = self._builder.nodes.get(source)
        found = self._ways(source)
        if node is not None and not found:
            found = list(self._anywhere(source)) if self._silent(node) else [DrawnEdge(source, END)]
        yield from found
        if node is not None:
            yield from self._failing(node)

    def _ways(self, source: str) -> list[DrawnEdge]:
        """The edges of a node that are written down."""
        node = self._builder.nodes.get(source)
        targets = [target for start, target in self._builder.edges if start == source]
        found = [DrawnEdge(source, target) for target in sorted(targets, key=self._order)]
        found += self._barriers(source)
        for branch in self._builder.branches.get(source, {}).values():
            found += self._routes(source, branch)
        for target in (node.destinations or ()) if node is not None else ():
            label = node.labels.get(target) if node is not None else None
            found.append(DrawnEdge(source, target, _label(label, target), conditional=True, kind="route"))
        return found

    def _barriers(self, source: str) -> Iterator[DrawnEdge]:
        """Barrier edges. Where a node waits at several barriers, they are told apart by number."""
        waiting = self._builder.waiting_edges
        for sources, target in sorted(waiting, key=lambda edge: (self._order(edge[1]), edge[0])):
            if source not in sources:
                continue
            several: list[tuple[str, ...]] = sorted(others for others, end in waiting if end == target and others[1:])
            if len(sources) == 1:
                yield DrawnEdge(source, target)
            else:
                data = f"barrier {several.index(sources) + 1}" if len(several) > 1 else None
                yield DrawnEdge(source, target, data, kind="barrier")

    def _routes(self, source: str, branch: Branch) -> Iterator[DrawnEdge]:
        if branch.path_map is not None:
            for answer, target in branch.path_map.items():
                yield DrawnEdge(source, target, _label(shown(answer), target), conditional=True, kind="route")
        elif branch.declared is not None:
            for target in branch.declared:
                yield DrawnEdge(source, target, conditional=True, kind="route")
        else:
            yield from self._anywhere(source)

    def _anywhere(self, source: str) -> Iterator[DrawnEdge]:
        for target in (*self._builder.nodes, END):
            yield DrawnEdge(source, target, _UNDECLARED, conditional=True, kind="undeclared")

    def _failing(self, node: Node) -> Iterator[DrawnEdge]:
        """To the error handler, and from it on: the failed node's own edges are not followed."""
        action = self._handling(node)
        if action is None:
            return
        name = self._handlers[id(action)]
        yield DrawnEdge(node.name, name, _ON_ERROR, conditional=True, kind="error")
        if name != f"{HANDLER}{node.name}":
            return  # it was drawn for the first node that shares it
        targets = command_targets(action)
        if targets is not None:
            for target in targets:
                yield DrawnEdge(name, target, conditional=True, kind="route")
        elif _returns_route(action):
            yield from self._anywhere(name)
        else:
            yield DrawnEdge(name, END)

    def _order(self, name: str) -> tuple[int, str]:
        return self._place.get(name, len(self._place)), name

    @staticmethod
    def _silent(node: Node) -> bool:
        """Whether a node says that it routes, and not where to."""
        return node.destinations is None and _returns_route(node.body.target)


def _label(label: str | None, target: str) -> str | None:
    """A label that says more than the target's name."""
    return label if label and label != target else None


def _names(names: Collection[str], name: str) -> bool:
    return names == "*" or name in ((names,) if isinstance(names, str) else names)


def _name(action: Any) -> str:
    function = plain_function(action)
    return function.__name__ if function is not None and function.__name__ != "__call__" else type(action).__name__


def _returns_route(action: Any) -> bool:
    """Whether the return hint names Command or Send. The hint is looked at, not evaluated."""
    function = plain_function(action)
    hint = function.__annotations__.get("return") if function is not None else None
    return bool(_ROUTES.search(hint)) if isinstance(hint, str) else _holds_route(hint)


def _holds_route(hint: Any) -> bool:
    if isinstance(hint, str):
        return bool(_ROUTES.search(hint))
    kind = get_origin(hint) or hint
    return kind in (Command, Send) or (kind is not Literal and any(_holds_route(part) for part in get_args(hint)))
