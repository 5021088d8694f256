"""The rows of a store in one transaction of a database, and how namespaces and keys are written.

A namespace is the encodings of its labels, one after the other. A label is its UTF-8 with lone surrogates let through,
NUL and 1 escaped, and a NUL at its end. So namespaces below a prefix are one range of bytes, and bytes are ordered as
tuples of str are in Python: by code points, and a namespace before those below it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar, Final

from checkpointers.sql import text
from checkpointers.sql.text import as_bytes
from durable_graph.errors import CorruptDataError
from durable_graph.stores.rows import StoredItem

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from checkpointers.sql.store_statements import StoreStatements

__all__ = ["TableRows", "decode_namespace", "encode_namespace"]

_AFTER_ALL_LABELS: Final = b"\xff"
"""No UTF-8 holds this byte."""


def encode_namespace(namespace: tuple[str, ...]) -> bytes:
    """The namespace, or a prefix of one, as bytes."""
    return b"".join(
        as_bytes(label).replace(b"\x01", b"\x01\x02").replace(b"\x00", b"\x01\x01") + b"\x00" for label in namespace
    )


def decode_namespace(data: bytes) -> tuple[str, ...]:
    """The namespace again.

    Raises:
        CorruptDataError: the bytes are damaged.
    """
    *labels, rest = data.split(b"\x00")
    if rest:
        raise CorruptDataError(f"A stored namespace is damaged: {data!r}.")
    return tuple(
        # In this order: a 1 that is left is always followed by 2.
        _as_text(label.replace(b"\x01\x01", b"\x00").replace(b"\x01\x02", b"\x01"))
        for label in labels
    )


def _as_text(data: bytes) -> str:
    try:
        return text.as_text(data)
    except UnicodeDecodeError as error:
        raise CorruptDataError(f"A stored namespace or key is damaged: {error}.") from error


def _range(prefix: tuple[str, ...]) -> tuple[bytes, bytes]:
    first = encode_namespace(prefix)
    return first, first + _AFTER_ALL_LABELS


class TableRows(ABC):
    """The rows as one transaction sees them (`durable_graph.stores.rows.Rows`). A dialect gives texts and verbs."""

    sql: ClassVar[StoreStatements]

    @abstractmethod
    def _run(self, statement: str, values: Iterable[Any]) -> Any:
        """Run a statement; what it found is `fetchone()`."""

    @abstractmethod
    def _each(self, statement: str, values: Iterable[Any]) -> Generator[tuple[Any, ...], None, None]:
        """What a statement finds, as it is asked for; it may be closed early."""

    @abstractmethod
    def sweep(self, now: int) -> int:
        """Remove all expired rows with their vectors; how many rows there were."""

    # --- reading ---------------------------------------------------------------------------------------------------

    def find(self, namespace: tuple[str, ...], key: str, now: int) -> StoredItem | None:
        """The row at a place."""
        found = self._run(self.sql.find, (encode_namespace(namespace), as_bytes(key), now)).fetchone()
        return None if found is None else _row(*found)

    def scan(self, prefix: tuple[str, ...], fragments: Sequence[bytes], now: int) -> Generator[StoredItem, None, None]:
        """The rows below a namespace whose value contains all fragments, in order."""
        with closing(self._each(self.sql.scanning(len(fragments)), (*_range(prefix), now, *fragments))) as rows:
            for found in rows:
                yield _row(*found)

    def vectors(self, prefix: tuple[str, ...]) -> Generator[tuple[tuple[str, ...], str, bytes], None, None]:
        """The vectors below a namespace, each with its place."""
        with closing(self._each(self.sql.vectors, _range(prefix))) as rows:
            for namespace, key, data in rows:
                yield decode_namespace(namespace), _as_text(key), data

    def namespaces(
        self, head: tuple[str, ...], tail: tuple[str, ...], now: int
    ) -> Generator[tuple[str, ...], None, None]:
        """The namespaces with rows that begin with `head` and end with `tail`, once each and in order."""
        end = encode_namespace(tail)
        size = len(end)
        values = (*_range(head), now, *((size, end, size, size + 1) if tail else ()))
        with closing(self._each(self.sql.listing(tail=bool(tail)), values)) as rows:
            for (namespace,) in rows:
                yield decode_namespace(namespace)

    # --- writing ---------------------------------------------------------------------------------------------------

    def put(self, row: StoredItem, vectors: Sequence[bytes]) -> None:
        """Keep the row and its vectors in place of what is there."""
        place = (encode_namespace(row.namespace), as_bytes(row.key))
        self._run(self.sql.put, (*place, *row[2:]))
        self._run(self.sql.delete_vectors, place)
        for number, data in enumerate(vectors):
            self._run(self.sql.put_vector, (*place, number, data))

    def delete(self, namespace: tuple[str, ...], key: str) -> None:
        """Remove the row and its vectors, if they are there."""
        place = (encode_namespace(namespace), as_bytes(key))
        self._run(self.sql.delete, place)
        self._run(self.sql.delete_vectors, place)

    def refresh(self, namespace: tuple[str, ...], key: str, now: int) -> None:
        """Begin the time of a row anew, if it is there, has a time to live and did not expire."""
        self._run(self.sql.refresh, (now, encode_namespace(namespace), as_bytes(key), now))


def _row(
    namespace: bytes, key: bytes, value: bytes, created_at: int, updated_at: int, expires: int | None, ttl: int | None
) -> StoredItem:
    return StoredItem(decode_namespace(namespace), _as_text(key), value, created_at, updated_at, expires, ttl)
