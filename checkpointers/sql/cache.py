"""`TableCache`: a cache whose values are rows of a table. A backend finds, keeps and removes rows.

Times are milliseconds since 1970. What is over is never given; each write removes some of it, the oldest first: as many
rows as it keeps, and SWEPT_AT_ONCE more.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Final, TypeAlias

from typing_extensions import override

from checkpointers.sql.sealing import opened, packed, place, sealed
from durable_graph.caches import BaseCache

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from durable_graph.caches import FullKey, Namespace
    from durable_graph.caches.base import Entries

__all__ = ["CachePlace", "CacheRow", "TableCache"]

CachePlace: TypeAlias = tuple[bytes, bytes]
"""Namespace and key."""
CacheRow: TypeAlias = tuple[bytes, bytes, "int | None", bytes]
"""Namespace, key, when it is over, value: the columns of the table, in order."""

SWEPT_AT_ONCE: Final = 100


class TableCache(BaseCache):
    """Gives the verbs of a cache to a backend that keeps rows."""

    @property
    @abstractmethod
    def _where(self) -> str:
        """The database, for messages."""

    @abstractmethod
    def _find(self, places: Sequence[CachePlace], now: int) -> Mapping[CachePlace, object]:
        """The values at those of the places that are there and not over."""

    @abstractmethod
    def _keep(self, rows: Sequence[CacheRow], now: int, sweep: int) -> None:
        """Keep rows, in place of those that are there, all or none; before that remove so many that are over."""

    @abstractmethod
    def _remove(self, namespaces: Sequence[bytes] | None) -> None:
        """Remove all rows of these namespaces; of all when None."""

    @override
    def load(self, keys: Sequence[FullKey]) -> dict[FullKey, bytes]:
        if not keys:
            return {}
        places = {place(key): key for key in keys}
        found = self._find(list(places), _now())
        return {places[at]: opened(places[at], value, self._where) for at, value in found.items()}

    @override
    def store(self, entries: Entries) -> None:
        now = _now()
        rows = [
            (*place(key), None if ttl is None else now + int(ttl * 1000), sealed(key, data))
            for key, (data, ttl) in entries.items()
        ]
        if rows:  # in order, so that of those who keep the same rows none wait for each other
            self._keep(sorted(rows, key=_place), now, len(rows) + SWEPT_AT_ONCE)

    @override
    def drop(self, namespaces: Sequence[Namespace] | None = None) -> None:
        if namespaces is None or namespaces:
            self._remove(None if namespaces is None else [packed(namespace) for namespace in namespaces])


def _place(row: CacheRow) -> CachePlace:
    return row[:2]


def _now() -> int:
    return time.time_ns() // 1_000_000
