"""Between our messages and those of pydantic-ai, which speaks to the providers. Needs the extra `models`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

from durable_graph.errors import UsageError, shortened
from durable_graph.messages.content import text_of
from durable_graph.messages.models import AIMessageChunk

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["chunk_of", "last_chunk", "to_requests", "whole_chunk"]

THINKING: Final = "thinking"
"""Where in `additional_kwargs` an answer keeps the thoughts that a provider wants to get back, signed by it."""


# --- to the provider ---------------------------------------------------------------------------------------------


def to_requests(history: Sequence[Any]) -> list[Any]:
    """A history as pydantic-ai's messages; ours and LangChain's are read alike.

    Raises:
        UsageError: a message that no model can be told of.
    """
    from pydantic_ai import messages as theirs

    names: dict[str | None, str] = {}
    requests: list[Any] = []
    parts: list[Any] = []
    for message in history:
        kind = message.type
        if kind in ("ai", "AIMessageChunk"):
            names.update({call.get("id"): call.get("name") or "" for call in _calls(message)})
            if parts:
                requests.append(theirs.ModelRequest(parts=parts))
                parts = []
            requests.append(theirs.ModelResponse(parts=list(_answer_parts(message))))
        else:
            parts.append(_request_part(message, kind, names))
    if parts:
        requests.append(theirs.ModelRequest(parts=parts))
    return requests


def _request_part(message: Any, kind: str, names: dict[str | None, str]) -> Any:
    from pydantic_ai import messages as theirs

    if kind == "system":
        return theirs.SystemPromptPart(text_of(message.content))
    if kind == "human":
        return theirs.UserPromptPart(_user_content(message))
    if kind == "tool":
        return theirs.ToolReturnPart(
            tool_name=message.name or names.get(message.tool_call_id, ""),
            content=text_of(message.content),
            tool_call_id=message.tool_call_id,
            outcome="failed" if message.status == "error" else "success",
        )
    what = f"a model cannot be told of a message of type {kind!r}: {shortened(message)}"
    raise UsageError(what, cure="Pass human, AI, system and tool messages.")


def _user_content(message: Any) -> Any:
    if isinstance(message.content, str):
        return message.content
    return [_user_block(block) for block in message.content_blocks]


def _user_block(block: dict[str, Any]) -> Any:
    from pydantic_ai import messages as theirs

    kind = block.get("type")
    if kind == "text":
        return block["text"]
    if kind in ("image", "audio", "video", "file") and "base64" in block:
        return theirs.BinaryContent.from_data_uri(f"data:{block['mime_type']};base64,{block['base64']}")
    urls: dict[Any, Any] = {
        "image": theirs.ImageUrl,
        "audio": theirs.AudioUrl,
        "video": theirs.VideoUrl,
        "file": theirs.DocumentUrl,
    }
    if kind in urls and "url" in block:
        return urls[kind](url=block["url"])
    what = f"a model cannot be told of this part of a message: {shortened(block)}"
    raise UsageError(what, cure="Use text, or image, audio, video and file blocks with a url or base64 data.")


def _answer_parts(message: Any) -> Iterator[Any]:
    from pydantic_ai import messages as theirs

    for thought in message.additional_kwargs.get(THINKING, ()):
        yield theirs.ThinkingPart(**thought)
    if text := text_of(message.content):
        yield theirs.TextPart(text)
    for call in _calls(message):
        yield theirs.ToolCallPart(call.get("name") or "", call["args"], tool_call_id=call.get("id") or "")


def _calls(message: Any) -> list[Any]:
    """All calls of an answer, those that cannot be read too: their tool messages answer them."""
    return [*message.tool_calls, *message.invalid_tool_calls]


# --- from the provider -------------------------------------------------------------------------------------------


def chunk_of(event: Any, id: str) -> AIMessageChunk | None:
    """An event of a stream as a piece of the answer; None when it says nothing new."""
    from pydantic_ai import messages as theirs

    if isinstance(event, theirs.PartStartEvent):
        return _started(event.part, event.index, id)
    if not isinstance(event, theirs.PartDeltaEvent):
        return None
    delta = event.delta
    if isinstance(delta, theirs.TextPartDelta):
        return AIMessageChunk(delta.content_delta, id=id) if delta.content_delta else None
    if isinstance(delta, theirs.ThinkingPartDelta):
        return _thought(delta.content_delta, id)
    if isinstance(delta, theirs.ToolCallPartDelta):
        return _piece(delta.tool_name_delta, delta.args_delta, delta.tool_call_id, event.index, id)
    return None


def _started(part: Any, index: int, id: str) -> AIMessageChunk | None:
    from pydantic_ai import messages as theirs

    if isinstance(part, theirs.TextPart):
        return AIMessageChunk(part.content, id=id) if part.content else None
    if isinstance(part, theirs.ThinkingPart):
        return _thought(part.content, id)
    if isinstance(part, theirs.ToolCallPart):
        return _piece(part.tool_name, part.args, part.tool_call_id, index, id)
    return None


def _thought(text: str | None, id: str) -> AIMessageChunk | None:
    return AIMessageChunk("", id=id, additional_kwargs={"reasoning_content": text}) if text else None


def _piece(name: str | None, args: Any, call: str | None, index: int, id: str) -> AIMessageChunk:
    text = args if args is None or isinstance(args, str) else json.dumps(args, ensure_ascii=False)
    return AIMessageChunk(
        "",
        id=id,
        tool_call_chunks=[{"name": name, "args": text, "id": call, "index": index, "type": "tool_call_chunk"}],
    )


def last_chunk(response: Any, id: str, name: str) -> AIMessageChunk:
    """What comes after the last piece: usage, how it ended, and thoughts that are signed."""
    from pydantic_ai import messages as theirs

    metadata: dict[str, Any] = {"model_name": response.model_name or name}
    if response.finish_reason is not None:
        metadata["finish_reason"] = response.finish_reason
    thoughts = [
        {"content": part.content, "id": part.id, "signature": part.signature, "provider_name": part.provider_name}
        for part in cast("Iterable[Any]", response.parts)
        if isinstance(part, theirs.ThinkingPart) and (part.signature or part.id)
    ]
    return AIMessageChunk(
        "",
        id=id,
        additional_kwargs={THINKING: thoughts} if thoughts else {},
        response_metadata=metadata,
        usage_metadata=_usage(response.usage),
        chunk_position="last",
    )


def whole_chunk(response: Any, id: str, name: str) -> list[AIMessageChunk]:
    """An answer that was not streamed, as pieces."""
    pieces = [_started(part, index, id) for index, part in enumerate(response.parts)]
    return [*(piece for piece in pieces if piece is not None), last_chunk(response, id, name)]


def _usage(usage: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
    known = {"cache_read": usage.cache_read_tokens, "cache_creation": usage.cache_write_tokens}
    if details := {kind: count for kind, count in known.items() if count}:
        told["input_token_details"] = details
    more: dict[str, int] = getattr(usage, "details", None) or {}
    if reasoning := more.get("reasoning_tokens"):
        told["output_token_details"] = {"reasoning": reasoning}
    return told
