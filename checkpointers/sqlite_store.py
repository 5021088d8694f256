"""Keeps long-term memory in a SQLite file; it may be the file of a SqliteSaver."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Self, TypeVar

from typing_extensions import override

from checkpointers.sql.sqlite_database import attach, detach, registry
from checkpointers.sql.sqlite_target import checked_synchronous, checked_timeout, find_file
from checkpointers.sql.store import SqliteRows
from durable_graph.stores.base import RowStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from checkpointers.sql.sqlite_database import SqliteDatabase, Synchronous
    from checkpointers.sql.sqlite_target import Target
    from durable_graph.stores import IndexConfig, TTLConfig
    from durable_graph.stores.rows import Rows

__all__ = ["AsyncSqliteStore", "SqliteStore"]

T = TypeVar("T")


class SqliteStore(RowStore):
    """A store in a SQLite file, for one machine and any number of its processes.

    target: a path, "sqlite:///relative.db", "sqlite:////absolute.db", ":memory:" (lives as long as this object is
        open), or a sqlite3 or aiosqlite connection, whose file is taken. The file is made when first used.
    index: {"dims": ..., "embed": ..., "fields": [...]} for semantic search. ttl: {"default_ttl": minutes, ...}.
    synchronous, busy_timeout: as for SqliteSaver; the strictest user of a file decides.

    One object serves sync and async callers, any OS thread and event loop, and both sides of `os.fork()`.

    Raises:
        InvalidConfigError: the target names no SQLite database, or an option is wrong.
    """

    def __init__(
        self,
        target: Target,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        synchronous: Synchronous = "FULL",
        busy_timeout: float = 5.0,
    ) -> None:
        super().__init__(index=index, ttl=ttl)
        self._file, options = find_file(target)
        self._synchronous: Synchronous = checked_synchronous(options.get("synchronous", synchronous))
        self._patience = checked_timeout(options.get("busy_timeout", busy_timeout))
        self._database: SqliteDatabase | None = None
        self._detach: weakref.finalize[..., Any] | None = None

    @classmethod
    def from_conn_string(
        cls,
        target: Target,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        synchronous: Synchronous = "FULL",
        busy_timeout: float = 5.0,
    ) -> Self:
        """The store, to be kept, or used with `with` or `async with`."""
        return cls(target, index=index, ttl=ttl, synchronous=synchronous, busy_timeout=busy_timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._file!r})"

    @override
    def setup(self) -> None:
        """Make the tables now. Never needed: first use does it.

        Raises:
            StorageError: the file cannot be used.
        """
        self._open().prepare(self._patience)

    @override
    def close(self) -> None:
        """Let go of the file; the last user of it in this process closes it. The object may be used again."""
        self._database = None
        if self._detach is not None:
            self._detach()

    def _open(self) -> SqliteDatabase:
        with registry.lock:  # or two OS threads would both attach, and one attachment would never be undone
            if self._database is None:
                self._database = attach(self._file, self._synchronous)
                self._detach = weakref.finalize(self, detach, self._database)
            return self._database

    @override
    def read(self, work: Callable[[Rows], T]) -> T:
        return (self._database or self._open()).read(lambda connection: work(SqliteRows(connection)), self._patience)

    @override
    def write(self, work: Callable[[Rows], T]) -> T:
        return (self._database or self._open()).write(lambda connection: work(SqliteRows(connection)), self._patience)


AsyncSqliteStore = SqliteStore
