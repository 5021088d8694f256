"""Where runs are kept: memory and SQLite; and what they remember and cache, in SQLite.

    from checkpointers import SqliteSaver
    graph.compile(checkpointer=SqliteSaver("runs.db"))

One class serves sync and async callers; `MemorySaver`, `AsyncSqliteSaver` and `AsyncSqliteStore` are the same classes
under the names people know. A backend is imported when it is first named, so nobody pays for one that is not used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

_HOMES = {
    "AsyncSqliteSaver": "checkpointers.sqlite",
    "AsyncSqliteStore": "checkpointers.sqlite_store",
    "InMemorySaver": "checkpointers.memory",
    "MemorySaver": "checkpointers.memory",
    "SqliteCache": "checkpointers.sqlite_cache",
    "SqliteSaver": "checkpointers.sqlite",
    "SqliteStore": "checkpointers.sqlite_store",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})  # what a user completes
