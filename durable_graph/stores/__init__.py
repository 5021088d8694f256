"""Long-term memory: dicts under namespaces, shared by all threads, with filters, expiry and semantic search.

    from durable_graph.stores import InMemoryStore
    store = InMemoryStore(index={"dims": 1536, "embed": embed})
    store.put(("users", "ada"), "likes", {"text": "tea without milk"})
    store.search(("users",), query="drinks", filter={"text": {"$ne": ""}})

`checkpointers.SqliteStore` and `PostgresStore` keep the same in a database, and answer the same.
"""

from __future__ import annotations

from durable_graph.stores.base import BaseStore
from durable_graph.stores.embedding import IndexConfig
from durable_graph.stores.lifetimes import TTLConfig
from durable_graph.stores.memory import InMemoryStore
from durable_graph.stores.namespaces import InvalidNamespaceError
from durable_graph.stores.ops import (
    NOT_PROVIDED,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchItem,
    SearchOp,
)

__all__ = [
    "NOT_PROVIDED",
    "BaseStore",
    "GetOp",
    "InMemoryStore",
    "IndexConfig",
    "InvalidNamespaceError",
    "Item",
    "ListNamespacesOp",
    "MatchCondition",
    "Op",
    "PutOp",
    "SearchItem",
    "SearchOp",
    "TTLConfig",
]
