"""The library's hands on pydantic: adapters of single types, JSON schemas, and its errors in one line.

Pydantic is imported when the first function here is called, not before.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from durable_graph.channels.base import type_name
from durable_graph.errors import InvalidSchemaError, InvalidValueError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import TypeAdapter, ValidationError

__all__ = ["adapter_of", "is_elementwise", "is_validation_error", "json_schema_of", "reason", "validate_as"]

SHOWN = 3
"""How many of a value's errors a message lists."""


def adapter_of(hint: Any) -> TypeAdapter[Any]:
    """Pydantic's validator of one type. A class it does not know is checked by isinstance.

    Raises:
        InvalidSchemaError: pydantic cannot check this type.
    """
    from pydantic import ConfigDict, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

    try:
        try:
            return TypeAdapter(hint)
        except PydanticSchemaGenerationError:
            # Not the first try: pydantic refuses the option for types that bring a config of their own.
            return TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True))
    except (PydanticUserError, NameError) as error:
        raise InvalidSchemaError(
            f"Values of type {type_name(hint)} cannot be checked: {str(error).splitlines()[0]}",
            cure="Use a type that pydantic knows (TypedDict from typing_extensions before Python 3.12).",
        ) from error


def json_schema_of(hint: Any) -> dict[str, Any]:
    """The JSON schema of a type; a dict is one already and comes back as it is.

    Raises:
        InvalidSchemaError: the type has no JSON schema.
    """
    if isinstance(hint, dict):
        return cast("dict[str, Any]", hint)
    from pydantic.errors import PydanticInvalidForJsonSchema

    try:
        return adapter_of(hint).json_schema()
    except PydanticInvalidForJsonSchema as error:
        raise InvalidSchemaError(
            f"Type {type_name(hint)} has no JSON schema: {str(error).splitlines()[0]}",
            cure="Use types that JSON knows, or pass a JSON schema as a dict.",
        ) from error


def validate_as(hint: Any, value: Any) -> Any:
    """`value` as an instance of `hint`, coerced as pydantic does; a JSON schema (a dict) checks nothing.

    Raises:
        InvalidValueError: it does not fit.
        InvalidSchemaError: pydantic cannot check this type.
    """
    if isinstance(hint, dict):
        return value
    from pydantic import ValidationError

    try:
        return adapter_of(hint).validate_python(value)
    except ValidationError as error:
        raise InvalidValueError(
            f"A value of type {type_name(type(value))} is no {type_name(hint)}: {reason(error)}",
            cure=f"Pass a value that fits {type_name(hint)}.",
        ) from error


def is_validation_error(error: Exception) -> TypeGuard[ValidationError]:
    """Whether pydantic raised it because a value does not fit."""
    core = sys.modules.get("pydantic_core")
    return core is not None and isinstance(error, core.ValidationError)


def reason(error: ValidationError, *, skip: int = 0) -> str:
    """Why pydantic refused, in one line, with the places inside the value: `1.name: Field required`.

    skip: how many first parts of a place are left out.
    """
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [_spelled(problem["loc"][skip:], problem["msg"]) for problem in problems[:SHOWN]]
    more = len(problems) - SHOWN
    return "; ".join(shown) + (f"; and {more} more" if more > 0 else "")


def _spelled(place: tuple[int | str, ...], message: str) -> str:
    return f"{'.'.join(map(str, place))}: {message}" if place else message


def is_elementwise(core_schema: Mapping[str, Any]) -> bool:
    """Whether a list is valid exactly if each element is, so that of a longer list only the rest needs a check.

    Takes pydantic's core schema of the type. False when in doubt.
    """
    schema = core_schema
    while schema["type"] in {"default", "definitions", "model-field", "dataclass-field"}:
        schema = schema["schema"]
    return schema["type"] == "list" and schema.get("min_length") is None and schema.get("max_length") is None
