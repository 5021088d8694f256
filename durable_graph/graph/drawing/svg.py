"""A drawing as SVG, in one piece: no script, no font, no link. Colors follow the reader's light or dark mode."""

from __future__ import annotations

import unicodedata
from itertools import pairwise
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape, quoteattr

from durable_graph.graph.drawing.labels import clean, wrapped
from durable_graph.graph.drawing.layered import Metrics, layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from durable_graph.graph.drawing.layered import Box, Label, Picture, Route
    from durable_graph.graph.drawing.model import DrawnGraph, DrawnNode

__all__ = ["draw", "picture_of", "text_width"]

# Pixels.
_SLOT: Final = 12
_EDGE: Final = 24
_LINE: Final = 18
_PAD: Final = 11
_ARROW: Final = (8, 4)
_ROUND: Final = 6
_LEGEND_LINE: Final = 22
_LEGEND_SAMPLE: Final = 36
_NAME_SIZE: Final = 14
_SMALL_SIZE: Final = 12

_WRAP: Final = 32
_LABEL_WRAP: Final = 24

_STYLE: Final = """
.dg-back{fill:#fff}.dg-box{fill:#eef2ff;stroke:#6366f1;stroke-width:1.5}
.dg-start .dg-box{fill:#dcfce7;stroke:#16a34a}.dg-end .dg-box{fill:#e5e7eb;stroke:#6b7280}
.dg-graph .dg-box{fill:#fef9c3;stroke:#ca8a04}.dg-handler .dg-box{fill:#fee2e2;stroke:#dc2626}
.dg-missing .dg-box{fill:#fff;stroke:#dc2626;stroke-dasharray:4 3}
.dg-cluster>.dg-box{fill:#ca8a04;fill-opacity:.07;stroke:#ca8a04}
.dg-inner{fill:none;stroke:#ca8a04}
.dg-text{font:14px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:#1f2937;text-anchor:middle}
.dg-note,.dg-label,.dg-legend{font-size:12px;fill:#4b5563}.dg-title,.dg-legend{text-anchor:start}
.dg-title{font-weight:600}
.dg-line{fill:none;stroke:#4b5563;stroke-width:1.5}.dg-arrow{fill:#4b5563}
.dg-route .dg-line{stroke-dasharray:6 4}.dg-undeclared .dg-line{stroke-dasharray:2 4}
.dg-barrier .dg-line{stroke-width:3.5}
.dg-error .dg-line{stroke:#dc2626;stroke-dasharray:6 4}.dg-error .dg-arrow{fill:#dc2626}
@media (prefers-color-scheme:dark){
.dg-back{fill:#18181b}.dg-box{fill:#312e81;stroke:#818cf8}
.dg-start .dg-box{fill:#14532d;stroke:#4ade80}.dg-end .dg-box{fill:#3f3f46;stroke:#a1a1aa}
.dg-graph .dg-box{fill:#422006;stroke:#facc15}.dg-handler .dg-box{fill:#450a0a;stroke:#f87171}
.dg-missing .dg-box{fill:#18181b;stroke:#f87171}
.dg-cluster>.dg-box{fill:#facc15;stroke:#facc15}.dg-inner{stroke:#facc15}
.dg-text{fill:#f4f4f5}.dg-note,.dg-label,.dg-legend{fill:#d4d4d8}
.dg-line{stroke:#d4d4d8}.dg-arrow{fill:#d4d4d8}
.dg-error .dg-line{stroke:#f87171}.dg-error .dg-arrow{fill:#f87171}
}
""".strip().replace("\n", "")

_LEGEND: Final = {
    "route": "conditional",
    "error": "when it failed",
    "barrier": "barrier: waits for all of them",
    "undeclared": "undeclared: a router that does not say where it leads",
}


def picture_of(graph: DrawnGraph) -> Picture:
    """The drawing's geometry: slots across, pixels down."""
    metrics = Metrics(
        size=_size,
        label=_label_size,
        apart=3,
        margin=12,
        arrow=8,
        track=12,
        least=24,
        inset=2,
        head=_head,
        foot=20,
        edge=0,
        loop=48,
    )
    return layout(graph, metrics, lambda text: wrapped(clean(text), _LABEL_WRAP))


def draw(graph: DrawnGraph) -> str:
    """The SVG; see `DrawnGraph.draw_svg`."""
    picture = picture_of(graph)
    kinds = [kind for kind in _LEGEND if any(route.kind == kind for route in picture.routes)]
    legend = [_LEGEND[kind] for kind in kinds]
    wide = max([0, *(text_width(text, _SMALL_SIZE) + _LEGEND_SAMPLE for text in legend)])
    width = round(max((picture.slots - 1) * _SLOT, wide) + 2 * _EDGE)
    drawn = picture.height + 2 * _EDGE
    height = drawn + len(kinds) * _LEGEND_LINE
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    name = clean(graph.name)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={quoteattr(name)}>',
        f"<title>{escape(name)}</title><style>{escape(_STYLE)}</style>",
        f'<rect class="dg-back" width="{width}" height="{height}"/>',
        *_drawing(picture, (width - (picture.slots - 1) * _SLOT) / 2),
    ]
    for index, kind in enumerate(kinds):
        middle = drawn + index * _LEGEND_LINE
        sample = f'<path class="dg-line" d="M{_EDGE} {middle}h{_LEGEND_SAMPLE - 12}"/>'
        text = f'<text class="dg-text dg-legend" x="{_EDGE + _LEGEND_SAMPLE}" y="{middle + 4}">{legend[index]}</text>'
        parts.append(f'<g class="dg-{kind}">{sample}{text}</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _drawing(picture: Picture, left: float) -> Iterator[str]:
    """Clusters below, then lines, then boxes, then what is written beside lines."""
    yield f'<g transform="translate({_number(left)} {_EDGE})">'
    for box in picture.boxes:
        if box.node.kind == "cluster":
            yield _box(box)
    for route in picture.routes:
        yield _route(route)
    for box in picture.boxes:
        if box.node.kind != "cluster":
            yield _box(box)
    for route in picture.routes:
        if route.label is not None:
            yield _label(route.label)
    yield "</g>"


# --- boxes ------------------------------------------------------------------------------------------------------------


def _box(box: Box) -> str:
    left, width, node = box.left * _SLOT, (box.slots - 1) * _SLOT, box.node
    corner = min(box.height // 2, 18) if node.kind in ("start", "end") else 8
    shape = f'x="{left}" y="{box.top}" width="{width}" height="{box.height}" rx="{corner}"'
    parts = [
        f'<g class="dg-node dg-{node.kind}" data-id={quoteattr(clean(node.id))}>',
        f"<title>{escape(clean(node.id))}</title>",
        f'<rect class="dg-box" {shape}/>',
    ]
    if node.kind == "graph":
        inner = f'x="{left + 4}" y="{box.top + 4}" width="{width - 8}" height="{box.height - 8}" rx="5"'
        parts.append(f'<rect class="dg-inner" {inner}/>')
    names, notes = _lines(node)
    rows = len(names) + len(notes)
    cluster = node.kind == "cluster"
    top = box.top + (_PAD if cluster else (box.height - rows * _LINE) / 2)
    for index, line in enumerate([*names, *notes]):
        style = "dg-text" + (" dg-title" if cluster else "") + (" dg-note" if index >= len(names) else "")
        across = left + _SLOT if cluster else left + width / 2
        parts.append(_text(style, across, top + index * _LINE + _LINE * 0.72, line))
    return "".join([*parts, "</g>"])


def _lines(node: DrawnNode) -> tuple[list[str], list[str]]:
    return wrapped(clean(node.label), _WRAP), [f"({note})" for note in node.notes]


def _size(node: DrawnNode) -> tuple[int, int]:
    names, notes = _lines(node)
    bold = 1.15 if node.kind == "cluster" else 1.0
    width = max(
        *(text_width(line, _NAME_SIZE) * bold for line in names),
        *(text_width(line, _SMALL_SIZE) * bold for line in notes),
        36.0,
    )
    return _slots(width + 2 * 14), (len(names) + len(notes)) * _LINE + 2 * _PAD


def _head(node: DrawnNode) -> int:
    names, notes = _lines(node)
    return (len(names) + len(notes)) * _LINE + 2 * _PAD


def _label_size(lines: tuple[str, ...]) -> tuple[int, int]:
    return _slots(max(text_width(line, _SMALL_SIZE) for line in lines) + 8), len(lines) * _LINE


def _slots(width: float) -> int:
    """How many slots a width in pixels takes; odd, so that a slot is in the middle."""
    return (-int(-width // _SLOT) + 1) | 1


# --- lines ------------------------------------------------------------------------------------------------------------


def _route(route: Route) -> str:
    points = [(slot * _SLOT, height) for slot, height in route.points]
    points = [
        point
        for index, point in enumerate(points)
        if index in (0, len(points) - 1) or not _straight(points[index - 1], point, points[index + 1])
    ]
    (x, y), (beside_x, beside_y) = points[-1], points[-2]
    long, half = _ARROW
    across, down = (x > beside_x) - (x < beside_x), (y > beside_y) - (y < beside_y)
    base_x, base_y = x - across * long, y - down * long
    wing = f"{base_x + down * half},{base_y + across * half} {base_x - down * half},{base_y - across * half}"
    line = "".join(_path(part) for part in _around(route.label, [*points[:-1], (base_x, base_y)]))
    return (
        f'<g class="dg-edge dg-{route.kind}" data-source={quoteattr(clean(route.source))} '
        f'data-target={quoteattr(clean(route.target))}><path class="dg-line" d="{line}"/>'
        f'<polygon class="dg-arrow" points="{x},{y} {wing}"/></g>'
    )


def _around(label: Label | None, points: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """The line in two parts where a label stands on it; a label beside it changes nothing."""
    if label is not None:
        middle, top, bottom = (label.left + label.slots // 2) * _SLOT, label.top, label.top + label.height
        for index, (one, two) in enumerate(pairwise(points)):
            if one[0] == two[0] == middle and min(one[1], two[1]) <= top and max(one[1], two[1]) >= bottom:
                first, second = (top, bottom) if one[1] < two[1] else (bottom, top)
                return [[*points[: index + 1], (middle, first)], [(middle, second), *points[index + 1 :]]]
    return [points]


def _straight(one: tuple[int, int], two: tuple[int, int], three: tuple[int, int]) -> bool:
    return one[0] == two[0] == three[0] or one[1] == two[1] == three[1]


def _path(points: Sequence[tuple[int, int]]) -> str:
    """The line with rounded corners."""
    made = [f"M{points[0][0]} {points[0][1]}"]
    for before, here, after in zip(points, points[1:], points[2:], strict=False):
        room = min(_ROUND, _length(before, here) / 2, _length(here, after) / 2)
        (x1, y1), (x2, y2) = _toward(here, before, room), _toward(here, after, room)
        made.append(f"L{_number(x1)} {_number(y1)}Q{here[0]} {here[1]} {_number(x2)} {_number(y2)}")
    return "".join([*made, f"L{points[-1][0]} {points[-1][1]}"])


def _length(one: tuple[int, int], two: tuple[int, int]) -> int:
    return abs(one[0] - two[0]) + abs(one[1] - two[1])


def _toward(here: tuple[int, int], there: tuple[int, int], far: float) -> tuple[float, float]:
    length = _length(here, there) or 1
    return here[0] + (there[0] - here[0]) * far / length, here[1] + (there[1] - here[1]) * far / length


def _label(label: Label) -> str:
    middle = label.left * _SLOT + (label.slots - 1) * _SLOT / 2
    return "".join(
        _text("dg-text dg-label", middle, label.top + index * _LINE + _LINE * 0.72, line)
        for index, line in enumerate(label.lines)
    )


# --- text -------------------------------------------------------------------------------------------------------------


def _text(style: str, x: float, y: float, text: str) -> str:
    return f'<text class="{style}" x="{_number(x)}" y="{_number(y)}" xml:space="preserve">{escape(text)}</text>'


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def text_width(text: str, size: int) -> float:
    """Pixels that a text takes at most, whatever sans-serif font the reader has: by the widest common one."""
    return sum(_em(one) for one in text) * size


def _em(one: str) -> float:
    if one in "ijl|.,:;' ":
        return 0.4
    if one in "!`":
        return 0.5
    if one in "mwMW@%":
        return 1.03
    if one.isascii():
        return 0.86 if one.isupper() or one in "+=<>~^#&_" else 0.67
    if unicodedata.category(one) in ("Mn", "Me", "Cf"):
        return 0.0
    return 1.3 if unicodedata.east_asian_width(one) in ("W", "F") or unicodedata.category(one) == "So" else 1.2
