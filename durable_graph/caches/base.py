"""`BaseCache`: values by namespace and key, for a time.

A backend keeps bytes and knows nothing of what they mean: it gives `load`, `store` and `drop`. Values are encoded
above it, once, by the codec, and are made anew for everybody who asks: nobody sees another's edits in place, and
nothing is imported or called from stored bytes. So a cache in memory behaves like one in a database.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from typing_extensions import override

from durable_graph.caches.flights import Flights
from durable_graph.errors import CorruptDataError, DurableGraphError, InvalidConfigError, UnserializableValueError
from durable_graph.persistence.closing import Closing
from durable_graph.persistence.codec import CODEC

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self

__all__ = ["BaseCache", "Entries", "FullKey", "Namespace", "check_ttl", "decoded", "encoded", "place_of"]

Namespace: TypeAlias = tuple[str, ...]
FullKey: TypeAlias = tuple[Namespace, str]
"""A namespace and a key in it."""
Entries: TypeAlias = "Mapping[FullKey, tuple[bytes, float | None]]"
"""What a backend is to keep: the encoded value, and for how many seconds (None: for ever)."""

_LONGEST: Final = 10**11
"""The longest time to live in seconds, some 3,000 years: every backend can add it to the time."""
_KEYS: Final = 'A key is a namespace and a text: (("name", "space"), "key").'


class BaseCache(Closing, ABC):
    """Base of all caches. One object serves sync and async callers, several OS threads and event loops, and forks.

    Subclasses give the verbs of bytes, `load`, `store` and `drop`; the async ones run them in a worker thread.
    """

    instant: bool = False
    """True when every verb returns without waiting for anything (memory): callers never hand it to a thread."""

    flights: Flights
    """What is being computed for this object in this process."""

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Make the cache with its flights, whether or not a subclass calls `super().__init__()`."""
        cache = super().__new__(cls)
        cache.flights = Flights()
        return cache

    # --- what a backend gives ----------------------------------------------------------------------------------------

    @abstractmethod
    def load(self, keys: Sequence[FullKey]) -> dict[FullKey, bytes]:
        """The bytes of the keys that are there and whose time is not over."""

    @abstractmethod
    def store(self, entries: Entries) -> None:
        """Keep all the entries, or none of them; those that were there are replaced."""

    @abstractmethod
    def drop(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Remove all entries of exactly these namespaces; of all namespaces when None."""

    # --- values ------------------------------------------------------------------------------------------------------

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
        """The values of the keys that are there; each time new objects.

        Raises:
            CorruptDataError: stored bytes are damaged; the text names namespace and key.
            UnknownStoredTypeError: a value's type is not registered here.
        """
        return self._decode(self.load(_checked_keys(keys)))

    def set(self, pairs: Mapping[FullKey, tuple[Any, float | None]]) -> None:
        """Keep values, each with the seconds for which it is there (None: for ever).

        Raises:
            UnserializableValueError: a value cannot be stored; the text names namespace and key. Nothing was kept.
            InvalidConfigError: a key is not of the form (namespace, key), or a time is not above 0.
        """
        self.store(_encode(pairs))

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Remove all that is kept in these namespaces, or in all of them.

        What is being computed for this object meanwhile is given to those who wait for it, and not kept.
        """
        wanted = None if namespaces is None else _checked_namespaces(namespaces)
        self.flights.forget(wanted)
        self.drop(wanted)

    # --- async twins -------------------------------------------------------------------------------------------------

    async def aload(self, keys: Sequence[FullKey]) -> dict[FullKey, bytes]:
        """Async `load`."""
        return self.load(keys) if self.instant else await asyncio.to_thread(self.load, keys)

    async def astore(self, entries: Entries) -> None:
        """Async `store`."""
        return self.store(entries) if self.instant else await asyncio.to_thread(self.store, entries)

    async def adrop(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Async `drop`."""
        return self.drop(namespaces) if self.instant else await asyncio.to_thread(self.drop, namespaces)

    @override
    async def aclose(self) -> None:
        """Async `close`."""
        return self.close() if self.instant else await asyncio.to_thread(self.close)

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
        """Async `get`."""
        return self._decode(await self.aload(_checked_keys(keys)))

    async def aset(self, pairs: Mapping[FullKey, tuple[Any, float | None]]) -> None:
        """Async `set`."""
        await self.astore(_encode(pairs))

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Async `clear`."""
        wanted = None if namespaces is None else _checked_namespaces(namespaces)
        self.flights.forget(wanted)
        await self.adrop(wanted)

    def _decode(self, found: Mapping[FullKey, bytes]) -> dict[FullKey, Any]:
        return {key: decoded(data, key, self) for key, data in found.items()}


# --- values and bytes ------------------------------------------------------------------------------------------------


def encoded(value: Any, key: FullKey, where: str = "") -> bytes:
    """The bytes of a value that is kept under `key`. where: whose result it is, such as "node 'fetch'".

    Raises:
        UnserializableValueError: it cannot be stored. An exception of a registered encode function passes as it is.
    """
    try:
        return CODEC.encode(value)
    except UnserializableValueError as error:
        error.what = f"{where + ': ' if where else ''}{place_of(key)} cannot be cached: {error.what}"
        raise
    except Exception as error:
        error.add_note(f"while {where + ': ' if where else ''}{place_of(key)} was encoded for the cache")
        raise


def decoded(data: bytes, key: FullKey, cache: BaseCache) -> Any:
    """A new value from the bytes that `cache` holds under `key`.

    Raises:
        CorruptDataError: the bytes are damaged.
        UnknownStoredTypeError: its type is not registered here.
    """
    try:
        return CODEC.decode(data)
    except DurableGraphError as error:
        error.what = f"{cache!r}, {place_of(key)}: {error.what}"
        again = f"clear the cache, which makes it compute its values again: clear([{key[0]!r}])."
        error.cure = f"C{again[1:]}" if isinstance(error, CorruptDataError) else f"{error.cure} Or {again}"
        raise
    except Exception as error:
        error.add_note(f"while {place_of(key)} was read from {cache!r}")
        raise


def place_of(key: FullKey) -> str:
    """Where a value is, for the text of an error."""
    return f"the value under key {key[1]!r} of namespace {key[0]!r}"


def _encode(pairs: Mapping[FullKey, tuple[Any, float | None]]) -> Entries:
    entries: dict[FullKey, tuple[bytes, float | None]] = {}
    for key, (value, ttl) in pairs.items():
        check_ttl(ttl, place_of(_checked_key(key)))
        entries[key] = (encoded(value, key), ttl)
    return entries


# --- checks ----------------------------------------------------------------------------------------------------------


def check_ttl(ttl: object, where: str) -> None:
    """Refuse what is no time to live.

    Raises:
        InvalidConfigError: it is neither None nor a number of seconds above 0.
    """
    if ttl is None:
        return
    if isinstance(ttl, bool) or not isinstance(ttl, int | float) or not 0 < ttl <= _LONGEST:
        raise InvalidConfigError(
            f"{where}: ttl={ttl!r} is no number of seconds above 0 and up to {_LONGEST}.",
            cure="Pass seconds, or None for ever.",
        )


def _checked_keys(keys: Iterable[FullKey]) -> list[FullKey]:
    return [_checked_key(key) for key in keys]


def _checked_key(key: FullKey) -> FullKey:
    given: Any = key
    if type(given) is tuple and len(cast("tuple[Any, ...]", given)) == 2:  # noqa: PLR2004 - namespace and key
        namespace, name = cast("tuple[Any, Any]", given)
        if isinstance(name, str) and _is_namespace(namespace):
            return key
    raise InvalidConfigError(f"{given!r} is no key of a cache.", cure=_KEYS)


def _checked_namespaces(namespaces: Iterable[Namespace]) -> list[Namespace]:
    wanted = list(namespaces)
    for namespace in wanted:
        if not _is_namespace(namespace):
            raise InvalidConfigError(
                f"{namespace!r} is no namespace of a cache.", cure='A namespace is a tuple of texts: ("name", "space").'
            )
    return wanted


def _is_namespace(given: Any) -> bool:
    return type(given) is tuple and all(isinstance(label, str) for label in cast("tuple[Any, ...]", given))
