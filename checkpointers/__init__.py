"""Where runs are kept: memory, SQLite and Postgres; and what they remember and cache.

    from checkpointers import SqliteSaver
    graph.compile(checkpointer=SqliteSaver("runs.db"))

One class serves sync and async callers; `MemorySaver`, `AsyncSqliteSaver`, `AsyncPostgresSaver` and so on are the same
classes under the names people know. A backend is imported when it is first named, so nobody pays for what is not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from durable_graph.lazy_names import lazy

if TYPE_CHECKING:
    from checkpointers.memory import InMemorySaver, MemorySaver
    from checkpointers.postgres import AsyncPostgresSaver, PostgresSaver
    from checkpointers.postgres_cache import PostgresCache
    from checkpointers.postgres_store import AsyncPostgresStore, PostgresStore
    from checkpointers.sqlite import AsyncSqliteSaver, SqliteSaver
    from checkpointers.sqlite_cache import SqliteCache
    from checkpointers.sqlite_store import AsyncSqliteStore, SqliteStore

__all__ = [
    "AsyncPostgresSaver",
    "AsyncPostgresStore",
    "AsyncSqliteSaver",
    "AsyncSqliteStore",
    "InMemorySaver",
    "MemorySaver",
    "PostgresCache",
    "PostgresSaver",
    "PostgresStore",
    "SqliteCache",
    "SqliteSaver",
    "SqliteStore",
]

_HOMES: Final[dict[str, str]] = {
    "AsyncPostgresSaver": ".postgres",
    "AsyncPostgresStore": ".postgres_store",
    "AsyncSqliteSaver": ".sqlite",
    "AsyncSqliteStore": ".sqlite_store",
    "InMemorySaver": ".memory",
    "MemorySaver": ".memory",
    "PostgresCache": ".postgres_cache",
    "PostgresSaver": ".postgres",
    "PostgresStore": ".postgres_store",
    "SqliteCache": ".sqlite_cache",
    "SqliteSaver": ".sqlite",
    "SqliteStore": ".sqlite_store",
}

__getattr__, __dir__ = lazy(globals(), _HOMES)
