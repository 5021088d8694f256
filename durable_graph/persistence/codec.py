"""Values to bytes and back, exactly: what is put in comes out, or is refused when it is put in.

msgpack, with one extension type per kind of object (`known_types`, `type_registry`). Rules:

- None, bool, int up to 64 bit, float, str, bytes, list and dict are msgpack's own, written in one call of C code;
  strict_types lets everything else, subclasses too, reach our hook.
- A list is a plain array, and no element's encoding depends on its place: storage appends encoded elements.
- The same value gives the same bytes in every process: sets are sorted by encoding, dicts keep their order.
- Values, not identities: an object that occurs twice comes back as two. One that contains itself is refused.
- Reading never imports or calls anything that is not listed or registered.

Traps of msgpack, closed here: it writes bytearray and memoryview as bytes, and ExtType and Timestamp as themselves,
without asking the hook (`_scan`); it writes 1,024 levels and reads 1,023 (`_MAX_LEVELS`); each unpackb takes 40 KB of
C stack, and 64 of them, one in another's hook, kill a process with 2 MB. An Unpacker is on the heap, and faster when
it is used again.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime, time
from functools import partial
from typing import Any, Final

import msgpack as _untyped_msgpack  # pyright: ignore[reportMissingTypeStubs] - it has none

from durable_graph.errors import CorruptDataError, DurableGraphError, UnserializableValueError
from durable_graph.persistence.annotations import register_annotations
from durable_graph.persistence.isolation import StateView
from durable_graph.persistence.known_types import Refusal
from durable_graph.persistence.object_state import derives_from, named_parts, type_of
from durable_graph.persistence.type_registry import REGISTRY, TypeRegistry, UserCodeError, register_type, type_key

__all__ = ["CODEC", "Codec", "register_annotations", "register_type"]

msgpack: Any = _untyped_msgpack
_dict: Any = dict  # untyped, to call their own methods on instances of subclasses
_tuple: Any = tuple

_MAX_LEVELS: Final = 500
"""How deep lists and dicts may be nested without another object between them."""

_MAX_OBJECTS: Final = 64
"""How deep objects (anything that is not msgpack's own) may be nested in each other."""

_KEEP_BUFFER: Final = 1 << 20
"""Packers and Unpackers keep their buffers; one that held more bytes than this is not used again."""

_PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes})
_DISGUISED: Final[frozenset[type[Any]]] = frozenset({bytearray, memoryview, msgpack.ExtType, msgpack.Timestamp})

_MAX_STEPS: Final = 20
"""Longer paths are shown without their middle."""

_SEQUENCES: Final[frozenset[type[Any]]] = frozenset({list, tuple, set, frozenset, deque})

_DEEP: Final = "it is nested too deep, or contains itself"
_DEEP_CURE: Final = "Store ids or keys instead of the objects themselves, or make the value flatter."


class Codec:
    """Encodes and decodes values. Safe to use from several OS threads at once."""

    def __init__(self, registry: TypeRegistry = REGISTRY) -> None:
        self._registry = registry
        self._kinds = registry.kinds
        # One pool and one hook per depth: neither can be entered again by its own hook.
        self._packers: list[list[Any]] = [[] for _ in range(_MAX_OBJECTS)]
        self._unpackers: list[list[Any]] = [[] for _ in range(_MAX_OBJECTS)]

    def encode(self, value: Any) -> bytes:
        """Give the bytes of a value. A list gives a msgpack array of its elements' encodings.

        Raises:
            UnserializableValueError: Something in it cannot be stored exactly; the text names its type and the path
                to it, such as `['items'][3].owner`. An exception of a registered encode function passes as it is.
        """
        try:
            return self._pack(value, 0)
        except UserCodeError as carrier:
            raise carrier.error from carrier.error.__cause__
        except Refusal as refusal:
            raise self._explain(value, refusal) from None
        except (ValueError, RecursionError) as problem:
            raise self._explain(value, Refusal(value, _DEEP, cure=_DEEP_CURE)) from problem

    def decode(self, data: bytes) -> Any:
        """Make the value again.

        Raises:
            UnknownStoredTypeError: A type in it is not registered here, or the stored object no longer fits its
                class; the text names both. An exception of a registered decode function passes as it is.
            CorruptDataError: The bytes are damaged.
        """
        try:
            return self._unpack(data, 0)
        except UserCodeError as carrier:
            raise carrier.error from carrier.error.__cause__

    # --- writing -------------------------------------------------------------------------------------------------

    def _pack(self, value: Any, depth: int) -> bytes:
        if depth == _MAX_OBJECTS:
            raise Refusal(value, _DEEP, cure=_DEEP_CURE)
        pool = self._packers[depth]
        try:
            packer = pool.pop()
        except IndexError:
            packer = self._new_packer(depth)
        data: bytes = packer.pack(value)
        if type(value) not in _PLAIN and _scan(value):
            data = packer.pack(_undisguise(value))
        if len(data) < _KEEP_BUFFER:
            pool += (packer,)
        return data

    def _new_packer(self, depth: int) -> Any:
        hook = partial(self._plain_of, depth + 1)
        return msgpack.Packer(strict_types=True, unicode_errors="surrogatepass", default=hook)

    def _plain_of(self, depth: int, value: Any) -> Any:
        """Serve as msgpack's hook: what to write for an object it does not know."""
        if type(value) is StateView:  # a node may put the state it received into its update
            return _undisguise(dict(_dict.items(value)))
        kind = self._kinds.get(type_of(value)) or self._registry.find(value)
        if kind.sort:
            return _extension(kind.code, self._pack_sorted(value, depth))
        return _extension(kind.code, self._pack(kind.plain(value), depth))

    def _pack_sorted(self, elements: Any, depth: int) -> bytes:
        # The order of a set differs from process to process, and even between a set and its copy.
        encoded = sorted(self._pack(element, depth) for element in elements)
        return msgpack.Packer().pack_array_header(len(encoded)) + b"".join(encoded)

    # --- reading -------------------------------------------------------------------------------------------------

    def _unpack(self, data: bytes, depth: int) -> Any:
        pool = self._unpackers[depth]
        try:
            unpacker = pool.pop()
        except IndexError:
            unpacker = self._new_unpacker(depth)
        try:
            start = unpacker.tell()
            unpacker.feed(data)
            value = unpacker.unpack()
        except (DurableGraphError, UserCodeError, MemoryError):
            raise
        except Exception as problem:  # damaged bytes can make any listed type complain in its own way
            raise CorruptDataError(
                f"A stored value cannot be decoded: {problem or type(problem).__name__}."
            ) from problem
        if unpacker.tell() - start != len(data):
            raise CorruptDataError("A stored value cannot be decoded: other bytes follow it.")
        if len(data) < _KEEP_BUFFER:
            pool.append(unpacker)  # after an error it is not used again
        return value

    def _new_unpacker(self, depth: int) -> Any:
        hook = partial(self._revive, depth + 1)
        # 0: no limit; the default refuses values above 100 MB.
        return msgpack.Unpacker(max_buffer_size=0, strict_map_key=False, unicode_errors="surrogatepass", ext_hook=hook)

    def _revive(self, depth: int, code: int, data: bytes) -> Any:
        """Serve as msgpack's hook: make the object of an extension type."""
        revive = self._registry.revivers.get(code)
        if revive is None or depth == _MAX_OBJECTS:
            raise CorruptDataError(f"A stored value holds an object of unknown kind {code}, or is nested too deep.")
        return revive(self._unpack(data, depth))

    # --- explaining a refusal --------------------------------------------------------------------------------------

    def _explain(self, value: Any, refusal: Refusal) -> UnserializableValueError:
        """Find where in the value the trouble is: go down into the first part that cannot be stored by itself."""
        path: list[str] = []
        above: list[Any] = []
        part = value
        while True:
            if any(part is other for other in above):
                refusal = Refusal(part, "it contains itself", cure=_DEEP_CURE)
                break
            above.append(part)
            found = self._first_refused(part)
            if found is None:
                break
            step, part, refusal = found
            path.append(step)
        name = type_key(type_of(refusal.value))
        where = f" at {_shortened(path)}" if path else ""
        return UnserializableValueError(f"{name}{where} cannot be stored: {refusal.reason}.", cure=refusal.cure)

    def _first_refused(self, value: Any) -> tuple[str, Any, Refusal] | None:
        for step, part in self._parts(value):
            try:
                self._pack(part, 0)
            except Refusal as refusal:
                return step, part, refusal
            except (ValueError, RecursionError):
                return step, part, Refusal(part, _DEEP, cure=_DEEP_CURE)
        return None

    def _parts(self, value: Any) -> list[tuple[str, Any]]:
        """Everything a value holds, each with the step that leads to it in Python's own notation."""
        cls = type_of(value)
        parts: list[tuple[str, Any]] = []
        if derives_from(cls, dict):
            items: dict[Any, Any] = dict(_dict.items(value))
            for key, part in items.items():
                parts += [(f"<key {key!r}>", key), (f"[{key!r}]", part)]
        if self._registry.by_state(cls):
            return parts + named_parts(value)
        if cls in _SEQUENCES:
            return [(f"[{index}]", part) for index, part in enumerate(value)]
        if cls is datetime or cls is time:
            return [(".tzinfo", value.tzinfo)]
        form = self._registry.function_form(cls)
        return parts if form is None else [(".encode()", form.plain(value))]


def _shortened(path: list[str]) -> str:
    return (
        "".join(path)
        if len(path) <= _MAX_STEPS
        else f"{''.join(path[:10])} ... {''.join(path[-5:])} ({len(path)} levels)"
    )


# --- what msgpack writes without asking ---------------------------------------------------------------------------


def _scan(value: Any) -> bool:
    """Tell whether lists and dicts hold an object that msgpack took for something else.

    Call it after packing, which refuses cycles.

    Raises:
        Refusal: Lists and dicts are nested too deep to be read back.
    """
    level: list[Any] = [value]
    for _ in range(_MAX_LEVELS):
        below: list[Any] = []
        for part in level:
            kind = type_of(part)
            if kind is dict:
                for key, item in part.items():
                    if type(key) not in _PLAIN:
                        below.append(key)
                    if type(item) not in _PLAIN:
                        below.append(item)
            elif kind is list:
                below += [item for item in part if type(item) not in _PLAIN]
            elif kind in _DISGUISED:
                return True
        if not below:
            return False
        level = below
    raise Refusal(value, _DEEP, cure=_DEEP_CURE)


def _undisguise(value: Any) -> Any:
    """Copy lists and dicts with each bytearray as the extension type it is stored as."""
    kind = type_of(value)
    if kind is dict:
        return {_undisguise(key): _undisguise(part) for key, part in value.items()}
    if kind is list:
        return [_undisguise(part) for part in value]
    if kind is bytearray:
        stored = REGISTRY.kinds[bytearray]
        return _extension(stored.code, msgpack.packb(bytes(value)))
    if kind in _DISGUISED:
        raise Refusal(value, "it would come back as another type", cure="Store bytes(value) or another plain value.")
    return value


def _extension(code: int, data: bytes) -> Any:
    # Past ExtType.__new__, whose checks cost more than the rest of the hook.
    return _tuple.__new__(msgpack.ExtType, (code, data))


CODEC: Final = Codec()
"""The codec of this process, over the registry of this process."""
