"""Isolation: nobody sees another's edits in place. A task, a retry and the history each hold values of their own.

`own` copies what can change and shares what cannot. It copies the way the codec stores: values, not identities, so a
run in memory behaves like one that was reloaded. `StateView` puts the copying off until a key is read.
"""

from __future__ import annotations

import copy
import enum
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, Final

from durable_graph.errors import InvalidConfigError, UnserializableValueError
from durable_graph.persistence.known_types import ARRAY, loaded_known_types
from durable_graph.persistence.object_state import (
    derives_from,
    is_frozen,
    is_namedtuple,
    is_pydantic,
    read_state,
    type_of,
    write_state,
)
from durable_graph.persistence.type_forms import blank_copy, content_base
from durable_graph.persistence.type_registry import REGISTRY
from durable_graph.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
    from typing import Self

__all__ = ["ATOMS", "MESSAGES", "StateView", "is_immutable", "own", "peek"]

# Types whose objects never change and hold nothing that does. Grows: a class is added when it is first met.
ATOMS: Final[set[type[Any]]] = {type(None), bool, int, float, complex, str, bytes, range, type(...)}

_dict: Any = dict  # untyped, to call their own methods on instances of subclasses
_tuple: Any = tuple
_new: Any = object.__new__
_set: Any = object.__setattr__

_PARTS: Final[dict[type[Any], tuple[str, ...]]] = {}

_CONTAINERS: Final[tuple[type[Any], ...]] = (list, dict, set, deque, bytearray)

MESSAGES: Final = "durable_graph.messages.models"
"""The module of our own messages."""

# What a pydantic model keeps beside its fields: says nothing about whether it can be shared, unless filled.
_MODEL_SLOTS: Final = frozenset({"__pydantic_extra__", "__pydantic_private__"})


def own(value: Any) -> Any:
    """Copy a value so that nothing that can change is shared with it.

    Immutable values, and frozen objects that hold only such, come back as they are. Objects of unknown types (a
    client, a lock) are shared: nobody knows how to copy them. A value that contains itself is copied as it is.

    Raises:
        UnserializableValueError: The value is nested too deep, or contains itself and something that cannot be
            copied.
    """
    cls = type_of(value)
    if cls in ATOMS:
        return value
    try:
        copier = _COPIERS.get(cls) or _copier_of(cls)  # as `_own`, without a call more for each write
        return value if copier is None else copier(value)
    except RecursionError:
        return _own_with_cycles(value)


def _own_with_cycles(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception as problem:
        raise UnserializableValueError(
            f"A value of type {type(value).__qualname__} cannot be copied: it is nested too deep, or contains itself "
            f"and something that cannot be copied ({problem!r}).",
            cure="Store ids or keys instead of the objects themselves, or make the value flatter.",
        ) from problem


def _own(value: Any) -> Any:
    cls = type_of(value)
    if cls in ATOMS:
        return value
    copier = _COPIERS.get(cls) or _copier_of(cls)
    return value if copier is None else copier(value)


# --- copiers, by exact type --------------------------------------------------------------------------------------


def _own_list(value: list[Any]) -> list[Any]:
    return [part if type(part) in ATOMS else _own(part) for part in value]


def _own_items(value: dict[Any, Any]) -> dict[Any, Any]:
    copied = dict(value)  # in C; then only what can change is replaced
    for key, part in value.items():
        if type(part) not in ATOMS:
            copied[key] = _own(part)
        if type(key) not in ATOMS:
            return {_own(other): _own(held) for other, held in value.items()}
    return copied


def _own_tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    parts = _own_list(list(value))
    return value if all(map(_is, parts, value)) else tuple(parts)


def _is(left: Any, right: Any) -> bool:
    return left is right


def _own_frozenset(value: frozenset[Any]) -> frozenset[Any]:
    parts = list(value)
    copies = _own_list(parts)
    return value if all(map(_is, copies, parts)) else frozenset(copies)


def _own_slice(value: slice) -> slice:
    return slice(_own(value.start), _own(value.stop), _own(value.step))


def _own_defaultdict(value: defaultdict[Any, Any]) -> defaultdict[Any, Any]:
    return defaultdict(value.default_factory, _own_items(value))


def _own_counter(value: Counter[Any]) -> Counter[Any]:
    copied: Counter[Any] = Counter()
    _dict.update(copied, _own_items(value))
    return copied


def _own_array(value: Any) -> Any:
    return copy.deepcopy(value)  # keeps the memory order, and copies the objects of an array of objects


_COPIERS: Final[dict[type[Any], Callable[[Any], Any]]] = {
    list: _own_list,
    dict: _own_items,
    tuple: _own_tuple,
    set: lambda value: set(_own_list(list(value))),
    frozenset: _own_frozenset,
    slice: _own_slice,
    bytearray: bytearray,
    deque: lambda value: deque(_own_list(list(value)), value.maxlen),
    defaultdict: _own_defaultdict,
    OrderedDict: lambda value: OrderedDict(_own_items(value)),
    Counter: _own_counter,
}


# --- copiers of other classes --------------------------------------------------------------------------------------


def _own_object(value: Any) -> Any:
    return _clone(value, {name: _own(part) for name, part in read_state(value).items()})


def _clone(value: Any, state: Mapping[str, Any]) -> Any:
    clone = blank_copy(value, _own)
    write_state(clone, state)
    return clone


def _own_frozen(value: Any) -> Any:
    state = read_state(value)
    copies = {name: _own(part) for name, part in state.items()}
    if all(copies[name] is part or _says_nothing(name, part) for name, part in state.items()):
        return value
    return _clone(value, copies)


def _says_nothing(name: str, part: Any) -> bool:
    return name == "__pydantic_fields_set__" or (name in _MODEL_SLOTS and not part)


def _own_namedtuple(value: Any) -> Any:
    copies = _own_tuple(value)
    state = read_state(value)
    if copies is value and not state:
        return value
    clone = _tuple.__new__(type(value), copies)
    write_state(clone, {name: _own(part) for name, part in state.items()})
    return clone


def _copier_of(cls: type[Any]) -> Callable[[Any], Any] | None:  # noqa: PLR0911 - one for each way of copying
    """Find out how objects of a class are copied; None: they are shared."""
    if issubclass(cls, enum.Enum) or _is_listed_atom(cls):
        ATOMS.add(cls)
        return None
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(cls, (numpy.ndarray, numpy.generic)):
        return _COPIERS.setdefault(cls, _own_array)
    if cls.__module__ == MESSAGES:
        return _COPIERS.setdefault(cls, _own_message)
    if is_namedtuple(cls):
        return _COPIERS.setdefault(cls, _own_namedtuple)
    if is_dataclass(cls) or is_pydantic(cls) or derives_from(cls, _CONTAINERS):
        return _COPIERS.setdefault(cls, _structural_copier(cls))
    # What follows depends on registrations, which may still come: it is not remembered.
    form = REGISTRY.function_form(cls)
    if form is not None:
        return lambda value: form.revive(_own(form.plain(value)))
    return _own_object if REGISTRY.by_state(cls) else None


def _structural_copier(cls: type[Any]) -> Callable[[Any], Any]:
    try:
        base = content_base(cls)
    except InvalidConfigError:
        return _shared  # it keeps state in C, which nobody can copy
    return _own_frozen if base is object and is_frozen(cls) else _own_object


def _shared(value: Any) -> Any:
    return value


def _is_listed_atom(cls: type[Any]) -> bool:
    """Tell whether it is one of the types the codec lists; those that can change have a copier above."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(cls, numpy.generic):
        return not issubclass(cls, (numpy.void, numpy.object_))  # a structured scalar can be written to
    if cls.__module__ == MESSAGES:  # their lists and dicts can change
        return False
    return any(listed is cls and kind is not ARRAY for listed, kind in loaded_known_types())


def _own_message(value: Any) -> Any:
    """A message: frozen, but not what it holds. By hand, because there are many of them and a model's way is slow."""
    kind = type_of(value)
    fields: dict[str, Any] = value.__dict__.copy()
    for name in _PARTS.get(kind) or _parts_of(kind):
        part = fields[name]
        cls = type_of(part)
        if cls not in ATOMS:  # most lists and dicts in a message are empty
            fields[name] = _own(part) if part or (cls is not dict and cls is not list) else cls()
    made: Any = _new(kind)
    _set(made, "__dict__", fields)
    _set(made, "__pydantic_fields_set__", value.__pydantic_fields_set__.copy())
    _set(made, "__pydantic_extra__", None)
    _set(made, "__pydantic_private__", None)
    return made


def _parts_of(cls: Any) -> tuple[str, ...]:
    """The fields of a kind of message that can hold what changes."""
    fixed = ("type", "name", "id", "tool_call_id", "status", "chunk_position")
    return _PARTS.setdefault(cls, tuple(name for name in cls.model_fields if name not in fixed))


def is_immutable(value: Any) -> bool:
    """Tell whether a value can never change, so that it may be shared. False also means: not sure."""
    cls = type_of(value)
    if cls in ATOMS:
        return True
    if cls is tuple or cls is frozenset:
        return all(map(is_immutable, value))
    copier = _COPIERS.get(cls) or _copier_of(cls)
    if copier is _own_frozen:
        return all(is_immutable(part) or _says_nothing(name, part) for name, part in read_state(value).items())
    if copier is _own_namedtuple:
        return not read_state(value) and all(map(is_immutable, _tuple.__iter__(value)))
    return cls in ATOMS


# --- the view of a state that a task receives ----------------------------------------------------------------------


class StateView(dict[str, Any]):
    """A dict that copies a key's value when it is first read, and hands out this same copy from then on.

    A node that does not read a key does not pay for it. Writing changes the view only, never the values it was made
    of. Whatever makes a new mapping of it (`copy`, `|`, `dict(view)`, `{**view}`, pickle) makes a plain dict.

    C code takes a subclass's own methods when it overrides `__iter__`. Only code that reads a dict's memory all the
    same, such as `dict.get(view, key)`, sees the originals.
    """

    __slots__ = ("_copy", "_mine")

    def __init__(self, values: Mapping[str, Any], copy: Callable[[str, Any], Any] | None = None) -> None:
        """`copy(key, value)` makes the copies; `own` when left out."""
        super().__init__(values)
        self._mine: dict[str, Any] = {}  # the values that are the task's own: read before, or written by it
        self._copy = copy

    def _take(self, key: str, value: Any) -> Any:
        """Give the task's own copy of a value that is in the dict."""
        if type(value) in ATOMS or key in self._mine:
            return value
        # Two OS threads may get here at once: setdefault makes both see one copy.
        mine = self._mine.setdefault(key, own(value) if self._copy is None else self._copy(key, value))
        super().__setitem__(key, mine)
        return mine

    def _take_all(self) -> None:
        for key, value in list(super().items()):
            self._take(key, value)

    def _forget(self, key: Any) -> None:
        self._mine.pop(key, None)

    # --- reading ---

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        return value if type(value) in ATOMS else self._take(key, value)

    def get(self, key: Any, default: Any = None) -> Any:
        """As `dict.get`."""
        return self[key] if key in self else default  # noqa: SIM401 - the method it recommends is this one

    def __iter__(self) -> Iterator[str]:
        # Does nothing more than dict's own. That it is overridden makes C code (`{**view}`, `dict(view)`,
        # `view | d`, `view.copy()`) read through keys() and __getitem__ instead of copying the memory.
        return super().__iter__()

    def items(self) -> ItemsView[str, Any]:  # pyright: ignore[reportIncompatibleMethodOverride] - ours behaves like dict's, whose types are final
        """As `dict.items`; reads every key."""
        self._take_all()
        return super().items()

    def values(self) -> ValuesView[Any]:  # pyright: ignore[reportIncompatibleMethodOverride] - ours behaves like dict's, whose types are final
        """As `dict.values`; reads every key."""
        self._take_all()
        return super().values()

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (dict, (dict(self),))

    # --- writing ---

    def __setitem__(self, key: str, value: Any) -> None:
        self._mine[key] = value
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._forget(key)

    def setdefault(self, key: str, default: Any = None) -> Any:
        """As `dict.setdefault`."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: Any, *default: Any) -> Any:
        """As `dict.pop`."""
        if key not in self:
            return super().pop(key, *default)
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """As `dict.popitem`."""
        key, value = super().popitem()
        mine = self._mine.pop(key, MISSING)
        return key, own(value) if mine is MISSING else mine

    def clear(self) -> None:
        """As `dict.clear`."""
        super().clear()
        self._mine.clear()

    def update(self, *args: Any, **kwargs: Any) -> None:
        """As `dict.update`."""
        new: dict[str, Any] = dict(*args, **kwargs)
        for key, value in new.items():
            self[key] = value

    def __ior__(self, other: Any) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride] - ours behaves like dict's, whose types are final
        self.update(other)
        return self


def peek(state: Mapping[str, Any], key: str) -> Any:
    """A value of a state for code of ours that only looks at it: nothing is copied. None when it has no such key."""
    return _dict.get(state, key) if isinstance(state, dict) else state.get(key)


_COPIERS[StateView] = lambda value: _own_items(dict(_dict.items(value)))
