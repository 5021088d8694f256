"""From a class to the resolved type hints of its fields, whatever kind of class it is.

Pydantic is looked for in `sys.modules` only: a class of its kind cannot exist before it was imported.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NoReturn,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    get_origin,
)

import typing_extensions

from durable_graph.channels.base import type_name
from durable_graph.errors import InvalidSchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ROOT", "Hints", "Kind", "is_pydantic_model", "read_hints", "schema_name"]

ROOT: Final = "__root__"
"""The one key of a state that is a plain value."""

Kind: TypeAlias = Literal["typeddict", "dataclass", "pydantic", "root"]

QUALIFIERS: Final = {
    typing.Required: True,
    typing.NotRequired: False,
    typing_extensions.Required: True,
    typing_extensions.NotRequired: False,
    typing_extensions.ReadOnly: None,
    getattr(typing, "ReadOnly", typing_extensions.ReadOnly): None,
}
"""What a TypedDict's qualifier says about a field being required; None: nothing."""

ALIAS_TYPES: Final = tuple(
    {typing_extensions.TypeAliasType, getattr(typing, "TypeAliasType", typing_extensions.TypeAliasType)}
)
"""The types of `type X = ...`, which hide what they stand for."""


class Hints(NamedTuple):
    """A schema's class, and for each field in order of declaration its hint without qualifiers, extras kept."""

    kind: Kind
    type: Any
    hints: dict[str, Any]
    required: frozenset[str]


def read_hints(schema: Any, *, plain_classes: bool = False) -> Hints:
    """What kind of schema it is, and its fields.

    plain_classes: take a class that is none of the known kinds as the type of a plain value, even when it has
        annotations.

    Raises:
        InvalidSchemaError: it is no type, or a hint cannot be resolved.
    """
    while isinstance(schema, ALIAS_TYPES):
        schema = schema.__value__
    cls = get_origin(schema) or schema
    if typing_extensions.is_typeddict(cls):
        return _of_typeddict(cls, get_args(schema))
    if is_pydantic_model(schema):
        return _of_pydantic(schema)
    if isinstance(cls, type) and dataclasses.is_dataclass(cls):
        return _of_dataclass(cls, get_args(schema))
    if isinstance(schema, type) and not plain_classes:
        _reject_annotated_class(schema)
    if isinstance(schema, type) or get_origin(schema) is not None or schema is Any:
        return Hints("root", schema, {ROOT: _strip(schema)[0]}, frozenset())
    raise InvalidSchemaError(f"{schema!r} is no type, so it cannot be the schema of a state")


def schema_name(schema: Any) -> str:
    """How the schema is called in messages."""
    return type_name(schema)


def is_pydantic_model(schema: Any) -> bool:
    """Whether it is a class derived from pydantic's BaseModel."""
    main = sys.modules.get("pydantic.main")
    return main is not None and isinstance(schema, type) and issubclass(schema, main.BaseModel)


# --- one reader a kind --------------------------------------------------------------------------------------


def _of_typeddict(cls: Any, arguments: tuple[Any, ...]) -> Hints:
    hints: dict[str, Any] = {}
    # The class's own account of what is required is wrong where hints are strings, so a qualifier overrules
    # it.
    required = set(cls.__required_keys__)
    for name, hint in _resolved(cls, arguments).items():
        hints[name], is_required = _strip(hint)
        if is_required is not None:
            (required.add if is_required else required.discard)(name)
    return Hints("typeddict", cls, hints, frozenset(required))


def _of_dataclass(cls: type[Any], arguments: tuple[Any, ...]) -> Hints:
    resolved = _resolved(cls, arguments)
    fields = dataclasses.fields(cls)
    required = frozenset(
        field.name
        for field in fields
        if field.init and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    )
    return Hints("dataclass", cls, {field.name: _strip(resolved[field.name])[0] for field in fields}, required)


def _of_pydantic(model: Any) -> Hints:
    if getattr(model, "__pydantic_root_model__", False):
        raise InvalidSchemaError(
            f"{schema_name(model)} is a RootModel, which has no fields",
            cure="Use the type itself as the schema, e.g. Annotated[list[int], operator.add].",
        )
    _complete(model)
    hints: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        hint = field.annotation
        hints[name] = _strip(_annotated(hint, field.metadata) if field.metadata else hint)[0]
    required = frozenset(name for name, field in model.model_fields.items() if field.is_required())
    return Hints("pydantic", model, hints, required)


def _complete(model: Any) -> None:
    """Resolve the forward references that the model still has."""
    try:
        model.model_rebuild()
    except NameError as error:  # pydantic's PydanticUndefinedAnnotation is one
        _reject_unresolved(model, error)
    except Exception as error:
        raise InvalidSchemaError(f"The pydantic model {schema_name(model)} cannot be used: {error}") from error


def _reject_annotated_class(cls: type[Any]) -> None:
    """A class with fields that is none of the known kinds is a mistake, most often a forgotten decorator."""
    if cls.__module__ not in sys.stdlib_module_names and any(map(inspect.get_annotations, cls.__mro__)):
        raise InvalidSchemaError(
            f"{schema_name(cls)} has annotations but is no TypedDict, dataclass or pydantic model",
            cure="Derive it from TypedDict or pydantic.BaseModel, or decorate it with @dataclass.",
        )


# --- resolving ----------------------------------------------------------------------------------------------


def _resolved(cls: Any, arguments: tuple[Any, ...]) -> dict[str, Any]:
    """All hints with extras, inherited ones included; `arguments` fill the type parameters of a generic class."""
    try:
        hints = typing_extensions.get_type_hints(cls, include_extras=True)
    except NameError as error:
        _reject_unresolved(cls, error)
    except Exception as error:
        raise InvalidSchemaError(f"The type hints of {schema_name(cls)} cannot be read: {error}") from error
    parameters: tuple[Any, ...] = getattr(cls, "__parameters__", ())
    chosen: dict[Any, Any] = dict(zip(parameters, arguments, strict=False))
    return {name: _substituted(hint, chosen) for name, hint in hints.items()} if chosen else hints


def _reject_unresolved(cls: Any, error: NameError) -> NoReturn:
    name = error.name or str(error)
    raise InvalidSchemaError(
        f"The type hints of {schema_name(cls)} name {name!r}, which cannot be found in module {cls.__module__}",
        cure=(
            f"Define or import {name} at module level, not inside a function nor under `if TYPE_CHECKING:`; or, for a "
            "schema inside a function, leave out `from __future__ import annotations`."
        ),
    ) from error


def _substituted(hint: Any, chosen: dict[Any, Any]) -> Any:
    if isinstance(hint, TypeVar | typing_extensions.TypeVar):
        return chosen.get(hint, hint)
    parameters: tuple[Any, ...] = getattr(hint, "__parameters__", ())
    return hint[tuple(chosen.get(parameter, parameter) for parameter in parameters)] if parameters else hint


def _strip(hint: Any) -> tuple[Any, bool | None]:
    """The hint without Required, NotRequired, ReadOnly and aliases, and what these say about being required."""
    required: bool | None = None
    while True:
        origin = get_origin(hint)
        if isinstance(hint, ALIAS_TYPES):
            hint = hint.__value__
        elif origin in QUALIFIERS:
            said = QUALIFIERS[origin]
            required = required if said is None else said
            hint = get_args(hint)[0]
        elif origin is Annotated and _is_wrapped(hint.__origin__):
            # Annotated[NotRequired[T], x] and Annotated[Alias, x]: what is inside comes out, the extras stay.
            inner, said = _strip(hint.__origin__)
            return _annotated(inner, hint.__metadata__), said if required is None else required
        else:
            return hint, required


def _annotated(hint: Any, extras: Iterable[Any]) -> Any:
    return cast("Any", Annotated)[(hint, *extras)]


def _is_wrapped(hint: Any) -> bool:
    return isinstance(hint, ALIAS_TYPES) or get_origin(hint) in QUALIFIERS
