"""Messages in the form of OpenAI's chat completions: dicts, and contents of text and image_url blocks."""

from __future__ import annotations

import base64
import json
from typing import Any, Final

__all__ = ["openai_content", "openai_dict", "with_openai_content"]

_ROLES: Final = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "system": "system", "tool": "tool"}
_READ: Final = frozenset({"text", "image_url", "input_audio", "file", "refusal"})
"""Types of blocks that OpenAI knows."""

_DROPPED: Final = frozenset({"tool_use", "tool_call", "thinking", "redacted_thinking", "reasoning"})
"""Blocks that say again what `tool_calls` says, or that OpenAI does not take."""


def openai_content(content: str | list[Any]) -> str | list[Any]:
    """Give a content in OpenAI's form; the very same object when it has this form."""
    if isinstance(content, str) or all(_is_read(part) for part in content):
        return content
    return [block for part in content for block in _blocks(part)]


def _is_read(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") in _READ  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - any dict


def _blocks(part: Any) -> list[dict[str, Any]]:
    if isinstance(part, str):
        return [{"type": "text", "text": part}]
    kind = part.get("type")
    if kind in _DROPPED:
        return []
    if kind == "image":
        return [{"type": "image_url", "image_url": {"url": _image_url(part)}}]
    if kind is None and "text" in part:
        return [{"type": "text", **part}]
    return [part]


def _image_url(block: dict[str, Any]) -> str:
    """Find an image's address in the forms providers give it."""
    source: dict[str, Any] = block.get("source") if isinstance(block.get("source"), dict) else block  # pyright: ignore[reportAssignmentType] - just checked
    if isinstance(source.get("url"), str):
        return source["url"]
    data: Any = source.get("base64") or source.get("data") or ""
    if isinstance(data, bytes):
        data = base64.b64encode(data).decode()
    kind: str = source.get("media_type") or source.get("mime_type") or "image/png"
    return f"data:{kind};base64,{data}"


def with_openai_content(message: Any) -> Any:
    """Give the message with its content in OpenAI's form; the message itself when it has this form."""
    content = openai_content(message.content)
    return message if content is message.content else message.model_copy(update={"content": content})


def openai_dict(message: Any, *, include_id: bool = False) -> dict[str, Any]:
    """Give a message of either family as a dict in OpenAI's form.

    Raises:
        ValueError: it is a RemoveMessage, which is nothing that is said.
    """
    # LangChain's chunks have types of their own: "HumanMessageChunk".
    role = _ROLES.get(message.type) or _ROLES.get(message.type.removesuffix("MessageChunk").lower())
    if role is None:
        raise ValueError(f"A message of type {message.type!r} has no form at OpenAI. Leave it out.")
    role = message.additional_kwargs.get("__openai_role__", role)
    told: dict[str, Any] = {"role": role, "content": openai_content(message.content)}
    if message.name:
        told["name"] = message.name
    if include_id and message.id:
        told["id"] = message.id
    if calls := getattr(message, "tool_calls", None):
        told["tool_calls"] = [_call(call) for call in calls]
    if message.type == "tool":
        told["tool_call_id"] = message.tool_call_id
    return told


def _call(call: Any) -> dict[str, Any]:
    arguments = json.dumps(call["args"], ensure_ascii=False, default=str)
    return {"type": "function", "id": call["id"], "function": {"name": call["name"], "arguments": arguments}}
