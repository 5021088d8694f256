"""Which ids a growing list of messages holds, without looking at all of it for every append.

The run owns its list and only ever appends to it; an update that does more makes another list. So what was read of a
list once stays true, and only its new end is read. Lists are told apart by identity: an entry keeps its list alive,
so that no other can get its address. That is bounded: long lists only, a few of them, and those that nobody else
holds any more are dropped when room is needed.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, Final

__all__ = ["KNOWN_IDS", "KnownIds"]

_SHORT: Final = 64
"""Lists up to this length are read each time, which costs some microseconds."""

_ROOM: Final = 64
"""How many lists are known at once."""


class KnownIds:
    """The ids of the lists met last. Safe to use from several OS threads; one list belongs to one run."""

    def __init__(self, room: int = _ROOM) -> None:
        self._room = room
        self._entries: dict[int, _Entry] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def of(self, messages: list[Any]) -> set[str]:
        """The ids of all messages of a list that is only ever appended to. Not to be changed by the caller."""
        if len(messages) <= _SHORT:
            return {message.id for message in messages}
        with self._lock:
            key = id(messages)
            entry = self._entries.pop(key, None)  # put back at the end: the first is the one used longest ago
            if entry is None or entry.read > len(messages):
                self._make_room()
                entry = _Entry(messages)
            self._entries[key] = entry
            entry.catch_up()
            return entry.ids

    def _make_room(self) -> None:
        for key in [key for key, entry in self._entries.items() if entry.abandoned()]:
            del self._entries[key]
        while len(self._entries) >= self._room:
            del self._entries[next(iter(self._entries))]


class _Entry:
    __slots__ = ("ids", "messages", "read")

    def __init__(self, messages: list[Any]) -> None:
        self.messages = messages
        self.read = 0
        self.ids: set[str] = set()

    def catch_up(self) -> None:
        messages = self.messages
        for index in range(self.read, len(messages)):
            self.ids.add(messages[index].id)
        self.read = len(messages)

    def abandoned(self) -> bool:
        """Whether only this entry holds the list: its own attribute, and the argument of the question itself."""
        return sys.getrefcount(self.messages) <= 2  # noqa: PLR2004 - explained above


KNOWN_IDS: Final = KnownIds()
