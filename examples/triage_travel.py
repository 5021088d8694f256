"""Time travel in the log-triage demo: back to where the threshold was used, and on from there with another one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from triage_graph import build, trouble

from durable_graph import Command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from triage_graph import Desk, State

    from durable_graph import StateSnapshot

BRANCH = "branch"
"""The name of the branch; its nodes sign a ledger of its own."""


def take_branch(desk: Desk, thread: str, threshold: float, answer: str) -> None:
    """Fork the thread where its threshold was last used, run the branch, and answer what it asks.

    Killed anywhere, the same call goes on: it looks at what is stored, and forks once.
    """
    desk = replace(desk, branch=BRANCH)
    config: dict[str, Any] = {"configurable": {"thread_id": thread}}
    graph = build(f"sqlite:///{desk.folder}/runs.db")
    first, branch = split(list(graph.get_state_history(config)))
    if not branch:
        edited = graph.update_state(before_judge(first).config, {"threshold": threshold})
        graph.invoke(None, edited, context=desk)
    elif graph.get_state(config).next:
        graph.invoke(
            None, config, context=desk
        )  # the branch is the newest of the thread, so the thread's config means it
    if graph.get_state(config).interrupts:
        graph.invoke(Command(resume=answer), config, context=desk)


def before_judge(history: Sequence[StateSnapshot]) -> StateSnapshot:
    """The checkpoint, of a branch with the newest first, from which `judge` ran last."""
    return next(snapshot for snapshot in history if snapshot.next == ("judge",))


def split(history: Sequence[StateSnapshot]) -> tuple[list[StateSnapshot], list[StateSnapshot]]:
    """What was there before the fork, and the branch down to the edit it begins with; the newest first in both."""
    sources = [(snapshot.metadata or {}).get("source") for snapshot in history]
    forked = sources.index("update") + 1 if "update" in sources else 0
    return list(history[forked:]), list(history[:forked])


def other_threshold(state: State) -> float:
    """The round threshold next to what was counted that decides otherwise; where there is none, 0."""
    above = math.ceil(trouble(state) / 10) * 10.0
    return above if trouble(state) > state["threshold"] else max(0.0, above - 10)
