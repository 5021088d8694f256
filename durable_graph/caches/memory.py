"""Keeps cached values in this process's memory, as the same bytes a database would hold."""

from __future__ import annotations

import heapq
import threading
import time
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from durable_graph.caches.base import BaseCache
from durable_graph.caches.forks import renew_in_children

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durable_graph.caches.base import Entries, FullKey, Namespace

__all__ = ["InMemoryCache"]

_NEVER: Final = float("inf")
_SPARE: Final = 64
"""Notes of times that may be kept beside those of what is there."""


class InMemoryCache(BaseCache):
    """A cache in memory. Every object is a cache of its own; a forked child goes on with its own copy.

    Values whose time is over are removed when anything is read or kept the next time.
    """

    instant = True

    def __init__(self) -> None:
        # Re-entrant: a finalizer that runs while this OS thread is inside may use the cache too.
        self._lock = threading.RLock()
        self._spaces: dict[Namespace, dict[str, tuple[bytes, float]]] = {}
        self._due: list[tuple[float, FullKey]] = []  # a heap: what ends first is first
        renew_in_children(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @override
    def load(self, keys: Sequence[FullKey]) -> dict[FullKey, bytes]:
        """The bytes of those keys that are kept and not expired."""
        with self._lock:
            self._sweep(time.monotonic())
            found: dict[FullKey, bytes] = {}
            for key in keys:
                entry = self._spaces.get(key[0], {}).get(key[1])
                if entry is not None:
                    found[key] = entry[0]
            return found

    @override
    def store(self, entries: Entries) -> None:
        """Keep bytes."""
        with self._lock:
            now = time.monotonic()
            self._sweep(now)
            for key, (data, ttl) in entries.items():
                end = _NEVER if ttl is None else now + ttl
                if ttl is not None:
                    heapq.heappush(self._due, (end, key))
                self._spaces.setdefault(key[0], {})[key[1]] = (data, end)
            self._trim()

    @override
    def drop(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forget namespaces; all of them without an argument."""
        with self._lock:
            if namespaces is None:
                self._spaces.clear()
            else:
                for namespace in namespaces:
                    self._spaces.pop(namespace, None)
            self._trim()

    def renew(self) -> None:
        """Serve as hook of forks: another OS thread of the parent may have held the lock."""
        self._lock = threading.RLock()

    def _sweep(self, now: float) -> None:
        """Remove what is over."""
        while self._due and self._due[0][0] <= now:
            end, (namespace, name) = heapq.heappop(self._due)
            space = self._spaces.get(namespace, {})
            entry = space.get(name)
            if entry is not None and entry[1] == end:  # else it was set again since
                del space[name]
                if not space:
                    del self._spaces[namespace]

    def _trim(self) -> None:
        """Forget notes of times that mean nothing any more, when they are the greater part."""
        if len(self._due) <= _SPARE + 2 * sum(map(len, self._spaces.values())):
            return
        self._due = [
            (end, (namespace, name))
            for namespace, space in self._spaces.items()
            for name, (_, end) in space.items()
            if end != _NEVER
        ]
        heapq.heapify(self._due)
