"""How the log-triage demo looks: rules, colour on a terminal, the history as a tree, and two branches side by side."""

from __future__ import annotations

import os
import shutil
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TextIO

from durable_graph import START

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from durable_graph import StateSnapshot

BOLD, RED, GREEN, CYAN = "1", "31", "32", "36"
WIDTH = 100
FANCY, PLAIN = "─│├└●✔✘×…", "-||`*+!x."  # noqa: RUF001 - the sign for "times"


class Screen:
    """Prints. Without a terminal (or with NO_COLOR) no colour; where UTF-8 cannot be shown, plain ASCII."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.colour = out.isatty() and "NO_COLOR" not in os.environ
        self.width = min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns) if out.isatty() else WIDTH
        try:
            FANCY.encode(out.encoding)
        except UnicodeEncodeError:
            self.plain = True
        else:
            self.plain = False

    def _print(self, text: str, style: str = "") -> None:
        if self.plain:
            text = (
                text.translate(str.maketrans(FANCY, PLAIN))
                .encode(self.out.encoding, "replace")
                .decode(self.out.encoding)
            )
        print(f"\x1b[{style}m{text}\x1b[0m" if self.colour and style else text, file=self.out, flush=True)

    def title(self, text: str) -> None:
        """The first line."""
        self._print(f"── {text} ".ljust(self.width, "─"), BOLD)

    def act(self, text: str) -> None:
        """Begin a part."""
        self._print("")
        self._print(f"── {text} ".ljust(self.width, "─"), CYAN)

    def say(self, text: str, note: str = "") -> None:
        """A line of the story."""
        self._print((f"   {text}" + (f"   ({note})" if note else "")).rstrip())

    def good(self, text: str) -> None:
        """A promise that was kept."""
        self._print(f" ✔ {text}", GREEN)

    def bad(self, text: str) -> None:
        """What went wrong."""
        self._print(" ✘ " + text.replace("\n", "\n   "), RED)

    def quote(self, text: str) -> None:
        """What somebody else wrote, such as a log: control characters are made harmless."""
        for line in text.split("\n"):
            self._print("   │ " + "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in line))

    def tree(self, lines: Iterable[str]) -> None:
        """Lines of a drawing."""
        for line in lines:
            self._print(f"   {line}")


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
