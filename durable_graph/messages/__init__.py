"""Chat messages and how a state holds them: models, `add_messages`, and what people do with transcripts.

Names are loaded when they are first used: pydantic costs more than all the rest of an import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from durable_graph.lazy_names import lazy

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
    **dict.fromkeys(__all__, ".models"),
    **dict.fromkeys(("AddMessages", "add_messages"), ".reducer"),
    "MessagesState": ".state",
    **dict.fromkeys(
        (
            "convert_to_messages",
            "convert_to_openai_messages",
            "count_tokens_approximately",
            "filter_messages",
            "get_buffer_string",
            "trim_messages",
        ),
        ".transcript",
    ),
}

__getattr__, __dir__ = lazy(globals(), _HOMES)
