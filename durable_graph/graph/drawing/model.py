"""A graph as data that can be looked at: nodes, edges, and the pictures made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, cast

from durable_graph.errors import InvalidConfigError, UsageError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

__all__ = ["DrawnEdge", "DrawnGraph", "DrawnNode", "EdgeKind", "NodeKind"]

NodeKind: TypeAlias = Literal["start", "end", "node", "graph", "cluster", "handler", "missing"]
"""`graph` is a compiled graph drawn as one box, `cluster` one whose nodes are drawn inside of it. `handler` runs when a
node failed. `missing` is named by an edge and was never added."""

EdgeKind: TypeAlias = Literal["edge", "barrier", "route", "undeclared", "error"]
"""`barrier`: the target waits for all sources. `route`: a router or a Command may go there. `undeclared`: a router that
does not say where it leads may go there. `error`: runs when the source failed."""


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node of a drawing.

    id: unique in the drawing; "parent:child" for nodes of a nested graph.   name: as it was added.
    metadata: the user's, with "defer" and "__interrupt" as LangGraph shows them.
    notes: what is written below the name.   parent: the id of the cluster it lies in.
    """

    id: str
    name: str
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    kind: NodeKind = "node"
    notes: tuple[str, ...] = ()
    parent: str | None = None

    @property
    def label(self) -> str:
        """The name as it is shown."""
        return self.kind.upper() if self.kind in ("start", "end") else self.name


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """An edge of a drawing, from and to ids of nodes (or clusters) of it.

    data: its label, None for none.   conditional: it may be taken or not.
    """

    source: str
    target: str
    data: str | None = None
    conditional: bool = False
    kind: EdgeKind = "edge"

    @property
    def label(self) -> str:
        """The label, "" for none."""
        return self.data or ""


@dataclass
class DrawnGraph:
    """What `get_graph()` returns. Drawing needs no network and no other library, and runs nothing of the user's.

    nodes: by id; a cluster comes before the nodes in it.   edges: in the order of their sources.
    """

    name: str = "LangGraph"
    nodes: dict[str, DrawnNode] = field(default_factory=dict[str, DrawnNode])
    edges: list[DrawnEdge] = field(default_factory=list[DrawnEdge])

    def first_node(self) -> DrawnNode | None:
        """START of the outermost graph."""
        return self._outermost("start")

    def last_node(self) -> DrawnNode | None:
        """END of the outermost graph; None when nothing leads to it."""
        return self._outermost("end")

    def _outermost(self, kind: NodeKind) -> DrawnNode | None:
        return next((node for node in self.nodes.values() if node.kind == kind and node.parent is None), None)

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """Nodes and edges as plain values that `json.dumps` takes.

        Metadata that JSON does not know is shown by the name of its type.
        """
        return {"nodes": [_node(node) for node in self.nodes.values()], "edges": [_edge(edge) for edge in self.edges]}

    # --- pictures ---------------------------------------------------------------------------------------------------

    def draw_mermaid(self, *, with_styles: bool = True, direction: str = "TD") -> str:
        """Mermaid text, for Markdown files and whatever shows Mermaid.

        Args:
            with_styles: with colors of nodes.
            direction: where edges lead: "TD" (down), "BT", "LR" or "RL".

        Raises:
            InvalidConfigError: there is no such direction.
        """
        from durable_graph.graph.drawing.mermaid import draw

        return draw(self, with_styles=with_styles, direction=direction)

    def draw_text(self, *, ascii_only: bool = False) -> str:
        """A drawing of box characters, for terminals and logs.

        Args:
            ascii_only: only ASCII characters; others in names become escapes.
        """
        from durable_graph.graph.drawing.text import draw

        return draw(self, ascii_only=ascii_only)

    def draw_ascii(self, *, ascii_only: bool = False) -> str:
        """The same as `draw_text`, by the name that LangChain gives it."""
        return self.draw_text(ascii_only=ascii_only)

    def print_ascii(self, *, ascii_only: bool = False) -> None:
        """Print `draw_text`."""
        print(self.draw_text(ascii_only=ascii_only))  # noqa: T201 - printing is what was asked for

    def draw_svg(self) -> str:
        """An SVG picture in one piece, light or dark as the reader's system is."""
        from durable_graph.graph.drawing.svg import draw

        return draw(self)

    def _repr_svg_(self) -> str:
        """What notebooks show."""
        return self.draw_svg()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a picture; the ending of the path says which: .svg, .mmd (Mermaid) or .txt.

        Raises:
            InvalidConfigError: another ending.
        """
        target = Path(path)
        drawings = {".svg": self.draw_svg, ".mmd": self.draw_mermaid, ".txt": self.draw_text}
        draw = drawings.get(target.suffix.lower())
        if draw is None:
            what = f"a drawing cannot be saved as {target.name!r}: its ending is none of {', '.join(drawings)}"
            raise InvalidConfigError(what, cure="Save it as graph.svg, graph.mmd or graph.txt.")
        text = draw()
        _ = target.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")

    def draw_mermaid_png(self, *_args: Any, **_keywords: Any) -> NoReturn:
        """There is no PNG: it would take a web service or a browser.

        Raises:
            UsageError: always.
        """
        what = "draw_mermaid_png() is not there: making a PNG of Mermaid takes a web service or a browser"
        raise UsageError(what, cure='Use draw_svg() or save("graph.svg"), which need neither.')

    def draw_png(self, *_args: Any, **_keywords: Any) -> NoReturn:
        """There is no PNG: it would take another library.

        Raises:
            UsageError: always.
        """
        what = "draw_png() is not there: it would take graphviz"
        raise UsageError(what, cure='Use draw_svg() or save("graph.svg"), which need nothing.')


def _node(node: DrawnNode) -> dict[str, Any]:
    found: dict[str, Any] = {"id": node.id, "type": node.kind, "data": {"name": node.name}}
    if node.metadata:
        found["metadata"] = _plain(node.metadata)
    if node.notes:
        found["notes"] = list(node.notes)
    if node.parent is not None:
        found["parent"] = node.parent
    return found


def _edge(edge: DrawnEdge) -> dict[str, Any]:
    found: dict[str, Any] = {"source": edge.source, "target": edge.target, "type": edge.kind}
    if edge.data is not None:
        found["data"] = edge.data
    if edge.conditional:
        found["conditional"] = True
    return found


def _plain(value: Any) -> Any:
    """A value as JSON knows it. Other objects are named, not written out: their `__repr__` is the user's code."""
    if value is None or type(value) in (str, int, bool) or (type(value) is float and isfinite(value)):
        return value
    if type(value) is dict:
        items = cast("dict[Any, Any]", value).items()
        return {key if type(key) is str else str(_plain(key)): _plain(one) for key, one in items}
    if type(value) in (list, tuple):
        return [_plain(one) for one in cast("list[Any]", value)]
    return f"<{type(value).__name__}>"
