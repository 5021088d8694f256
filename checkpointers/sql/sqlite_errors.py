# ruff: noqa: PTH112, PTH120 - os.path answers where Path would raise PermissionError
"""Turns SQLite's errors into ours: what happened, to which file, and the cure."""

from __future__ import annotations

import os
import sqlite3
from typing import Final

from durable_graph.errors import (
    CorruptDataError,
    DatabaseFullError,
    DatabaseLockedError,
    DatabaseUnavailableError,
    InternalError,
    StorageError,
)

__all__ = ["explain", "is_busy", "locked", "spoils_connection"]

_BUSY: Final = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_FULL: Final = frozenset({sqlite3.SQLITE_FULL})
_CORRUPT: Final = frozenset(
    {
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_ERROR,  # a table or column is not there
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_SCHEMA,
    }
)
_UNAVAILABLE: Final = frozenset(
    {
        sqlite3.SQLITE_AUTH,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOLFS,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)
_NO_ROOM_BYTES: Final = 64 * 1024
"""Less than this left on the disk explains a failed write."""


def _code(error: BaseException) -> int | None:
    """SQLite's primary result code, None when the error did not come from SQLite itself."""
    extended = getattr(error, "sqlite_errorcode", None)
    return None if extended is None else extended & 0xFF


def is_busy(error: BaseException) -> bool:
    """Whether another connection was in the way and trying again may help."""
    return isinstance(error, sqlite3.Error) and _code(error) in _BUSY


def spoils_connection(error: BaseException) -> bool:
    """Whether the connection should be closed and opened anew: what it believes of the file may be wrong."""
    return isinstance(error, sqlite3.Error) and _code(error) not in _BUSY | _FULL | {sqlite3.SQLITE_CONSTRAINT}


def locked(file: str, seconds: float) -> DatabaseLockedError:
    """The error after `seconds` of waiting for another connection."""
    return DatabaseLockedError(f"{file} was locked by another connection for {seconds:g} s.")


def explain(error: BaseException, file: str) -> BaseException:
    """Our error for one of SQLite's; any other error comes back as it is."""
    if not isinstance(error, sqlite3.Error):
        return error
    code = _code(error)
    if code in _UNAVAILABLE and not (code == sqlite3.SQLITE_IOERR and _no_room(file)):
        return _unavailable(error, file)
    if code in _FULL or code == sqlite3.SQLITE_IOERR:
        return DatabaseFullError(f"{file}: {error}. Nothing of this transaction was stored.")
    misused = isinstance(error, sqlite3.ProgrammingError | sqlite3.InterfaceError)
    if code in _CORRUPT or (code is None and not misused):
        return CorruptDataError(f"{file} does not hold what durable_graph keeps there: {error}.")
    if code == sqlite3.SQLITE_TOOBIG:
        return StorageError(
            f"{file}: a row is larger than SQLite allows ({error}).",
            cure="Keep large values outside of the state (a file, an object store) and only their names in it.",
        )
    return InternalError(f"{file}: {error} ({getattr(error, 'sqlite_errorname', 'no code')}).")


def _no_room(file: str) -> bool:
    try:
        disk = os.statvfs(os.path.dirname(file))
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _NO_ROOM_BYTES


def _closed_parent(folder: str) -> str:
    """The folder above that hides whether `folder` exists; "" when nothing does."""
    try:
        os.lstat(folder)
    except PermissionError:
        above = os.path.dirname(folder)
        return _closed_parent(above) or above
    except OSError:
        return ""
    return ""


def _unavailable(error: sqlite3.Error, file: str) -> DatabaseUnavailableError:
    """Looks at the file and says what is in the way."""
    folder = os.path.dirname(file)
    closed = _closed_parent(folder)
    if closed:
        return DatabaseUnavailableError(
            f"{file}: this user may not look into {closed} ({error}).",
            cure=f"Give it the right to enter {closed}, or use a file elsewhere.",
        )
    if not os.path.lexists(folder):
        return DatabaseUnavailableError(
            f"{file}: the folder {folder} does not exist ({error}).", cure=f"Create it: mkdir -p {folder}"
        )
    if os.path.isdir(file):
        return DatabaseUnavailableError(f"{file} is a folder ({error}).", cure="Name a file inside it.")
    for place in (folder, file):
        if os.path.lexists(place) and not os.access(place, os.R_OK | os.W_OK):
            return DatabaseUnavailableError(
                f"{file}: this process (uid {os.geteuid()}) may not write {place} ({error}).",
                cure=f"Give it the right to write {place}, or point to another file.",
            )
    return DatabaseUnavailableError(f"{file}: {error} ({error.sqlite_errorname}).")
