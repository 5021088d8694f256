"""From a function to the schema of its arguments: a pydantic model of what the model may give."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args, get_origin

from durable_graph.errors import InvalidSchemaError
from durable_graph.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic import BaseModel

    from durable_graph.prebuilt.injection import Parameter

__all__ = ["model_of", "read_docstring", "without_fields"]

_SECTION = re.compile(r"^(args|arguments|parameters)\s*:\s*$", re.IGNORECASE)
_OTHER = re.compile(r"^\w[\w ]*:\s*$")
_ENTRY = re.compile(r"^\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")


def model_of(name: str, parameters: Sequence[Parameter], told: Mapping[str, str], *, more: bool) -> type[BaseModel]:
    """A pydantic model of the arguments that a model gives.

    told: descriptions from the docstring; those in annotations come first.   more: other arguments are taken too.

    Raises:
        InvalidSchemaError: an annotation that pydantic does not know.
    """
    from pydantic import BaseModel, ConfigDict, PydanticUserError, create_model

    fields: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.injected is None:
            own = _own_name(parameter.name, BaseModel)
            alias = None if own == parameter.name else parameter.name
            fields[own] = _field(parameter, told.get(parameter.name), alias)
    config = ConfigDict(extra="allow" if more else "ignore", serialize_by_alias=True)
    try:
        made: type[BaseModel] = create_model(name, __config__=config, **fields)
        _ = made.model_json_schema()
    except (PydanticUserError, NameError) as error:
        what = f"tool {name!r}: no schema of its arguments can be made: {str(error).splitlines()[0]}"
        cure = "Annotate the parameters with types that JSON knows, or pass args_schema=."
        raise InvalidSchemaError(what, cure=cure) from error
    return made


def _own_name(name: str, base: type[Any]) -> str:
    """A name that pydantic takes: none that begins with "_" or is a method of its models."""
    return f"arg_{name}" if name.startswith(("_", "model_")) or hasattr(base, name) else name


def _field(parameter: Parameter, told: str | None, alias: str | None) -> tuple[Any, Any]:
    from pydantic import Field
    from pydantic.fields import FieldInfo

    hint, default = parameter.hint, parameter.default
    said = next((one for one in _marks(hint) if isinstance(one, str)), None)
    described = any(isinstance(one, FieldInfo) and one.description for one in (*_marks(hint), default))
    description = said or (None if described else told)
    extra: dict[str, Any] = {}
    if description is not None:
        extra["description"] = description
    if alias is not None:
        extra["alias"] = alias
    if isinstance(default, FieldInfo):
        return (Annotated[hint, Field(**extra)] if extra else hint), default
    return hint, Field(**({} if default is MISSING else {"default": default}), **extra)


def _marks(hint: Any) -> tuple[Any, ...]:
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def read_docstring(text: str | None, *, parse: bool) -> tuple[str, dict[str, str]]:
    """The description of a tool, and those of its arguments (from an "Args:" section, Google style).

    parse: False: all of the text is the description.
    """
    lines = inspect.cleandoc(text or "").splitlines()
    if not parse:
        return "\n".join(lines), {}
    kept: list[str] = []
    told: dict[str, str] = {}
    inside, last = False, ""
    for line in lines:
        if not line[:1].isspace() and _SECTION.match(line):
            inside = True
        elif inside and line.strip() and not line[0].isspace():
            inside = False
            kept.append(line)
        elif not inside:
            kept.append(line)
        else:
            last = _take_line(line, told, last)
    return "\n".join(kept).strip(), told


def _take_line(line: str, told: dict[str, str], last: str) -> str:
    """One line of the section: the start of an entry, or the rest of one. The name of the entry it belongs to."""
    entry = _ENTRY.match(line.strip())
    indent = len(line) - len(line.lstrip())
    if entry is not None and (not last or indent <= _INDENT):
        told[entry[1]] = entry[2].strip()
        return entry[1]
    if last and line.strip():
        told[last] = f"{told[last]} {line.strip()}".strip()
    return last


_INDENT = 4
"""How far the entries of a section are indented; what stands further right goes on with one."""


def without_fields(schema: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A JSON schema of arguments without some of them, and without definitions that only those used."""
    properties = {key: value for key, value in schema.get("properties", {}).items() if key not in names}
    found = {**schema, "properties": properties}
    if "required" in schema:
        found["required"] = [key for key in schema["required"] if key not in names]
    definitions: dict[str, Any] = found.pop("$defs", {})
    used: dict[str, Any] = {}
    waiting = _references(found)
    while waiting:
        one = waiting.pop()
        if one in definitions and one not in used:
            used[one] = definitions[one]
            waiting |= _references(used[one])
    return {**found, "$defs": used} if used else found


def _references(schema: Any) -> set[str]:
    if isinstance(schema, dict):
        known = cast("dict[str, Any]", schema)
        here = known.get("$ref")
        inner = [_references(value) for value in known.values()]
        own = {here.rpartition("/")[2]} if isinstance(here, str) else set[str]()
        return own.union(*inner)
    if isinstance(schema, list):
        return set[str]().union(*(_references(one) for one in cast("list[Any]", schema)))
    return set()
