"""Keeps cached values in a SQLite file, for all processes of one machine.

It uses this process's one `SqliteDatabase` of the file, so it may share the file, and the write connection, with a
checkpointer and a store.

    value = format (1 byte) · digest (4 bytes, little endian) · what the codec wrote

The digest is a CRC-32 of namespace, key, format and bytes: a value that was changed, cut or moved is refused and never
taken for another one.
"""

from __future__ import annotations

import time
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

from typing_extensions import override

from checkpointers.sql import cache_statements as sql
from checkpointers.sql.sqlite_user import SqliteUser
from durable_graph.caches import BaseCache
from durable_graph.errors import CorruptDataError, NewerDatabaseError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from checkpointers.sql.sqlite_database import Synchronous
    from checkpointers.sql.sqlite_target import Target
    from durable_graph.caches import FullKey, Namespace
    from durable_graph.caches.base import Entries

__all__ = ["SqliteCache"]

_FORMAT: Final = 1
_HEAD: Final = Struct("<BI")
_SWEPT_AT_ONCE: Final = 100
"""Values that are over and are removed by one write, beside as many as it adds."""


class SqliteCache(SqliteUser, BaseCache):
    """A cache in a SQLite file, which may be the file of a `SqliteSaver` too.

    path: a path, "sqlite:///relative.db", "sqlite:////absolute.db", ":memory:" (lives as long as this object is open),
        or a sqlite3 or aiosqlite connection, whose file is taken. The file is made when first used.
    synchronous: "NORMAL" may lose the newest values at a power cut, which then are computed again; "FULL" does not.
        The strictest user of a file decides.
    busy_timeout: seconds to wait for a lock of another process.

    Values whose time is over are never returned; each write removes some of them from the file.

    Raises:
        InvalidConfigError: the path names no SQLite database, or an option is wrong.
    """

    def __init__(self, path: Target, *, synchronous: Synchronous = "NORMAL", busy_timeout: float = 5.0) -> None:
        _ = self._use(path, synchronous, busy_timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._file!r})"

    @override
    def load(self, keys: Sequence[FullKey]) -> dict[FullKey, bytes]:
        if not keys:
            return {}
        found = (self._database or self._open()).read(partial(_load, keys=keys, now=_now()), self._patience)
        return {key: self._opened(key, value) for key, value in found.items()}

    @override
    def store(self, entries: Entries) -> None:
        now = _now()
        rows = [
            (*_place(key), None if ttl is None else now + int(ttl * 1000), _sealed(key, data))
            for key, (data, ttl) in entries.items()
        ]
        if rows:
            (self._database or self._open()).write(partial(_store, rows=rows, now=now), self._patience)

    @override
    def drop(self, namespaces: Sequence[Namespace] | None = None) -> None:
        if namespaces is None or namespaces:
            (self._database or self._open()).write(partial(_drop, namespaces=namespaces), self._patience)

    def _opened(self, key: FullKey, value: object) -> bytes:
        """The codec's bytes in a stored value."""
        if not isinstance(value, bytes) or len(value) < _HEAD.size:
            raise self._damaged(
                key, f"it is {value!r}" if not isinstance(value, bytes) else f"it has {len(value)} bytes"
            )
        row_format, digest = _HEAD.unpack_from(value)
        data = value[_HEAD.size :]
        if _digest(key, row_format, data) != digest:
            raise self._damaged(key, "its digest does not fit its bytes")
        if row_format != _FORMAT:
            raise NewerDatabaseError(
                f"{self._file}: the cached value under key {key[1]!r} of namespace {key[0]!r} has format {row_format}; "
                f"this version of durable_graph reads up to {_FORMAT}.",
                cure=f"Upgrade durable_graph, or clear the cache: clear([{key[0]!r}]).",
            )
        return data

    def _damaged(self, key: FullKey, how: str) -> CorruptDataError:
        return CorruptDataError(
            f"{self._file}: the cached value under key {key[1]!r} of namespace {key[0]!r} is damaged: {how}.",
            cure=f"Clear the cache, which makes it compute its values again: clear([{key[0]!r}]).",
        )


# --- what happens inside one transaction ---------------------------------------------------------------------------


def _load(connection: sqlite3.Connection, *, keys: Sequence[FullKey], now: int) -> dict[FullKey, object]:
    found: dict[FullKey, object] = {}
    for key in keys:
        row = connection.execute(sql.FIND_ENTRY, (*_place(key), now)).fetchone()
        if row is not None:
            found[key] = row[0]
    return found


def _store(connection: sqlite3.Connection, *, rows: Sequence[tuple[bytes, bytes, int | None, bytes]], now: int) -> None:
    connection.execute(sql.SWEEP, (now, len(rows) + _SWEPT_AT_ONCE))
    connection.executemany(sql.SET_ENTRY, rows)


def _drop(connection: sqlite3.Connection, *, namespaces: Sequence[Namespace] | None) -> None:
    if namespaces is None:
        connection.execute(sql.CLEAR_ALL)
    else:
        connection.executemany(sql.CLEAR, [(_packed(namespace),) for namespace in namespaces])


# --- rows ----------------------------------------------------------------------------------------------------------


def _now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _place(key: FullKey) -> tuple[bytes, bytes]:
    return _packed(key[0]), key[1].encode("utf-8", "surrogatepass")


def _packed(namespace: Namespace) -> bytes:
    # Each label after its length: no two namespaces read the same, whatever their labels hold.
    labels = [label.encode("utf-8", "surrogatepass") for label in namespace]
    return b"".join(b"%d:%b" % (len(label), label) for label in labels)


def _sealed(key: FullKey, data: bytes) -> bytes:
    return _HEAD.pack(_FORMAT, _digest(key, _FORMAT, data)) + data


def _digest(key: FullKey, row_format: int, data: bytes) -> int:
    namespace, name = _place(key)
    return crc32(data, crc32(bytes((row_format,)), crc32(name, crc32(namespace))))
