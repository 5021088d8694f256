"""Text inside drawings: made safe to show, wrapped, and measured in terminal columns."""

from __future__ import annotations

import unicodedata
from enum import Enum
from typing import Any, Final, cast

__all__ = ["clean", "columns", "shown", "width_of", "wrapped"]

_JOINER: Final = "\u200d"
"""Ties emoji together; the only invisible format character that is shown as it is."""


def clean(text: str) -> str:
    r"""The text without characters that draw nothing or reorder others: those become escapes such as `\n`, `\u202e`.

    Line breaks are among them, so the result is one line, valid in XML and encodable in UTF-8.
    """
    return "".join(one if _visible(one) else one.encode("unicode_escape").decode("ascii") for one in text)


def _visible(one: str) -> bool:
    category = unicodedata.category(one)
    return (category[0] != "C" or one == _JOINER) and category not in ("Zl", "Zp")


def columns(text: str) -> int:
    """How many columns of a terminal the text takes: 2 for wide characters, none for combining marks."""
    return sum(width_of(one) for one in text)


def width_of(one: str) -> int:
    """The columns of one character."""
    if unicodedata.category(one) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(one) in ("W", "F") else 1


def wrapped(text: str, most: int) -> list[str]:
    """The text in lines of at most `most` columns: broken at spaces, after `_`, `-`, `.` or `/`, else anywhere."""
    lines: list[str] = []
    line = ""
    for piece in _pieces(text):
        rest = piece
        if line and columns(line + rest.rstrip()) > most:
            lines.append(line.rstrip())
            line = ""
        while columns(rest.rstrip()) > most:
            cut = _fitting(rest, most)
            lines.append(rest[:cut])
            rest = rest[cut:]
        line += rest
    return [*lines, line.rstrip()] if line.strip() or not lines else lines


def _pieces(text: str) -> list[str]:
    """The text cut after each place where a line may end."""
    pieces = [""]
    for index, one in enumerate(text):
        pieces[-1] += one
        following = text[index + 1 : index + 2]
        if one in " _-./" and following and following not in " _-./":
            pieces.append("")
    return pieces


def _fitting(text: str, most: int) -> int:
    used = 0
    for index, one in enumerate(text):
        used += width_of(one)
        if used > most and index:
            return index
    return len(text)


def shown(value: Any) -> str:
    """A router's answer as a label. Only plain values are written out: `__str__` of others is the user's code."""
    if type(value) is str:
        return value
    if value is None or type(value) in (bool, int, float):
        return repr(value)
    if type(value) is tuple:
        return ", ".join(shown(part) for part in cast("tuple[Any, ...]", value))
    return value.name if isinstance(value, Enum) else type(value).__name__
