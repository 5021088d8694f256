"""Keeps long-term memory in a SQLite file; it may be the file of a SqliteSaver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

from typing_extensions import override

from checkpointers.sql.sqlite_user import SqliteUser
from checkpointers.sql.store import TableRows
from checkpointers.sql.store_statements import SQLITE, SWEEP, SWEEP_VECTORS
from durable_graph.stores.base import RowStore

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Generator, Iterable

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
        return (self._database or self._open()).read(lambda connection: work(_SqliteRows(connection)), self._patience)

    @override
    def write(self, work: Callable[[Rows], T]) -> T:
        return (self._database or self._open()).write(lambda connection: work(_SqliteRows(connection)), self._patience)


AsyncSqliteStore = SqliteStore


class _SqliteRows(TableRows):
    """The rows as one transaction of the connection sees them."""

    sql = SQLITE

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute

    @override
    def _run(self, statement: str, values: Iterable[Any]) -> sqlite3.Cursor:
        return self._execute(statement, tuple(values))

    @override
    def _each(self, statement: str, values: Iterable[Any]) -> Generator[tuple[Any, ...], None, None]:
        cursor = self._run(statement, values)
        try:
            yield from cursor
        finally:
            cursor.close()  # or it would go on reading after the transaction

    def hold(self, places: object) -> None:
        """Nothing to do: who writes is alone from the transaction's first statement on."""

    @override
    def sweep(self, now: int) -> int:
        self._run(SWEEP_VECTORS, (now,))
        return self._run(SWEEP, (now,)).rowcount
