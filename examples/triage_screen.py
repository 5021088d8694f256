"""What the log-triage demo draws: the history as a tree, and two branches side by side."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from durable_graph import START

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from durable_graph import StateSnapshot


def joined(names: Sequence[str], between: str = ", ", last: str = ", ") -> str:
    """Names in one line; of several chunks the word is said once: "count 1-5, 6-10"."""
    short = list(names)
    if all(name.startswith("count ") for name in names):
        short.sort(key=lambda name: int(name.removeprefix("count ").partition("-")[0]))
        short[1:] = [name.removeprefix("count ") for name in short[1:]]
    return last.join([*([between.join(short[:-1])] if short[:-1] else []), short[-1]])


def history_tree(history: Sequence[StateSnapshot], before_kill: Sequence[str]) -> list[str]:
    """A thread's checkpoints, oldest first, as a trunk; a step of several tasks opens a branch.

    before_kill: the chunks whose result was stored when the kill came.
    """
    lines: list[str] = []
    trunk: list[str] = []
    for snapshot in history:
        if snapshot.next and snapshot.next[0] == "count":
            lines += [f"● {' ─ '.join(trunk)}", *_chunks(snapshot, before_kill)]
            trunk = []
            continue
        trunk += _steps([snapshot])
    return [*lines, f"● {' ─ '.join([*trunk, 'end'])}"]


def _chunks(snapshot: StateSnapshot, before_kill: Sequence[str]) -> list[str]:
    chunks = [f"count {task.result['counted'][0]}" for task in snapshot.tasks if task.result]
    early = [chunk for chunk in chunks if chunk in before_kill]
    late = [chunk for chunk in chunks if chunk not in before_kill]
    if not early:
        return [f"└── {joined(late)}"]
    return [f"├── {joined(early)}  (before the kill)", f"└── {joined(late)}  (after it)"]


def _steps(history: Iterable[StateSnapshot]) -> list[str]:
    """What ran from these checkpoints, the oldest first, with what was decided there."""
    steps: list[str] = []
    for task in (task for snapshot in history for task in snapshot.tasks):
        result: dict[str, Any] = task.result or {}
        name = "input" if task.name == START else task.name
        said = result.get("answers")
        alarm = result.get("alarm")
        steps.append(f'{name} "{said[0]}"' if said else name if alarm is None else f"{name} ({_verdict(alarm)})")
    return steps


def _verdict(alarm: bool) -> str:  # noqa: FBT001 - a value of the state
    return "ALARM" if alarm else "no alarm"


def fork_tree(fork: StateSnapshot, first: Sequence[StateSnapshot], second: Sequence[StateSnapshot]) -> list[str]:
    """Which checkpoint forked, and what grew from it: the two branches, the oldest checkpoint first."""
    edit = second[0]
    return [
        f"● {_id(fork)}  before judge",
        f"├── {' ─ '.join([*_steps(first), 'end'])}",
        f"└── {_id(edit)}  update_state(threshold={edit.values['threshold']:g}), then",
        f"    {' ─ '.join([*_steps(second), 'end'])}",
    ]


def _id(snapshot: StateSnapshot) -> str:
    return snapshot.config.get("configurable", {})["checkpoint_id"]


def side_by_side(first: Sequence[StateSnapshot], second: Sequence[StateSnapshot]) -> list[str]:
    """The two branches, the oldest checkpoint first: step by step what ran and what was decided."""
    left, right = ([f"threshold {one[0].values['threshold']:g}%", *_steps(one), "end"] for one in (first, second))
    rows = [("first branch", "second branch"), *zip_longest(left, right, fillvalue="")]
    return [f"{one:<24}{other}".rstrip() for one, other in rows]


def difference(first: str, second: str) -> list[str]:
    """Lines that only one of two reports has."""
    old, new = first.split("\n"), second.split("\n")
    return [f"- {line}" for line in old if line not in new] + [f"+ {line}" for line in new if line not in old]
