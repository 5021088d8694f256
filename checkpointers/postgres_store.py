"""Keeps long-term memory in a Postgres database; it may be the schema of a PostgresSaver.

Everything in one transaction goes out in one pipeline, which waits only where a result is looked at: a put costs two
round trips. Who puts or deletes first locks where (`_PostgresRows.hold`), so that to whoever comes later the row and
its vectors are as the earlier one left them.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from zlib import crc32

from typing_extensions import override

from checkpointers.sql import postgres_store_statements as sql
from checkpointers.sql.postgres_target import SCHEMA
from checkpointers.sql.postgres_user import PostgresUser
from checkpointers.sql.store import TableRows, encode_namespace
from checkpointers.sql.text import as_bytes
from durable_graph.stores.base import RowStore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable

    from checkpointers.sql.postgres_database import Connection, PostgresDatabase
    from checkpointers.sql.postgres_target import Target
    from durable_graph.stores import IndexConfig, TTLConfig
    from durable_graph.stores.rows import Place, Rows

__all__ = ["AsyncPostgresStore", "PostgresStore"]

T = TypeVar("T")

_STRIPES: Final = 64
"""Locks among which all places are divided: a batch takes at most so many of the server's shared table of locks."""
_FIRST: Final = 16
_MOST: Final = 1024
"""Rows that are fetched at first, and at the most at once."""
_BYTES: Final = 4_000_000
"""About so many bytes are fetched at once."""


class PostgresStore(PostgresUser, RowStore):
    """A store in a Postgres database, for any number of processes and machines.

    index: {"dims": ..., "embed": ..., "fields": [...]} for semantic search. ttl: {"default_ttl": minutes, ...}.
    target, schema, timeout, max_size, prepare: as for PostgresSaver.

    Search by meaning is exact and the same as that of every other store: vectors are kept with 64 bits for a number
    and compared here. pgvector is not used: it keeps 32 bits, so scores, and the order of near ones, would differ.

    One object serves sync and async callers, any OS thread and event loop, and both sides of `os.fork()`. A batch
    whose acknowledgement is lost with the connection is performed again.

    Raises:
        InvalidConfigError: psycopg is not installed, the target names no Postgres database, or an option is wrong.
    """

    def __init__(
        self,
        target: Target,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        schema: str = SCHEMA,
        timeout: float = 30.0,
        max_size: int | None = None,
        prepare: bool = True,
    ) -> None:
        super().__init__(index=index, ttl=ttl)
        _ = self._use(target, schema, timeout, max_size, prepare=prepare)

    @classmethod
    def from_conn_string(
        cls,
        target: Target,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        schema: str = SCHEMA,
        timeout: float = 30.0,
        max_size: int | None = None,
        prepare: bool = True,
    ) -> Self:
        """The store, to be kept, or used with `with` or `async with`."""
        return cls(target, index=index, ttl=ttl, schema=schema, timeout=timeout, max_size=max_size, prepare=prepare)

    @override
    def read(self, work: Callable[[Rows], T]) -> T:
        return self._transact(lambda connection, database: work(_PostgresRows(connection, database)), reads=True)

    @override
    def write(self, work: Callable[[Rows], T]) -> T:
        return self._transact(lambda connection, database: work(_PostgresRows(connection, database)))


AsyncPostgresStore = PostgresStore


class _PostgresRows(TableRows):
    """The rows as one transaction of the connection sees them."""

    sql = sql.POSTGRES

    def __init__(self, connection: Connection, database: PostgresDatabase) -> None:
        self._connection = connection
        self._database = database
        self._numbers = count(1)

    @override
    def _run(self, statement: str, values: Iterable[Any]) -> Any:
        return self._connection.execute(self._database.text(statement), tuple(values), binary=True)

    @override
    def _each(self, statement: str, values: Iterable[Any]) -> Generator[tuple[Any, ...], None, None]:
        name = f"rows_{next(self._numbers)}"
        _ = self._run(sql.DECLARE.format(name=name, statement=statement), values)
        wanted = _FIRST
        while True:
            # Never prepared: under the same name the next transaction has a cursor over other columns.
            text = sql.FETCH.format(rows=wanted, name=name).encode()
            rows = self._connection.execute(text, prepare=False, binary=True).fetchall()
            yield from rows
            if len(rows) < wanted:
                return
            size = sum(len(part) for row in rows for part in row if isinstance(part, bytes))
            wanted = max(1, min(wanted * 4, _MOST, _BYTES * len(rows) // max(1, size)))

    def hold(self, places: Collection[Place] | None) -> None:
        """Lock the places, or all there are, until the transaction ends; in one order, so that none wait in a ring."""
        stripes = range(_STRIPES) if places is None else sorted({_stripe(*place) for place in places})
        _ = self._run(sql.HOLD, (self._database.key.schema, list(stripes)))

    @override
    def sweep(self, now: int) -> int:
        return self._run(sql.SWEEP, (now,)).fetchone()[0]


def _stripe(namespace: tuple[str, ...], key: str) -> int:
    return crc32(as_bytes(key), crc32(encode_namespace(namespace))) % _STRIPES
