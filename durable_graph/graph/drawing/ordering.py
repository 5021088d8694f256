"""Layers and the order within them: the first half of a layered drawing.

Links are turned so that all lead down; each vertex gets the least rank that its links allow (longest path); a link that
spans several ranks, or has a label, passes through stand-ins; and each layer is sorted by the middle of its neighbors
as long as fewer links cross. Everything is deterministic.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Layers", "Link", "Vertex", "arrange"]

_SWEEPS: Final = 12
_SMALL: Final = 400
"""Up to so many vertices, neighbors are also exchanged one by one."""


@dataclass(slots=True)
class Vertex:
    """Something that takes room in a layer: a box, or the stand-in of a link.

    slots, height: its size.   body: the slots of the box itself; a loop beside it may take more.
    last: belongs into the last layer.   link: for a stand-in, whose.   label: it carries the link's label.
    """

    slots: int
    height: int
    body: int
    last: bool = False
    link: int | None = None
    label: bool = False
    rank: int = 0
    left: int = 0
    top: int = 0

    @property
    def middle(self) -> int:
        """The slot in the middle of the box."""
        return self.left + self.body // 2


@dataclass(slots=True)
class Link:
    """What is drawn between two vertices, by number. `flipped`: it leads up, so the layers see it the other way round.

    label: slots and height of its label.   weak: decides last what is up and what is down.
    path: the vertices from the upper end to the lower one, stand-ins included.
    """

    source: int
    target: int
    label: tuple[int, int] | None = None
    weak: bool = False
    flipped: bool = False
    path: list[int] = field(default_factory=list[int])

    @property
    def upper(self) -> int:
        """The end in the upper layer."""
        return self.target if self.flipped else self.source

    @property
    def lower(self) -> int:
        """The end in the lower layer."""
        return self.source if self.flipped else self.target


@dataclass(slots=True)
class Layers:
    """Vertices by number, in layers from top to bottom, each from left to right.

    pieces: for each gap between two layers the parts of links that cross it: (upper vertex, lower vertex, link).
    """

    vertices: list[Vertex]
    layers: list[list[int]]
    pieces: list[list[tuple[int, int, int]]]


def arrange(vertices: list[Vertex], links: Sequence[Link]) -> Layers:
    """Find layers and orders; `vertices` is extended by the stand-ins. Links from a vertex to itself are not given."""
    positions = _turn(len(vertices), links)
    _rank(vertices, links, positions)
    _stand_in(vertices, links)
    count = max((vertex.rank for vertex in vertices), default=0) + 1
    layers: list[list[int]] = [[] for _ in range(count)]
    for number, vertex in enumerate(vertices):
        layers[vertex.rank].append(number)
    pieces: list[list[tuple[int, int, int]]] = [[] for _ in range(count - 1)]
    for index, link in enumerate(links):
        for upper, lower in pairwise(link.path):
            pieces[vertices[upper].rank].append((upper, lower, index))
    found = Layers(vertices, layers, pieces)
    _sort(found)
    return found


def _turn(count: int, links: Sequence[Link]) -> list[int]:
    """Flip links that lead back, and return the vertices' positions in the order that the others keep to.

    The order is the reverse of that in which a depth-first walk leaves the vertices, so links against it close cycles.
    """
    following: list[list[int]] = [[] for _ in range(count)]
    for link in sorted(links, key=lambda link: link.weak):
        following[link.source].append(link.target)
    left: list[int] = []
    seen = [False] * count
    for root in range(count):
        if seen[root]:
            continue
        seen[root] = True
        walk = [(root, iter(following[root]))]
        while walk:
            number, rest = walk[-1]
            target = next((one for one in rest if not seen[one]), None)
            if target is None:
                left.append(number)
                _ = walk.pop()
            else:
                seen[target] = True
                walk.append((target, iter(following[target])))
    positions = [0] * count
    for position, number in enumerate(reversed(left)):
        positions[number] = position
    for link in links:
        link.flipped = positions[link.target] < positions[link.source]
    return positions


def _rank(vertices: list[Vertex], links: Sequence[Link], positions: list[int]) -> None:
    entering: list[list[Link]] = [[] for _ in vertices]
    for link in links:
        entering[link.lower].append(link)
    for number in sorted(range(len(vertices)), key=lambda one: positions[one]):
        spans = [vertices[link.upper].rank + (2 if link.label else 1) for link in entering[number]]
        vertices[number].rank = max(spans, default=0)
    deepest = max((vertex.rank for vertex in vertices), default=0)
    for vertex in vertices:
        if vertex.last:
            vertex.rank = deepest


def _stand_in(vertices: list[Vertex], links: Sequence[Link]) -> None:
    """Stand-ins for what lies between a link's ends. A label stands next to the link's source, where it is decided."""
    for index, link in enumerate(links):
        first, last = vertices[link.upper].rank + 1, vertices[link.lower].rank
        labelled = None if link.label is None else (last - 1 if link.flipped else first)
        link.path = [link.upper]
        for rank in range(first, last):
            here = link.label if rank == labelled and link.label else (1, 0)
            link.path.append(len(vertices))
            vertices.append(Vertex(*here, body=here[0], link=index, label=rank == labelled, rank=rank))
        link.path.append(link.lower)


# --- order ------------------------------------------------------------------------------------------------------------


def _sort(found: Layers) -> None:
    above: list[list[int]] = [[] for _ in found.vertices]
    below: list[list[int]] = [[] for _ in found.vertices]
    for piece in found.pieces:
        for upper, lower, _ in piece:
            below[upper].append(lower)
            above[lower].append(upper)
    best, fewest = [list(layer) for layer in found.layers], _crossings(found.layers, below)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        for layer in found.layers if down else reversed(found.layers):
            _by_middle(layer, found.layers, found.vertices, above if down else below)
        if len(found.vertices) <= _SMALL:
            for layer in found.layers:
                _exchange(layer, found, above, below)
        crossings = _crossings(found.layers, below)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in found.layers], crossings
    found.layers[:] = best


def _by_middle(layer: list[int], layers: list[list[int]], vertices: list[Vertex], near: list[list[int]]) -> None:
    """Sort a layer by the mean place of the neighbors in `near`; who has none keeps its place."""
    keys: dict[int, float] = {}
    places: dict[int, float] = {}
    for place, number in enumerate(layer):
        if near[number]:
            beside = layers[vertices[near[number][0]].rank]
            if not places:
                places = {one: (index + 0.5) / len(beside) for index, one in enumerate(beside)}
            keys[number] = sum(places[one] for one in near[number]) / len(near[number])
        else:
            keys[number] = (place + 0.5) / len(layer)
    layer.sort(key=lambda number: keys[number])


def _exchange(layer: list[int], found: Layers, above: list[list[int]], below: list[list[int]]) -> None:
    """Exchange two that stand side by side where that takes crossings away."""
    rank = found.vertices[layer[0]].rank if layer else 0
    places: dict[int, int] = {}
    for other in (rank - 1, rank + 1):
        if 0 <= other < len(found.layers):
            places |= {number: place for place, number in enumerate(found.layers[other])}
    for index in range(len(layer) - 1):
        one, two = layer[index], layer[index + 1]
        gain = sum(
            _pairs(near[one], near[two], places) - _pairs(near[two], near[one], places) for near in (above, below)
        )
        if gain > 0:
            layer[index], layer[index + 1] = two, one


def _pairs(left: list[int], right: list[int], places: dict[int, int]) -> int:
    """How many links of two vertices cross when `left` belongs to the left one."""
    return sum(places[one] > places[two] for one in left for two in right)


def _crossings(layers: list[list[int]], below: list[list[int]]) -> int:
    total = 0
    for layer, following in pairwise(layers):
        places = {number: place for place, number in enumerate(following)}
        seen: list[int] = []
        for number in layer:
            ends = sorted(places[one] for one in below[number])
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total
