"""Where vertices stand in their layers, and at which slots of their borders links leave and arrive."""

from __future__ import annotations

from collections import defaultdict
from itertools import accumulate, pairwise
from math import floor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durable_graph.graph.drawing.ordering import Layers, Vertex

__all__ = ["Ports", "place", "ports", "spread"]

_SWEEPS: Final = 14
_STRONG: Final = 4.0


def spread(wanted: Sequence[float], apart: Sequence[int], weights: Sequence[float]) -> list[int]:
    """Places as near to the wanted ones as order and distances allow (least squares, by pooling neighbors).

    Args:
        wanted: one place each, in slots.
        apart: the least distance between each and the next: one fewer than places.
        weights: how much each insists.
    """
    offsets = list(accumulate(apart, initial=0))[: len(wanted)]
    blocks: list[list[float]] = []  # weight, weighted sum, how many
    for place, offset, weight in zip(wanted, offsets, weights, strict=True):
        blocks.append([weight, weight * (place - offset), 1])
        while len(blocks) > 1 and blocks[-2][1] * blocks[-1][0] > blocks[-1][1] * blocks[-2][0]:
            last = blocks.pop()
            blocks[-1] = [one + other for one, other in zip(blocks[-1], last, strict=True)]
    found: list[int] = []
    for weight, total, count in blocks:
        found += [floor(total / weight + 0.5)] * int(count)
    return [place + offset for place, offset in zip(found, offsets, strict=True)]


def place(found: Layers, apart: int) -> None:
    """Give each vertex its `left`, the least one being 0. `apart`: slots from one box to the next."""
    vertices = found.vertices
    above: dict[int, list[int]] = defaultdict(list)
    below: dict[int, list[int]] = defaultdict(list)
    for pieces in found.pieces:
        for upper, lower, _ in pieces:
            below[upper].append(lower)
            above[lower].append(upper)
    for layer in found.layers:
        _settle(layer, found, [0.0] * len(layer), apart)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        both = sweep >= _SWEEPS - 2
        for layer in found.layers if down else reversed(found.layers):
            wanted = [_wanted(number, vertices, above[number], below[number], down, both) for number in layer]
            _settle(layer, found, wanted, apart)
    _straighten(found, apart)
    least = min((vertex.left for vertex in vertices), default=0)
    for vertex in vertices:
        vertex.left -= least


def _wanted(number: int, vertices: list[Vertex], above: list[int], below: list[int], down: bool, both: bool) -> float:  # noqa: FBT001 - two plain facts about the sweep
    near = above + below if both else (above if down else below)
    vertex = vertices[number]
    if not near:
        return vertex.left
    centers = [vertices[one].left + (vertices[one].body - 1) / 2 for one in near]
    return sum(centers) / len(centers) - (vertex.body - 1) / 2


def _distances(layer: list[int], vertices: list[Vertex], apart: int) -> list[int]:
    """From the left of each to the left of the next. Stand-ins come nearer to each other than boxes do."""
    found: list[int] = []
    for one, two in pairwise(layer):
        free = apart if vertices[one].link is None and vertices[two].link is None else max(1, apart - 1)
        found.append(vertices[one].slots - 1 + free)
    return found


def _settle(layer: list[int], found: Layers, wanted: list[float], apart: int) -> None:
    vertices = found.vertices
    weights = [1.0 if vertices[number].link is None else _STRONG for number in layer]
    for number, left in zip(layer, spread(wanted, _distances(layer, vertices, apart), weights), strict=True):
        vertices[number].left = left


def _straighten(found: Layers, apart: int) -> None:
    """Bring the stand-ins of one link under each other where there is room."""
    vertices = found.vertices
    runs: dict[int, list[int]] = defaultdict(list)
    room: dict[int, tuple[int, int]] = {}
    limits = {id(layer): _distances(layer, vertices, apart) for layer in found.layers}
    beside: dict[int, tuple[list[int], int]] = {}
    for layer in found.layers:
        for index, number in enumerate(layer):
            beside[number] = (layer, index)
            link = vertices[number].link
            if link is not None:
                runs[link].append(number)
    for run in runs.values():
        pending = list(run)
        while pending:
            room.clear()
            low, high, taken = -(1 << 40), 1 << 40, 0
            for number in pending:
                layer, index = beside[number]
                half = vertices[number].body // 2
                distances = limits[id(layer)]
                least = vertices[layer[index - 1]].left + distances[index - 1] + half if index else -(1 << 40)
                most = (
                    vertices[layer[index + 1]].left - distances[index] + half if index + 1 < len(layer) else (1 << 40)
                )
                if max(low, least) > min(high, most):
                    break
                low, high, taken = max(low, least), min(high, most), taken + 1
            group, pending = pending[:taken], pending[taken:]
            middle = sum(vertices[number].middle for number in group) // len(group)
            for number in group:
                vertices[number].left = min(max(middle, low), high) - vertices[number].body // 2


# --- ports ------------------------------------------------------------------------------------------------------------


class Ports:
    """The slots at which pieces of links meet vertices: `down[piece]` at the upper vertex, `up[piece]` at the lower."""

    __slots__ = ("down", "up")

    def __init__(self) -> None:
        self.down: dict[tuple[int, int, int], int] = {}
        self.up: dict[tuple[int, int, int], int] = {}


def ports(found: Layers) -> Ports:
    """Find a slot for each end of each piece: in the order of the far ends, straight where both boxes have the slot."""
    order = {number: index for layer in found.layers for index, number in enumerate(layer)}
    leaving: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    arriving: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for pieces in found.pieces:
        for piece in pieces:
            leaving[piece[0]].append(piece)
            arriving[piece[1]].append(piece)
    for side, far in ((leaving, 1), (arriving, 0)):
        for pieces in side.values():
            pieces.sort(key=lambda piece, far=far: (order[piece[far]], piece[2]))
    made = Ports()
    vertices = found.vertices
    for turn in range(4):
        down = turn % 2 == 0
        for number, pieces in (leaving if down else arriving).items():
            far = 1 if down else 0
            other = made.up if down else made.down
            wanted = [_port(vertices[number], vertices[piece[far]], other.get(piece)) for piece in pieces]
            slots = _within(vertices[number], wanted)
            (made.down if down else made.up).update(zip(pieces, slots, strict=True))
    return made


def _range(vertex: Vertex) -> tuple[int, int]:
    """The slots of a border that links may use; a stand-in has only its middle."""
    if vertex.link is not None:
        return vertex.middle, vertex.middle
    return vertex.left + 1, vertex.left + vertex.body - 2


def _port(vertex: Vertex, far: Vertex, known: int | None) -> tuple[float, float]:
    """The slot wanted for a link to `far`, and how much: the one in which it would be straight, else the middle."""
    low, high = _range(vertex)
    if known is not None:
        return (known, _STRONG) if low <= known <= high else (vertex.middle, 1.0)
    far_low, far_high = _range(far)
    if max(low, far_low) > min(high, far_high):
        return vertex.middle, 1.0
    between = (vertex.middle + far.middle) / 2
    return min(max(between, low, far_low), high, far_high), _STRONG


def _within(vertex: Vertex, wanted: list[tuple[float, float]]) -> list[int]:
    """Ports one slot apart, inside the border."""
    low, high = _range(vertex)
    if low == high:
        return [low] * len(wanted)
    placed = spread([place for place, _ in wanted], [1] * (len(wanted) - 1), [weight for _, weight in wanted])
    return [min(max(slot, low + index), high - (len(wanted) - 1 - index)) for index, slot in enumerate(placed)]
