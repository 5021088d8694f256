"""What a store is asked, and what it answers: operations and items."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 - who asks for the types of an Item's fields needs it
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "NOT_PROVIDED",
    "GetOp",
    "Item",
    "ListNamespacesOp",
    "MatchCondition",
    "NotProvided",
    "Op",
    "PutOp",
    "SearchItem",
    "SearchOp",
]


Value: TypeAlias = dict[str, Any]
"""Named, because inside an Item `dict` is its method."""


class NotProvided(Enum):
    """The type of NOT_PROVIDED."""

    NOT_PROVIDED = "NOT_PROVIDED"

    def __repr__(self) -> str:
        return self.name


NOT_PROVIDED: Final = NotProvided.NOT_PROVIDED
"""For `ttl`: what the store's TTLConfig says. None is something else: the item never expires."""


@dataclass(slots=True)
class Item:
    """One stored value. It is the caller's own copy: changing it changes nothing in the store.

    value: what was put. key: unique within its namespace. namespace: labels, outermost first.
    created_at: when the item was first put; an update keeps it. updated_at: when it was last put. Both in UTC, to the
        millisecond. A read that refreshes the item's time to live changes neither.
    """

    value: Value
    key: str
    namespace: tuple[str, ...]
    created_at: datetime
    updated_at: datetime

    def dict(self) -> Value:
        """The item as plain data: the namespace as a list, times in ISO 8601."""
        return {
            "namespace": list(self.namespace),
            "key": self.key,
            "value": self.value,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
        }


@dataclass(slots=True)
class SearchItem(Item):
    """An item that a search found.

    score: how near it is to the query, the cosine from -1 to 1; None without a query, or when nothing of the item
        was embedded.
    """

    score: float | None = None

    def dict(self) -> Value:
        """The item as plain data, with its score."""
        return {**Item.dict(self), "score": self.score}


class GetOp(NamedTuple):
    """Read one item: gives an Item or None. refresh_ttl None: as the store's TTLConfig says."""

    namespace: tuple[str, ...]
    key: str
    refresh_ttl: bool | None = True


class SearchOp(NamedTuple):
    """Find items below a namespace: gives a list of SearchItem. refresh_ttl None: as the store's TTLConfig says.

    Without a query in order of namespace and key; with one, the nearest first.
    """

    namespace_prefix: tuple[str, ...]
    filter: dict[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    query: str | None = None
    refresh_ttl: bool | None = True


class PutOp(NamedTuple):
    """Store an item, or delete it (value None): gives None.

    index: which fields are embedded; None is what the store's IndexConfig says, False is none, a list is paths.
    ttl: minutes to live; None is for ever, NOT_PROVIDED what the store's TTLConfig says.
    """

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any] | None
    index: Literal[False] | Sequence[str] | None = None  # pyright: ignore[reportIncompatibleMethodOverride] - the name people know; nobody searches a PutOp with tuple.index
    ttl: float | NotProvided | None = NOT_PROVIDED


class MatchCondition(NamedTuple):
    """Which namespaces are listed: those that begin or end with the path. "*" stands for any one label."""

    match_type: Literal["prefix", "suffix"]
    path: tuple[str, ...]


class ListNamespacesOp(NamedTuple):
    """List namespaces that hold items, in order: gives a list of tuples.

    match_conditions: all must hold. max_depth: longer namespaces are cut to this many labels, and shown once.
    """

    match_conditions: Sequence[MatchCondition] | None = None
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


Op: TypeAlias = GetOp | SearchOp | PutOp | ListNamespacesOp
