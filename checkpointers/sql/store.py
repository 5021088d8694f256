"""The rows of a store in one SQLite transaction, and how namespaces and keys are written.

A namespace is the encodings of its labels, one after the other. A label is its UTF-8 with lone surrogates let through,
NUL and 1 escaped, and a NUL at its end. So namespaces below a prefix are one range of bytes, and bytes are ordered as
tuples of str are in Python: by code points, and a namespace before those below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from checkpointers.sql import store_statements as sql
from durable_graph.errors import CorruptDataError
from durable_graph.stores.rows import StoredItem

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Generator, Sequence

__all__ = ["SqliteRows", "decode_namespace", "encode_namespace"]

_AFTER_ALL_LABELS: Final = b"\xff"
"""No UTF-8 holds this byte."""


def encode_namespace(namespace: tuple[str, ...]) -> bytes:
    """The namespace, or a prefix of one, as bytes."""
    return b"".join(
        _as_bytes(label).replace(b"\x01", b"\x01\x02").replace(b"\x00", b"\x01\x01") + b"\x00" for label in namespace
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


def _as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _as_text(data: bytes) -> str:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise CorruptDataError(f"A stored namespace or key is damaged: {error}.") from error


def _range(prefix: tuple[str, ...]) -> tuple[bytes, bytes]:
    first = encode_namespace(prefix)
    return first, first + _AFTER_ALL_LABELS


class SqliteRows:
    """The rows as one transaction of the connection sees them (`durable_graph.stores.rows.Rows`)."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._run = connection.execute

    # --- reading ---------------------------------------------------------------------------------------------------

    def find(self, namespace: tuple[str, ...], key: str, now: int) -> StoredItem | None:
        """The row at a place."""
        found = self._run(sql.FIND, (encode_namespace(namespace), _as_bytes(key), now)).fetchone()
        return None if found is None else _row(*found)

    def scan(self, prefix: tuple[str, ...], fragments: Sequence[bytes], now: int) -> Generator[StoredItem, None, None]:
        """The rows below a namespace whose value contains all fragments, in order."""
        text = sql.SCAN + sql.CONTAINS * len(fragments) + sql.IN_ORDER
        cursor = self._run(text, (*_range(prefix), now, *fragments))
        try:
            for found in cursor:
                yield _row(*found)
        finally:
            cursor.close()  # or it would go on reading after the transaction

    def vectors(self, prefix: tuple[str, ...]) -> Generator[tuple[tuple[str, ...], str, bytes], None, None]:
        """The vectors below a namespace, each with its place."""
        cursor = self._run(sql.VECTORS, _range(prefix))
        try:
            for namespace, key, data in cursor:
                yield decode_namespace(namespace), _as_text(key), data
        finally:
            cursor.close()

    def namespaces(
        self, head: tuple[str, ...], tail: tuple[str, ...], now: int
    ) -> Generator[tuple[str, ...], None, None]:
        """The namespaces with rows that begin with `head` and end with `tail`, once each and in order."""
        end = encode_namespace(tail)
        size = len(end)
        text = sql.NAMESPACES + (sql.ENDS_WITH if tail else "") + sql.NAMESPACES_IN_ORDER
        cursor = self._run(text, (*_range(head), now, *((size, end, size, size + 1) if tail else ())))
        try:
            for (namespace,) in cursor:
                yield decode_namespace(namespace)
        finally:
            cursor.close()

    # --- writing ---------------------------------------------------------------------------------------------------

    def put(self, row: StoredItem, vectors: Sequence[bytes]) -> None:
        """Keep the row and its vectors in place of what is there."""
        place = (encode_namespace(row.namespace), _as_bytes(row.key))
        self._run(sql.PUT, (*place, *row[2:]))
        self._run(sql.DELETE_VECTORS, place)
        for number, data in enumerate(vectors):
            self._run(sql.PUT_VECTOR, (*place, number, data))

    def delete(self, namespace: tuple[str, ...], key: str) -> None:
        """Remove the row and its vectors, if they are there."""
        place = (encode_namespace(namespace), _as_bytes(key))
        self._run(sql.DELETE, place)
        self._run(sql.DELETE_VECTORS, place)

    def refresh(self, namespace: tuple[str, ...], key: str, now: int) -> None:
        """Begin the time of a row anew, if it is there, has a time to live and did not expire."""
        self._run(sql.REFRESH, (now, encode_namespace(namespace), _as_bytes(key), now))

    def sweep(self, now: int) -> int:
        """Remove all expired rows with their vectors; how many rows there were."""
        self._run(sql.SWEEP_VECTORS, (now,))
        return self._run(sql.SWEEP, (now,)).rowcount


def _row(
    namespace: bytes, key: bytes, value: bytes, created_at: int, updated_at: int, expires: int | None, ttl: int | None
) -> StoredItem:
    return StoredItem(decode_namespace(namespace), _as_text(key), value, created_at, updated_at, expires, ttl)
