"""Keeps long-term memory in a SQLite file; it may be the file of a SqliteSaver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypeVar

from typing_extensions import override

from checkpointers.sql.sqlite_user import SqliteUser
from checkpointers.sql.store import SqliteRows
from durable_graph.stores.base import RowStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from checkpointers.sql.sqlite_database import Synchronous
    from checkpointers.sql.sqlite_target import Target
    from durable_graph.stores import IndexConfig, TTLConfig
    from durable_graph.stores.rows import Rows

__all__ = ["AsyncSqliteStore", "SqliteStore"]

T = TypeVar("T")


class SqliteStore(SqliteUser, RowStore):
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
        _ = self._use(target, synchronous, busy_timeout)

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
    def read(self, work: Callable[[Rows], T]) -> T:
        return (self._database or self._open()).read(lambda connection: work(SqliteRows(connection)), self._patience)

    @override
    def write(self, work: Callable[[Rows], T]) -> T:
        return (self._database or self._open()).write(lambda connection: work(SqliteRows(connection)), self._patience)


AsyncSqliteStore = SqliteStore
