"""The logs that the demos read: Apache's error logs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter

SAMPLE = Path(__file__).resolve().parent / "sample.log"
MOST_BYTES = 10_000_000  # a demo keeps the entries of a log in memory, or even in its state

LEVELS = ("emerg", "alert", "crit", "error", "warn", "notice", "info", "debug")
"""Apache's levels, the worst first. trace1 to trace8 come after them."""
TROUBLE = LEVELS[:4]

# Apache 2.2:  [Sun Dec 04 04:47:44 2005] [error] message
# Apache 2.4:  [Sun Dec 04 04:47:44.1 2005] [core:error] [pid 7] message
ENTRY = re.compile(rf"\[(?P<time>[^]]+)\] \[(?:\w*:)?(?P<level>{'|'.join(LEVELS)}|trace[1-8])\] (?P<message>.+)")


def lines_of(data: bytes) -> list[str]:
    """The lines of a log, oldest first."""
    text = data.decode("utf-8-sig", "backslashreplace").replace("\r\n", "\n")
    return text.removesuffix("\n").split("\n")


def short(text: str, most: int = 64) -> str:
    """A text that fits into a line."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def worst_first(levels: Counter[str]) -> list[str]:
    """Levels by severity."""
    return sorted(levels, key=lambda level: (LEVELS.index(level) if level in LEVELS else len(LEVELS), level))


def log_problem(log: Path) -> str | None:
    """Why a file cannot be read as a log; None when it can."""
    if not log.is_file():
        return "it is not a file but a folder or a device" if log.exists() else "there is no such file"
    with log.open("rb") as file:
        start = file.read(1 << 16)
    size = log.stat().st_size
    problems = {
        "it is empty": not start,
        "it is compressed; gunzip it first": start.startswith(b"\x1f\x8b"),
        "it is not a text file": b"\0" in start,
        f"it has {size:,} bytes, and the demo takes {MOST_BYTES:,} at the most; take its end (tail)": size > MOST_BYTES,
    }
    return next((problem for problem, found in problems.items() if found), None)
