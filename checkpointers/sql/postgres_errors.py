"""Turns psycopg's errors into ours: what happened, at which server, and the cure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from checkpointers.sql.postgres_driver import psycopg
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

__all__ = ["away", "comes_back", "explain", "is_lost", "may_pass"]

_LOST: Final = ("08", "57P", "25P03", "25P04")
"""What SQLSTATEs begin with: connection exceptions; the server was stopped, crashed, or ended this session."""
_MAY_PASS: Final = ("40", "53300", "55P03", "42P06", "23505")
"""Deadlock or serialization failure, too many connections, a lock that was not to be had; somebody else made the schema
at the same moment (ours is the only statement that minds)."""
_CROWDED: Final = "Raise max_connections, lower max_size=, or put a pooler in between; then resume the run."
_CHECK_DSN: Final = "Check user, password and database name in the DSN."
_KINDS: Final[tuple[tuple[tuple[str, ...], type[StorageError], str, str | None], ...]] = (
    (
        ("42501",),
        DatabaseUnavailableError,
        "{where}: this user lacks a right: {text}.",
        "Let the owner grant it, or run CREATE SCHEMA ... AUTHORIZATION <this user>, or pass another schema=.",
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
        ("42P07", "42710"),
        CorruptDataError,
        "{where} has something in it that carries one of our names and was not made by durable_graph: {text}.",
        "Rename it, or pass another schema=.",
    ),
    (
        ("26000", "42P05"),
        DatabaseUnavailableError,
        "{where}: a proxy hands our statements to sessions that did not prepare them: {text}.",
        "Pass prepare=False, or ?prepare=false in the URL.",
    ),
    (
        ("57014",),
        DatabaseLockedError,
        "{where}: the server ended a statement (statement_timeout, or somebody cancelled it): {text}.",
        "Raise statement_timeout, or end the session that holds the lock; then resume the run.",
    ),
    (("53300",), DatabaseUnavailableError, "{where}: {text}.", _CROWDED),
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


_LASTING_REFUSALS: Final = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "does not exist",
    "is not permitted to log in",
    "permission denied",
)
"""libpq passes on a refusal as text, without its SQLSTATE. Any other may pass: a server that starts, stops, crashes or
is crowded finds many words, a proxy finds others."""
_CROWDED_REFUSALS: Final = ("too many c", "connection slots", "max_client_conn")
_PASSING_REFUSALS: Final = (*_CROWDED_REFUSALS, "starting up", "shutting down", "recovery mode", "not yet accepting")


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, or none was to be had: another one may do."""
    if state := _state(error):
        return state.startswith(_LOST)
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) and not _says(error, _LASTING_REFUSALS)


def comes_back(error: BaseException) -> bool:
    """Whether there certainly is a server, which will let us in later."""
    return _says(error, _PASSING_REFUSALS)


def _says(error: BaseException, words: tuple[str, ...]) -> bool:
    return any(word in str(error) for word in words)


def may_pass(error: BaseException) -> bool:
    """Whether the same statement may succeed a moment later."""
    return isinstance(error, psycopg.Error) and _state(error).startswith(_MAY_PASS)


def away(where: str, error: BaseException, seconds: float) -> DatabaseUnavailableError:
    """The error when no connection was to be had for `seconds`."""
    waited = f" for {seconds:g} s" if seconds else ""
    if _says(error, _CROWDED_REFUSALS):
        return DatabaseUnavailableError(f"{where} had no room{waited}: {_text(error)}.", cure=_CROWDED)
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
    if not state and _says(error, ("FATAL:", *_LASTING_REFUSALS)):
        return DatabaseUnavailableError(f"{where} refused the connection: {text}.", cure=_CHECK_DSN)
    if is_lost(error):
        return away(where, error, 0)
    return InternalError(f"{where}: {text} (SQLSTATE {state or 'none'}).")


def _text(error: BaseException) -> str:
    said = (error.diag.message_primary if isinstance(error, psycopg.Error) else None) or str(error)
    return " ".join(said.split()).rstrip(".") or type(error).__name__
