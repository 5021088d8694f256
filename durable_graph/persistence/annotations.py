"""Registers the classes that a schema names, so that what a graph declares can be stored without a word."""

from __future__ import annotations

import dataclasses
import enum
import typing
from typing import TYPE_CHECKING, Any, Final

import typing_extensions

from durable_graph.errors import InvalidConfigError
from durable_graph.persistence.object_state import derives_from, is_namedtuple, is_pydantic
from durable_graph.persistence.type_forms import default_form
from durable_graph.persistence.type_registry import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["register_annotations"]

_CONTENT_BASES: Final[tuple[type[Any], ...]] = (dict, list, set, frozenset, tuple, str, bytes, int, float)


def register_annotations(hint: Any) -> None:
    """Walk a type hint or schema class, and register every class of a storable kind found in it.

    Storable kinds: dataclasses, pydantic models, NamedTuples, Enums, and subclasses of builtin containers, text and
    numbers. Other classes need `register_type`; they are refused when one of their objects is to be stored. Forward
    references that cannot be resolved are skipped.

    Raises:
        InvalidConfigError: Another class is registered under the same key.
    """
    seen: set[int] = set()
    keep: list[Any] = []  # hints made on the way must live as long as their ids are in `seen`
    waiting = [hint]
    while waiting:
        current = waiting.pop()
        if id(current) not in seen:
            seen.add(id(current))
            keep.append(current)
            if isinstance(current, type) and typing.get_origin(current) is None and not REGISTRY.is_registered(current):
                _register(current)
            waiting.extend(_named_by(current))


def _register(cls: type[Any]) -> None:
    is_model = dataclasses.is_dataclass(cls) or is_pydantic(cls) or is_namedtuple(cls) or issubclass(cls, enum.Enum)
    is_content = (
        derives_from(cls, _CONTENT_BASES) and cls not in _CONTENT_BASES and not typing_extensions.is_typeddict(cls)
    )
    if not (is_model or is_content) or cls.__module__ in _LIBRARY_MODULES:
        return
    try:
        default_form(cls)
    except InvalidConfigError:
        return  # it keeps state in C: only `register_type` with functions can help
    REGISTRY.register(cls)


_LIBRARY_MODULES: Final = frozenset({"builtins", "collections", "typing", "enum", "pydantic.main"})


def _named_by(hint: Any) -> Iterator[Any]:
    """The hints inside a hint."""
    origin = typing.get_origin(hint)
    if origin is typing.Literal or origin is typing_extensions.Literal:
        yield from map(type, typing.get_args(hint))
        return
    if origin is not None:
        yield origin
        for argument in typing.get_args(hint):
            yield from argument if isinstance(argument, list) else (argument,)  # Callable[[A, B], C]
        return
    if isinstance(hint, type):
        yield from _fields_of(hint)
        return
    for attribute in ("__value__", "__supertype__", "__bound__", "type"):  # type X = ..., NewType, TypeVar, InitVar
        inner = getattr(hint, attribute, None)
        if inner is not None:
            yield inner
    yield from getattr(hint, "__constraints__", ())


def _fields_of(cls: Any) -> Iterator[Any]:
    if is_pydantic(cls):
        fields = getattr(cls, "__pydantic_fields__", None) or getattr(cls, "model_fields", {})
        yield from (field.annotation for field in fields.values())
        yield from getattr(cls, "__pydantic_generic_metadata__", {}).get("args", ())
        return
    is_schema = dataclasses.is_dataclass(cls) or is_namedtuple(cls) or typing_extensions.is_typeddict(cls)
    if not is_schema and "__annotations__" not in vars(cls):
        return
    try:
        hints = typing_extensions.get_type_hints(cls, include_extras=True)
    except Exception:  # noqa: BLE001 - resolving runs the user's annotations: anything may come
        hints = {name: hint for name, hint in getattr(cls, "__annotations__", {}).items() if not isinstance(hint, str)}
    yield from hints.values()
