"""How objects of users' classes become plain values: by their raw state, never by running the class's code.

A form serves one class. It is chosen by what the class is:

    Enum         the member's name; a Flag: the names of its bits, and the value of bits that have no name
    pydantic     [fields, names of the fields that were set, extra, private, other attributes]
    NamedTuple   [fields, other attributes]
    dataclass    [content, fields, other attributes, names of unset fields]
    other        the same, without fields

`content` is what a class keeps of a builtin base (the elements of a list subclass, the text of a str subclass), and
None without one. Trailing empty parts are left out. "Other attributes" keep what `__post_init__` or a method set, for
neither runs again; cached properties are left out, for they are computed anew.
"""

from __future__ import annotations

import enum
import functools
import inspect
import operator
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from durable_graph.errors import InvalidConfigError, UnknownStoredTypeError
from durable_graph.persistence.object_state import (
    declared_fields,
    fit,
    is_namedtuple,
    is_pydantic,
    read_state,
    type_of,
    write_state,
)

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Form", "blank_copy", "content_base", "default_form"]

_HEAP_TYPE: Final = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class made by a class statement
_or: Callable[[Any, Any], Any] = cast("Any", operator.or_)
_OrderedDict: Any = OrderedDict  # untyped, to call their own methods on instances of subclasses
_deque: Any = deque
_tuple: Any = tuple
_NOTHING: Final[frozenset[str]] = frozenset()


class Form(NamedTuple):
    """plain: object -> plain value. revive: plain value -> object."""

    plain: Callable[[Any], Any]
    revive: Callable[[Any], Any]


def default_form(cls: type[Any]) -> Form:
    """Choose the form of a class by its kind.

    Raises:
        InvalidConfigError: The class keeps state that Python code cannot see (a base written in C).
    """
    if issubclass(cls, enum.Flag):
        return Form(_flag_parts, functools.partial(_flag, cls))
    if issubclass(cls, enum.Enum):
        return Form(_member_name, functools.partial(_member, cls))
    if is_pydantic(cls):
        return Form(_model_parts, functools.partial(_model, cls))
    if is_namedtuple(cls):
        return Form(_namedtuple_parts, functools.partial(_namedtuple, cls))
    base = _base_of(cls)
    return Form(functools.partial(_state_parts, base, _field_names(cls)), functools.partial(_object, cls, base))


# --- enums --------------------------------------------------------------------------------------------------


def _member_name(value: enum.Enum) -> str:
    return value._name_  # the documented ("sunder") name, which a member called `name` cannot hide


def _member(cls: Any, name: str) -> Any:
    member = cls.__members__.get(name)
    if member is None:
        raise UnknownStoredTypeError(
            f"A stored {cls.__module__}:{cls.__qualname__} is the member {name!r}, which the class does not have; "
            f"it has {', '.join(cls.__members__)}.",
            cure="Add the member back; to rename one, keep the old name as an alias of the new one.",
        )
    return member


def _flag_parts(value: Any) -> list[Any]:
    known = list(value)
    rest = value.value & ~functools.reduce(_or, (bit.value for bit in known), 0)
    return [list(map(_member_name, known)), rest]


def _flag(cls: Any, plain: list[Any]) -> Any:
    names, rest = plain
    bits = [_member(cls, name) for name in names]
    if rest or not bits:
        bits.append(cls(rest))
    return functools.reduce(_or, bits)


# --- pydantic models ----------------------------------------------------------------------------------------


def _model_parts(value: Any) -> list[Any]:
    state = read_state(value)
    fields_set = state.pop("__pydantic_fields_set__", _NOTHING)
    extra = state.pop("__pydantic_extra__", None)
    private = state.pop("__pydantic_private__", None)
    names = _field_names(type_of(value))
    others = {name: state.pop(name) for name in [*state] if name not in names} if state.keys() - names else None
    return _trimmed([state, sorted(fields_set), extra, private, others], keep=2)


def _model(cls: Any, plain: list[Any]) -> Any:
    fields, fields_set, extra, private, others = _padded(plain, 5)
    model = object.__new__(cls)
    state = fit(cls, fields, declared_fields(cls) or {})
    private = _private(cls, private or {})
    slots = {"__pydantic_fields_set__": set(fields_set), "__pydantic_extra__": extra, "__pydantic_private__": private}
    write_state(model, {**state, **(others or {}), **slots})
    return model


def _private(cls: Any, stored: dict[str, Any]) -> dict[str, Any] | None:
    """Match private attributes with those of the class. None: the class has none, which is how pydantic says it."""
    declared = cls.__private_attributes__
    if not declared and not stored:
        return None
    undefined = object()
    state = fit(cls, stored, {name: functools.partial(_private_default, a, undefined) for name, a in declared.items()})
    return {name: part for name, part in state.items() if part is not undefined}


def _private_default(attribute: Any, undefined: object) -> Any:
    if attribute.default_factory is None and type(attribute.default).__name__ == "PydanticUndefinedType":
        return undefined  # declared without a value: it may be unset for ever
    return attribute.get_default()


# --- named tuples -------------------------------------------------------------------------------------------


def _namedtuple_parts(value: Any) -> list[Any]:
    fields = dict(zip(value._fields, _tuple.__iter__(value), strict=True))
    return _trimmed([fields, read_state(value)], keep=1)


def _namedtuple(cls: Any, plain: list[Any]) -> Any:
    stored, others = _padded(plain, 2)
    declared = declared_fields(cls) or {}
    state = fit(cls, stored, declared)
    value = _tuple.__new__(cls, map(state.__getitem__, declared))
    write_state(value, others or {})
    return value


# --- dataclasses, subclasses of builtins, other classes -----------------------------------------------------


class _Base(NamedTuple):
    """A builtin that classes derive from: how its content is read from an instance, and an instance made of it."""

    builtin: type[Any]
    content: Callable[[Any], Any]
    make: Callable[[type[Any], Any], Any]
    empty: Any


def _filled(builtin: Any, fill: str) -> Callable[[type[Any], Any], Any]:
    def make(cls: type[Any], content: Any) -> Any:
        value = builtin.__new__(cls)
        getattr(builtin, fill)(value, content)
        return value

    return make


def _made_by(builtin: Any) -> Callable[[type[Any], Any], Any]:
    def make(cls: type[Any], content: Any) -> Any:
        return builtin.__new__(cls, content)

    return make


def _make_ordered(cls: type[Any], content: dict[Any, Any]) -> Any:
    value = _OrderedDict.__new__(cls)
    for key, part in content.items():
        _OrderedDict.__setitem__(value, key, part)
    return value


def _make_deque(cls: type[Any], content: list[Any]) -> Any:
    value = _deque.__new__(cls)
    _deque.__init__(value, content[1], content[0])  # only so can maxlen be set; it is deque's own, not the user's
    return value


def _make_exception(cls: type[Any], args: list[Any]) -> Any:
    return BaseException.__new__(cls, *args)


def _make_object(cls: type[Any], _: None) -> Any:
    return object.__new__(cls)


def _elements(builtin: Any) -> Callable[[Any], list[Any]]:
    def content(value: Any) -> list[Any]:
        return list(builtin.__iter__(value))

    return content


def _members(builtin: Any) -> Callable[[Any], set[Any]]:
    def content(value: Any) -> set[Any]:
        return set(builtin.__iter__(value))  # a set, so that the codec sorts it

    return content


def _pairs(builtin: Any) -> Callable[[Any], dict[Any, Any]]:
    def content(value: Any) -> dict[Any, Any]:
        return dict(builtin.items(value))

    return content


def _bytes_of(builtin: Any) -> Callable[[Any], bytes]:
    def content(value: Any) -> bytes:
        return bytes(builtin.__getitem__(value, slice(None)))

    return content


def _deque_content(value: Any) -> list[Any]:
    return [value.maxlen, _elements(deque)(value)]


def _arguments(value: BaseException) -> list[Any]:
    return list(value.args)


def _no_content(_: Any) -> None:
    return None


# Read by the builtin's own methods: overridden ones may show something else. Most derived first.
_BASES: Final = (
    _Base(OrderedDict, _pairs(OrderedDict), _make_ordered, {}),
    _Base(dict, _pairs(dict), _filled(dict, "update"), {}),
    _Base(list, _elements(list), _filled(list, "extend"), []),
    _Base(set, _members(set), _filled(set, "update"), set[Any]()),
    _Base(deque, _deque_content, _make_deque, [None, []]),
    _Base(bytearray, _bytes_of(bytearray), _filled(bytearray, "extend"), b""),
    _Base(tuple, _elements(tuple), _made_by(tuple), []),
    _Base(frozenset, _members(frozenset), _made_by(frozenset), set[Any]()),
    _Base(str, str.__str__, _made_by(str), ""),
    _Base(bytes, _bytes_of(bytes), _made_by(bytes), b""),
    _Base(int, int.__int__, _made_by(int), 0),
    _Base(float, float.__float__, _made_by(float), 0.0),
    _Base(BaseException, _arguments, _make_exception, []),
    _Base(object, _no_content, _make_object, None),
)


@functools.lru_cache(maxsize=4096)
def _base_of(cls: type[Any]) -> _Base:
    base = next(base for base in _BASES if issubclass(cls, base.builtin))
    hidden = base.builtin is BaseException and any(
        kind.__basicsize__ > BaseException.__basicsize__ for kind in cls.__mro__ if not kind.__flags__ & _HEAP_TYPE
    )
    try:
        usable = not hidden and (inspect.isabstract(cls) or isinstance(base.make(cls, base.empty), cls))
    except TypeError:  # "object.__new__(X) is not safe": X keeps its state in C
        usable = False
    if not usable:
        raise InvalidConfigError(
            f"{cls.__module__}:{cls.__qualname__} keeps state that cannot be read from outside.",
            cure=f"Say how: register_type({cls.__qualname__}, encode=..., decode=...).",
        )
    return base


@functools.lru_cache(maxsize=4096)
def _field_names(cls: type[Any]) -> frozenset[str]:
    return frozenset(declared_fields(cls) or ())


def _state_parts(base: _Base, names: frozenset[str], value: Any) -> list[Any]:
    state = read_state(value)
    if not names:
        return _trimmed([base.content(value), {}, state], keep=0)
    fields = {name: part for name, part in state.items() if name in names}
    others = {name: part for name, part in state.items() if name not in names}
    unset = sorted(names - fields.keys())
    return _trimmed([base.content(value), fields, others, unset], keep=0)


def _object(cls: type[Any], base: _Base, plain: list[Any]) -> Any:
    content, fields, others, unset = _padded(plain, 4)
    value = base.make(cls, base.empty if content is None else content)
    declared = declared_fields(cls)
    state: dict[str, Any] = fields or {}
    if declared is not None:
        others = dict(others or {})
        # An attribute may have become a field, or hold what a field's descriptor keeps.
        stored = {**state, **{name: others.pop(name) for name in declared if name in others}}
        state = fit(cls, stored, declared, unset=frozenset(unset or ()))
    write_state(value, {**state, **(others or {})})
    return value


def content_base(cls: type[Any]) -> type[Any]:
    """Give the builtin whose content instances keep beside their attributes; `object` when there is none.

    Raises:
        InvalidConfigError: The class keeps state that Python code cannot see.
    """
    return _base_of(cls).builtin


def blank_copy(value: Any, content: Callable[[Any], Any]) -> Any:
    """Make an instance of the same class with the content of its builtin base, passed through `content`, and no state.

    Raises:
        InvalidConfigError: The class keeps state that Python code cannot see.
    """
    base = _base_of(type_of(value))
    return base.make(type_of(value), content(base.content(value)))


def _trimmed(parts: list[Any], *, keep: int) -> list[Any]:
    while len(parts) > keep and (parts[-1] is None or parts[-1] == {} or parts[-1] == []):
        parts.pop()
    return parts


def _padded(parts: list[Any], length: int) -> list[Any]:
    if type(parts) is not list or len(parts) > length:
        raise ValueError(f"{length} parts of an object expected")
    return [*parts, *[None] * (length - len(parts))]
