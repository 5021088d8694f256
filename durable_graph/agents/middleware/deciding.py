"""What becomes of calls on which a human decided."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from durable_graph.prebuilt.families import calls_of, tool_message_like
from durable_graph.prebuilt.results import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["decided"]

Call: TypeAlias = dict[str, Any]


def decided(message: Any, decisions: Sequence[tuple[Call, Any]]) -> dict[str, Any] | None:
    """The update that does what was decided: the message with what was edited, and results of what is not made.

    decisions: calls of the message, each with the `Decision` on it.
    """
    family = tool_message_like(message)
    results: list[Any] = []
    edits: list[tuple[Call, Call]] = []
    for call, decision in decisions:
        answer = Answer(call, call["name"], family, key="messages")
        if decision["type"] == "edit":
            edits.append((call, {**call, **decision["edited_action"]}))
        elif decision["type"] == "reject":
            results.append(answer.message(decision.get("message") or _rejected(call), error=True))
        elif decision["type"] == "respond":
            results.append(answer.message(decision["message"]))
    update = [*([_edited(message, edits)] if edits else ()), *results]
    return {"messages": update} if update else None


def _rejected(call: Call) -> str:
    return f"A human rejected this call of {call['name']!r}: it was not made. Do not repeat it unless you are asked to."


def _edited(message: Any, edits: list[tuple[Call, Call]]) -> Any:
    """The message as if the model had asked for the edited calls; it has its id, so that it takes its place.

    What a provider said of the calls beside `tool_calls` is edited too, or left out: some models read that first.
    """
    calls = [next((new for old, new in edits if old is call), call) for call in calls_of(message)]
    by_id = {call.get("id"): call for _, call in edits}
    content = message.content
    if isinstance(content, list):
        content = [_edited_block(block, by_id) for block in cast("list[Any]", content)]
    raw = {name: value for name, value in message.additional_kwargs.items() if name != "tool_calls"}
    return message.model_copy(update={"tool_calls": calls, "content": content, "additional_kwargs": raw})


_ARGUMENTS: Final = {"tool_use": "input", "tool_call": "args", "function_call": "arguments"}
"""Where blocks of content that repeat a call have its arguments: Anthropic's, LangChain's, OpenAI's."""


def _edited_block(given: Any, edited: Mapping[Any, Call]) -> Any:
    if not isinstance(given, dict):
        return given
    block = cast("dict[str, Any]", given)
    where = _ARGUMENTS.get(block.get("type", ""))
    call = edited.get(block.get("call_id") or block.get("id"))
    if where is None or call is None:
        return block
    args: Any = call["args"]
    return {**block, "name": call["name"], where: json.dumps(args) if isinstance(block.get(where), str) else args}
