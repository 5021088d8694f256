"""How messages are stored: small, exact, without what has its default.

    [content, id, {name: value of every other field that has not its default}]      trailing empty parts are left out

Messages are not validated again when they are read: they were when they were made. Fields are stored by name, so that
a field can be added. A tool call is stored as `[name, args, id]`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from durable_graph.messages import models

if TYPE_CHECKING:
    from collections.abc import Callable

    from durable_graph.messages.models import BaseMessage

__all__ = ["message_maker", "message_parts"]

_APART: Final = frozenset({"artifact", "content", "id", "type"})
_CALL_KEYS: Final = frozenset({"name", "args", "id", "type"})


def message_parts(message: BaseMessage) -> list[Any]:
    """Give a message as a plain value."""
    fields = message.__dict__
    cls = type(message)
    defaults = _DEFAULTS[cls]
    rest = {
        name: value for name, value in fields.items() if name not in _APART and value and value != defaults.get(name)
    }
    if cls is models.ToolMessage and fields["artifact"] is not None:
        rest["artifact"] = fields["artifact"]  # anything: 0 is no default, and an array is neither true nor false
    if "tool_calls" in rest:
        rest["tool_calls"] = [_call_parts(call) for call in rest["tool_calls"]]
    if rest:
        return [fields["content"], fields["id"], rest]
    return [fields["content"], fields["id"]] if fields["id"] is not None else [fields["content"]]


def _call_parts(call: dict[str, Any]) -> Any:
    if call.keys() == _CALL_KEYS and call["type"] == "tool_call":
        return [call["name"], call["args"], call["id"]]
    return call


def _call(parts: Any) -> Any:
    if isinstance(parts, dict):
        return parts  # pyright: ignore[reportUnknownVariableType] - stored as it was
    name, args, key = parts
    return {"name": name, "args": args, "id": key, "type": "tool_call"}


@cache
def message_maker(name: str) -> Callable[[list[Any]], BaseMessage]:
    """Give the function that makes messages of one class again, from what `message_parts` gave."""
    cls: type[BaseMessage] = getattr(models, name)
    defaults = _DEFAULTS[cls]

    def make(parts: list[Any]) -> BaseMessage:
        fields = {field: value() if callable(value) else value for field, value in _STARTS[cls]}
        given: dict[str, Any] = {"content": parts[0]}
        if len(parts) > 1:
            given["id"] = parts[1]
        if len(parts) > 2:  # noqa: PLR2004 - the third part
            given.update(parts[2])
            if "tool_calls" in given:
                given["tool_calls"] = [_call(call) for call in given["tool_calls"]]
        if not given.keys() <= defaults.keys():
            return cls(**given)  # a field this version does not have: pydantic names it
        fields.update(given)
        return _blank(cls, fields, set(given))

    return make


def _blank(cls: type[BaseMessage], fields: dict[str, Any], given: set[str]) -> BaseMessage:
    message = cls.__new__(cls)
    setter = object.__setattr__
    setter(message, "__dict__", fields)
    setter(message, "__pydantic_fields_set__", given)
    setter(message, "__pydantic_extra__", None)
    setter(message, "__pydantic_private__", None)
    return message


def _start(field: Any) -> Any:
    return None if field.is_required() else field.default_factory or field.default


_CLASSES: Final[tuple[type[BaseMessage], ...]] = (
    models.HumanMessage,
    models.AIMessage,
    models.AIMessageChunk,
    models.SystemMessage,
    models.ToolMessage,
    models.RemoveMessage,
)
_DEFAULTS: Final[dict[type[BaseMessage], dict[str, Any]]] = {
    cls: {name: None if field.default_factory else field.default for name, field in cls.model_fields.items()}
    for cls in _CLASSES
}
_STARTS: Final[dict[type[BaseMessage], list[tuple[str, Any]]]] = {
    cls: [(name, _start(field)) for name, field in cls.model_fields.items()] for cls in _CLASSES
}
"""For each class its fields with what they start with: a value, or what makes one (`list`, `dict`)."""
