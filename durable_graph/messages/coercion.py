"""What people write for a message becomes one: a str, a `(role, content)` pair, a dict in OpenAI's form.

Messages of either family are taken as they are.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import ValidationError

from durable_graph.errors import InvalidUpdateError
from durable_graph.messages.chunks import read_calls
from durable_graph.messages.families import LANGCHAIN, default_family, family_of
from durable_graph.messages.models import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from durable_graph.messages.families import Family
    from durable_graph.messages.models import ToolCallChunk

_type_of: Callable[[object], type[Any]] = cast("Any", type)  # the class of the user's value is any class

__all__ = ["as_langchain", "as_list", "family_among", "to_message", "without_chunks"]

_BY_ROLE: Final[dict[str, Any]] = {
    "user": HumanMessage,
    "human": HumanMessage,
    "assistant": AIMessage,
    "ai": AIMessage,
    "AIMessageChunk": AIMessageChunk,
    "system": SystemMessage,
    "developer": SystemMessage,
    "tool": ToolMessage,
    "remove": RemoveMessage,
}

_PAIR: Final = 2
_CURE: Final = (
    "Write a message, a str, a pair (role, content), or a dict with role and content; the role is one of "
    "user, assistant, system, developer, tool."
)


def as_list(value: Any) -> Sequence[Any]:
    """One or several messages, as people write them, as a list. A tuple of two strs is one: `(role, content)`."""
    several = isinstance(value, list) or (isinstance(value, tuple) and not _is_pair(cast("tuple[Any, ...]", value)))
    return cast("Sequence[Any]", value) if several else [value]


def _is_pair(value: Sequence[Any]) -> bool:
    return len(value) == _PAIR and isinstance(value[0], str) and (value[0] in _BY_ROLE or isinstance(value[1], str))


def family_among(messages: Sequence[Any]) -> Family | None:
    """Which family the last message of a list belongs to; None when it has none."""
    for message in reversed(messages):
        family = family_of(_type_of(message))
        if family is not None:
            return family
    return None


def to_message(value: Any, family: Family | None = None) -> Any:
    """Make a message of what somebody wrote for one.

    family: whose message it becomes when it is none yet; None: LangChain's where that is loaded, else ours.

    Raises:
        InvalidUpdateError: it cannot be a message.
    """
    if family_of(_type_of(value)) is not None:
        return value
    try:
        if (family or default_family()) == "langchain":
            return _langchain_message(value)
        return _our_message(value)
    except ValidationError as problem:
        what = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problem.errors())
        raise InvalidUpdateError(f"{_short(value)} cannot be a message: {what}", cure=_CURE) from problem


def without_chunks(message: Any) -> Any:
    """Give the message a streamed piece amounts to, of either family; any other message as it is."""
    if isinstance(message, AIMessageChunk):
        return message.to_message()
    if message.type.endswith("MessageChunk") and family_of(_type_of(message)) == "langchain":
        return sys.modules[LANGCHAIN].message_chunk_to_message(message)
    return message


def as_langchain(message: Any) -> Any:
    """A message of ours as LangChain's models read it, with what it holds; one of LangChain's as it is."""
    if family_of(_type_of(message)) != "ours":
        return message
    fields = {name: getattr(message, name) for name in message.model_fields_set if name != "type"}
    return getattr(sys.modules[LANGCHAIN], _type_of(message).__name__)(**fields)


def _langchain_message(value: Any) -> Any:
    package = sys.modules.get(LANGCHAIN)
    if package is None:  # a pinned family: its user wants it and has it installed
        from importlib import import_module

        package = import_module(LANGCHAIN)
    if isinstance(value, dict):
        value = _with_role(cast("dict[str, Any]", value))
    try:
        return package.convert_to_messages([value])[0]
    except (ValueError, NotImplementedError, KeyError, TypeError) as problem:
        raise InvalidUpdateError(f"{_short(value)} cannot be a message: {problem}", cure=_CURE) from problem


def _with_role(given: dict[str, Any]) -> dict[str, Any]:
    """LangChain reads a dict's role only; its own dumps have a type."""
    if "role" in given or "type" not in given or "data" in given:
        return given
    return {"role": given["type"], **{name: value for name, value in given.items() if name != "type"}}


# --- ours --------------------------------------------------------------------------------------------------------


def _our_message(value: Any) -> BaseMessage:
    if isinstance(value, str):
        return HumanMessage(content=value)
    if isinstance(value, dict):
        return _from_dict(cast("dict[str, Any]", value))
    if isinstance(value, tuple | list) and len(cast("Sequence[Any]", value)) == _PAIR:
        role, content = cast("Sequence[Any]", value)
        return _from_dict({"role": role, "content": content})
    raise InvalidUpdateError(f"{_short(value)} cannot be a message.", cure=_CURE)


def _from_dict(given: dict[str, Any]) -> BaseMessage:
    rest: dict[str, Any] = dict(given)
    data: Any = rest.get("data")
    if isinstance(data, dict) and "content" not in rest:  # what LangChain's messages_to_dict writes
        rest = {**data, "type": rest.get("type")}
    role = rest.pop("role", None) or rest.pop("type", None)
    rest.pop("type", None)
    cls: Any = _BY_ROLE.get(role) if isinstance(role, str) else None
    if cls is None:
        raise InvalidUpdateError(f"{_short(given)} cannot be a message: its role is {role!r}.", cure=_CURE)
    if role == "developer":
        _add_kwargs(rest, {"__openai_role__": "developer"})
    if cls is AIMessage:
        _read_tool_calls(rest)
    if rest.get("content") is None:
        rest["content"] = ""
    fields: dict[str, Any] = cls.model_fields
    extra = {name: rest.pop(name) for name in list(rest) if name not in fields}
    extra = {name: value for name, value in extra.items() if value is not None and name != "example"}
    if extra:
        _add_kwargs(rest, extra)
    return cls(**rest)


def _add_kwargs(fields: dict[str, Any], more: dict[str, Any]) -> None:
    before: dict[str, Any] = fields.get("additional_kwargs") or {}
    fields["additional_kwargs"] = {**before, **more}


def _read_tool_calls(fields: dict[str, Any]) -> None:
    """Read the calls of a dict in OpenAI's form, whose arguments are JSON text. Calls in our form stay as they are."""
    given: Any = fields.pop("tool_calls", None)
    if not given:
        return
    calls: list[Any] = []
    invalid: list[Any] = list(fields.get("invalid_tool_calls") or ())
    for call in given:
        function: Any = cast("dict[str, Any]", call).get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            calls.append(call)
            continue
        piece = _piece(cast("dict[str, Any]", call), cast("dict[str, Any]", function))
        valid, broken = read_calls([piece], complete=True)
        calls += valid
        invalid += broken
    fields["tool_calls"] = calls
    if invalid:
        fields["invalid_tool_calls"] = invalid


def _piece(call: dict[str, Any], function: dict[str, Any]) -> ToolCallChunk:
    return {"name": function.get("name"), "args": function.get("arguments"), "id": call.get("id"), "index": None}


def _short(value: Any, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
