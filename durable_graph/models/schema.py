"""What a model is told about a tool: OpenAI's function form, `{"type": "function", "function": {...}}`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final, cast, get_type_hints

from durable_graph.errors import UsageError, shortened

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["tool_choice_of", "tool_name", "tool_schema"]

_INJECTED: Final = frozenset({"runtime", "config", "self"})
"""Parameters of plain functions that the model never fills in."""

_EVERY_WORD: Final = {"auto": "auto", "none": "none", "any": "required", "required": "required"}


def tool_schema(tool: Any) -> dict[str, Any]:
    """Describe a tool to a model.

    tool: a dict (OpenAI's form and providers' built-in tools are passed unchanged; a bare `{"name", "parameters"}` is
    wrapped), an object with `name`, `description` and `tool_call_schema`, `args_schema` or `args` (LangChain's tools
    and ours), a pydantic class, or a function with annotated parameters.

    Raises:
        UsageError: it is none of these.
    """
    if isinstance(tool, dict):
        return _of_dict(cast("dict[str, Any]", tool))
    if isinstance(getattr(tool, "name", None), str):
        schema = getattr(tool, "tool_call_schema", None) or getattr(tool, "args_schema", None)
        if schema is None:
            schema = cast("Any", {"type": "object", "properties": getattr(tool, "args", None) or {}})
        return _function(tool.name, getattr(tool, "description", "") or "", _json_schema(schema))
    if hasattr(tool, "model_json_schema"):
        return _function(tool.__name__, inspect.getdoc(tool) or "", _json_schema(tool))
    if callable(tool):
        return _of_function(tool)
    raise _no_tool(tool)


def tool_name(tool: Any) -> str | None:
    """The name by which a model calls a tool; None for a provider's built-in tool that has none."""
    schema = tool_schema(tool)
    return schema["function"]["name"] if "function" in schema else schema.get("name")


def tool_choice_of(choice: Any) -> Any:
    """Read a `tool_choice`: None, "auto", "none", "required", or the name of a tool as `{"name": ...}`.

    "any" and True mean "required", False means "none"; a dict in OpenAI's form names a function.
    """
    if choice is None or isinstance(choice, bool):
        return {None: None, True: "required", False: "none"}[choice]
    if isinstance(choice, str):
        return _EVERY_WORD.get(choice, {"name": choice})
    if isinstance(choice, dict):
        told = cast("dict[str, Any]", choice)
        name = told.get("function", {}).get("name") or told.get("name")
        if name:
            return {"name": name}
        if told.get("type") in _EVERY_WORD:
            return _EVERY_WORD[told["type"]]
    what = f"tool_choice={shortened(cast('object', choice))} cannot be read"
    raise UsageError(what, cure='Pass "auto", "none", "required", or the name of a tool.')


def _of_dict(tool: dict[str, Any]) -> dict[str, Any]:
    if "type" not in tool and isinstance(tool.get("name"), str) and isinstance(tool.get("parameters"), dict):
        return {"type": "function", "function": tool}
    return tool


def _of_function(tool: Callable[..., Any]) -> dict[str, Any]:
    from pydantic import create_model

    name = getattr(tool, "__name__", type(tool).__name__)
    try:
        hints = get_type_hints(tool, include_extras=True)
    except (NameError, TypeError) as error:
        raise _no_tool(tool) from error
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(tool).parameters.values():
        if parameter.name in _INJECTED or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints.get(parameter.name, Any), default)
    return _function(name, inspect.getdoc(tool) or "", _json_schema(create_model(name, **fields)))


def _json_schema(schema: Any) -> dict[str, Any]:
    if isinstance(schema, dict):
        return _untitled(cast("dict[str, Any]", schema))
    if hasattr(schema, "model_json_schema"):
        return _untitled(schema.model_json_schema())
    from pydantic import TypeAdapter

    return _untitled(TypeAdapter(schema).json_schema())


def _untitled(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without the titles pydantic makes of names; the model sees the names, titles only cost tokens."""
    plain = {key: value for key, value in schema.items() if key not in ("title", "description")}
    for key in ("properties", "$defs"):
        if isinstance(plain.get(key), dict):
            parts: dict[str, Any] = plain[key]
            plain[key] = {name: _without_title(part) for name, part in parts.items()}
    _ = plain.setdefault("type", "object")
    _ = plain.setdefault("properties", {})
    return plain


def _without_title(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    told = {key: value for key, value in cast("dict[str, Any]", part).items() if key != "title"}
    if isinstance(told.get("properties"), dict):
        inner: dict[str, Any] = told["properties"]
        told["properties"] = {name: _without_title(one) for name, one in inner.items()}
    return told


def _function(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _no_tool(tool: Any) -> UsageError:
    what = f"{shortened(tool)} is no tool that a model could be told of"
    cure = "Pass an annotated function, a tool object with name and args_schema, or a dict in OpenAI's form."
    return UsageError(what, cure=cure)
