"""What is in a message: its text, its blocks, and how it is shown to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["blocks_of", "shown", "text_of"]

_WIDTH: Final = 80
"""Characters of a title line."""

_TITLES: Final = {"human": "Human", "ai": "Ai", "AIMessageChunk": "Ai", "system": "System", "tool": "Tool"}
_BOLD: Final = "\x1b[1m"
_PLAIN: Final = "\x1b[0m"


def text_of(content: str | Sequence[str | Mapping[str, Any]]) -> str:
    """Give all text of a content: the texts of a list and of its text blocks, one behind the other."""
    if isinstance(content, str):
        return content
    return "".join(_texts(content))


def _texts(parts: Sequence[str | Mapping[str, Any]]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif part.get("type", "text") == "text" and isinstance(part.get("text"), str):
            yield part["text"]


def blocks_of(message: Any) -> list[dict[str, Any]]:
    """Give a message's content as blocks; tool calls that are no blocks yet come last."""
    content: Any = message.content
    parts: list[Any] = [content] if isinstance(content, str) else list(content)
    blocks = [_block(part) for part in parts if part != ""]
    known = {block.get("id") for block in blocks if block.get("type") == "tool_call"}
    calls: list[Any] = getattr(message, "tool_calls", [])
    blocks += [{"type": "tool_call", **call} for call in calls if call.get("id") not in known or call["id"] is None]
    return blocks


def _block(part: Any) -> dict[str, Any]:
    """One part of a content as a block: OpenAI's images and Anthropic's calls under the names all share."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind = part.get("type")
    if kind == "image_url":
        return _image(part["image_url"])
    if kind == "tool_use":
        return {"type": "tool_call", "name": part.get("name"), "args": part.get("input"), "id": part.get("id")}
    return dict(part)


def _image(source: Any) -> dict[str, Any]:
    url: str = source if isinstance(source, str) else source.get("url", "")
    kind, comma, data = url.removeprefix("data:").partition(";base64,")
    if url.startswith("data:") and comma:
        return {"type": "image", "mime_type": kind, "base64": data}
    return {"type": "image", "url": url}


def shown(message: Any, *, bold: bool = False) -> str:
    """Give the lines that show a message to a person."""
    title = f" {_TITLES.get(message.type, message.type.title())} Message "
    side = "=" * ((_WIDTH - len(title)) // 2)
    named = f"{_BOLD}{title}{_PLAIN}" if bold else title
    line = f"{side}{named}{side}{'=' * (len(title) % 2)}"
    head = f"{line}\nName: {message.name}" if message.name is not None else line
    content = message.content if isinstance(message.content, str) else repr(message.content)
    lines = [f"{head}\n\n{content}", *_call_lines(message)]
    return "\n".join(lines).strip()


def _call_lines(message: Any) -> Iterator[str]:
    calls: list[Any] = getattr(message, "tool_calls", [])
    invalid: list[Any] = getattr(message, "invalid_tool_calls", [])
    if calls:
        yield "Tool Calls:"
    for call in calls:
        yield from _call(call)
    if invalid:
        yield "Invalid Tool Calls:"
    for call in invalid:
        yield from _call(call)


def _call(call: Any) -> Iterator[str]:
    yield f"  {call.get('name') or 'Tool'} ({call.get('id')})"
    yield f" Call ID: {call.get('id')}"
    if call.get("error"):
        yield f"  Error: {call['error']}"
    yield "  Args:"
    args = call.get("args")
    if isinstance(args, dict):
        yield from (f"    {name}: {value}" for name, value in args.items())  # pyright: ignore[reportUnknownVariableType] - arguments are anything
    else:
        yield f"    {args}"
