"""Keeps cached values in a SQLite file, for all processes of one machine.

It uses this process's one `SqliteDatabase` of the file, so it may share the file, and the write connection, with a
checkpointer and a store.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from typing_extensions import override

from checkpointers.sql import cache_statements as sql
from checkpointers.sql.cache import TableCache
from checkpointers.sql.sqlite_user import SqliteUser

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from checkpointers.sql.cache import CachePlace, CacheRow
    from checkpointers.sql.sqlite_database import Synchronous
    from checkpointers.sql.sqlite_target import Target

__all__ = ["SqliteCache"]


class SqliteCache(SqliteUser, TableCache):
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

    @property
    @override
    def _where(self) -> str:
        return self._file

    @override
    def _find(self, places: Sequence[CachePlace], now: int) -> dict[CachePlace, object]:
        return (self._database or self._open()).read(partial(_find, places=places, now=now), self._patience)

    @override
    def _keep(self, rows: Sequence[CacheRow], now: int, sweep: int) -> None:
        (self._database or self._open()).write(partial(_keep, rows=rows, now=now, sweep=sweep), self._patience)

    @override
    def _remove(self, namespaces: Sequence[bytes] | None) -> None:
        (self._database or self._open()).write(partial(_remove, namespaces=namespaces), self._patience)


# --- what happens inside one transaction ---------------------------------------------------------------------------


def _find(connection: sqlite3.Connection, *, places: Sequence[CachePlace], now: int) -> dict[CachePlace, object]:
    found: dict[CachePlace, object] = {}
    for place in places:
        row = connection.execute(sql.FIND_ENTRY, (*place, now)).fetchone()
        if row is not None:
            found[place] = row[0]
    return found


def _keep(connection: sqlite3.Connection, *, rows: Sequence[CacheRow], now: int, sweep: int) -> None:
    connection.execute(sql.SWEEP, (now, sweep))
    connection.executemany(sql.SET_ENTRY, rows)


def _remove(connection: sqlite3.Connection, *, namespaces: Sequence[bytes] | None) -> None:
    if namespaces is None:
        connection.execute(sql.CLEAR_ALL)
    else:
        connection.executemany(sql.CLEAR, [(namespace,) for namespace in namespaces])
