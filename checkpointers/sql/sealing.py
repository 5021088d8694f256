"""How cached values lie in a database: namespaces and keys as bytes, values under a digest.

    value = format (1 byte) · digest (4 bytes, little endian) · what the codec wrote

The digest is a CRC-32 of namespace, key, format and bytes: a value that was changed, cut or moved is refused and never
taken for another one.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final
from zlib import crc32

from checkpointers.sql.text import as_bytes
from durable_graph.errors import CorruptDataError, NewerDatabaseError

if TYPE_CHECKING:
    from durable_graph.caches import FullKey, Namespace

__all__ = ["opened", "packed", "place", "sealed"]

_FORMAT: Final = 1
_HEAD: Final = Struct("<BI")


def packed(namespace: Namespace) -> bytes:
    """A namespace, each label after its length: no two namespaces read the same, whatever their labels hold."""
    labels = [as_bytes(label) for label in namespace]
    return b"".join(b"%d:%b" % (len(label), label) for label in labels)


def place(key: FullKey) -> tuple[bytes, bytes]:
    """Namespace and key, as they are stored."""
    return packed(key[0]), as_bytes(key[1])


def sealed(key: FullKey, data: bytes, *, row_format: int = _FORMAT) -> bytes:
    """The value of a row."""
    return _HEAD.pack(row_format, _digest(key, row_format, data)) + data


def opened(key: FullKey, value: object, where: str) -> bytes:
    """The codec's bytes in the value of a row. where: the database, for messages.

    Raises:
        CorruptDataError: it was changed, cut or moved.
        NewerDatabaseError: a later version of this library wrote it.
    """
    if not isinstance(value, bytes) or len(value) < _HEAD.size:
        raise _damaged(key, f"it is {value!r}" if not isinstance(value, bytes) else f"it has {len(value)} bytes", where)
    row_format, digest = _HEAD.unpack_from(value)
    data = value[_HEAD.size :]
    if _digest(key, row_format, data) != digest:
        raise _damaged(key, "its digest does not fit its bytes", where)
    if row_format != _FORMAT:
        raise NewerDatabaseError(
            f"{where}: the cached value under key {key[1]!r} of namespace {key[0]!r} has format {row_format}; "
            f"this version of durable_graph reads up to {_FORMAT}.",
            cure=f"Upgrade durable_graph, or clear the cache: clear([{key[0]!r}]).",
        )
    return data


def _damaged(key: FullKey, how: str, where: str) -> CorruptDataError:
    return CorruptDataError(
        f"{where}: the cached value under key {key[1]!r} of namespace {key[0]!r} is damaged: {how}.",
        cure=f"Clear the cache, which makes it compute its values again: clear([{key[0]!r}]).",
    )


def _digest(key: FullKey, row_format: int, data: bytes) -> int:
    namespace, name = place(key)
    return crc32(data, crc32(bytes((row_format,)), crc32(name, crc32(namespace))))
