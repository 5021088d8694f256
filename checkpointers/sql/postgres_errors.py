"""Turns psycopg's errors into ours: what happened, at which server, and the cure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psycopg
from psycopg_pool import PoolTimeout

from durable_graph.errors import (
    CorruptDataError,
    DatabaseFullError,
    DatabaseLockedError,
    DatabaseUnavailableError,
    InternalError,
    StorageError,
)

if TYPE_CHECKING:
    from durable_graph.errors import DurableGraphError

__all__ = ["away", "explain", "is_lost", "may_pass"]

_LOST: Final = ("08", "57P")
"""Classes of SQLSTATE: connection exceptions; the server was stopped, crashed, or ended this session."""
_MAY_PASS: Final = ("40", "53300", "55P03")
"""Deadlock or serialization failure, too many connections, a lock that was not to be had."""
_CHECK_DSN: Final = "Check user, password and database name in the DSN."
_KINDS: Final[tuple[tuple[tuple[str, ...], type[StorageError], str, str | None], ...]] = (
    (
        ("42501",),
        DatabaseUnavailableError,
        "{where}: this user lacks a right: {text}.",
        "Let the owner run CREATE SCHEMA ... AUTHORIZATION <this user>, or pass schema= with one this user may fill.",
    ),
    (("28", "3D000"), DatabaseUnavailableError, "{where} refused the connection: {text}.", _CHECK_DSN),
    (
        ("53100", "53200", "53400"),
        DatabaseFullError,
        "{where}: {text}. Nothing of this transaction was stored.",
        None,
    ),
    (
        ("42P01", "42703", "42804", "42883", "3F000", "42P10"),
        CorruptDataError,
        "{where} does not hold what durable_graph keeps there: {text}.",
        "Restore the schema from a backup, or pass another schema=.",
    ),
    (
        ("57014",),
        DatabaseLockedError,
        "{where}: a statement was ended by statement_timeout: {text}.",
        "Raise statement_timeout, or end the session that holds the lock; then resume the run.",
    ),
    (_MAY_PASS, DatabaseLockedError, "{where}: {text}.", "Other sessions are in the way; then resume the run."),
    (("25006",), DatabaseUnavailableError, "{where} is read-only: {text}.", "Point the DSN to the primary server."),
    (
        ("54",),
        StorageError,
        "{where}: a value is larger than Postgres allows: {text}.",
        "Keep large values outside of the state (a file, an object store) and only their names in it.",
    ),
)
"""What a SQLSTATE means to us: how it begins, our error, its text, and the cure where it is not the class's."""


def _state(error: BaseException) -> str:
    return getattr(error, "sqlstate", None) or ""


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, or none was to be had: another one may do."""
    if isinstance(error, PoolTimeout):
        return True
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    state = _state(error)
    if not state:  # it says nothing where the server could not be asked; libpq passes on what a refusal says as text
        return "FATAL:" not in str(error) or any(word in str(error) for word in _PASSING_REFUSALS)
    return state.startswith(_LOST)


_PASSING_REFUSALS: Final = ("starting up", "shutting down", "recovery mode", "too many clients", "too many connections")


def may_pass(error: BaseException) -> bool:
    """Whether the same statement may succeed a moment later."""
    return isinstance(error, psycopg.Error) and _state(error).startswith(_MAY_PASS)


def away(where: str, error: BaseException, seconds: float) -> DatabaseUnavailableError:
    """The error when no connection was to be had for `seconds`."""
    waited = f" for {seconds:g} s" if seconds else ""
    return DatabaseUnavailableError(
        f"{where} was not to be reached{waited}: {_text(error)}.",
        cure="Check host, port and network, and that the server runs; a run goes on from its last durable step.",
    )


def explain(error: BaseException, where: str) -> BaseException:
    """Our error for one of psycopg's; any other error comes back as it is."""
    if not isinstance(error, psycopg.Error):
        return error
    return _explained(error, where)


def _explained(error: psycopg.Error, where: str) -> DurableGraphError:
    state, text = _state(error), _text(error)
    for prefixes, kind, what, cure in _KINDS if state else ():
        if state.startswith(prefixes):
            return kind(what.format(where=where, text=text), cure=cure)
    if is_lost(error):
        return away(where, error, 0)
    if "FATAL:" in text:
        return DatabaseUnavailableError(f"{where} refused the connection: {text}.", cure=_CHECK_DSN)
    return InternalError(f"{where}: {text} (SQLSTATE {state or 'none'}).")


def _text(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__
