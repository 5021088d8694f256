"""Copies that one task was given serve the next one again, when nobody has touched or kept them.

Every reader of a state gets copies (`isolation`), so that nobody sees another's edits in place. A node that reads a
long history would pay for the whole of it each time, and a run with its length squared. Most readers only look. So the
copies of a list's elements are kept, and used again where that cannot be told from new ones:

- what they hold is equal to what it was made of, and
- nobody else refers to any list, dict or message in them: each has as many references as when it was made.

The second counts on CPython's reference counts, so without them (PyPy, free-threaded builds) nothing is used again. An
edit in place that replaces a value by an equal one (1 by True) is not noticed.
"""

from __future__ import annotations

import sys
from itertools import islice
from operator import is_
from typing import TYPE_CHECKING, Any, Final

from durable_graph.persistence.isolation import ATOMS, MESSAGES, own
from durable_graph.persistence.object_state import type_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Copies"]

FEW: Final = 8
"""Shorter lists are quicker copied than looked at."""

MOST: Final = 2
"""How many copies of a key are kept: a router reads while the state that its node read is still there."""

_COUNTED: Final = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()


class Copies:
    """The copies that the tasks of one run were given, by key of the state."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[str, list[_Kept]] = {}

    def of(self, key: str, value: Any) -> Any:
        """A copy of a key's value, which nobody else has."""
        if type_of(value) is not list or len(value) < FEW or not _COUNTED:
            return own(value)
        pool = self._kept.setdefault(key, [])
        kept = _take(pool, value) or _Kept()
        try:
            kept.add(value)
        except (_Unlike, RecursionError):  # of other kinds, nested too deep, or in itself: all of which `own` can do
            return own(value)
        pool.append(kept)
        del pool[:-MOST]
        return kept.copies.copy()


def _take(pool: list[_Kept], value: list[Any]) -> _Kept | None:
    """Copies that can serve again, out of the pool. Those in use stay there, others that cannot serve are forgotten.

    Two OS threads may be here at once: each pops another one.
    """
    for _ in range(len(pool)):
        try:
            kept = pool.pop(0)
        except IndexError:
            return None
        count = kept.same_as(value)
        if count and kept.is_in_use(count):
            pool.append(kept)
        elif count and kept.is_clean(count):
            kept.cut(count)
            return kept
    return None


class _Unlike(Exception):
    """A value that is not made of dicts, lists, messages and immutable values only."""


class _Kept:
    """The elements of a list, their copies, and all in those that can change.

    sources, copies: the elements.   bodies: the dicts of the elements, and those of their copies, in the same order;
    lists compare them in C.   parts: every list, dict and message in the copies.   counts: how many references each has
    while nobody else has any.   ends: how many parts the elements up to each one have.
    """

    __slots__ = ("bodies", "copies", "counts", "ends", "parts", "sources")

    def __init__(self) -> None:
        self.sources: list[Any] = []
        self.copies: list[Any] = []
        self.bodies: tuple[list[Any], list[Any]] = ([], [])
        self.parts: list[Any] = []
        self.counts: list[int] = []
        self.ends: list[int] = []

    def same_as(self, value: list[Any]) -> int:
        """How many of the first elements of a list are those that were copied here."""
        same = list(map(is_, self.sources, value))
        return len(same) if all(same) else same.index(False)

    def is_in_use(self, count: int) -> bool:
        """Whether somebody has something of the first copies."""
        end = self.ends[count - 1]
        return list(map(sys.getrefcount, islice(self.parts, end))) != self.counts[:end]

    def is_clean(self, count: int) -> bool:
        """Whether the first copies hold what they were made of."""
        theirs, ours = self.bodies
        return theirs[:count] == ours[:count]

    def cut(self, count: int) -> None:
        """Forget all but the first elements."""
        if count < len(self.sources):
            end = self.ends[count - 1] if count else 0
            for kept in (self.sources, self.copies, *self.bodies, self.ends):
                del kept[count:]
            del self.parts[end:]
            del self.counts[end:]

    def add(self, value: list[Any]) -> None:
        """Copy the elements behind those that are here.

        Raises:
            _Unlike: one cannot be kept.
        """
        start = len(self.parts)
        theirs, ours = self.bodies
        for source in islice(value, len(self.sources), None):
            made = own(source)
            _collect(made, self.parts)
            self.sources.append(source)
            self.copies.append(made)
            theirs.append(_body(source))
            ours.append(_body(made))
            self.ends.append(len(self.parts))
        made = source = None  # they refer to the last element
        self.counts.extend(map(sys.getrefcount, islice(self.parts, start, None)))


def _body(value: Any) -> Any:
    """What of an element is compared: the fields of a message, since its own comparison is slow."""
    return value.__dict__ if type(value).__module__ == MESSAGES else value


def _collect(value: Any, parts: list[Any]) -> None:
    """Note everything in a value that can change."""
    cls = type_of(value)
    if cls in ATOMS:
        return
    if cls.__module__ == MESSAGES:
        parts.append(value)
        value, cls = value.__dict__, dict
    parts.append(value)
    if cls is dict:
        fields: Mapping[Any, Any] = value
        for key, part in fields.items():
            if type(key) not in ATOMS:
                raise _Unlike
            if type(part) not in ATOMS:
                _collect(part, parts)
    elif cls is list:
        for part in value:
            if type(part) not in ATOMS:
                _collect(part, parts)
    else:
        raise _Unlike
