"""The model of the agent demo: a script that answers by the history, so that it needs no network; or a real one."""

from __future__ import annotations

import re
from typing import Any

from durable_graph.messages import AIMessage
from durable_graph.models import ScriptedChatModel, init_chat_model

SCRIPTED = "scripted"


def chat_model(name: str) -> Any:
    """The model of a name: `SCRIPTED`, or "provider:model".

    Raises:
        InvalidConfigError: it cannot be used.
    """
    return ScriptedChatModel(answer, name=SCRIPTED) if name == SCRIPTED else init_chat_model(name)


def answer(history: list[Any]) -> AIMessage:
    """What the scripted model says. It sees what a real one sees, and quotes what the tools really returned."""
    said: dict[str, str] = {message.name: message.text for message in history if message.type == "tool"}
    if not said:
        return asks(
            "I read how bad it is, the newest errors, and whether a worker is in trouble.",
            ("summarize_levels", {}),
            ("recent_errors", {"count": 5}),
            ("search_lines", {"text": "in error state", "count": 3}),
        )
    levels, found = headline(said["summarize_levels"]), headline(said["search_lines"])
    worker = re.search(r"child (\w+) in error state", said["search_lines"])
    if worker is None:
        return AIMessage(
            f"The log has {levels}. {found}: no worker is in trouble that a restart could help, so I restart nothing. "
            f"{headline(said['recent_errors'])}."
        )
    if "show_worker" not in said:
        return asks(
            f"The log has {levels}. {found}, and the newest of them name {worker[1]}. I look at its settings.",
            ("show_worker", {"worker": worker[1]}),
        )
    if "restart_worker" not in said:
        settings = dict(re.findall(r"^(\w+)=(.*)$", said["show_worker"], re.MULTILINE))
        if not settings:
            return AIMessage(f"{found}, and name {worker[1]}. I cannot restart it: {said['show_worker']}.")
        return asks(
            f"{worker[1]} is at {settings['host']}:{settings['port']}, and {cause(settings)}. I want to restart it.",
            ("restart_worker", {"worker": worker[1], "reason": f"{found}, and {cause(settings)}."}),
        )
    outcome = said["restart_worker"]
    left = (
        "I did nothing else: it stays in trouble until somebody restarts it"
        if outcome.startswith("refused")
        else "Should new lines name it again, its machine is the next place to look"
    )
    return AIMessage(f"{found}, and name {worker[1]}. {outcome[0].upper()}{outcome[1:]}. {left}.")


def asks(text: str, *calls: tuple[str, dict[str, Any]]) -> AIMessage:
    """A message that asks for calls of tools. Their ids are made by the model."""
    return AIMessage(text, tool_calls=[{"name": name, "args": args, "id": None} for name, args in calls])


def headline(text: str) -> str:
    """The first line of a tool's result, without what announces the next."""
    return text.partition("\n")[0].partition(";")[0].removesuffix(":")


def cause(settings: dict[str, str]) -> str:
    """What the settings of a worker say about why it fails."""
    if settings.get("socket_timeout") == "0":
        return "with socket_timeout=0 it never lets go of a dead connection"
    return "its settings do not say why it fails"
