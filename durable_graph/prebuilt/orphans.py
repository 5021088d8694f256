"""No orphan ever reaches a model: in a history every tool call has exactly one tool message, right behind it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from durable_graph.prebuilt.families import calls_of, is_ai, is_tool_message, tool_message_like

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["UNANSWERED", "answer_orphans", "distinct_calls", "is_in_order", "unreadable"]

UNANSWERED: Final = "Error: this call was cut off before it gave a result. Whether it did anything is not known."
"""What a model is told about a call that nobody answered."""


def answer_orphans(messages: Sequence[Any], text: str = UNANSWERED) -> list[Any]:
    """A history that a provider accepts: each tool call is followed by exactly one tool message.

    Results that came later are moved to their calls. Of several results the first that is no error counts. Calls
    without a result are answered with `text`, as errors; their messages have the same ids each time. Results without a
    call are left out. Calls with one id are matched by order. Calls that cannot be read have results too. A history
    that is in order comes back with the same messages.

        answer = model.invoke(answer_orphans(state["messages"]))
    """
    if is_in_order(messages):
        return list(messages)
    owned = _by_call(messages)
    found: list[Any] = []
    for position, message in enumerate(messages):
        if is_tool_message(message):
            continue
        found.append(message)
        for number, call in enumerate(_all_calls(message)):
            results = owned.get((position, number), [])
            best = next((one for one in results if one.status != "error"), results[0] if results else None)
            found.append(_made_up(message, call, number, position, text) if best is None else best)
    return found


def is_in_order(messages: Sequence[Any]) -> bool:
    """Whether each call is followed by exactly one result, before anybody else speaks. Asked before each call of a
    model, about the whole history: so it is quick.
    """
    waiting: list[Any] = []
    for message in messages:
        kind = message.type
        if kind == "tool":
            if message.tool_call_id not in waiting:
                return False
            waiting.remove(message.tool_call_id)
        elif waiting:
            return False
        elif kind in ("ai", "AIMessageChunk") and (message.tool_calls or message.invalid_tool_calls):
            waiting = [call.get("id") for call in (*message.tool_calls, *message.invalid_tool_calls)]
    return not waiting


def _by_call(messages: Sequence[Any]) -> dict[tuple[int, int], list[Any]]:
    """The results of each call, by the position of its message and its number there. A result belongs to the last call
    before it with its id that has none yet, or else to the last that has one.
    """
    calls: dict[Any, list[tuple[int, int]]] = {}
    waiting: dict[Any, deque[tuple[int, int]]] = {}
    owned: dict[tuple[int, int], list[Any]] = {}
    for position, message in enumerate(messages):
        if is_tool_message(message):
            key = message.tool_call_id
            if queue := waiting.get(key):
                owned.setdefault(queue.popleft(), []).append(message)
            elif key in calls:
                owned.setdefault(calls[key][-1], []).append(message)
            continue
        fresh: dict[Any, deque[tuple[int, int]]] = {}
        for number, call in enumerate(_all_calls(message)):
            key = call.get("id") or ""
            calls.setdefault(key, []).append((position, number))
            fresh.setdefault(key, deque()).append((position, number))
        waiting.update(fresh)
    return owned


def _all_calls(message: Any) -> list[dict[str, Any]]:
    """The calls of a message, and those that cannot be read: a provider wants results of both."""
    unread: Any = getattr(message, "invalid_tool_calls", None) if is_ai(message) else None
    return [*calls_of(message), *(unread or ())]


def unreadable(call: Any, family: Any) -> Any:
    """The result of a call whose arguments cannot be read."""
    why = call.get("error") or "the arguments are no JSON object"
    text = f"Error: this call cannot be read: {why}. Call {call.get('name') or 'the tool'} again."
    return family(content=text, name=call.get("name"), tool_call_id=call.get("id") or "", status="error")


def _made_up(message: Any, call: Any, number: int, position: int, text: str) -> Any:
    key = call.get("id") or ""
    family = tool_message_like(message)
    own = f"unanswered:{message.id or position}:{number}:{key}"
    if call.get("type") == "invalid_tool_call":
        return unreadable(call, family).model_copy(update={"id": own})
    return family(content=text, name=call["name"], tool_call_id=key, status="error", id=own)


def distinct_calls(message: Any) -> Any:
    """A model's message whose calls all have ids, each its own: a second "a" becomes "a-2", none becomes "call-1".

    Calls that cannot be read count too: their results are told apart by the ids. A message that is in order comes back
    as it is. To be applied before the message is stored.
    """
    calls = _all_calls(message)
    ids = [call.get("id") for call in calls]
    if all(ids) and len(set(ids)) == len(ids):
        return message
    given, used = {one for one in ids if one}, set[str]()
    fresh: list[Any] = []
    for number, call in enumerate(calls, 1):
        key = call.get("id") or f"call-{number}"
        named, count = key, 1
        while named in used or (named != key and named in given):
            count += 1
            named = f"{key}-{count}"
        used.add(named)
        fresh.append({**call, "id": named})
    valid = len(calls_of(message))
    update: dict[str, Any] = {"tool_calls": fresh[:valid]}
    if fresh[valid:]:
        update["invalid_tool_calls"] = fresh[valid:]
    return message.model_copy(update=update)
