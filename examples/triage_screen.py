"""How the log-triage demo looks: rules, colour on a terminal, and the history as a tree."""

from __future__ import annotations

import os
import shutil
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
        self._print(f"   {text}" + (f"   ({note})" if note else ""))

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
            lines += [f"● {' ─ '.join(trunk)}", *_branches(snapshot, before_kill)]
            trunk = []
            continue
        for task in snapshot.tasks:
            result: dict[str, Any] = task.result or {}
            said = result.get("answers")
            name = "input" if task.name == START else task.name
            trunk.append(f'{name} "{said[0]}"' if said else name)
    return [*lines, f"● {' ─ '.join([*trunk, 'end'])}"]


def _branches(snapshot: StateSnapshot, before_kill: Sequence[str]) -> list[str]:
    chunks = [f"count {task.result['counted'][0]}" for task in snapshot.tasks if task.result]
    early = [chunk for chunk in chunks if chunk in before_kill]
    late = [chunk for chunk in chunks if chunk not in before_kill]
    if not early:
        return [f"└── {joined(late)}"]
    return [f"├── {joined(early)}  (before the kill)", f"└── {joined(late)}  (after it)"]
