"""Graphs to draw, and readers of what was drawn. What they do not understand is an error."""

import random
import re
import unicodedata

from durable_graph import END, START, StateGraph
from durable_graph.graph.drawing import read_graph

HARD_NAMES = [
    "a",
    "o",
    "x",
    "v",
    "end",
    "End",
    "END",
    "subgraph",
    "class",
    "classDef",
    "style",
    "click",
    "graph",
    "flowchart",
    "default",
    "linkStyle",
    "direction",
    "constructor",
    "__proto__",
    "_self",
    "endpoint",
    "n_end",
    "two words",
    "two_words",
    " spaces  inside ",
    'say "hi"',
    "it's",
    "[x]",
    "(x)",
    "{x}",
    "a-->b",
    "a -- b",
    "a&b",
    "a;b",
    "a%%b",
    "%%{init}%%",
    "<b>bold</b>",
    "&amp;",
    "`code`",
    "1. item",
    "- item",
    "__dunder__",
    "*star*",
    "$x$",
    "back\\slash",
    "line\nbreak",
    "tab\there",
    "nul\x00",
    "lone\ud800",
    "turn\u202eed",
    "naïve",
    "日本語",
    "Ж",
    "👩‍💻",
    "e\u0301",
    "@{shape}",
    "123",
    "-",
    "…",
    "a_very_long_name_" * 6,
    "x" * 90,
]
"""Names that are words or signs of Mermaid, XML or Markdown, or that a naive width or escape gets wrong."""


HARD_LABELS = ["#35;", "#quot;", "fa:fa-ban", "a|b", '|"x"|', ":::first", "style: a#b;", *HARD_NAMES]
"""Labels may also hold what names may not."""


def nothing(state):
    raise AssertionError("drawing must not run this")


def undeclared(state):
    nothing(state)


def builder(*names):
    made = StateGraph(dict)
    for name in names:
        made.add_node(name, nothing)
    return made


def star(names):
    """START -> each name -> END, and a labelled route back from each to the first.

    Labels and names come from the same list, so that each is tried as both.
    """
    graph = builder(*names)
    for name in names:
        graph.add_edge(START, name).add_edge(name, END)
        graph.add_conditional_edges(name, nothing, {f"to {name}": names[0]})
    return graph


def random_builder(seed):
    """Up to 20 nodes with chains, branches, joins, routes back, labels, barriers and routers that say nothing."""
    dice = random.Random(seed)
    count = dice.randint(1, 20)
    names = [f"n{index:02}" + "wide" * dice.choice([0, 0, 0, 1, 4]) for index in range(count)]
    graph = builder(*names)
    graph.add_edge(START, names[0])
    for index in range(1, count):
        graph.add_edge(names[dice.randrange(max(0, index - 5), index)], names[index])
    for number in range(dice.randint(0, count)):
        source = dice.choice(names)
        targets = dice.sample([*names, END], min(count, dice.randint(1, 3)))
        labels = {(f"way {number}" if dice.random() < 0.5 else target): target for target in targets}
        if source not in graph.branches:
            graph.add_conditional_edges(source, nothing, labels)
    for _ in range(dice.randint(0, 2)):
        graph.add_edge(dice.sample(names, min(count, 3)), dice.choice(names))
    if dice.random() < 0.15:
        graph.add_conditional_edges(dice.choice(names), undeclared)
    return graph


def nested_builder(seed, depth):
    """A random graph in which some nodes are compiled graphs."""
    dice = random.Random(seed)
    graph = random_builder(seed)
    for name in list(graph.nodes):
        if depth and dice.random() < 0.15:
            child = nested_builder(dice.randrange(1000), depth - 1).compile(name="child")
            graph.nodes[name].body = StateGraph(dict).add_node("x", child).nodes["x"].body
    return graph


def drawn(graph, **how):
    return read_graph(graph, **how)


def pairs(graph):
    """The edges of a drawing without their number: parallel ones are drawn as one."""
    return {(edge.source, edge.target) for edge in graph.edges}


# --- Mermaid ----------------------------------------------------------------------------------------------------------

_ID = r"[A-Za-z_][A-Za-z0-9_]+"
_LABEL = r'"((?:[^"\x00-\x1f\ud800-\udfff]|)*)"'
_NODE = re.compile(rf"({_ID})(?:\(\[{_LABEL}\]\)|\[\[{_LABEL}\]\]|\[{_LABEL}\]|>{_LABEL}\])(?::::({_ID}))?")
_EDGE = re.compile(rf"({_ID}) (-->|==>|-\.->)(?:\|{_LABEL}\|)? ({_ID})")
_SUBGRAPH = re.compile(rf"subgraph ({_ID})\[{_LABEL}\]")
_CLASS = re.compile(rf"classDef ({_ID}) \S.*")
_WORDS = {"end", "subgraph", "class", "classdef", "style", "linkstyle", "click", "default", "graph", "flowchart"}


class Mermaid:
    """Mermaid text, read strictly: every line is one of the few forms, every id is declared once and is no keyword."""

    def __init__(self, text):
        self.labels, self.parents, self.edges, self.classes = {}, {}, [], set()
        head, *lines = text.removesuffix("\n").split("\n")
        self.direction = re.fullmatch(r"flowchart (TD|TB|BT|LR|RL)", head)[1]
        inside = []
        for line in lines:
            self._line(line.strip(), inside)
        assert inside == []
        for source, _, _, target in self.edges:
            assert {source, target} <= self.labels.keys()

    def _line(self, line, inside):
        if line == "end":
            inside.pop()
        elif found := _SUBGRAPH.fullmatch(line):
            self._declare(found[1], found[2], inside)
            inside.append(found[1])
        elif found := _EDGE.fullmatch(line):
            assert inside == []
            self.edges.append((found[1], found[2], unescaped(found[3] or ""), found[4]))
        elif found := _CLASS.fullmatch(line):
            self.classes.add(found[1])
        else:
            found = _NODE.fullmatch(line)
            assert found, f"not Mermaid as we write it: {line!r}"
            self._declare(found[1], next(label for label in found.groups()[1:5] if label is not None), inside)

    def _declare(self, id, label, inside):
        assert id not in self.labels
        assert id.lower() not in _WORDS
        self.labels[id] = [unescaped(line) for line in label.split("<br/>")]
        self.parents[id] = inside[-1] if inside else None


def unescaped(label):
    """The text of a label. Between entity codes only letters, digits, `_`, `-` and single spaces stand."""
    bare = re.sub(r"#\d+;", "", label)
    assert all(one.isalnum() or one in "_- " or ord(one) > 127 for one in bare), label
    return re.sub(r"#(\d+);", lambda code: chr(int(code[1])), label)


# --- text -------------------------------------------------------------------------------------------------------------

_MOVES = {"down": (1, 0), "up": (-1, 0), "right": (0, 1), "left": (0, -1)}
_CORNERS = {
    "┌": {"up": "right", "left": "down"},
    "┐": {"up": "left", "right": "down"},
    "└": {"down": "right", "left": "up"},
    "┘": {"down": "left", "right": "up"},
}
_CORNERS |= {heavy: _CORNERS[light] for heavy, light in zip("┏┓┗┛", "┌┐└┘", strict=True)}
_UPRIGHT, _LEVEL, _CROSS = set("│╎┊┃"), set("─╌┈━"), set("┼╂┿╋")


def grid(text):
    """The text by (row, column), a wide character in two columns, combining marks left out."""
    cells = {}
    for row, line in enumerate(text.splitlines()):
        column = 0
        for one in line:
            if unicodedata.combining(one):
                continue
            cells[row, column] = one
            column += 2 if unicodedata.east_asian_width(one) in "WF" else 1
    return cells


def frames(text, names):
    """The box around each name: (top, left, bottom, right). Names stand alone on a line of their box."""
    cells = grid(text)
    found = {}
    for row, line in enumerate(text.splitlines()):
        for name in names:
            for hit in re.finditer(rf"(?<![\w.]){re.escape(name)}(?![\w.])", line):
                left = hit.start()
                while cells.get((row, left)) == " " or left == hit.start():
                    left -= 1
                right = hit.end()
                while cells.get((row, right)) == " ":
                    right += 1
                if cells.get((row, left)) != "│" or cells.get((row, right)) not in ("│", "├"):
                    continue
                top, bottom = row, row
                while cells[top, left] not in "┌╭":
                    top -= 1
                while cells[bottom, left] not in "└╰":
                    bottom += 1
                assert name not in found
                found[name] = (top, left, bottom, right)
    return found


def follow(cells, row, column, heading):
    """Walk along a line from where it leaves a border to its arrow; labels on the way are walked over."""
    while True:
        down, right = _MOVES[heading]
        row, column = row + down, column + right
        here = cells.get((row, column), " ")
        if here in "▼▲◄":
            assert here == {"down": "▼", "up": "▲", "left": "◄"}[heading]
            return row + down, column + right
        if here in _CORNERS:
            heading = _CORNERS[here][heading]
        elif heading in ("left", "right"):
            assert here in _LEVEL | _CROSS, (row, column, here)
        else:
            assert here in _UPRIGHT | _CROSS or here.isalnum() or here in " /", (row, column, here)


def edges_in(text, names):
    """The edges that a reader of the text sees."""
    cells = grid(text)
    boxes = frames(text, names)
    assert boxes.keys() == set(names)
    found = set()
    for name, (top, left, bottom, right) in boxes.items():
        starts = [(bottom, column, "down") for column in range(left, right) if cells[bottom, column] == "┬"]
        starts += [(top, column, "up") for column in range(left, right) if cells[top, column] == "┴"]
        starts += [(row, right, "right") for row in range(top, bottom) if cells[row, right] == "├"]
        for start in starts:
            row, column = follow(cells, *start)
            found |= {(name, other) for other, box in boxes.items() if _on(box, row, column)}
    return found


def _on(box, row, column):
    top, left, bottom, right = box
    return (row in (top, bottom) and left < column < right) or (column == right and top < row < bottom)
