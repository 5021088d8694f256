"""Finds the file that a user means: a path, a URL, ":memory:", or a connection they opened."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, cast
from urllib.parse import parse_qsl

from checkpointers.sql.sqlite_database import MEMORY
from durable_graph.errors import InvalidConfigError

if TYPE_CHECKING:
    import aiosqlite

    from checkpointers.sql.sqlite_database import Synchronous

    Target: TypeAlias = str | os.PathLike[str] | sqlite3.Connection | aiosqlite.Connection

__all__ = ["OPTIONS", "checked_synchronous", "checked_timeout", "find_file"]

OPTIONS: Final = ("synchronous", "busy_timeout", "lease")
_EXAMPLES: Final = 'Write "runs.db", "sqlite:///runs.db", "sqlite:////var/lib/app/runs.db" or ":memory:".'
_DATABASES: Final = "PRAGMA database_list"


def find_file(target: Target) -> tuple[str, dict[str, str]]:
    """The file's real, absolute path (or ":memory:"), and the options that a URL brings.

    Of a connection only its file is taken: we open connections of our own, so it does not matter which OS thread
    or event loop opened it, nor when it is closed.

    Raises:
        InvalidConfigError: nothing that names a SQLite database.
    """
    if isinstance(target, sqlite3.Connection):
        return _file_of(target), {}
    aiosqlite = sys.modules.get("aiosqlite")
    if aiosqlite is not None and isinstance(target, aiosqlite.Connection):
        return _file_of_async(cast("aiosqlite.Connection", target)), {}
    if isinstance(target, str):
        path, options = _from_text(target)
        return (MEMORY if path == MEMORY else os.path.realpath(path)), options
    try:
        return os.path.realpath(_checked(os.fsdecode(cast("os.PathLike[str]", target)), repr(target))), {}
    except TypeError:
        raise InvalidConfigError(
            f"A SQLite database is named by a path, a URL or a connection, not {type(target).__name__}.",
            cure=_EXAMPLES,
        ) from None


def checked_synchronous(value: str) -> Synchronous:
    """The value of that option, from a call or a URL.

    Raises:
        InvalidConfigError: it is neither "FULL" nor "NORMAL".
    """
    if value == "FULL" or value == "NORMAL":  # noqa: PLR1714 - type checkers narrow this form
        return value
    raise InvalidConfigError(f"synchronous={value!r}: it is 'FULL' or 'NORMAL'.")


def checked_timeout(value: float | str) -> float:
    """The busy timeout in seconds, from a call or a URL.

    Raises:
        InvalidConfigError: no number of seconds, 0 or more.
    """
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise InvalidConfigError(
            f"busy_timeout={value!r}: it is a number of seconds, 0 or more.", cure="Pass e.g. 5.0."
        )
    return seconds


def _from_text(text: str) -> tuple[str, dict[str, str]]:
    scheme, colon, rest = text.partition("://")
    if text == MEMORY or not colon:
        if text.startswith(("file:", "sqlite:")):
            _refuse(text, "SQLite's own URIs are not understood here" if text[0] == "f" else "a slash is missing")
        return _checked(text, repr(text)), {}
    if scheme != "sqlite":
        _refuse(text, f"{scheme!r} is not the scheme of a SQLite database")
    rest, _, query = rest.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(set(options) - set(OPTIONS)):
        _refuse(text, f"unknown option {unknown[0]!r}; the options are {', '.join(OPTIONS)}")
    if rest in {"", "/", f"/{MEMORY}"}:
        return MEMORY, options
    if not rest.startswith("/"):
        _refuse(text, f"a relative path takes three slashes: 'sqlite:///{rest}'")
    return _checked(rest[1:], repr(text)), options


def _checked(path: str, shown: str) -> str:
    if not path or "\0" in path:
        _refuse(shown, "the path is empty or holds a NUL")
    return path


def _file_of(connection: sqlite3.Connection) -> str:
    try:
        rows = connection.execute(_DATABASES).fetchall()
    except sqlite3.ProgrammingError as error:  # opened in another OS thread, or closed
        raise InvalidConfigError(
            f"The sqlite3 connection cannot be asked for its file: {error}", cure=_EXAMPLES
        ) from error
    return _main_file(rows)


def _file_of_async(connection: aiosqlite.Connection) -> str:
    answer: list[list[Any]] = []

    async def ask() -> None:
        answer.append(list(await connection.execute_fetchall(_DATABASES)))

    def ask_in_own_loop() -> None:
        with suppress(ValueError):  # not open: no answer
            asyncio.run(ask())

    # aiosqlite answers any event loop; here one may be running already, which this call must not wait for.
    helper = threading.Thread(target=ask_in_own_loop, name="durable_graph-ask-aiosqlite")
    helper.start()
    helper.join()
    if not answer:
        raise InvalidConfigError(
            "The aiosqlite connection is not open.", cure=f"Await it first, or pass the path. {_EXAMPLES}"
        )
    return _main_file(answer[0])


def _main_file(rows: list[Any]) -> str:
    for _, name, file in rows:
        if name == "main" and file:
            return os.path.realpath(file)
    raise InvalidConfigError(
        "The connection's database has no file, and checkpointers open connections of their own.",
        cure='Pass ":memory:" for a database in memory, or the path of a file.',
    )


def _refuse(text: str, why: str) -> NoReturn:
    raise InvalidConfigError(f"{text}: {why}.", cure=_EXAMPLES)
