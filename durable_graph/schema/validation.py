"""Values held against the schema before they are stored, so that no stored value violates it.

Three places, because a reducer comes between what a node writes and what the key then holds:

    validate_write     what one node wrote: a key without reducer, an Overwrite, and the written part of a key whose
                       lists are put behind each other and checked element by element. Blames one node
                       exactly.
    validate_result    what a reducing key (one of `result_keys`) holds after the step.
    validate_state     the state as a whole at the end of the step, where the class has rules over several fields.

A pydantic state has all three. Other states check which keys are written, which is the caller's part, and
value types on request: mode "values". A dataclass with `__post_init__` has the last, since that is where it
says no. Validated values come back as pydantic coerces them; the caller keeps what comes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from durable_graph.channels import (
    AnyValue,
    BinaryOperatorAggregate,
    EphemeralValue,
    LastValue,
    UntrackedValue,
)
from durable_graph.channels.base import type_name, unwrap_overwrite
from durable_graph.errors import InvalidInputError, InvalidValueError
from durable_graph.schema.adapters import adapter_of, is_elementwise, is_validation_error, reason
from durable_graph.schema.coerce import has_model_validators
from durable_graph.schema.models import ModelFields
from durable_graph.types import MISSING, Overwrite

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from durable_graph.schema.reading import Schema

    Check = Callable[[Any, Mapping[str, Any]], Any]

__all__ = ["Validation", "Validator", "make_validator"]

Validation: TypeAlias = Literal["keys", "values"]
"""What is checked of a state that is no pydantic model: which keys are written, or their values' types too."""

KEEPS_WRITES = (LastValue, AnyValue, EphemeralValue, UntrackedValue)
"""Channels whose value is a write, so that the write has the declared type."""


class Validator:
    """The checks of one schema.

    result_keys: keys whose value after a step goes through `validate_result`.
    checks_state: whether `validate_state` has anything to do.
    """

    __slots__ = ("_checks", "_elementwise", "_schema", "_write_keys", "checks_state", "result_keys")

    def __init__(
        self, schema: Schema, checks: dict[str, Check], elementwise: frozenset[str], *, checks_state: bool
    ) -> None:
        self._schema = schema
        self._checks = checks
        self._elementwise = elementwise
        self._write_keys = frozenset(
            key
            for key, channel in schema.channels.items()
            if isinstance(channel, KEEPS_WRITES)
            or (key in elementwise and isinstance(channel, BinaryOperatorAggregate) and channel.concatenates)
        )
        self.result_keys = frozenset(checks) - self._write_keys
        self.checks_state = checks_state

    def validate_write(self, key: str, write: Any, values: Mapping[str, Any]) -> Any:
        """One write, coerced; unchanged where only the result can be checked. `values` is the state it meets.

        Raises:
            InvalidValueError: the key cannot hold it.
        """
        if key not in self._checks:
            return write
        overwritten = unwrap_overwrite(write)
        if overwritten is not MISSING:
            return Overwrite(self._checked(key, overwritten, values))
        return self._checked(key, write, values) if key in self._write_keys else write

    def validate_result(
        self, key: str, value: Any, values: Mapping[str, Any], *, added: list[Any] | None = None
    ) -> Any:
        """The value of a reducing key after a step, coerced. `value` itself when nothing in it had to be changed.

        added: what the channel reports as appended. Where the type allows, only this is looked at.

        Raises:
            InvalidValueError: the reducer made a value that the key cannot hold.
        """
        if value is MISSING or key not in self.result_keys:
            return value
        if added is None or key not in self._elementwise:
            return self._checked(key, value, values)
        coerced = self._checked(key, added, values)
        if all(new is old for new, old in zip(coerced, added, strict=True)):
            return value
        return value[: len(value) - len(added)] + coerced

    def validate_state(self, values: Mapping[str, Any]) -> None:
        """Hold the whole state against the class. A state that still lacks required fields is not looked at.

        Raises:
            InvalidValueError: pydantic refuses it.
            Exception: what else a validator or `__post_init__` raises.
        """
        schema = self._schema
        if not self.checks_state or not schema.required <= values.keys():
            return
        computed = {name: managed.value(1, 1) for name, managed in schema.managed.items()}
        try:
            schema.build({**values, **computed})
        except InvalidValueError:
            raise
        except Exception as error:
            error.add_note(f"while checking the state against {schema.name}")
            raise

    def validate_input(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """A run's input, key by key, coerced like writes.

        Raises:
            InvalidInputError: a key cannot hold its value.
        """
        accepted: dict[str, Any] = {}
        for key, value in values.items():
            try:
                accepted[key] = self.validate_write(key, value, accepted)
            except InvalidValueError as error:
                raise InvalidInputError(f"In the input: {error.what}") from error
        return accepted

    def _checked(self, key: str, value: Any, values: Mapping[str, Any]) -> Any:
        try:
            return self._checks[key](value, values)
        except Exception as error:
            if is_validation_error(error):
                # A model's error begins with the field's own name.
                why = reason(error, skip=1 if self._schema.kind == "pydantic" else 0)
                raise InvalidValueError(
                    f"Key {key!r} of {self._schema.name} cannot hold this {type_name(type(value))}: {why}"
                ) from error
            error.add_note(f"while validating key {key!r} of {self._schema.name}")
            raise


def make_validator(schema: Schema, mode: Validation = "keys") -> Validator | None:
    """The checks of a state's, input's or private schema; None when it has none. Imports pydantic only if needed.

    Raises:
        InvalidSchemaError: a declared type cannot be checked.
    """
    if schema.role == "context":
        return None
    if schema.kind == "pydantic":
        return _of_model(schema)
    checks_state = schema.kind == "dataclass" and _has_own_checks(schema.type)
    if mode == "keys":
        return Validator(schema, {}, frozenset(), checks_state=True) if checks_state else None
    adapters = {key: adapter_of(schema.hints[key]) for key in schema.keys}
    elementwise = frozenset(key for key, adapter in adapters.items() if is_elementwise(adapter.core_schema))
    checks = {key: _by_adapter(adapter.validate_python) for key, adapter in adapters.items()}
    return Validator(schema, checks, elementwise, checks_state=checks_state)


def _of_model(schema: Schema) -> Validator:
    fields = ModelFields(schema.type)
    elementwise = frozenset(key for key in schema.keys if is_elementwise(fields.core_schema(key)))
    checks = {key: _by_model(fields, key) for key in schema.keys}
    return Validator(schema, checks, elementwise, checks_state=has_model_validators(schema.type))


def _by_adapter(validate: Callable[[Any], Any]) -> Check:
    return lambda value, _values: validate(value)


def _by_model(fields: ModelFields, key: str) -> Check:
    return lambda value, values: fields.validate(key, value, values)


def _has_own_checks(cls: Any) -> bool:
    """Whether making an instance of a dataclass can say no: by `__post_init__`, or as pydantic's kind of dataclass."""
    return hasattr(cls, "__post_init__") or hasattr(cls, "__pydantic_validator__")
