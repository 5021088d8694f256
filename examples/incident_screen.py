"""What the agent demo draws: calls of tools, how far they came, and the transcript."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

from demo_screen import harmless

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LABEL = 18
MOST_LINES = 6  # of what a tool returned


class Call(NamedTuple):
    """One call of a tool, as a model asked for it."""

    id: str
    name: str
    args: dict[str, Any]

    def __str__(self) -> str:
        args = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in self.args.items())
        return harmless(f"{self.name}({args})")


def calls_of(messages: Sequence[Any]) -> list[Call]:
    """The calls that were asked for, in order."""
    asked = [call for message in messages if message.type == "ai" for call in message.tool_calls]
    return [Call(call["id"] or "", call["name"], call["args"]) for call in asked]


def unanswered(messages: Sequence[Any]) -> list[str]:
    """What is wrong with a history that a provider would refuse: each message with calls is followed by exactly one
    result of each.
    """
    problems: list[str] = []
    results_in_all = sum(message.type == "tool" for message in messages)
    if results_in_all != len(calls_of(messages)):
        problems.append(f"there are {len(calls_of(messages))} calls and {results_in_all} results")
    for position, message in enumerate(messages):
        asked = [call.id for call in calls_of([message])]
        results: list[str] = []
        for follower in messages[position + 1 :]:
            if follower.type != "tool":
                break
            results.append(follower.tool_call_id)
        if message.type == "ai" and sorted(asked) != sorted(results):
            problems.append(f"message {position} asks for {asked}, and these results follow: {results}")
    return problems


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows, in columns as wide as they need to be."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def transcript(messages: Sequence[Any], width: int) -> Iterator[str]:
    """What was said, wrapped: who on the left, what on the right."""
    width = max(width, 2 * LABEL)
    for message in messages:
        who = {"human": "you", "ai": "agent", "tool": message.name}.get(message.type, message.type)
        said = list(wrapped(message.text, width - LABEL)) if message.text else []
        if message.type == "tool" and len(said) > MOST_LINES:
            said[MOST_LINES - 1 :] = [f"… and {len(said) - MOST_LINES + 1} lines more"]
        for call in calls_of([message]):
            said += textwrap.wrap(f"→ {call}", width - LABEL, subsequent_indent="  ")
        for number, line in enumerate(said or [""]):
            yield f"{'' if number else harmless(who):<{LABEL}}{line}".rstrip()


def wrapped(text: str, width: int) -> Iterator[str]:
    """The lines of a text, each made to fit."""
    for line in text.strip().split("\n"):
        yield from textwrap.wrap(harmless(line), width) or [""]
