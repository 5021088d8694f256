"""How pieces of a streamed answer add up."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_core import from_json

from durable_graph.messages.models import AIMessage, AIMessageChunk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from durable_graph.messages.models import InvalidToolCall, ToolCall, ToolCallChunk

__all__ = ["joined", "read_calls", "to_message", "written"]

_SAID_ONCE: Final = frozenset({"id", "index", "name", "type"})
"""Keys of blocks whose text is not a piece of a longer one."""


def joined(chunks: Sequence[AIMessageChunk]) -> AIMessageChunk:
    """See `models.join_chunks`."""
    if not chunks:
        raise ValueError("There are no chunks to join. Pass at least one.")
    usages = [chunk.usage_metadata for chunk in chunks if chunk.usage_metadata is not None]
    last = any(chunk.chunk_position for chunk in chunks)
    kwargs: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
    for chunk in chunks:
        _merge(kwargs, chunk.additional_kwargs)
        metadata.update(chunk.response_metadata)
    return AIMessageChunk(
        _joined_content([chunk.content for chunk in chunks]),
        additional_kwargs=kwargs,
        response_metadata=metadata,
        name=next((chunk.name for chunk in chunks if chunk.name), None),
        id=next((chunk.id for chunk in chunks if chunk.id), None),
        usage_metadata=_summed(usages) if usages else None,
        chunk_position="last" if last else None,
        **_calls(chunks, complete=last),
    )


def to_message(chunk: AIMessageChunk) -> AIMessage:
    """See `AIMessageChunk.to_message`."""
    calls, invalid = chunk.tool_calls, chunk.invalid_tool_calls
    if chunk.tool_call_chunks:
        calls, invalid = read_calls(chunk.tool_call_chunks, complete=True)
    return AIMessage(
        chunk.content,
        additional_kwargs=chunk.additional_kwargs,
        response_metadata=chunk.response_metadata,
        name=chunk.name,
        id=chunk.id,
        tool_calls=calls,
        invalid_tool_calls=invalid,
        usage_metadata=chunk.usage_metadata,
    )


# --- calls -------------------------------------------------------------------------------------------------------


def written(call: ToolCall, index: int) -> ToolCallChunk:
    """Write a whole call as one piece."""
    return {
        "name": call["name"],
        "args": json.dumps(call["args"], ensure_ascii=False, default=str),
        "id": call.get("id"),
        "index": index,
        "type": "tool_call_chunk",
    }


def read_calls(pieces: Iterable[ToolCallChunk], *, complete: bool) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """Read calls out of their pieces, already joined.

    complete: nothing follows. Otherwise a call with a name is shown with the arguments that can be read so far, and
    none is invalid yet.
    """
    calls: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for piece in pieces:
        args, error = _arguments(piece["args"], complete=complete)
        if error is None and not piece["name"]:
            error = "the call has no name"
        if error is None:
            calls.append({"name": piece["name"] or "", "args": args, "id": piece["id"], "type": "tool_call"})
        elif complete:
            invalid.append(
                {
                    "name": piece["name"],
                    "args": piece["args"],
                    "id": piece["id"],
                    "error": error,
                    "type": "invalid_tool_call",
                }
            )
    return calls, invalid


def _arguments(text: str | None, *, complete: bool) -> tuple[dict[str, Any], str | None]:
    if not text or not text.strip():
        return {}, None  # models write nothing for a tool without arguments
    try:
        args = json.loads(text, strict=False) if complete else from_json(text, allow_partial=True)
    except ValueError as problem:
        return {}, f"the arguments are no JSON: {problem}"
    if not isinstance(args, dict):
        return {}, f"the arguments are no JSON object but {type(args).__name__}"
    return cast("dict[str, Any]", args), None


def _calls(chunks: Sequence[AIMessageChunk], *, complete: bool) -> dict[str, Any]:
    pieces = [piece for chunk in chunks for piece in chunk.tool_call_chunks]
    if pieces:
        merged = _joined_pieces(pieces)
        calls, invalid = read_calls(merged, complete=complete)
        return {"tool_call_chunks": merged, "tool_calls": calls, "invalid_tool_calls": invalid}
    invalid = [call for chunk in chunks for call in chunk.invalid_tool_calls]
    return {"invalid_tool_calls": invalid} if invalid else {}


def _joined_pieces(pieces: Sequence[ToolCallChunk]) -> list[ToolCallChunk]:
    """Put pieces with one index together. One without an index is a call of its own.

    An index with another id is another call too: some servers give every call the index 0.
    """
    groups: list[list[ToolCallChunk]] = []
    open_at: dict[int, list[ToolCallChunk]] = {}
    for piece in pieces:
        index = piece["index"]
        group = None if index is None else open_at.get(index)
        if group is None or _starts_another(group, piece):
            group = list["ToolCallChunk"]()
            groups.append(group)
            if index is not None:
                open_at[index] = group
        group.append(piece)
    return [group[0] if len(group) == 1 else _one_piece(group) for group in groups]


def _starts_another(group: list[ToolCallChunk], piece: ToolCallChunk) -> bool:
    key = piece["id"]
    return bool(key) and any(other["id"] and other["id"] != key for other in group)


def _one_piece(group: list[ToolCallChunk]) -> ToolCallChunk:
    names = [piece["name"] for piece in group if piece["name"]]
    texts = [piece["args"] for piece in group if piece["args"] is not None]
    # A name may come in pieces, or be said again with every piece.
    name = names[0] if names and all(other == names[0] for other in names) else "".join(names)
    return {
        "name": name or None,
        "args": "".join(texts) if texts else None,
        "id": next((piece["id"] for piece in group if piece["id"]), None),
        "index": group[0]["index"],
        "type": "tool_call_chunk",
    }


# --- content, metadata, usage ----------------------------------------------------------------------------------


def _joined_content(contents: Sequence[str | list[Any]]) -> str | list[Any]:
    texts = [content for content in contents if isinstance(content, str)]
    if len(texts) == len(contents):
        return "".join(texts)
    blocks: list[Any] = []
    by_index: dict[Any, dict[str, Any]] = {}
    for content in contents:
        for part in [content] if isinstance(content, str) else content:
            _add_part(blocks, by_index, part)
    return blocks


def _add_part(blocks: list[Any], by_index: dict[Any, dict[str, Any]], part: Any) -> None:
    if isinstance(part, str):
        if blocks and isinstance(blocks[-1], str):
            blocks[-1] += part
        elif part:
            blocks.append(part)
        return
    index = part.get("index")
    if index is not None and index in by_index:
        _merge(by_index[index], part)
        return
    block: dict[str, Any] = {}
    _merge(block, part)
    blocks.append(block)
    if index is not None:
        by_index[index] = block


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    """Add what a later piece says: texts go on, lists grow, dicts are merged, anything else is replaced."""
    for key, value in more.items():
        known = into.get(key)
        if isinstance(value, dict):
            merged: dict[str, Any] = {}
            if isinstance(known, dict):
                _merge(merged, cast("dict[str, Any]", known))
            _merge(merged, cast("dict[str, Any]", value))
            into[key] = merged
        elif isinstance(value, list):
            before = cast("list[Any]", known) if isinstance(known, list) else []
            into[key] = [*before, *cast("list[Any]", value)]
        elif isinstance(value, str) and isinstance(known, str) and key not in _SAID_ONCE:
            into[key] = known + value
        elif value is not None or key not in into:
            into[key] = value


def _summed(usages: Sequence[Any]) -> dict[str, Any]:
    total: dict[str, Any] = {}
    for usage in usages:
        for key, count in usage.items():
            if isinstance(count, dict):
                total[key] = _summed([total.get(key, {}), count])
            else:
                total[key] = total.get(key, 0) + (count or 0)
    return total
