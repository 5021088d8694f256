"""Between the values of a state's keys and the object that a node gets or returns."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, cast, get_origin

from durable_graph.errors import InvalidValueError
from durable_graph.schema.adapters import is_validation_error, reason
from durable_graph.schema.hints import ROOT, is_pydantic_model

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from durable_graph.schema.hints import Kind

__all__ = ["Build", "Pair", "builder_for", "has_model_validators", "read_instance"]

Pair = tuple[str, Any]

Build: TypeAlias = "Callable[[dict[str, Any]], Any]"

ATOMS: Final = (type(None), bool, int, float, complex, str, bytes)
"""What nobody can change in place."""


def builder_for(kind: Kind, cls: Any, name: str, required: Collection[str], *, validate: bool) -> Build:
    """The function behind `Schema.build` for a schema of this kind.

    validate: whether a pydantic instance is made by full validation, instead of from values taken as valid.
    """
    if kind == "typeddict":
        return _same
    if kind == "root":
        return _root_value
    if kind == "dataclass":
        build = _dataclass_builder(cls)
    elif validate or has_model_validators(cls) or not _has_plain_aliases(cls):
        build = _validated_model(cls)
    else:
        build = _model_builder(cls)
    if validate:
        return build
    if kind == "pydantic" and has_model_validators(cls):
        # Such a validator may supply a required field, so pydantic has to be asked.
        return _naming_the_schema(build, name)
    return _naming_the_schema(_checking_required(build, name, required), name)


def has_model_validators(cls: Any) -> bool:
    """Whether a pydantic model looks at several fields together."""
    decorators = cls.__pydantic_decorators__
    return bool(decorators.model_validators or decorators.root_validators)


# --- what a node gets ---------------------------------------------------------------------------------------


def _same(values: dict[str, Any]) -> Any:
    return values


def _root_value(values: dict[str, Any]) -> Any:
    return values.get(ROOT)


def _checking_required(build: Build, name: str, required: Collection[str]) -> Build:
    needed = frozenset(required)

    def checked(values: dict[str, Any]) -> Any:
        if not needed <= values.keys():
            raise _missing(name, sorted(needed - values.keys()))
        return build(values)

    return checked


def _naming_the_schema(build: Build, name: str) -> Build:
    def named(values: dict[str, Any]) -> Any:
        try:
            return build(values)
        except Exception as error:
            if is_validation_error(error):
                raise InvalidValueError(f"The state violates {name}: {reason(error)}") from error
            raise

    return named


def _missing(name: str, fields: list[str]) -> InvalidValueError:
    listed = ", ".join(map(repr, fields))
    return InvalidValueError(
        f"The state holds nothing for {listed}, which {name} requires",
        cure=f"Write {listed} before this node runs, or declare a default in {name}.",
    )


def _dataclass_builder(cls: type[Any]) -> Build:
    fields = dataclasses.fields(cls)
    parameters = frozenset(field.name for field in fields if field.init)
    # A field without a parameter takes its value after construction; object.__setattr__ serves frozen classes
    # too.
    attributes = tuple(field.name for field in fields if not field.init)

    def build(values: dict[str, Any]) -> Any:
        instance = cls(**{name: value for name, value in values.items() if name in parameters})
        for name in attributes:
            if name in values:
                object.__setattr__(instance, name, values[name])
        return instance

    return build


def _model_builder(model: Any) -> Build:
    """An instance of values that were validated when they were written: validating them again costs their size."""
    names = frozenset(model.model_fields)

    def build(values: dict[str, Any]) -> Any:
        given = {name: value for name, value in values.items() if name in names}
        instance = model.model_construct(**_by_alias(model, given))
        filled: dict[str, Any] = instance.__dict__
        # A node may change a default (a list, say) in place and return the instance: such a field counts as
        # set.
        changeable = {name for name in names - given.keys() if not isinstance(filled.get(name), ATOMS)}
        object.__setattr__(instance, "__pydantic_fields_set__", given.keys() | changeable)
        return instance

    return build


def _has_plain_aliases(model: Any) -> bool:
    """Whether every alias is one string, which is all that `model_construct` understands."""
    return all(isinstance(_alias(field), str | None) for field in model.model_fields.values())


def _alias(field: Any) -> Any:
    return field.alias if field.validation_alias is None else field.validation_alias


def _by_alias(model: Any, values: dict[str, Any]) -> dict[str, Any]:
    """`model_construct` takes a field under its alias, and under its name only where the model says so."""
    fields = model.model_fields
    return {_alias(fields[name]) or name: value for name, value in values.items()}


def _validated_model(model: Any) -> Build:
    names = frozenset(model.model_fields)
    validator = model.__pydantic_validator__

    def build(values: dict[str, Any]) -> Any:
        given = {name: value for name, value in values.items() if name in names}
        return validator.validate_python(given, by_name=True, by_alias=False)

    return build


# --- what a node returns ------------------------------------------------------------------------------------


def read_instance(update: Any) -> list[Pair] | None:
    """The fields that an instance of an annotated class, or a list of pairs, writes; None when it is neither.

    pydantic: the fields that were set, at construction or later (a default that nobody touched is not
    written). dataclass and other annotated classes: every field that is not None, and None where the default
    is another value; such an instance cannot tell an untouched default from a chosen one.
    """
    cls = cast("Any", type(update))
    if cls is list or cls is tuple:
        return _pairs(update)
    if is_pydantic_model(cls):
        return _set_fields(update)
    if dataclasses.is_dataclass(cls):
        return [
            (field.name, value)
            for field in dataclasses.fields(cls)
            if (value := getattr(update, field.name, None)) is not None or _default(field) is not None
        ]
    names = _annotated_names(cls)
    return [(name, value) for name in names if (value := getattr(update, name, None)) is not None] if names else None


def _pairs(update: Iterable[Any]) -> list[Pair] | None:
    pairs: list[Pair] = []
    for item in update:
        match item:
            case (str(key), value) if isinstance(item, tuple | list):
                pairs.append((key, value))
            case _:
                return None
    return pairs


def _set_fields(update: Any) -> list[Pair]:
    chosen = update.model_fields_set
    declared: dict[str, Any] = cast("Any", type(update)).model_fields
    fields = [(name, getattr(update, name)) for name in declared if name in chosen]
    # Extra fields are no keys of the state; they are handed on so that the caller can say so.
    extra: dict[str, Any] = update.model_extra or {}
    return [*fields, *extra.items()]


def _default(field: dataclasses.Field[Any]) -> Any:
    """None when the default is None, or when there is none and None had to be passed to say nothing."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory
    return None if field.default is dataclasses.MISSING else field.default


def _annotated_names(cls: type[Any]) -> tuple[str, ...]:
    """Names with annotations of a user's class, base classes first; none for classes of the standard library."""
    if cls.__module__ in sys.stdlib_module_names:
        return ()
    annotated: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        annotated.update(inspect.get_annotations(base))
    return tuple(name for name, hint in annotated.items() if not _is_class_variable(hint))


def _is_class_variable(hint: Any) -> bool:
    return get_origin(hint) is ClassVar or hint is ClassVar or (isinstance(hint, str) and "ClassVar" in hint)
