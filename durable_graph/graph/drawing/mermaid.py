"""A drawing as Mermaid text.

Names are the user's, and Mermaid has many words and signs that mean something to it. So ids are made of ASCII letters,
digits and `_` and are never one of its words; labels are quoted, and in them all but plain text stands as entity codes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from durable_graph.errors import InvalidConfigError
from durable_graph.graph.drawing.labels import clean, wrapped
from durable_graph.types import END, START

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from durable_graph.graph.drawing.model import DrawnEdge, DrawnGraph, DrawnNode

__all__ = ["draw"]

_DIRECTIONS: Final = ("TD", "TB", "BT", "LR", "RL")
_WRAP: Final = 40

_RESERVED: Final = frozenset(
    (
        *("accdescr", "acctitle", "bt", "br", "call", "class", "classdef", "click", "default", "direction", "end"),
        *("flowchart", "graph", "href", "interpolate", "linkstyle", "lr", "rl", "style", "subgraph", "tb", "td"),
        *("title", "_blank", "_parent", "_self", "_top", "false", "nan", "null", "true", "undefined"),
        *("__proto__", "constructor", "hasownproperty", "prototype", "tostring", "valueof"),
    )
)
"""Words of Mermaid's grammar, and of JavaScript's objects, in which it keeps nodes by id."""

_PLAIN_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_]+", re.ASCII)

_SHAPES: Final = {
    "start": ("([", "])", "first"),
    "end": ("([", "])", "last"),
    "graph": ("[[", "]]", "nested"),
    "handler": (">", "]", "handler"),
    "missing": ("[", "]", "missing"),
}
_ARROWS: Final = {"edge": "-->", "barrier": "==>", "route": "-.->", "undeclared": "-.->", "error": "-.->"}

_STYLES: Final = (
    "classDef default fill:#eef2ff,stroke:#6366f1,color:#1e1b4b",
    "classDef first fill:#dcfce7,stroke:#16a34a,color:#14532d",
    "classDef last fill:#e5e7eb,stroke:#6b7280,color:#111827",
    "classDef nested fill:#fef9c3,stroke:#ca8a04,color:#422006",
    "classDef handler fill:#fee2e2,stroke:#dc2626,color:#450a0a",
    "classDef missing fill:#ffffff,stroke:#dc2626,color:#dc2626,stroke-dasharray:4 3",
)


def draw(graph: DrawnGraph, *, with_styles: bool = True, direction: str = "TD") -> str:
    """The text; see `DrawnGraph.draw_mermaid`.

    Raises:
        InvalidConfigError: there is no such direction.
    """
    if direction not in _DIRECTIONS:
        what = f"direction {direction!r} is none of Mermaid's"
        raise InvalidConfigError(what, cure=f"Pass one of {', '.join(map(repr, _DIRECTIONS))}.")
    ids = _ids(graph.nodes)
    lines = [f"flowchart {direction}", *_level(graph, ids, None, 1, with_styles=with_styles)]
    lines += [f"  {_edge(graph, ids, edge)}" for edge in graph.edges]
    if with_styles:
        lines += [f"  {style}" for style in _STYLES]
    return "\n".join(lines) + "\n"


def _ids(names: Iterable[str]) -> dict[str, str]:
    """An id for each node: its name where Mermaid can take that, else one that resembles it."""
    names = list(names)
    ids = {name: name for name in names if _usable(name)}
    taken = set(ids.values())
    for name in names:
        if name in ids:
            continue
        base = "n_" + re.sub(r"[^A-Za-z0-9]+", "_", name, flags=re.ASCII).strip("_")
        number, made = 1, base if len(base) > len("n_") else "n_1"
        while made in taken:
            number += 1
            made = f"{base.rstrip('_')}_{number}"
        ids[name] = made
        taken.add(made)
    return ids


def _usable(name: str) -> bool:
    return bool(_PLAIN_ID.fullmatch(name)) and name.lower() not in _RESERVED


def _level(
    graph: DrawnGraph, ids: dict[str, str], parent: str | None, depth: int, *, with_styles: bool
) -> Iterator[str]:
    """The nodes that lie in one cluster, and the clusters in it."""
    indent = "  " * depth
    for node in graph.nodes.values():
        if node.parent != parent:
            continue
        if node.kind == "cluster":
            yield f'{indent}subgraph {ids[node.id]}["{_text(node)}"]'
            yield from _level(graph, ids, node.id, depth + 1, with_styles=with_styles)
            yield f"{indent}end"
        else:
            before, after, style = _SHAPES.get(node.kind, ("[", "]", ""))
            suffix = f":::{style}" if with_styles and style else ""
            yield f'{indent}{ids[node.id]}{before}"{_text(node)}"{after}{suffix}'


def _edge(graph: DrawnGraph, ids: dict[str, str], edge: DrawnEdge) -> str:
    """An edge. Those of a cluster lead to its START and come from its END: some edges of clusters break Mermaid."""
    source = _way(graph, edge.source, END)
    target = _way(graph, edge.target, START)
    label = f'|"{escaped(edge.label)}"|' if edge.label else ""
    return f"{ids[source]} {_ARROWS[edge.kind]}{label} {ids[target]}"


def _way(graph: DrawnGraph, id: str, inner: str) -> str:
    return f"{id}:{inner}" if graph.nodes[id].kind == "cluster" else id


def _text(node: DrawnNode) -> str:
    lines = [*wrapped(clean(node.label), _WRAP), *(f"({note})" for note in node.notes)]
    return "<br/>".join(map(escaped, lines))


def escaped(text: str) -> str:
    """One line of text as it stands between quotes: letters, digits and single spaces stay, signs become codes.

    Entity codes also keep text from being taken for Markdown ("1. x", "__x__") or HTML.
    """
    text = clean(text)
    made: list[str] = []
    for index, one in enumerate(text):
        before, after = text[max(0, index - 1) : index], text[index + 1 : index + 2]
        inside = (one in "_-" and before.isalnum() and after.isalnum()) or (
            one == " " and before not in ("", " ") and after
        )
        plain = one.isalnum() or not one.isascii() or inside
        made.append(one if plain else f"#{ord(one)};")
    return "".join(made)
