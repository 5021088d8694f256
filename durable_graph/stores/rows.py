"""What a store keeps: rows of bytes. All that an operation means is `plan`'s; a backend only finds and keeps rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Sequence

__all__ = ["Place", "Rows", "StoredItem"]

Place: TypeAlias = tuple[tuple[str, ...], str]
"""A namespace and a key in it."""


class StoredItem(NamedTuple):
    """One row: an item as it is kept. Times are milliseconds since 1970; ttl is in milliseconds."""

    namespace: tuple[str, ...]
    key: str
    value: bytes
    created_at: int
    updated_at: int
    expires: int | None
    ttl: int | None

    def alive(self, now: int) -> bool:
        """Whether it has not expired."""
        return self.expires is None or self.expires > now


class Rows(Protocol):
    """The rows of one store inside one transaction: what is read is one state, what is written is kept together.

    Order is by namespace and key, both by code points. No method gives a row that has expired at `now`.
    """

    def find(self, namespace: tuple[str, ...], key: str, now: int) -> StoredItem | None:
        """The row at a place."""
        ...

    def scan(self, prefix: tuple[str, ...], fragments: Sequence[bytes], now: int) -> Generator[StoredItem, None, None]:
        """The rows below a namespace whose value contains all fragments, in order."""
        ...

    def vectors(self, prefix: tuple[str, ...]) -> Generator[tuple[tuple[str, ...], str, bytes], None, None]:
        """The vectors below a namespace, each with its place, in any order; also those of expired rows."""
        ...

    def namespaces(
        self, head: tuple[str, ...], tail: tuple[str, ...], now: int
    ) -> Generator[tuple[str, ...], None, None]:
        """The namespaces with rows that begin with `head` and end with `tail`, once each and in order.

        Head and tail may overlap in a namespace.
        """
        ...

    def hold(self, places: Collection[Place] | None) -> None:
        """Before all else in a transaction that puts or deletes: let nobody else do so at these places until it ends.

        None: at no place at all, since this transaction reads too, and what it reads is one state.
        """
        ...

    def put(self, row: StoredItem, vectors: Sequence[bytes]) -> None:
        """Keep the row and its vectors in place of what is there."""
        ...

    def delete(self, namespace: tuple[str, ...], key: str) -> None:
        """Remove the row and its vectors, if they are there."""
        ...

    def refresh(self, namespace: tuple[str, ...], key: str, now: int) -> None:
        """Begin the time of a row anew, if it is there, has a time to live and did not expire."""
        ...

    def sweep(self, now: int) -> int:
        """Remove all expired rows with their vectors; how many rows there were."""
        ...
