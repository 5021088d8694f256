"""The raw state of an instance: read, written and matched with its class, without running any of the class's code.

Shared by the codec (an object is stored as its state) and by isolation (an object is copied as its state). Nothing
here calls `__init__`, `__post_init__`, `__new__` of a user's class, a validator, or a property.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from durable_graph.errors import UnknownStoredTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "Layout",
    "declared_fields",
    "derives_from",
    "fit",
    "is_frozen",
    "is_namedtuple",
    "is_pydantic",
    "layout_of",
    "named_parts",
    "read_state",
    "type_of",
    "write_state",
]

type_of: Callable[[object], type[Any]] = cast("Any", type)
"""`type`, as type checkers should see it: the class of the user's value is any class."""

_tuple: Any = tuple  # untyped, to call its own methods on instances of subclasses
_NOTHING: Final[frozenset[str]] = frozenset()


class Layout(NamedTuple):
    """Where a class keeps the state of its instances.

    slots: the name of each slot and its descriptor, those of base classes too.
    transient: names in `__dict__` that are no state: cached properties, and what `Generic` leaves behind.
    """

    slots: Mapping[str, types.MemberDescriptorType]
    transient: frozenset[str]


@functools.lru_cache(maxsize=4096)
def layout_of(cls: type[Any]) -> Layout:
    """Look a class over once."""
    slots: dict[str, types.MemberDescriptorType] = {}
    transient = {"__orig_class__"}  # set by Generic on `Box[int](...)`; says nothing about the value
    for base in reversed(cls.__mro__):
        members = vars(base)
        transient.update(name for name, member in members.items() if isinstance(member, functools.cached_property))
        if "__slots__" in members:  # a class written in C has member descriptors too, which are not ours to set
            slots.update(
                (name, member) for name, member in members.items() if type(member) is types.MemberDescriptorType
            )
    return Layout(slots, frozenset(transient))


def read_state(value: Any) -> dict[str, Any]:
    """All attributes the instance itself holds, slots first; a slot that was never set is left out."""
    cls = type_of(value)
    slots, transient = layout_of(cls)
    state: dict[str, Any] = {}
    for name, slot in slots.items():
        try:
            state[name] = slot.__get__(value, cls)
        except AttributeError:
            continue
    attributes: dict[str, Any] | None = getattr(value, "__dict__", None)
    if attributes:
        if transient.isdisjoint(attributes):
            state.update(attributes)
        else:
            state.update((name, part) for name, part in attributes.items() if name not in transient)
    return state


def write_state(value: Any, state: Mapping[str, Any]) -> None:
    """Give a blank instance its attributes, past `__setattr__`, so that frozen classes take them too.

    Raises:
        UnknownStoredTypeError: The class has neither a slot nor a `__dict__` for a name.
    """
    slots = layout_of(type_of(value)).slots
    attributes: dict[str, Any] | None = getattr(value, "__dict__", None)
    for name, part in state.items():
        slot = slots.get(name)
        if slot is not None:
            slot.__set__(value, part)
        elif attributes is not None:
            attributes[name] = part
        else:
            raise _mismatch(type_of(value), missing=(), unknown=(name,))


def named_parts(value: Any) -> list[tuple[str, Any]]:
    """Give what an object of a registered class holds, with the steps to it: `.name`, `[0]`, `['key']`.

    Elements of a builtin base come first.
    """
    parts: list[tuple[str, Any]] = []
    elements: Any = value
    if is_namedtuple(type_of(value)):
        parts += [(f".{name}", part) for name, part in zip(value._fields, _tuple.__iter__(value), strict=True)]
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts += [(f"[{index}]", part) for index, part in enumerate(elements)]
    elif isinstance(value, BaseException):
        parts += [(f".args[{index}]", part) for index, part in enumerate(value.args)]
    for name, part in read_state(value).items():
        if name == "__pydantic_fields_set__":
            continue
        if name in ("__pydantic_extra__", "__pydantic_private__"):
            held: dict[str, Any] = part or {}
            parts += [(f".{inner}", kept) for inner, kept in held.items()]
        else:
            parts.append((f".{name}", part))
    return parts


# --- what kind of class it is ----------------------------------------------------------------------------------


def derives_from(cls: type[Any], bases: type[Any] | tuple[type[Any], ...]) -> bool:
    """Serve as `issubclass`, without its effect on type checkers: a user's class stays any class."""
    return issubclass(cls, bases)


def is_pydantic(cls: type[Any]) -> bool:
    """Tell whether it is a pydantic v2 model, without importing pydantic."""
    module = sys.modules.get("pydantic.main")
    return module is not None and issubclass(cls, module.BaseModel)


def is_namedtuple(cls: type[Any]) -> bool:
    """Tell whether it is a NamedTuple or a subclass of one."""
    return hasattr(cls, "_fields") and hasattr(cls, "_field_defaults") and issubclass(cls, tuple)


def is_frozen(cls: type[Any]) -> bool:
    """Tell whether instances refuse to be changed: frozen dataclasses and frozen pydantic models."""
    parameters = getattr(cls, "__dataclass_params__", None)
    if parameters is not None:
        return bool(parameters.frozen)
    return is_pydantic(cls) and bool(getattr(cls, "model_config", {}).get("frozen"))


# --- stored fields against declared fields -----------------------------------------------------------------------


def declared_fields(cls: type[Any]) -> Mapping[str, Callable[[], Any] | None] | None:
    """Each field of a dataclass, pydantic model or NamedTuple with what makes its default (None: it has none).

    None for a class that declares no fields.
    """
    if is_pydantic(cls):
        return {name: _model_default(field) for name, field in _model_fields(cls).items()}
    return _fixed_fields(cls)


@functools.lru_cache(maxsize=4096)
def _fixed_fields(cls: type[Any]) -> dict[str, Callable[[], Any] | None] | None:
    """`declared_fields` of classes whose fields never change once the class is there."""
    if dataclasses.is_dataclass(cls):
        return {field.name: _dataclass_default(field) for field in dataclasses.fields(cls)}
    if is_namedtuple(cls):
        names: tuple[str, ...] = vars(cls).get("_fields") or getattr(cls, "_fields", ())
        defaults: dict[str, Any] = getattr(cls, "_field_defaults", {})
        return {name: functools.partial(_same, defaults[name]) if name in defaults else None for name in names}
    return None


def _model_fields(cls: Any) -> dict[str, Any]:
    found = getattr(cls, "__pydantic_fields__", None)  # pydantic before 2.10 knows `model_fields` only
    return found if found is not None else cls.model_fields


def _model_default(field: Any) -> Callable[[], Any] | None:
    # A factory that wants the validated values of the other fields has nothing to work on here.
    if field.is_required() or getattr(field, "default_factory_takes_validated_data", False):
        return None
    return functools.partial(field.get_default, call_default_factory=True)


def _dataclass_default(field: dataclasses.Field[Any]) -> Callable[[], Any] | None:
    if field.default is not dataclasses.MISSING:
        return functools.partial(_same, field.default)
    return None if field.default_factory is dataclasses.MISSING else field.default_factory


def _same(value: Any) -> Any:
    return value


def fit(
    cls: type[Any],
    stored: dict[str, Any],
    declared: Mapping[str, Callable[[], Any] | None],
    *,
    unset: frozenset[str] = _NOTHING,
) -> dict[str, Any]:
    """Match the stored fields with those the class declares today; missing ones get their default.

    unset: fields that held nothing when the object was stored and shall hold nothing again.

    Raises:
        UnknownStoredTypeError: A field is missing and has no default, or the class does not know a stored field.
    """
    if stored.keys() == declared.keys():
        return stored
    unknown = tuple(name for name in stored if name not in declared)
    absent = [name for name in declared if name not in stored and name not in unset]
    missing = tuple(name for name in absent if declared[name] is None)
    if unknown or missing:
        raise _mismatch(cls, missing=missing, unknown=unknown)
    defaults = {name: make() for name in absent if (make := declared[name]) is not None}
    return {**stored, **defaults}


def _mismatch(cls: type[Any], *, missing: tuple[str, ...], unknown: tuple[str, ...]) -> UnknownStoredTypeError:
    name = f"{cls.__module__}:{cls.__qualname__}"
    parts: list[str] = []
    if missing:
        parts.append(f"the stored data lacks {_listed(missing)}, which has no default")
    if unknown:
        parts.append(f"the class has no {_listed(unknown)}, which was stored")
    return UnknownStoredTypeError(
        f"A stored {name} no longer fits its class: {'; '.join(parts)}.",
        cure="Give new fields a default and keep old ones, or read it with the version of the code that wrote it.",
    )


def _listed(names: tuple[str, ...]) -> str:
    return ("field " if len(names) == 1 else "fields ") + ", ".join(map(repr, names))
