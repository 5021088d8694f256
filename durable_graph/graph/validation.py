"""Mistakes in a graph, found all at once, before anything runs."""

from __future__ import annotations

import difflib
import warnings
from typing import TYPE_CHECKING, Any

from durable_graph.errors import InvalidGraphError
from durable_graph.graph.branches import command_targets, returns_routes
from durable_graph.types import END, START

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from durable_graph.graph.builder import StateGraph
    from durable_graph.runtime.callables import Body

    Graph = StateGraph[Any, Any, Any, Any]

__all__ = ["check_graph"]


def check_graph(graph: Graph, interrupt: Iterable[str]) -> None:
    """Raise for mistakes, warn of nodes that nothing leads to.

    Raises:
        InvalidGraphError: all mistakes, one a line.
    """
    mistakes = [
        *_edges(graph),
        *_branches(graph),
        *_error_handlers(graph),
        *_entry(graph),
        *_breakpoints(graph, interrupt),
    ]
    if len(mistakes) == 1:
        raise InvalidGraphError(mistakes[0])
    if mistakes:
        listed = "\n".join(f"  {number}. {mistake}" for number, mistake in enumerate(mistakes, 1))
        what = f"the graph has {len(mistakes)} mistakes:\n{listed}"
        raise InvalidGraphError(what)
    lost = sorted(set(graph.nodes) - _reachable(graph))
    if lost:
        text = f"nothing leads to node {', '.join(map(repr, lost))}; add an edge to it, or take it out"
        warnings.warn(text, UserWarning, stacklevel=3)


def _near(name: object, graph: Graph) -> str:
    found = difflib.get_close_matches(str(name), graph.nodes, n=1)
    return f"; did you mean {found[0]!r}?" if found else f" (there are {', '.join(map(repr, graph.nodes)) or 'none'})"


def _edges(graph: Graph) -> Iterator[str]:
    for source, target in sorted(graph.edges):
        if source != START and source not in graph.nodes:
            yield f"found an edge starting at unknown node {source!r} (to {target!r}){_near(source, graph)}"
        if target != END and target not in graph.nodes:
            yield f"found an edge ending at unknown node {target!r} (from {source!r}){_near(target, graph)}"
    for sources, target in sorted(graph.waiting_edges):
        for source in sources:
            if source not in graph.nodes:
                yield f"found a barrier edge starting at unknown node {source!r} (to {target!r}){_near(source, graph)}"
        if target != END and target not in graph.nodes:
            yield f"found a barrier edge ending at unknown node {target!r} (from {sources}){_near(target, graph)}"


def _branches(graph: Graph) -> Iterator[str]:
    for source, branches in sorted(graph.branches.items()):
        if source != START and source not in graph.nodes:
            yield f"found a router ({', '.join(branches)}) of unknown node {source!r}{_near(source, graph)}"
        for branch in branches.values():
            for target in branch.declared or ():
                if target != END and target not in graph.nodes:
                    yield f"router {branch.name!r} of {source!r} names unknown target {target!r}{_near(target, graph)}"
    for node in graph.nodes.values():
        for target in node.destinations or ():
            if target != END and target not in graph.nodes:
                yield f"node {node.name!r} names unknown destination {target!r}{_near(target, graph)}"


def _error_handlers(graph: Graph) -> Iterator[str]:
    for whose, handler in _handlers(graph):
        for target in command_targets(handler.target) or ():
            if target != END and target not in graph.nodes:
                yield f"{whose} names unknown destination {target!r}{_near(target, graph)}"


def _handlers(graph: Graph) -> Iterator[tuple[str, Body]]:
    """The error handlers, each with what it is called in a message."""
    if graph.defaults.error_handler is not None:
        yield "the default error handler", graph.defaults.error_handler
    for node in graph.nodes.values():
        if node.error_handler is not None:
            yield f"the error handler of node {node.name!r}", node.error_handler


def _entry(graph: Graph) -> Iterator[str]:
    if START not in graph.branches and not any(source == START for source, _ in graph.edges):
        yield "the graph must have an entrypoint: add at least one edge from START to a node"


def _breakpoints(graph: Graph, interrupt: Iterable[str]) -> Iterator[str]:
    for name in sorted(set(interrupt)):
        if name not in graph.nodes:
            yield f"interrupt node {name!r} was not found{_near(name, graph)}"


def _reachable(graph: Graph) -> set[str]:
    """Nodes that something may lead to. A router or node that does not say where it leads may lead anywhere."""
    found: set[str] = set()
    pending = [START]
    while pending:
        name = pending.pop()
        if name in found or name == END:
            continue
        found.add(name)
        node = graph.nodes.get(name)
        for branch in graph.branches.get(name, {}).values():
            if branch.declared is None:
                return set(graph.nodes)
            pending += branch.declared
        pending += [target for source, target in graph.edges if source == name]
        pending += [target for sources, target in graph.waiting_edges if name in sources]
        if node is not None:
            if node.destinations is not None:
                pending += node.destinations
            elif returns_routes(node.body.target):
                return set(graph.nodes)
            handler = node.error_handler or graph.defaults.error_handler
            if handler is not None:
                declared = command_targets(handler.target)
                if declared is None and returns_routes(handler.target):
                    return set(graph.nodes)
                pending += declared or ()
    return found
