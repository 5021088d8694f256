"""Forgetting results of nodes that a cache keeps: the part of a compiled graph that is about caches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_graph.errors import InvalidConfigError
from durable_graph.graph.threads import ThreadCalls
from durable_graph.runtime.caching import namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from durable_graph.caches import BaseCache, Namespace
    from durable_graph.runtime.work import NodeWork

__all__ = ["CacheCalls"]


class CacheCalls(ThreadCalls):
    """What is kept of the results of nodes with a `cache_policy`, and how it is forgotten."""

    cache: BaseCache | None

    def clear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Forget kept results: of these nodes, or of all nodes, and then also those of graphs inside them.

        What is being computed meanwhile is not kept. Results that nodes kept under a function that was changed since
        are out of reach: nobody finds them any more, and they go when their time is over or the cache is cleared.

        Raises:
            InvalidConfigError: the graph has no cache, or a name is none of its nodes.
        """
        _cache_of(self).clear(_namespaces(self, nodes))

    async def aclear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Async `clear_cache`."""
        await _cache_of(self).aclear(_namespaces(self, nodes))


def _cache_of(graph: CacheCalls) -> BaseCache:
    if graph.cache is None:
        what = f"graph {graph.program.name!r} has no cache that could be cleared"
        raise InvalidConfigError(what, cure="Compile it with one: graph.compile(cache=...).")
    return graph.cache


def _namespaces(graph: ThreadCalls, nodes: Sequence[str] | None) -> list[Namespace]:
    if nodes is None:
        inner = [found for _, found in graph.get_subgraphs(recurse=True) if found.cache is None]
        return [ns for one in (graph, *inner) for ns in _kept(one)]
    known = [name for name, spec in graph.program.nodes.items() if not spec.hidden]
    unknown = sorted(set(nodes).difference(known))
    if unknown:
        what = f"{', '.join(map(repr, unknown))} is no node of graph {graph.program.name!r}"
        raise InvalidConfigError(what, cure=f"Name some of {', '.join(map(repr, known))}.")
    return list(_kept(graph, nodes))


def _kept(graph: ThreadCalls, nodes: Sequence[str] | None = None) -> Iterator[Namespace]:
    """Where the results of a graph's nodes are kept."""
    for name, spec in graph.program.nodes.items():
        work: NodeWork = spec.work
        if work.cache is not None and (nodes is None or name in nodes):
            yield namespace_of(work)
