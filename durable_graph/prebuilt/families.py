"""Ours and LangChain's messages live in one list; an answer is of the family of what it answers."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["calls_of", "is_ai", "is_message", "is_tool_message", "message_like", "tool_message_like"]

_AI = ("ai", "AIMessageChunk")


def is_message(value: Any) -> bool:
    """Whether it is a message of any family."""
    return isinstance(getattr(value, "type", None), str) and hasattr(value, "content")


def is_tool_message(value: Any) -> bool:
    """Whether it is the result of a tool call."""
    return getattr(value, "type", None) == "tool" and hasattr(value, "tool_call_id")


def is_ai(value: Any) -> bool:
    """Whether a model said it."""
    return getattr(value, "type", None) in _AI and hasattr(value, "content")


def calls_of(message: Any) -> list[dict[str, Any]]:
    """The tool calls of a message; none when it is not a model's."""
    return list(getattr(message, "tool_calls", None) or ()) if is_ai(message) else []


def tool_message_like(message: Any) -> Any:
    """The class of tool messages in the family of `message`; ours when there is none."""
    return message_like(message, "ToolMessage")


def message_like(message: Any, name: str) -> Any:
    """The class with this name in the family of `message`; ours when there is none."""
    if message is not None and type(message).__module__.partition(".")[0] != "durable_graph":
        theirs = sys.modules.get("langchain_core.messages")
        if theirs is not None and isinstance(message, theirs.BaseMessage):
            return getattr(theirs, name)
    from durable_graph import messages

    return getattr(messages, name)
