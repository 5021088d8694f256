"""Graphs inside nodes: found by their namespace, without running anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from durable_graph.errors import InvalidConfigError
from durable_graph.graph.discovery import subgraphs_of
from durable_graph.runtime.hold import call_namespace
from durable_graph.runtime.nested import LEVEL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from durable_graph.graph.compiled import CompiledStateGraph
    from durable_graph.graph.threads import ThreadCalls
    from durable_graph.records import StoredCheckpoint

    Compiled = CompiledStateGraph[Any, Any, Any, Any]

__all__ = ["graph_at", "graphs_at", "namespace_of", "subgraphs_below", "unknown_namespace"]

_SEGMENT = re.compile(r"(?P<node>[^:]+)(?::\d*(?:\+(?P<number>\d+))?)?")
"""A level of a namespace: the node, ":3" for the task of its third Send, "+1" behind that for its second graph."""


def namespace_of(config: Mapping[str, Any]) -> str:
    """The namespace a normalised config names; "" for the outermost graph."""
    return str(config["configurable"].get("checkpoint_ns") or "")


def graph_at(graph: ThreadCalls, ns: str, stored: StoredCheckpoint | None = None) -> ThreadCalls | None:
    """The graph with a namespace; None when no node has one there.

    Where a node calls several graphs, the one whose fingerprint `stored` has, else the most likely one.
    """
    if not ns:
        return graph
    found = graphs_at(graph, ns)
    if not found:
        return None
    same = [one for one in found if stored is not None and one.program.fingerprint == stored.step.fingerprint]
    return same[0] if same else found[0]


def graphs_at(graph: ThreadCalls, ns: str) -> list[Compiled]:
    """The graphs inside that may have a namespace, the most likely one first; none when no node has a graph there.

    Where a node calls several, their numbers say in which order it called them, and only it knows which one came when.
    """
    above: list[ThreadCalls] = [graph]
    found: list[Compiled] = []
    for segment in ns.split(LEVEL):
        parts = _SEGMENT.fullmatch(segment)
        if parts is None:
            return []
        below: list[Compiled] = []
        for one in above:
            inner = _inside(one, parts["node"])
            first = min(int(parts["number"] or 0), len(inner) - 1)
            below += inner[first : first + 1] + inner[:first] + inner[first + 1 :] if inner else []
        found = list({id(one): one for one in below}.values())
        above = [*found]
    return found


def subgraphs_below(graph: ThreadCalls, namespace: str | None, *, recurse: bool) -> Iterator[tuple[str, Compiled]]:
    """(namespace, graph) of the graphs that nodes are or call; with `recurse` of those inside them too.

    namespace: only that one, however deep; with `recurse` and those inside it.

    Raises:
        InvalidConfigError: no node has a graph there.
    """
    if namespace is None:
        return _below(graph, "", (graph,), recurse=recurse)
    found = graphs_at(graph, namespace)
    if not found:
        raise unknown_namespace(graph, namespace)
    inner = found[0]
    deeper = _below(inner, f"{namespace}{LEVEL}", (graph, inner), recurse=True) if recurse else ()
    return iter([(namespace, inner), *deeper])


def _below(
    graph: ThreadCalls, prefix: str, above: tuple[ThreadCalls, ...], *, recurse: bool
) -> Iterator[tuple[str, Compiled]]:
    """`above`: the graphs it is in. One that calls itself is shown once, and not gone into again."""
    for name in graph.builder.nodes:
        for number, inner in enumerate(_inside(graph, name)):
            here = call_namespace(f"{prefix}{name}", number)
            yield here, inner
            if recurse and not any(inner.builder is one.builder for one in above):
                yield from _below(inner, f"{here}{LEVEL}", (*above, inner), recurse=True)


def unknown_namespace(graph: ThreadCalls, ns: str) -> InvalidConfigError:
    """No node has a graph with this namespace."""
    known = ", ".join(repr(name) for name, _ in _below(graph, "", (graph,), recurse=True)) or "none"
    what = f"checkpoint_ns {ns!r} leads to no graph inside {graph.program.name!r}"
    return InvalidConfigError(what, cure=f"Name one of the graphs inside its nodes ({known}).")


def _inside(graph: ThreadCalls, node: str) -> list[Compiled]:
    """The graphs that a node is or calls."""
    known = graph.builder.nodes.get(node)
    return [] if known is None else [inner for _, inner in subgraphs_of(known.body.target)]
