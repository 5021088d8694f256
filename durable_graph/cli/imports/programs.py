"""Programs on disk: found, decoded as Python does it, and written back whole."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Program", "decode", "find", "write"]

_SUFFIXES = frozenset({".ipynb", ".py", ".pyi"})
_NOT_SEARCHED = frozenset({"__pycache__", "build", "dist", "node_modules", "site-packages"})


class Program(NamedTuple):
    """A file's text and how it was encoded."""

    path: Path
    text: str
    encoding: str


def find(paths: Iterable[Path]) -> Iterator[Path]:
    """The files that are named, and all programs and notebooks below the folders that are; each once.

    Hidden folders, virtual environments and what tools have built are left out.
    """
    seen: set[Path] = set()
    for path in paths:
        for found in _below(path) if path.is_dir() else (path,):
            if (real := found.resolve()) not in seen:
                seen.add(real)
                yield found


def _below(top: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in _NOT_SEARCHED and not Path(folder, name, "pyvenv.cfg").exists()
        )
        yield from (Path(folder, name) for name in sorted(files) if Path(name).suffix in _SUFFIXES)


def decode(path: Path, data: bytes) -> Program:
    """A file's bytes as a program, in the encoding that it declares, with its line ends as they are.

    Raises:
        SyntaxError: it declares an encoding that does not exist, or is not written in the one it declares.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    try:
        return Program(path, data.decode(encoding), encoding)
    except UnicodeDecodeError as error:
        raise SyntaxError(str(error)) from error


def write(program: Program, text: str) -> None:
    """Put a new text in the place of a program's: all of it or, when that fails, nothing. Its mode stays.

    Raises:
        OSError: it cannot be written.
    """
    target = program.path.resolve()  # a link stays a link
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            _ = file.write(text.encode(program.encoding))
        shutil.copymode(target, name)
        _ = Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
