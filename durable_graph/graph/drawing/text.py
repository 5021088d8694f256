"""A drawing of box characters, for terminals and logs.

A slot is two columns wide, a track one row high. Lines never lie on each other, so a cell holds at most one line from
left to right and one from top to bottom; where they meet they cross.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from durable_graph.graph.drawing.labels import clean, columns, width_of, wrapped
from durable_graph.graph.drawing.layered import Metrics, layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from durable_graph.graph.drawing.layered import Box, Label, Picture, Route
    from durable_graph.graph.drawing.model import DrawnGraph, DrawnNode

__all__ = ["draw"]

_WRAP: Final = 32
_LABEL_WRAP: Final = 24

# vertical, horizontal, then the corners: right-down, left-down, right-up, left-up
_LINES: Final = {
    "edge": "│─┌┐└┘",
    "barrier": "┃━┏┓┗┛",
    "route": "╎╌┌┐└┘",
    "error": "╎╌┌┐└┘",
    "undeclared": "┊┈┌┐└┘",
}
_ASCII_LINES: Final = {
    "edge": "|-++++",
    "barrier": "#=++++",
    "route": ":.++++",
    "error": ":.++++",
    "undeclared": "''++++",
}
_FRAMES: Final = {
    "start": "│─╭╮╰╯",
    "end": "│─╭╮╰╯",
    "graph": "║═╔╗╚╝",
    "missing": "╎╌┌┐└┘",
}
_CROSSINGS: Final = {(False, False): "┼", (True, False): "╂", (False, True): "┿", (True, True): "╋"}
_LEGEND: Final = {
    "route": "conditional",
    "error": "conditional",
    "barrier": "barrier: waits for all of them",
    "undeclared": "undeclared: a router that does not say where it leads",
}


def draw(graph: DrawnGraph, *, ascii_only: bool = False) -> str:
    """The text; see `DrawnGraph.draw_text`."""
    show = _ascii if ascii_only else clean
    metrics = Metrics(
        size=partial(_size, show=show),
        label=_label_size,
        apart=2,
        margin=0,
        arrow=1,
        track=1,
        least=1,
        inset=1,
        head=lambda node: len(_lines(node, show)) + 1,
        foot=1,
        edge=1,
        loop=4,
    )
    picture = layout(graph, metrics, lambda text: wrapped(show(text), _LABEL_WRAP))
    canvas = _Canvas(ascii_only=ascii_only)
    for box in picture.boxes:
        if box.node.kind == "cluster":
            canvas.box(box, _lines(box.node, show))
    for route in picture.routes:
        canvas.route(route)
    for box in picture.boxes:
        if box.node.kind != "cluster":
            canvas.box(box, _lines(box.node, show))
    for route in picture.routes:
        canvas.ends(route)
        if route.label is not None:
            canvas.label(route.label)
    return "\n".join([*canvas.rows(), *_legend(picture, ascii_only=ascii_only)]) + "\n"


def _ascii(text: str) -> str:
    return clean(text).encode("ascii", "backslashreplace").decode("ascii")


def _lines(node: DrawnNode, show: Callable[[str], str]) -> list[str]:
    return [*wrapped(show(node.label), _WRAP), *(f"({note})" for note in node.notes)]


def _size(node: DrawnNode, show: Callable[[str], str]) -> tuple[int, int]:
    lines = _lines(node, show)
    return _slots(max(map(columns, lines)) + 4), len(lines) + 2


def _label_size(lines: tuple[str, ...]) -> tuple[int, int]:
    return _slots(max(map(columns, lines))), len(lines)


def _slots(width: int) -> int:
    """How many slots a width in columns takes: n slots are 2n - 1 columns. It is odd, so one slot is in the middle."""
    return (width + 2) // 2 | 1


def _legend(picture: Picture, *, ascii_only: bool) -> list[str]:
    """What the kinds of lines in this drawing mean."""
    signs, head = (_ASCII_LINES, ">") if ascii_only else (_LINES, "▶")
    kinds = {route.kind for route in picture.routes}
    rows = dict.fromkeys(f"{signs[kind][1] * 2}{head} {text}" for kind, text in _LEGEND.items() if kind in kinds)
    return ["", *rows] if rows else []


class _Canvas:
    """Characters by (row, column). A wide character takes its cell and leaves the next one empty."""

    def __init__(self, *, ascii_only: bool) -> None:
        self._cells: dict[tuple[int, int], str] = {}
        self._upright: dict[tuple[int, int], str] = {}  # kinds of the lines that run up and down
        self._lines = _ASCII_LINES if ascii_only else _LINES
        self._ascii = ascii_only

    def rows(self) -> list[str]:
        """The text, without blanks at the ends of rows."""
        height = max((row for row, _ in self._cells), default=-1) + 1
        width = max((column for _, column in self._cells), default=-1) + 1
        return [
            "".join(self._cells.get((row, column), " ") for column in range(width)).rstrip() for row in range(height)
        ]

    # --- boxes ------------------------------------------------------------------------------------------------------

    def box(self, box: Box, lines: list[str]) -> None:
        """A frame with lines of text in its middle; a cluster has them at its top left."""
        up, across, *corners = "|-++++" if self._ascii else _FRAMES.get(box.node.kind, "│─┌┐└┘")
        left, right, top, bottom = box.left * 2, box.right * 2, box.top, box.top + box.height - 1
        for row in range(top, bottom + 1):
            for column in range(left, right + 1):
                upright, level = column in (left, right), row in (top, bottom)
                if upright and level:
                    self._cells[row, column] = corners[2 * (row == bottom) + (column == right)]
                elif upright or level:
                    self._cells[row, column] = up if upright else across
                elif box.node.kind != "cluster":
                    _ = self._cells.pop((row, column), None)
        cluster = box.node.kind == "cluster"
        first = top + 1 if cluster else top + 1 + (box.height - 2 - len(lines)) // 2
        for index, line in enumerate(lines):
            self._write(first + index, left + 2 if cluster else left + (right - left + 2 - columns(line)) // 2, line)

    def label(self, label: Label) -> None:
        """The lines of a label, in the middle of its room."""
        for index, line in enumerate(label.lines):
            self._write(label.top + index, label.left * 2 + (label.slots * 2 - columns(line)) // 2, line)

    def _write(self, row: int, column: int, text: str) -> None:
        for one in text:
            wide = width_of(one)
            if wide:
                self._cells[row, column] = one
            else:
                self._cells[row, column - 1] = self._cells.get((row, column - 1), "") + one
            if wide > 1:
                self._cells[row, column + 1] = ""
            column += wide

    # --- lines ------------------------------------------------------------------------------------------------------

    def route(self, route: Route) -> None:
        """The parts of a line between its corners, then the corners. The cells of the borders are left alone."""
        points = [(slot * 2, row) for slot, row in route.points]
        ends = {(row, column) for column, row in (points[0], points[-1])}
        for (left, top), (right, bottom) in pairwise(points):
            if left == right:
                for row in range(min(top, bottom), max(top, bottom) + 1):
                    if (row, left) not in ends:
                        self._line(row, left, route.kind, upright=True)
            else:
                for column in range(min(left, right) + 1, max(left, right)):
                    self._line(top, column, route.kind, upright=False)
        for before, (column, row), after in zip(points, points[1:], points[2:], strict=False):
            self._cells[row, column] = self._corner(before, (column, row), after, route.kind)

    def _line(self, row: int, column: int, kind: str, *, upright: bool) -> None:
        key = row, column
        other = self._upright.get(key) if not upright else None
        level = self._cells.get(key) if upright else None
        signs = self._lines[kind]
        if other is not None:
            self._cells[key] = self._crossing(other, kind)
        elif upright and level is not None and level in {line[1] for line in self._lines.values()}:
            across = next(name for name, line in self._lines.items() if line[1] == level)
            self._cells[key] = self._crossing(kind, across)
        else:
            self._cells[key] = signs[0] if upright else signs[1]
        if upright:
            self._upright[key] = kind

    def _crossing(self, upright: str, level: str) -> str:
        return "+" if self._ascii else _CROSSINGS[upright == "barrier", level == "barrier"]

    def _corner(self, before: tuple[int, int], here: tuple[int, int], after: tuple[int, int], kind: str) -> str:
        near = (before, after)
        right = any(column > here[0] for column, _ in near)
        down = any(row > here[1] for _, row in near)
        return self._lines[kind][2 + (0 if down else 2) + (0 if right else 1)]

    def ends(self, route: Route) -> None:
        """Where a line leaves its source's border, and its arrow before that of its target."""
        (column, row), (near, beside) = ((slot * 2, row) for slot, row in route.points[:2])
        if not self._ascii:
            if near == column:
                self._cells[row, column] = self._leaving(self._cells.get((row, column), ""), down=beside > row)
            else:
                self._cells[row, column] = "╟" if self._cells.get((row, column)) == "║" else "├"
        (near, beside), (column, row) = ((slot * 2, row) for slot, row in route.points[-2:])
        if near == column:
            self._cells[row - 1 if beside < row else row + 1, column] = self._arrow("v" if beside < row else "^")
        else:
            self._cells[row, column + 1] = self._arrow("<")

    def _leaving(self, border: str, *, down: bool) -> str:
        if border == "═":
            return "╤" if down else "╧"
        return "┬" if down else "┴"

    def _arrow(self, sign: str) -> str:
        return sign if self._ascii else {"v": "▼", "^": "▲", "<": "◄"}[sign]
