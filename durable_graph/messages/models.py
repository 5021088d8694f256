"""Chat messages: frozen pydantic models, named as people know them.

Frozen means that attributes cannot be set; make another message with `message.model_copy(update={...})`. Lists and
dicts inside are plain ones. Messages are equal when they have the same type and the same values, ids included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NotRequired, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, Strict
from typing_extensions import TypedDict, override

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "REMOVE_ALL_MESSAGES",
    "AIMessage",
    "AIMessageChunk",
    "AnyMessage",
    "BaseMessage",
    "HumanMessage",
    "InputTokenDetails",
    "InvalidToolCall",
    "OutputTokenDetails",
    "RemoveMessage",
    "SystemMessage",
    "ToolCall",
    "ToolCallChunk",
    "ToolMessage",
    "UsageMetadata",
    "join_chunks",
    "message_chunk_to_message",
]

REMOVE_ALL_MESSAGES: Final = "__remove_all__"
"""The id of a `RemoveMessage` that drops every message before it."""

Block: TypeAlias = dict[str, Any]
"""A part of a message's content, such as `{"type": "text", "text": "hi"}`."""

Content: TypeAlias = Annotated[str, Strict()] | list[Annotated[str, Strict()] | Block]
"""Strict: bytes stay bytes inside blocks and are refused as text, instead of being decoded."""


class ToolCall(TypedDict):
    """A call of a tool that a model asks for. `id` is what the `ToolMessage` with its result refers to."""

    name: str
    args: dict[str, Any]
    id: str | None
    type: NotRequired[Literal["tool_call"]]


class InvalidToolCall(TypedDict):
    """A call whose arguments are no JSON object. `args`: the text the model wrote; `error`: what is wrong with it."""

    name: str | None
    args: str | None
    id: str | None
    error: str | None
    type: NotRequired[Literal["invalid_tool_call"]]


class ToolCallChunk(TypedDict):
    """A piece of a call. Pieces with one `index` belong together; their `args` are pieces of one JSON text."""

    name: str | None
    args: str | None
    id: str | None
    index: int | None
    type: NotRequired[Literal["tool_call_chunk"]]


class InputTokenDetails(TypedDict, total=False):
    """Parts of the input, in tokens."""

    audio: int
    cache_creation: int
    cache_read: int


class OutputTokenDetails(TypedDict, total=False):
    """Parts of the output, in tokens."""

    audio: int
    reasoning: int


class UsageMetadata(TypedDict):
    """What a model's answer cost, in tokens."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    input_token_details: NotRequired[dict[str, int]]
    output_token_details: NotRequired[dict[str, int]]


class BaseMessage(BaseModel):
    """What all messages have.

    content: Text, or a list of texts and blocks.
    name: Who says it, where several could.
    id: What `add_messages` replaces and removes a message by; given once, before a message is stored.
    additional_kwargs: What a provider needs beside it.
    response_metadata: What a provider told about its answer.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_bytes="base64", val_json_bytes="base64")

    content: Content
    additional_kwargs: dict[str, Any] = Field(default_factory=dict)
    response_metadata: dict[str, Any] = Field(default_factory=dict)
    type: Literal["human", "ai", "AIMessageChunk", "system", "tool", "remove"]
    name: str | None = None
    id: str | None = None

    def __init__(self, content: str | list[Any] = "", **fields: Any) -> None:
        super().__init__(content=content, **fields)

    @property
    def text(self) -> str:
        """All text of the content, without the other blocks."""
        from durable_graph.messages.content import text_of

        return text_of(self.content)

    @property
    def content_blocks(self) -> list[dict[str, Any]]:
        """The content as a list of new blocks, whatever form it has."""
        from durable_graph.messages.content import blocks_of

        return blocks_of(self)

    def pretty_repr(self, html: bool = False) -> str:  # noqa: FBT001, FBT002 - LangChain's signature
        """Show the message to a person: a title line, then name, content and calls. `html`: a bold title."""
        from durable_graph.messages.content import shown

        return shown(self, bold=html)

    def pretty_print(self) -> None:
        """Print what `pretty_repr` gives."""
        print(self.pretty_repr())  # noqa: T201 - its purpose

    @override
    def __repr_args__(self) -> Any:
        """Leave out what has its default."""
        empty: tuple[Any, ...] = (None, {}, [], "success")
        return [
            (name, value) for name, value in self.__dict__.items() if name == "content" or _says(name, value, empty)
        ]


def _says(name: str, value: Any, empty: tuple[Any, ...]) -> bool:
    return name != "type" and value not in empty


class HumanMessage(BaseMessage):
    """What a person says to the model."""

    type: Literal["human"] = "human"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen, so it may be narrower

    if TYPE_CHECKING:  # or type checkers make one up from the fields, without a positional content

        def __init__(self, content: str | list[Any] = "", **fields: Any) -> None: ...


class SystemMessage(BaseMessage):
    """What the model is told to be and do."""

    type: Literal["system"] = "system"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen, so it may be narrower

    if TYPE_CHECKING:  # or type checkers make one up from the fields, without a positional content

        def __init__(self, content: str | list[Any] = "", **fields: Any) -> None: ...


class AIMessage(BaseMessage):
    """What a model answers.

    tool_calls: The calls it asks for. invalid_tool_calls: Calls that cannot be read.
    usage_metadata: What the answer cost, in tokens.
    """

    type: Literal["ai"] = "ai"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen, so it may be narrower
    tool_calls: list[ToolCall] = Field(default_factory=list[ToolCall])
    invalid_tool_calls: list[InvalidToolCall] = Field(default_factory=list[InvalidToolCall])
    usage_metadata: UsageMetadata | None = None

    def __init__(self, content: str | list[Any] = "", **fields: Any) -> None:
        if calls := fields.get("tool_calls"):
            fields["tool_calls"] = [_complete(call) for call in calls]
        if invalid := fields.get("invalid_tool_calls"):
            nothing = {"name": None, "args": None, "id": None, "error": None}
            fields["invalid_tool_calls"] = [{**nothing, "type": "invalid_tool_call", **call} for call in invalid]
        super().__init__(content, **fields)


def _complete(call: Any) -> Any:
    """Give a call the keys that people leave out; pydantic says what else is wrong with it."""
    known: dict[str, Any] = call
    if type(known) is not dict or ("id" in known and "type" in known):
        return known
    return {"id": None, **known, "type": "tool_call"}


class AIMessageChunk(AIMessage):
    """A piece of an answer that is being streamed. Pieces add up: `first + second`, or `join_chunks(pieces)`.

    tool_call_chunks: Pieces of calls. `tool_calls` shows what they add up to so far; arguments may be incomplete.
    chunk_position: "last" on the last piece, None on all others.
    """

    type: Literal["AIMessageChunk"] = "AIMessageChunk"  # pyright: ignore[reportIncompatibleVariableOverride] - LangChain tells them apart like this too
    tool_call_chunks: list[ToolCallChunk] = Field(default_factory=list[ToolCallChunk])
    chunk_position: Literal["last"] | None = None

    def __init__(self, content: str | list[Any] = "", **fields: Any) -> None:
        if given := fields.get("tool_call_chunks"):
            nothing = {"name": None, "args": None, "id": None, "index": None, "type": "tool_call_chunk"}
            pieces: Any = [{**nothing, **piece} for piece in given]
            fields["tool_call_chunks"] = pieces
            if "tool_calls" not in fields:
                from durable_graph.messages.chunks import read_calls

                done = fields.get("chunk_position") == "last"
                fields["tool_calls"], fields["invalid_tool_calls"] = read_calls(pieces, complete=done)
        elif fields.get("tool_calls") and "tool_call_chunks" not in fields:
            from durable_graph.messages.chunks import written

            fields["tool_call_chunks"] = [written(call, index) for index, call in enumerate(fields["tool_calls"])]
        super().__init__(content, **fields)

    def __add__(self, other: object) -> AIMessageChunk:
        if not isinstance(other, AIMessageChunk):
            return NotImplemented
        return join_chunks([self, other])

    def to_message(self) -> AIMessage:
        """Give the message the pieces add up to. Calls whose arguments are no JSON object are invalid ones."""
        from durable_graph.messages.chunks import to_message

        return to_message(self)


def join_chunks(chunks: Sequence[AIMessageChunk]) -> AIMessageChunk:
    """Add up pieces of one answer, in time proportional to what they hold.

    Texts are put together, lists of blocks too (blocks with one `index` are one block), pieces of calls by their
    index, usage is summed. `id`, `name` are the first that is given; metadata given later replaces earlier ones.

    Raises:
        ValueError: there are none.
    """
    from durable_graph.messages.chunks import joined

    return joined(chunks)


def message_chunk_to_message(message: BaseMessage) -> BaseMessage:
    """Give the message a piece amounts to; any other message as it is."""
    return message.to_message() if isinstance(message, AIMessageChunk) else message


class ToolMessage(BaseMessage):
    """The result of a tool call.

    tool_call_id: The id of the call it answers.
    artifact: Results that the model does not see. status: "error" when the tool failed.
    """

    type: Literal["tool"] = "tool"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen, so it may be narrower
    tool_call_id: str
    artifact: Any = None
    status: Literal["success", "error"] = "success"

    def __init__(self, content: Any = "", **fields: Any) -> None:
        if not isinstance(content, str):
            content = _readable(content)
        key = fields.get("tool_call_id")
        if key is not None and not isinstance(key, str):
            fields["tool_call_id"] = str(key)  # some providers number their calls, or use UUIDs
        super().__init__(content, **fields)


def _readable(content: Any) -> Any:
    """Give what a tool returned as content: whatever is neither text nor a block becomes text."""
    if isinstance(content, list | tuple):
        return [part if isinstance(part, str | dict) else str(part) for part in content]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - tools return anything
    return str(content)


class RemoveMessage(BaseMessage):
    """An update that removes the message with this id; no state holds one. `RemoveMessage(REMOVE_ALL_MESSAGES)` removes
    all messages before it.
    """

    type: Literal["remove"] = "remove"  # pyright: ignore[reportIncompatibleVariableOverride] - frozen, so it may be narrower
    id: str  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues] - frozen, so it may be narrower

    def __init__(self, id: str | None = None, **fields: Any) -> None:
        super().__init__(id=id, **fields)


AnyMessage: TypeAlias = HumanMessage | AIMessage | AIMessageChunk | SystemMessage | ToolMessage | RemoveMessage
"""Every kind of message; works with `isinstance`, and as a pydantic field."""
