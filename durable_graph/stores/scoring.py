"""Vectors as bytes, and which of them are nearest to a query: the exact cosine.

numpy only makes it faster. It finds the candidates, with a margin far above its error; their scores are then computed
by the same few lines that serve without numpy. So scores and order are the same, to the last bit.
"""

from __future__ import annotations

import math
import sys
from array import array
from functools import cache
from importlib import import_module
from operator import itemgetter, mul
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BYTES_PER_NUMBER", "nearest", "pack"]

BYTES_PER_NUMBER: Final = 8
_MARGIN: Final = 1e-9
"""numpy's cosine differs by less than 1e-12, even with many thousands of dimensions."""


def pack(numbers: Sequence[float]) -> bytes:
    """A vector as bytes: little-endian 64-bit floats, scaled by a power of two so that the largest is below 1.

    Scaling changes no cosine, and keeps squares from overflowing.
    """
    _, exponent = math.frexp(max(map(abs, numbers)))
    packed = array("d", [math.ldexp(number, -exponent) for number in numbers])
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def _unpack(data: bytes) -> array[float]:
    numbers: array[float] = array("d")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def nearest(query: bytes, vectors: Sequence[Sequence[bytes]], count: int) -> list[tuple[int, float]]:
    """The `count` items whose best vector is nearest to the query.

    vectors: of each item, at least one, all as long as the query.

    Returns:
        Pairs of an item's place in `vectors` and its score (-1 to 1; 0 when one of both is all zeros), best first;
        equal scores in order of place.
    """
    if count <= 0 or not vectors:
        return []
    places = range(len(vectors)) if len(vectors) <= count else _candidates(query, vectors, count)
    numbers = _unpack(query)
    square = _product(numbers, numbers)
    scored = [(place, max(_cosine(numbers, square, _unpack(data)) for data in vectors[place])) for place in places]
    scored.sort(key=itemgetter(1), reverse=True)  # stable: equal scores keep the order of places
    return scored[:count]


def _cosine(query: array[float], square: float, vector: array[float]) -> float:
    # One root of the product, not a product of roots: a vector is then exactly 1 away from itself.
    length = math.sqrt(square * _product(vector, vector))
    return max(-1.0, min(1.0, _product(query, vector) / length)) if length else 0.0


def _product(left: array[float], right: array[float]) -> float:
    return math.fsum(map(mul, left, right))


def _candidates(query: bytes, vectors: Sequence[Sequence[bytes]], count: int) -> Sequence[int]:
    """Places among which the `count` nearest are, in order."""
    numpy = _numpy()
    if numpy is None:
        return range(len(vectors))
    owners = numpy.repeat(numpy.arange(len(vectors)), [len(own) for own in vectors])
    matrix = numpy.frombuffer(b"".join(data for own in vectors for data in own), dtype="<f8").reshape(len(owners), -1)
    wanted = numpy.frombuffer(query, dtype="<f8")
    lengths = numpy.sqrt(numpy.einsum("ij,ij->i", matrix, matrix) * (wanted @ wanted))
    scores = numpy.divide(matrix @ wanted, lengths, out=numpy.zeros(len(owners)), where=lengths > 0)
    best = numpy.full(len(vectors), -numpy.inf)
    numpy.maximum.at(best, owners, scores)
    last = numpy.partition(best, len(best) - count)[len(best) - count]
    places: list[int] = numpy.nonzero(best >= last - _MARGIN)[0].tolist()
    return places


@cache
def _numpy() -> Any:
    """numpy, or None when it is not installed."""
    try:
        return import_module("numpy")
    except ImportError:
        return None
