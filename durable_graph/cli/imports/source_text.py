"""A program's text with the positions that `ast` and `tokenize` give, and changes that leave all else as it is."""

from __future__ import annotations

import re
import tokenize
from bisect import bisect_right
from typing import TYPE_CHECKING, cast

from durable_graph.errors import InternalError

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

__all__ = ["SourceText"]

_LINE = re.compile(
    r"[^\r\n]*(?:\r\n|\r|\n|$)"
)  # what Python takes for a line; str.splitlines knows more kinds of breaks


class SourceText:
    """Positions are offsets into `text`, in characters. Changes are collected by `replace` and made by `changed`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = [line for line in _LINE.findall(text) if line]
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._changes: list[tuple[int, int, str]] = []

    @property
    def newline(self) -> str:
        """How the program ends its lines."""
        first = self._lines[0] if self._lines else ""
        return first[len(first.rstrip("\r\n")) :] or "\n"

    def offset(self, line: int, column: int) -> int:
        """Where a position of `ast` is: `line` from 1, `column` in bytes of UTF-8."""
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        return self._starts[line - 1] + len(text.encode()[:column].decode(errors="ignore"))

    def span(self, node: ast.expr | ast.stmt | ast.alias) -> tuple[int, int]:
        """(start, end) of a node."""
        end_line, end_column = cast("int", node.end_lineno), cast("int", node.end_col_offset)  # parsed nodes have both
        return self.offset(node.lineno, node.col_offset), self.offset(end_line, end_column)

    def of(self, node: ast.expr | ast.stmt | ast.alias) -> str:
        """The text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    def line_of(self, offset: int) -> int:
        """The line, from 1, that an offset lies in."""
        return bisect_right(self._starts, offset, hi=len(self._lines))  # the end of the text is on the last line

    def before_on_line(self, offset: int) -> str:
        """What stands on the same line before an offset."""
        return self.text[self._starts[self.line_of(offset) - 1] : offset]

    def after_on_line(self, offset: int) -> str:
        """What stands on the same line behind an offset."""
        return self.text[offset : self._starts[self.line_of(offset)]].rstrip("\r\n")

    def tokens(self, start: int, end: int) -> Iterator[tuple[int, str, int, int]]:
        """(type, text, start, end) of the tokens of a statement that spans `start` to `end`."""
        lines = [line for line in _LINE.findall(self.text[start:end]) if line]
        starts = [start]
        for line in lines:
            starts.append(starts[-1] + len(line))
        for token in tokenize.generate_tokens(iter([*lines, ""]).__next__):
            (row, column), (end_row, end_column) = token.start, token.end
            if row <= len(lines):
                yield token.type, token.string, starts[row - 1] + column, starts[end_row - 1] + end_column

    def replace(self, start: int, end: int, text: str) -> None:
        """Note a change, unless it changes nothing. Changes must not overlap."""
        if self.text[start:end] != text:
            self._changes.append((start, end, text))

    def line_after(self, line: int) -> int:
        """Where a line will be when all changes are made."""
        start = self._starts[line - 1]
        return line + sum(
            text.count("\n") - self.text[begin:end].count("\n") for begin, end, text in self._changes if end <= start
        )

    def changed(self) -> str:
        """The text with all changes made.

        Raises:
            InternalError: changes overlap.
        """
        parts: list[str] = []
        done = 0
        for start, end, text in sorted(self._changes):
            if start < done:
                raise InternalError(f"two changes of an import overlap at line {self.line_of(start)}")
            parts += [self.text[done:start], text]
            done = end
        return "".join([*parts, self.text[done:]])
