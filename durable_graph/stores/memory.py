"""A store in the memory of this process."""

from __future__ import annotations

import os
import threading
import time
import weakref
from bisect import bisect_left, insort
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from typing_extensions import override

from durable_graph.stores.base import RowStore

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from durable_graph.stores.embedding import IndexConfig
    from durable_graph.stores.lifetimes import TTLConfig
    from durable_graph.stores.rows import Place, Rows, StoredItem

__all__ = ["InMemoryStore"]

T = TypeVar("T")


class InMemoryStore(RowStore):
    """Keeps items in memory, as bytes: what is read is what a database would give. Every object is a store of its own.

    index: {"dims": ..., "embed": ..., "fields": [...]} for semantic search. ttl: {"default_ttl": minutes, ...}.

    May be called from any OS thread or event loop; a forked child goes on with its own copy.

    Raises:
        InvalidConfigError: `index` or `ttl` is wrong.
    """

    instant: ClassVar[bool] = True

    def __init__(self, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None) -> None:
        super().__init__(index=index, ttl=ttl)
        self._rows = _MemoryRows()
        # Re-entrant: comparing a value with a filter may run code of the user's, which may read the store.
        self.lock = threading.RLock()
        _stores.append(weakref.ref(self, _stores.remove))

    @override
    def read(self, work: Callable[[Rows], T]) -> T:
        """Perform reads."""
        with self.lock:
            return work(self._rows)

    @override
    def write(self, work: Callable[[Rows], T]) -> T:
        """Perform writes."""
        # A plan reads first, which may fail, and then changes rows, which may not: nothing has to be undone.
        with self.lock:
            return work(self._rows)


class _MemoryRows:
    """Rows by place, and the places in order."""

    def __init__(self) -> None:
        self._items: dict[Place, StoredItem] = {}
        self._vectors: dict[Place, tuple[bytes, ...]] = {}
        self._order: list[Place] = []

    def find(self, namespace: tuple[str, ...], key: str, now: int) -> StoredItem | None:
        row = self._items.get((namespace, key))
        return row if row is not None and row.alive(now) else None

    def scan(self, prefix: tuple[str, ...], fragments: Sequence[bytes], now: int) -> Generator[StoredItem, None, None]:
        for place in self._below(prefix):
            row = self._items[place]
            if row.alive(now) and all(fragment in row.value for fragment in fragments):
                yield row

    def vectors(self, prefix: tuple[str, ...]) -> Generator[tuple[tuple[str, ...], str, bytes], None, None]:
        for place in self._below(prefix):
            for data in self._vectors.get(place, ()):
                yield (*place, data)

    def namespaces(
        self, head: tuple[str, ...], tail: tuple[str, ...], now: int
    ) -> Generator[tuple[str, ...], None, None]:
        last: tuple[str, ...] | None = None
        for place in self._below(head):
            namespace = place[0]
            if namespace == last or not self._items[place].alive(now):
                continue
            if namespace[max(0, len(namespace) - len(tail)) :] == tail:  # not [-len(tail):], which [-0:] would be
                last = namespace
                yield namespace

    def _below(self, prefix: tuple[str, ...]) -> Iterator[Place]:
        """The places whose namespace begins with the prefix, as they are now: they stand together."""
        start = bisect_left(self._order, (prefix, ""))
        for index in range(start, len(self._order)):
            place = self._order[index]
            if place[0][: len(prefix)] != prefix:
                return
            yield place

    def hold(self, places: object) -> None:
        """Nothing to do: the store's lock is held."""

    def put(self, row: StoredItem, vectors: Sequence[bytes]) -> None:
        place = (row.namespace, row.key)
        if place not in self._items:
            insort(self._order, place)
        self._items[place] = row
        self._vectors.pop(place, None)
        if vectors:
            self._vectors[place] = tuple(vectors)

    def delete(self, namespace: tuple[str, ...], key: str) -> None:
        place = (namespace, key)
        if self._items.pop(place, None) is not None:
            del self._order[bisect_left(self._order, place)]
            self._vectors.pop(place, None)

    def refresh(self, namespace: tuple[str, ...], key: str, now: int) -> None:
        row = self.find(namespace, key, now)
        if row is not None and row.ttl is not None:
            self._items[namespace, key] = row._replace(expires=now + row.ttl)

    def sweep(self, now: int) -> int:
        expired = [place for place, row in self._items.items() if not row.alive(now)]
        for place in expired:
            self.delete(*place)
        return len(expired)


# --- forks -------------------------------------------------------------------------------------------------------

_PATIENCE: Final = 2.0
"""Seconds a fork waits for all stores together to come to rest."""

_stores: list[weakref.ref[InMemoryStore]] = []
_resting: list[InMemoryStore] = []


def _before_fork() -> None:
    # A lock that another OS thread holds during a fork stays locked in the child for ever.
    deadline = time.monotonic() + _PATIENCE
    for reference in tuple(_stores):
        store = reference()
        if store is not None and store.lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            _resting.append(store)


def _after_in_parent() -> None:
    while _resting:
        _resting.pop().lock.release()


def _after_in_child() -> None:
    _resting.clear()
    for reference in tuple(_stores):
        if (store := reference()) is not None:
            store.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
