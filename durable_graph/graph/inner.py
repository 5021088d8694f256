"""Graphs inside nodes: found by their namespace, without running anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from durable_graph.graph.discovery import subgraphs_of
from durable_graph.runtime.nested import LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from durable_graph.graph.compiled import CompiledStateGraph
    from durable_graph.graph.threads import ThreadCalls
    from durable_graph.records import StoredCheckpoint

    Compiled = CompiledStateGraph[Any, Any, Any, Any]

__all__ = ["graph_at", "namespace_of", "subgraphs_below"]

_SEGMENT = re.compile(r"(?P<node>[^:+]+)(?::[^+]*)?(?:\+(?P<number>\d+))?")
"""A level of a namespace: the node, ":3" for the task of its third Send, "+1" for the second graph of the task."""


def namespace_of(config: Mapping[str, Any]) -> str:
    """The namespace a normalised config names; "" for the outermost graph."""
    return str(config["configurable"].get("checkpoint_ns") or "")


def graph_at(graph: ThreadCalls, ns: str, stored: StoredCheckpoint | None = None) -> ThreadCalls | None:
    """The graph with a namespace; None when no node has one there.

    Where a node calls several graphs, the one whose fingerprint `stored` has, else the one in its place.
    """
    found = graph
    for segment in ns.split(LEVEL) if ns else ():
        parts = _SEGMENT.fullmatch(segment)
        inner = _inside(found, parts["node"]) if parts is not None else []
        if parts is None or not inner:
            return None
        same = [one for one in inner if stored is not None and one.program.fingerprint == stored.step.fingerprint]
        found = same[0] if same else inner[min(int(parts["number"] or 0), len(inner) - 1)]
    return found


def subgraphs_below(graph: ThreadCalls, namespace: str | None, *, recurse: bool) -> Iterator[tuple[str, Compiled]]:
    """(namespace, graph) of the graphs that nodes are or call; of those inside them too."""
    for name in graph.builder.nodes:
        for number, inner in enumerate(_inside(graph, name)):
            here = f"{name}+{number}" if number else name
            if namespace is None or namespace == here:
                yield here, inner
            below = None if namespace is None else namespace.removeprefix(f"{here}{LEVEL}")
            if recurse and (namespace is None or below != namespace):
                for deeper, found in subgraphs_below(inner, below, recurse=True):
                    yield f"{here}{LEVEL}{deeper}", found


def _inside(graph: ThreadCalls, node: str) -> list[Compiled]:
    known = graph.builder.nodes.get(node)
    return [] if known is None else [inner for _, inner in subgraphs_of(known.body.target)]
