"""Chat messages and how a state holds them: models, `add_messages`, and what people do with transcripts.

Names are loaded when they are first used: pydantic costs more than all the rest of an import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from durable_graph.messages.models import (
        REMOVE_ALL_MESSAGES,
        AIMessage,
        AIMessageChunk,
        AnyMessage,
        BaseMessage,
        HumanMessage,
        InvalidToolCall,
        RemoveMessage,
        SystemMessage,
        ToolCall,
        ToolCallChunk,
        ToolMessage,
        UsageMetadata,
        join_chunks,
        message_chunk_to_message,
    )
    from durable_graph.messages.reducer import AddMessages, add_messages
    from durable_graph.messages.state import MessagesState
    from durable_graph.messages.transcript import (
        convert_to_messages,
        convert_to_openai_messages,
        count_tokens_approximately,
        filter_messages,
        get_buffer_string,
        trim_messages,
    )

__all__ = [
    "REMOVE_ALL_MESSAGES",
    "AIMessage",
    "AIMessageChunk",
    "AddMessages",
    "AnyMessage",
    "BaseMessage",
    "HumanMessage",
    "InvalidToolCall",
    "MessagesState",
    "RemoveMessage",
    "SystemMessage",
    "ToolCall",
    "ToolCallChunk",
    "ToolMessage",
    "UsageMetadata",
    "add_messages",
    "convert_to_messages",
    "convert_to_openai_messages",
    "count_tokens_approximately",
    "filter_messages",
    "get_buffer_string",
    "join_chunks",
    "message_chunk_to_message",
    "trim_messages",
]

_HOMES: Final[dict[str, str]] = {
    **dict.fromkeys(__all__, "models"),
    **dict.fromkeys(("AddMessages", "add_messages"), "reducer"),
    "MessagesState": "state",
    **dict.fromkeys(
        (
            "convert_to_messages",
            "convert_to_openai_messages",
            "count_tokens_approximately",
            "filter_messages",
            "get_buffer_string",
            "trim_messages",
        ),
        "transcript",
    ),
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
