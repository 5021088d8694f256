"""How the demos look: rules, colour on a terminal, and plain ASCII where nothing else can be shown."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable

BOLD, RED, GREEN, CYAN = "1", "31", "32", "36"
WIDTH = 100
FANCY, PLAIN = "─│├└●✔✘×…→", "-||`*+!x.>"  # noqa: RUF001 - the sign for "times"


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
        """What somebody else wrote, such as a log."""
        for line in text.split("\n"):
            self._print(f"   │ {harmless(line)}")

    def tree(self, lines: Iterable[str]) -> None:
        """Lines of a drawing."""
        for line in lines:
            self._print(f"   {line}")


def harmless(line: str) -> str:
    """A line whose control characters, which could do anything to a terminal, are spelled out."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in line)


def shown(path: Path) -> str:
    """A path as short as it stays true from here."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
