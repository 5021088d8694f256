"""Where runs are kept: memory and SQLite; and what they remember and cache, in SQLite.

    from checkpointers import SqliteSaver
    graph.compile(checkpointer=SqliteSaver("runs.db"))

One class serves sync and async callers; `MemorySaver`, `AsyncSqliteSaver` and `AsyncSqliteStore` are the same classes
under the names people know. A backend is imported when it is first named, so nobody pays for one that is not used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from durable_graph.lazy_names import lazy

if TYPE_CHECKING:
    from checkpointers.memory import InMemorySaver, MemorySaver
    from checkpointers.sqlite import AsyncSqliteSaver, SqliteSaver
    from checkpointers.sqlite_cache import SqliteCache
    from checkpointers.sqlite_store import AsyncSqliteStore, SqliteStore

__all__ = [
    "AsyncSqliteSaver",
    "AsyncSqliteStore",
    "InMemorySaver",
    "MemorySaver",
    "SqliteCache",
    "SqliteSaver",
    "SqliteStore",
]

_HOMES: Final[dict[str, str]] = {
    "AsyncSqliteSaver": ".sqlite",
    "AsyncSqliteStore": ".sqlite_store",
    "InMemorySaver": ".memory",
    "MemorySaver": ".memory",
    "SqliteCache": ".sqlite_cache",
    "SqliteSaver": ".sqlite",
    "SqliteStore": ".sqlite_store",
}

__getattr__, __dir__ = lazy(globals(), _HOMES)
