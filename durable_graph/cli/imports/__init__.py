"""`python -m durable_graph imports`: a LangGraph program's imports become ours."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Final

from durable_graph.cli.imports import programs
from durable_graph.cli.imports.names import Names, shipped
from durable_graph.cli.imports.rewriting import Finding, rewrite

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from durable_graph.cli.imports.programs import Program

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "rewrite a LangGraph program's imports"

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_WORDS = (b"langgraph", b"langchain.agents", b"langchain import")
"""What the text of a program that concerns LangGraph contains."""


def add_arguments(parser: ArgumentParser) -> None:
    """Rewrite the LangGraph imports of programs to those of durable_graph and checkpointers.

    Without --write nothing is changed: standard output shows the change as a diff. What has no
    counterpart keeps its import and is listed on standard error, with the reason and what to use
    instead; so are notebooks and texts that name LangGraph, which are never changed.

    Exit code: 0 all is rewritten, or nothing was to do; 1 something stays; 2 wrong use.
    """
    _ = parser.add_argument("paths", metavar="PATH", nargs="+", type=Path, help="a program, or a folder of programs")
    _ = parser.add_argument("--write", action="store_true", help="change the files")
    _ = parser.add_argument("--diff", action="store_true", help="show the change also with --write")


def run(arguments: Namespace) -> int:
    """Rewrite, or show what would be rewritten."""
    paths: list[Path] = arguments.paths
    missing = [path for path in paths if not path.exists()]
    if missing:
        _tell(*(f"there is no file or folder {str(path)!r}" for path in missing))
        return 2
    mover = _Mover(shipped(), write=arguments.write, diff=arguments.diff or not arguments.write)
    for path in programs.find(paths):
        mover.move(path)
    _tell(mover.summary())
    return 1 if mover.left else 0


@dataclass(slots=True)
class _Mover:
    """Moves one program after the other, and counts: files that changed, names moved, things left."""

    names: Names
    write: bool
    diff: bool
    files: int = 0
    moved: int = 0
    left: int = 0

    def move(self, path: Path) -> None:
        """Rewrite one program, or say why not."""
        try:
            data = path.read_bytes()
            if not any(word in data for word in _WORDS):
                return
            if path.suffix == ".ipynb":
                self._leave(path, 1, "a notebook stays: export it as a program, or change its imports by hand")
                return
            self._move(programs.decode(path, data))
        except SyntaxError as error:
            python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
            self._leave(path, error.lineno or 1, f"it stays, since {python} cannot read it: {error.msg}")
        except OSError as error:
            self._leave(path, 1, f"it stays: {error.strerror}")

    def _move(self, program: Program) -> None:
        result = rewrite(program.text, self.names)
        if result.text != program.text:
            if self.write:
                programs.write(program, result.text)
            if self.diff:
                _show(program, result.text)
            self.files += 1
        self.moved += result.moved
        for finding in result.findings_after if self.write else result.findings:
            self._say(program.path, finding)

    def _say(self, path: Path, finding: Finding) -> None:
        if finding.stays:
            self._leave(path, finding.line, f"{finding.what} stays. {finding.why}")
        else:
            _tell(f"{path}:{finding.line}: note: {finding.what}. {finding.why}")

    def _leave(self, path: Path, line: int, why: str) -> None:
        self.left += 1
        _tell(f"{path}:{line}: {why}")

    def summary(self) -> str:
        """What was done, in one line."""
        if not self.files and not self.left:
            return "nothing to do: no program imports LangGraph"
        done = "changed" if self.write else "would change (--write does it)"
        return f"{_count(self.files, 'file')} {done}: {_count(self.moved, 'name')} moved, {self.left} left to you"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _show(program: Program, text: str) -> None:
    """Print the change as a diff that `patch -p0` takes."""
    name = str(program.path)
    old, new = (_LINE.findall(part) for part in (program.text, text))
    for line in unified_diff(old, new, name, name):
        _ = sys.stdout.write(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")


def _tell(*lines: str) -> None:
    for line in lines:
        _ = sys.stderr.write(f"{line}\n")
