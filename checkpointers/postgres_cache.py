"""Keeps cached values in a Postgres database, for any number of processes and machines.

It uses this process's one `PostgresDatabase` of the schema, and with it the session that writes, together with a
checkpointer and a store. All its work may be done again: after a lost connection the last one counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from checkpointers.sql import postgres_cache_statements as sql
from checkpointers.sql.cache import TableCache
from checkpointers.sql.postgres_target import SCHEMA
from checkpointers.sql.postgres_user import PostgresUser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from checkpointers.sql.cache import CachePlace, CacheRow
    from checkpointers.sql.postgres_database import Connection, PostgresDatabase
    from checkpointers.sql.postgres_target import Target

__all__ = ["PostgresCache"]


class PostgresCache(PostgresUser, TableCache):
    """A cache in a Postgres database, which may be the schema of a `PostgresSaver` too.

    target, schema, timeout, max_size, prepare: as for PostgresSaver.

    Values whose time is over are never returned; each write removes some of them from the table.

    Raises:
        InvalidConfigError: psycopg is not installed, the target names no Postgres database, or an option is wrong.
    """

    def __init__(
        self,
        target: Target,
        *,
        schema: str = SCHEMA,
        timeout: float = 30.0,
        max_size: int | None = None,
        prepare: bool = True,
    ) -> None:
        _ = self._use(target, schema, timeout, max_size, prepare=prepare)

    @property
    @override
    def _where(self) -> str:
        return self._place.where

    @override
    def _find(self, places: Sequence[CachePlace], now: int) -> dict[CachePlace, object]:
        database = self._database or self._open()
        text = database.text(sql.FIND_ENTRIES)
        namespaces, keys = [place[0] for place in places], [place[1] for place in places]

        def work(connection: Connection) -> dict[CachePlace, object]:
            rows = connection.execute(text, (namespaces, keys, now), binary=True)
            return {(ns, key): value for ns, key, value in rows}

        return database.read(work, self._patience)

    @override
    def _keep(self, rows: Sequence[CacheRow], now: int, sweep: int) -> None:
        database = self._database or self._open()
        swept = database.text(sql.SWEEP)
        # A transaction of its own: its locks come in another order, so nobody may wait for more while holding them.
        database.write(lambda connection: connection.execute(swept, (now, sweep)), self._patience)

        def work(connection: Connection, database: PostgresDatabase) -> None:
            connection.cursor().executemany(database.text(sql.SET_ENTRY), rows)

        self._transact(work)

    @override
    def _remove(self, namespaces: Sequence[bytes] | None) -> None:
        text, given = (sql.CLEAR_ALL, ()) if namespaces is None else (sql.CLEAR, (list(namespaces),))

        def work(connection: Connection, database: PostgresDatabase) -> None:
            _ = connection.execute(database.text(text), given)

        self._transact(work)
