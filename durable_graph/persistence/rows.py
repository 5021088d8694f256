"""The bytes of one row: an envelope that tells when they are damaged, and the facts of msgpack we use.

    data = format (1 byte) · digest (4 bytes, little endian) · payload

The digest is a CRC-32 of the payload, started from the format and the row's own address, so that a row that
was cut, changed, or moved to another place is refused. The envelope is the same in every format, for ever:
that is how a row of a newer format is told from a damaged one. (CRC-32 and not a cryptographic hash: it finds
every flipped bit and all but 1 in 4 * 10^9 other accidents, costs 4 bytes per row, and a third of the time
when thousands of rows are loaded. Against people who may write to the database, encryption helps, not a
digest.)
"""

# ruff: noqa: PLR2004 - bytes of the msgpack format; names would hide them
from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812 - a class, whatever its module calls it
from typing import TYPE_CHECKING, Any, Final, cast
from zlib import crc32

import msgpack  # pyright: ignore[reportMissingTypeStubs]  # it brings none

from durable_graph.errors import CorruptDataError, NewerDatabaseError
from durable_graph.records import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from durable_graph.errors import DurableGraphError

__all__ = [
    "EMPTY_MAP", "FORMAT", "cut_chunk", "extend", "is_list", "join_list", "list_header", "new_pack", "open_row",
    "pack_chunk", "place", "seal", "split_list", "trim", "unpack", "untrim",
]  # fmt: skip

FORMAT: Final = 1
"""The newest format of rows that this code reads, and the one it writes."""

EMPTY_MAP: Final = b"\x80"
"""The encoding of {}: most runs have no metadata."""

_Packer = cast("Callable[..., Any]", msgpack.Packer)  # pyright: ignore[reportUnknownMemberType] - msgpack ships no types
_unpackb = cast("Callable[..., Any]", msgpack.unpackb)  # pyright: ignore[reportUnknownMemberType] - msgpack ships no types

_SMALL: Final = [bytes((number,)) for number in range(0x80)]

_HEAD: Final = Struct("<BI")
_HEAD_SIZE: Final = _HEAD.size


# Odd factors: two rows of one part can never start from the same number.
_BY_SEQ: Final = 0x9E3779B1
_BY_LANE: Final = 0x85EBCA77
_BY_PART: Final = 0xC2B2AE3D
_BY_KIND: Final = 0x27D4EB2F
_BITS: Final = 0xFFFFFFFF

_tuple: Any = tuple  # untyped: its `__new__` makes a Row without the call in Python that is `Row.__new__`


def seal(lane: int, part: int, seq: int, kind: int, payload: bytes) -> Row:
    """The row that holds `payload`."""
    start = seq * _BY_SEQ + lane * _BY_LANE + part * _BY_PART + kind * _BY_KIND + FORMAT
    return _tuple.__new__(Row, (lane, part, seq, kind, _HEAD.pack(FORMAT, crc32(payload, start & _BITS)) + payload))


def open_row(row: Row, thread: str) -> bytes:
    """The payload of a row of thread `thread` (its key, for the text of errors).

    Raises CorruptDataError when the bytes are not those that were written for this place, NewerDatabaseError
    when they are in a format this code does not know.
    """
    lane, part, seq, kind, data = row
    try:
        row_format, digest = _HEAD.unpack_from(data)
    except StructError:
        raise CorruptDataError(f"{place(row, thread)} is cut: only {len(data)} bytes are left") from None
    payload = data[_HEAD_SIZE:]
    start = seq * _BY_SEQ + lane * _BY_LANE + part * _BY_PART + kind * _BY_KIND + row_format
    if crc32(payload, start & _BITS) != digest:
        raise CorruptDataError(f"{place(row, thread)} is damaged: its digest does not fit its bytes")
    if row_format != FORMAT:
        raise NewerDatabaseError(f"{place(row, thread)} has format {row_format}; this version reads up to {FORMAT}")
    return payload


def place(row: Row, thread: str) -> str:
    """Where a row is, for the text of an error."""
    return f"A row of thread {thread!r} (lane {row.lane}, part {row.part}, seq {row.seq}, kind {row.kind})"


def extend(error: DurableGraphError, where: str) -> None:
    """Add to an error's text where it happened."""
    error.what = f"{error.what.rstrip('.')}, {where}"
    error.args = (error.what,)


def new_pack() -> Callable[[list[Any]], bytes]:
    """A function that gives the msgpack bytes of a row's structure: numbers, text, bytes, None, lists and maps.

    Values of users are never in there as they are; they come as bytes that the codec made. The function is for
    one OS thread at a time.
    """
    return _Packer(unicode_errors="surrogatepass").pack


def unpack(row: Row, thread: str) -> list[Any]:
    """The structure that `pack` wrote into this row. *Raises* like `open_row`."""
    payload = open_row(row, thread)
    try:
        return _unpackb(payload, strict_map_key=False, unicode_errors="surrogatepass")
    except ValueError as error:
        raise CorruptDataError(f"{place(row, thread)} cannot be read: {error}") from error


def trim(items: list[Any]) -> list[Any]:
    """The list without the Nones at its end: they need not be stored."""
    while items and items[-1] is None:
        del items[-1]
    return items


def untrim(items: list[Any] | None, length: int) -> list[Any]:
    """The first `length` items of a list that `trim` made shorter."""
    return [*(items or ()), *[None] * length][:length]


# --- lists: an encoded list is a header that counts, then the elements' encodings back to back --------------


def list_header(count: int) -> bytes:
    """The bytes that start an encoded list of `count` elements."""
    if count < 16:
        return bytes((0x90 | count,))
    return b"\xdc" + count.to_bytes(2, "big") if count < 1 << 16 else b"\xdd" + count.to_bytes(4, "big")


def is_list(data: bytes) -> bool:
    """Whether `data` encodes an exact list."""
    return 0x90 <= data[0] <= 0x9F or data[0] in {0xDC, 0xDD}


def split_list(data: bytes) -> tuple[int, int]:
    """How many elements an encoded list has, and where the first one starts."""
    first = data[0]
    if first == 0xDC:
        return int.from_bytes(data[1:3], "big"), 3
    if first == 0xDD:
        return int.from_bytes(data[1:5], "big"), 5
    return first & 0x0F, 1


def join_list(count: int, bodies: Iterable[bytes]) -> bytes:
    """The encoding of a list from encoded runs of its elements."""
    return b"".join((list_header(count), *bodies))


# --- chunks: payloads of LOG rows ---------------------------------------------------------------------------


def pack_chunk(count: int, body: bytes) -> bytes:
    """The payload of a chunk of `count` elements. The count lets a reader notice that a chunk is missing."""
    if count < 0x80:
        return _SMALL[count] + body
    return b"\xce" + count.to_bytes(4, "big") + body


def cut_chunk(payload: bytes) -> tuple[int, bytes]:
    """How many elements a chunk holds, and their encodings."""
    first = payload[0]
    return (first, payload[1:]) if first < 0x80 else (int.from_bytes(payload[1:5], "big"), payload[5:])
