"""The closed list of types that can be stored without being registered.

A type is listed with a number, how an object becomes a plain value (None, bool, int, float, str, bytes, list or dict,
holding values that can be stored themselves), and how it is made again. Rules:

- The numbers are in databases. A number is never changed and never used again.
- A type is found by the name under which its module exports it, and only when that module is loaded: importing the
  codec imports none of them. Making one again may import its module: the names are ours, never from stored bytes.
- Subclasses are not meant: a type is listed or it is not.
"""

from __future__ import annotations

import importlib
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from durable_graph.errors import UnknownStoredTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ARRAY", "KNOWN", "NUMPY_SCALAR", "Kind", "Refusal", "loaded_known_types"]


class Refusal(Exception):  # never leaves the package: the codec adds the path and raises its own error
    """An object cannot be stored. `reason` completes the sentence "<type> cannot be stored: ..."."""

    def __init__(self, value: Any, reason: str, *, cure: str | None = None) -> None:
        super().__init__(reason)
        self.value = value
        self.reason = reason
        self.cure = cure


class Kind(NamedTuple):
    """How objects of one type are stored.

    code: msgpack's extension type. plain: object -> plain value. revive: plain value -> object.
    sort: the plain value is a list whose order means nothing; it is stored sorted by encoding.
    """

    code: int
    plain: Callable[[Any], Any]
    revive: Callable[[Any], Any]
    sort: bool = False


class Known(NamedTuple):
    """A listed type: the module that exports it, its name there, and its kind."""

    module: str
    name: str
    kind: Kind


def _load(module: str, name: str) -> Any:
    """Import a listed type to make an object again. Only ever called with names written in this file."""
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as problem:
        raise UnknownStoredTypeError(
            f"A stored value has type {module}.{name}, and {module} cannot be imported: {problem}.",
            cure=f"Install {module.partition('.')[0]} in this environment.",
        ) from problem


def _attributes(*names: str) -> Callable[[Any], list[Any]]:
    def plain(value: Any) -> list[Any]:
        return [getattr(value, name) for name in names]

    return plain


def _maker(module: str, name: str) -> Callable[[Any], Any]:
    def revive(plain: Any) -> Any:
        return _load(module, name)(plain)

    return revive


def _spread(module: str, name: str) -> Callable[[Any], Any]:
    def revive(plain: Any) -> Any:
        return _load(module, name)(*plain)

    return revive


# --- numbers and small builtins -----------------------------------------------------------------------------


def _int_bytes(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _int(plain: bytes) -> int:
    return int.from_bytes(plain, "big", signed=True)


def _ellipsis_part(_: Any) -> None:
    return None


def _ellipsis(_: Any) -> Any:
    return ...


# --- collections --------------------------------------------------------------------------------------------


_dict: Any = dict  # its own methods, for subclasses that override them


def _deque_parts(value: deque[Any]) -> list[Any]:
    return [value.maxlen, list(value)]


def _deque(plain: list[Any]) -> deque[Any]:
    return deque(plain[1], plain[0])


def _counter(plain: dict[Any, Any]) -> Any:
    counter = _load("collections", "Counter")()
    _dict.update(counter, plain)  # Counter.update would add, and Counter(...) refuse counts that are no numbers
    return counter


# --- time ---------------------------------------------------------------------------------------------------


_CLOCK: Final = ("hour", "minute", "second", "microsecond", "fold", "tzinfo")


def _datetime(plain: list[Any]) -> Any:
    *parts, fold, zone = plain
    return _load("datetime", "datetime")(*parts, tzinfo=zone, fold=fold)


def _time(plain: list[Any]) -> Any:
    *parts, fold, zone = plain
    return _load("datetime", "time")(*parts, tzinfo=zone, fold=fold)


def _timezone_parts(value: Any) -> list[Any]:
    return list(value.__getinitargs__())  # the offset, and the name when one was given


def _zone_key(value: Any) -> str:
    if value.key is None:
        raise Refusal(value, "it was read from a file and has no key", cure="Make it with ZoneInfo('Area/City').")
    return value.key


def _zone(plain: str) -> Any:
    zone_info = _load("zoneinfo", "ZoneInfo")
    try:
        return zone_info(plain)
    except (KeyError, OSError) as problem:
        raise UnknownStoredTypeError(
            f"A stored value uses time zone {plain!r}, which this system does not know.",
            cure="Install the package tzdata in this environment.",
        ) from problem


# --- names, patterns, paths ---------------------------------------------------------------------------------


def _uuid_parts(value: Any) -> list[Any]:
    return [value.bytes, value.is_safe.name]


def _uuid(plain: list[Any]) -> Any:
    safe = _load("uuid", "SafeUUID")[plain[1]]
    return _load("uuid", "UUID")(bytes=plain[0], is_safe=safe)


def _path_maker(name: str) -> Callable[[Any], Any]:
    def revive(plain: str) -> Any:
        try:
            return _load("pathlib", name)(plain)
        except NotImplementedError as problem:
            raise UnknownStoredTypeError(
                f"A stored value is the {name} {plain!r}, which this operating system cannot have.",
                cure="Store a PurePath when threads move between operating systems.",
            ) from problem

    return revive


# --- pydantic's secrets, numpy ------------------------------------------------------------------------------


def _secret(value: Any) -> Any:
    return value.get_secret_value()


def _dtype_spec(value: Any, dtype: Any) -> Any:
    """What describes a dtype exactly: its string, or the list of its fields."""
    numpy = sys.modules["numpy"]
    if not dtype.hasobject and dtype.metadata is None:
        for describe in (lambda: dtype.str, lambda: dtype.descr):
            try:
                spec = describe()
                if numpy.dtype(spec) == dtype:
                    return spec
            except (TypeError, ValueError):
                continue
    raise Refusal(value, f"its dtype {dtype} has no exact description", cure="Store it as a list: value.tolist().")


def _dtype(spec: Any) -> Any:
    dtype = _load("numpy", "dtype")(spec)
    if dtype.hasobject:
        raise ValueError("arrays of objects are never stored")
    return dtype


def _array_parts(value: Any) -> list[Any]:
    order = "F" if value.flags.fnc else "C"
    return [_dtype_spec(value, value.dtype), list(value.shape), order, value.tobytes(order)]


def _array(plain: list[Any]) -> Any:
    spec, shape, order, data = plain
    dtype = _dtype(spec)
    # The buffer is a bytearray of our own: the array comes back writable.
    return _load("numpy", "ndarray")(tuple(shape), dtype, bytearray(data), order=order)


def _scalar_parts(value: Any) -> list[Any]:
    if value.dtype.kind == "U":
        return ["U", str.__str__(value)]  # numpy itself cuts trailing NULs off
    if value.dtype.kind == "S":
        return ["S", bytes(value)]
    return [_dtype_spec(value, value.dtype), value.tobytes()]


def _scalar(plain: list[Any]) -> Any:
    spec, data = plain
    if spec in ("U", "S"):
        return _load("numpy", "str_" if spec == "U" else "bytes_")(data)
    return _load("numpy", "ndarray")((), _dtype(spec), bytearray(data))[()]


ARRAY: Final = Kind(62, _array_parts, _array)
"""numpy arrays: the only listed type that is not builtin and can change."""

NUMPY_SCALAR: Final = Kind(63, _scalar_parts, _scalar)
"""All numpy scalar types share one number: their dtype says which."""


# --- our own chat messages ----------------------------------------------------------------------------------


def _message(name: str, code: int) -> Known:
    """Build a class of messages, whose form `durable_graph.messages` knows."""

    def plain(value: Any) -> list[Any]:
        return _load("durable_graph.messages.stored_form", "message_parts")(value)

    def revive(plain: list[Any]) -> Any:
        return _load("durable_graph.messages.stored_form", "message_maker")(name)(plain)

    return Known("durable_graph.messages.models", name, Kind(code, plain, revive))


# --- the list -----------------------------------------------------------------------------------------------


def _text(module: str, name: str, code: int) -> Known:
    """Build a type whose text says everything, and whose constructor reads it."""
    return Known(module, name, Kind(code, str, _maker(module, name)))


KNOWN: Final[tuple[Known, ...]] = (
    # 0 and 1 are the codec's: registered types.
    Known("builtins", "tuple", Kind(2, list, tuple)),
    Known("builtins", "set", Kind(3, list, set, sort=True)),
    Known("builtins", "frozenset", Kind(4, list, frozenset, sort=True)),
    Known("builtins", "int", Kind(5, _int_bytes, _int)),  # above 64 bit; smaller ones are msgpack's
    Known("builtins", "complex", Kind(6, _attributes("real", "imag"), _spread("builtins", "complex"))),
    Known("builtins", "bytearray", Kind(7, bytes, bytearray)),
    Known("builtins", "range", Kind(8, _attributes("start", "stop", "step"), _spread("builtins", "range"))),
    Known("builtins", "slice", Kind(9, _attributes("start", "stop", "step"), _spread("builtins", "slice"))),
    Known("types", "EllipsisType", Kind(10, _ellipsis_part, _ellipsis)),
    Known("collections", "deque", Kind(11, _deque_parts, _deque)),
    # 12 is the type registry's: a defaultdict, whose factory may be a registered type.
    Known("collections", "OrderedDict", Kind(13, dict, _maker("collections", "OrderedDict"))),
    Known("collections", "Counter", Kind(14, dict, _counter)),
    _text("decimal", "Decimal", 15),
    Known(
        "fractions",
        "Fraction",
        Kind(16, _attributes("numerator", "denominator"), _spread("fractions", "Fraction")),
    ),
    Known("datetime", "datetime", Kind(17, _attributes("year", "month", "day", *_CLOCK), _datetime)),
    Known("datetime", "date", Kind(18, _attributes("year", "month", "day"), _spread("datetime", "date"))),
    Known("datetime", "time", Kind(19, _attributes(*_CLOCK), _time)),
    Known(
        "datetime",
        "timedelta",
        Kind(20, _attributes("days", "seconds", "microseconds"), _spread("datetime", "timedelta")),
    ),
    Known("datetime", "timezone", Kind(21, _timezone_parts, _spread("datetime", "timezone"))),
    Known("zoneinfo", "ZoneInfo", Kind(22, _zone_key, _zone)),
    Known("uuid", "UUID", Kind(23, _uuid_parts, _uuid)),
    Known("re", "Pattern", Kind(24, _attributes("pattern", "flags"), _spread("re", "compile"))),
    Known("pathlib", "PurePosixPath", Kind(25, str, _path_maker("PurePosixPath"))),
    Known("pathlib", "PureWindowsPath", Kind(26, str, _path_maker("PureWindowsPath"))),
    Known("pathlib", "PosixPath", Kind(27, str, _path_maker("PosixPath"))),
    Known("pathlib", "WindowsPath", Kind(28, str, _path_maker("WindowsPath"))),
    _text("ipaddress", "IPv4Address", 29),
    _text("ipaddress", "IPv6Address", 30),
    _text("ipaddress", "IPv4Interface", 31),
    _text("ipaddress", "IPv6Interface", 32),
    _text("ipaddress", "IPv4Network", 33),
    _text("ipaddress", "IPv6Network", 34),
    _message("HumanMessage", 40),
    _message("AIMessage", 41),
    _message("AIMessageChunk", 42),
    _message("SystemMessage", 43),
    _message("ToolMessage", 44),
    _message("RemoveMessage", 45),
    Known("pydantic.types", "SecretStr", Kind(60, _secret, _maker("pydantic.types", "SecretStr"))),
    Known("pydantic.types", "SecretBytes", Kind(61, _secret, _maker("pydantic.types", "SecretBytes"))),
    Known("numpy", "ndarray", ARRAY),
)


def loaded_known_types() -> Iterator[tuple[type[Any], Kind]]:
    """Give the listed types whose modules are loaded now."""
    for module, name, kind in KNOWN:
        loaded = sys.modules.get(module)
        if loaded is not None and (cls := getattr(loaded, name, None)) is not None:
            yield cls, kind
