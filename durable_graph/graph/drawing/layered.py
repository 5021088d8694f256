"""A layered drawing as geometry: where boxes stand and how lines run, for text and SVG alike.

Across, everything is measured in slots: a slot is the distance of two lines that run beside each other. Down, it is
measured in the renderer's own unit. Clusters are drawn first and then stand as boxes in the drawing around them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from durable_graph.graph.drawing.ordering import Link, Vertex, arrange
from durable_graph.graph.drawing.placing import place, ports
from durable_graph.graph.drawing.routing import assign_tracks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from durable_graph.graph.drawing.model import DrawnEdge, DrawnGraph, DrawnNode, EdgeKind
    from durable_graph.graph.drawing.ordering import Layers
    from durable_graph.graph.drawing.placing import Ports
    from durable_graph.graph.drawing.routing import Bend

    Piece = tuple[int, int, int]

__all__ = ["Box", "Label", "Metrics", "Picture", "Route", "layout"]

_LOOP: Final = 2
"""How many slots a line from a node to itself takes beside it."""

_STRENGTH: Final = {"barrier": 4, "edge": 3, "error": 2, "route": 1, "undeclared": 0}
"""Which of several edges between the same nodes decides how their common line looks."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """How a renderer measures. Heights are in its own unit.

    size, label: (slots, height) of a node's box and of a label's lines.
    apart: slots from one box to the next.   margin: height above and below the tracks of a gap.
    arrow: more height where an arrow ends.   track: height of a track.   least: the least height of a gap.
    inset: slots left and right inside a cluster.   head, foot: height inside a cluster above and below its nodes.
    edge: 1 where the bottom of a box is its last row, 0 where it is a line below it.   loop: least height of a box
    that a line leads back to.
    """

    size: Callable[[DrawnNode], tuple[int, int]]
    label: Callable[[tuple[str, ...]], tuple[int, int]]
    apart: int
    margin: int
    arrow: int
    track: int
    least: int
    inset: int
    head: Callable[[DrawnNode], int]
    foot: int
    edge: int
    loop: int


@dataclass(slots=True)
class Box:
    """A node's box: `left` and `slots` across (its right border is at left + slots - 1), `top` and `height` down."""

    node: DrawnNode
    left: int
    top: int
    slots: int
    height: int

    @property
    def right(self) -> int:
        """The slot of its right border."""
        return self.left + self.slots - 1


@dataclass(slots=True)
class Label:
    """A label's room: `slots` from `left`, `height` from `top`."""

    lines: tuple[str, ...]
    left: int
    top: int
    slots: int
    height: int


@dataclass(slots=True)
class Route:
    """A line from border to border, as corner points (slot, height) from source to target. All parts are straight."""

    source: str
    target: str
    kind: EdgeKind
    points: list[tuple[int, int]]
    label: Label | None = None


@dataclass(slots=True)
class Picture:
    """A whole drawing. Clusters come before what lies in them."""

    boxes: list[Box] = field(default_factory=list[Box])
    routes: list[Route] = field(default_factory=list[Route])
    slots: int = 0
    height: int = 0

    def move(self, across: int, down: int) -> None:
        """Move everything."""
        for box in self.boxes:
            box.left += across
            box.top += down
        for route in self.routes:
            route.points = [(slot + across, height + down) for slot, height in route.points]
            if route.label is not None:
                route.label.left += across
                route.label.top += down


@dataclass(slots=True)
class _Line:
    """Edges between the same two nodes, drawn as one line."""

    source: str
    target: str
    kind: EdgeKind
    texts: list[str]


def layout(graph: DrawnGraph, metrics: Metrics, wrap: Callable[[str], list[str]]) -> Picture:
    """Lay out a graph. `wrap` breaks the text of a label into lines."""
    return _Level(graph, None, metrics, wrap).draw()


class _Level:
    """The nodes that lie side by side in one cluster, or outermost."""

    def __init__(
        self, graph: DrawnGraph, parent: str | None, metrics: Metrics, wrap: Callable[[str], list[str]]
    ) -> None:
        self._graph = graph
        self._metrics = metrics
        self._wrap = wrap
        self._nodes = [node for node in graph.nodes.values() if node.parent == parent]
        self._number = {node.id: number for number, node in enumerate(self._nodes)}
        lines = _merged(edge for edge in graph.edges if edge.source in self._number and edge.target in self._number)
        self._lines = [line for line in lines if line.source != line.target]
        self._loops = {self._number[line.source]: line for line in lines if line.source == line.target}
        self._inside: dict[int, Picture] = {}

    def draw(self) -> Picture:
        """Lay this level out, with what is inside its clusters."""
        vertices = [self._vertex(number, node) for number, node in enumerate(self._nodes)]
        links = [self._link(line) for line in self._lines]
        for number, vertex in enumerate(vertices):
            vertex.last = self._nodes[number].kind == "end"
        found = arrange(vertices, links)
        self._widen(found)
        place(found, self._metrics.apart)
        met = ports(found)
        picture = Picture()
        routes = self._route(found, links, met, picture)
        for number, node in enumerate(self._nodes):
            self._put(picture, node, number, vertices[number])
        for line, link, points in zip(self._lines, links, routes, strict=True):
            route = Route(line.source, line.target, line.kind, points[::-1] if link.flipped else points)
            stand_in = next((vertices[one] for one in link.path if vertices[one].label), None)
            if stand_in is not None:
                lines = self._text(line)
                route.label = Label(lines, stand_in.left, stand_in.top, stand_in.slots, stand_in.height)
            picture.routes.append(route)
        _fit(picture)
        return picture

    # --- sizes ------------------------------------------------------------------------------------------------------

    def _vertex(self, number: int, node: DrawnNode) -> Vertex:
        slots, height = self._metrics.size(node)
        if node.kind == "cluster":
            inside = _Level(self._graph, node.id, self._metrics, self._wrap).draw()
            self._inside[number] = inside
            slots = max(slots, inside.slots + 2 * self._metrics.inset)
            height = self._metrics.head(node) + inside.height + self._metrics.foot
        body = slots
        loop = self._loops.get(number)
        if loop is not None:
            label = self._metrics.label(self._text(loop)) if loop.texts else (0, 0)
            height = max(height, self._metrics.loop, label[1])
            slots += _LOOP + label[0]
        return Vertex(slots, height, body)

    def _link(self, line: _Line) -> Link:
        label = self._metrics.label(self._text(line)) if line.texts else None
        weak = line.kind == "undeclared"
        return Link(self._number[line.source], self._number[line.target], label, weak=weak)

    def _text(self, line: _Line) -> tuple[str, ...]:
        return tuple(self._wrap(" / ".join(line.texts)))

    def _widen(self, found: Layers) -> None:
        """Make boxes wide enough for the lines that meet them."""
        leaving = [0] * len(found.vertices)
        arriving = [0] * len(found.vertices)
        for pieces in found.pieces:
            for upper, lower, _ in pieces:
                leaving[upper] += 1
                arriving[lower] += 1
        for number in range(len(self._nodes)):
            vertex = found.vertices[number]
            more = max(leaving[number], arriving[number]) + 2 - vertex.body
            more += (vertex.body + max(more, 0) + 1) % 2  # odd, so that a slot is in the middle
            if more > 0:
                vertex.body += more
                vertex.slots += more

    # --- lines ------------------------------------------------------------------------------------------------------

    def _route(self, found: Layers, links: list[Link], met: Ports, picture: Picture) -> list[list[tuple[int, int]]]:
        """Give layers and gaps their heights, and each link its corner points from its upper end to its lower one."""
        metrics, vertices = self._metrics, found.vertices
        bends: dict[Piece, list[tuple[int, int]]] = {}
        top = 0
        for rank, layer in enumerate(found.layers):
            height = max((vertices[number].height for number in layer), default=0)
            for number in layer:
                vertices[number].top = top + (height - vertices[number].height) // 2
            top += height
            if rank < len(found.pieces):
                pieces = found.pieces[rank]
                tracked, count = assign_tracks([(met.down[piece], met.up[piece]) for piece in pieces])
                above, below = self._margins(links, pieces)
                for piece, route in zip(pieces, tracked, strict=True):
                    bends[piece] = _corners(route, top + above + metrics.track // 2, metrics.track)
                top += max(above + count * metrics.track + below, metrics.least)
        picture.height = top
        return [self._points(found, link, index, met, bends) for index, link in enumerate(links)]

    def _margins(self, links: list[Link], pieces: list[Piece]) -> tuple[int, int]:
        """The height above and below the tracks of a gap: more where arrows end."""
        metrics, count = self._metrics, len(self._nodes)
        up = any(links[link].flipped and upper < count for upper, _, link in pieces)
        down = any(not links[link].flipped and lower < count for _, lower, link in pieces)
        return metrics.margin + metrics.arrow * up, metrics.margin + metrics.arrow * down

    def _points(
        self, found: Layers, link: Link, index: int, met: Ports, bends: dict[Piece, list[tuple[int, int]]]
    ) -> list[tuple[int, int]]:
        pieces = [(upper, lower, index) for upper, lower in pairwise(link.path)]
        first, last = found.vertices[link.upper], found.vertices[link.lower]
        points = [(met.down[pieces[0]], first.top + first.height - self._metrics.edge)]
        for piece in pieces:
            points += bends[piece]
        points.append((met.up[pieces[-1]], last.top))
        return points

    def _put(self, picture: Picture, node: DrawnNode, number: int, vertex: Vertex) -> None:
        """Add a box, what is inside of it, and the line that leads from it to itself."""
        box = Box(node, vertex.left, vertex.top, vertex.body, vertex.height)
        picture.boxes.append(box)
        inside = self._inside.get(number)
        if inside is not None:
            aside = (vertex.body - inside.slots) // 2
            inside.move(vertex.left + aside, vertex.top + self._metrics.head(node))
            picture.boxes += inside.boxes
            picture.routes += inside.routes
        loop = self._loops.get(number)
        if loop is None:
            return
        third = vertex.height // 3
        upper, lower = vertex.top + third, vertex.top + vertex.height - self._metrics.edge - third
        out = box.right + _LOOP
        route = Route(node.id, node.id, loop.kind, [(box.right, upper), (out, upper), (out, lower), (box.right, lower)])
        if loop.texts:
            lines = self._text(loop)
            slots, height = self._metrics.label(lines)
            route.label = Label(lines, out + 1, vertex.top + (vertex.height - height) // 2, slots, height)
        picture.routes.append(route)


def _merged(edges: Iterable[DrawnEdge]) -> list[_Line]:
    """Edges between the same nodes in the same direction as one line. Undeclared routes look so and need no label."""
    lines: dict[tuple[str, str], _Line] = {}
    for edge in edges:
        line = lines.setdefault((edge.source, edge.target), _Line(edge.source, edge.target, edge.kind, []))
        if _STRENGTH[edge.kind] > _STRENGTH[line.kind]:
            line.kind = edge.kind
        if edge.label and edge.kind != "undeclared" and edge.label not in line.texts:
            line.texts.append(edge.label)
    return list(lines.values())


def _corners(route: list[Bend], top: int, track: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for bend in route:
        height = top + bend.track * track
        found += [(bend.start, height), (bend.end, height)]
    return found


def _fit(picture: Picture) -> None:
    """Move a drawing so that its leftmost slot is 0, and measure it."""
    slots = [slot for route in picture.routes for slot, _ in route.points]
    slots += [slot for box in picture.boxes for slot in (box.left, box.right)]
    labels = [route.label for route in picture.routes if route.label is not None]
    slots += [slot for label in labels for slot in (label.left, label.left + label.slots - 1)]
    least = min(slots, default=0)
    if least:
        picture.move(-least, 0)
    picture.slots = max(slots, default=-1) - least + 1
