"""Finds the Postgres database that a user means: a URL, a DSN, a connection or a pool they opened."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeAlias, cast
from urllib.parse import unquote

from typing_extensions import override

from checkpointers.sql.postgres_driver import conninfo, psycopg
from durable_graph.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg_pool

    Target: TypeAlias = (
        str
        | psycopg.Connection[Any]
        | psycopg.AsyncConnection[Any]
        | psycopg_pool.ConnectionPool[Any]
        | psycopg_pool.AsyncConnectionPool[Any]
    )

__all__ = ["OPTIONS", "SCHEMA", "Place", "checked_schema", "find_database"]

SCHEMA: Final = "durable_graph"
"""The schema that holds our tables where nobody names another one."""
OPTIONS: Final = ("schema", "timeout", "prepare", "max_size", "lease")
"""What a URL may say of us, beside what libpq understands."""

_EXAMPLES: Final = (
    'Write "postgresql://user:password@host:5432/database" or "host=… dbname=…", or pass a psycopg connection or pool.'
)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_PORT: Final = re.compile(r"[0-9,]*")
_UNKNOWN: Final = re.compile(r'invalid URI query parameter: "(\w+)"')
_LONGEST: Final = 63
"""Bytes of an identifier; Postgres cuts longer ones short without a word."""
_OURS: Final = frozenset({"autocommit", "row_factory", "cursor_factory", "prepare_threshold", "context", "conninfo"})
"""What a pool says of its connections that does not concern ours."""


class Place(NamedTuple):
    """A database and the schema in it: what users of the same data share.

    dsn: as libpq takes it, password included.   where: for messages, without one.
    """

    dsn: str
    schema: str
    prepare: bool
    where: str

    @override
    def __repr__(self) -> str:
        """Without the password."""
        return f"<{self.where}>"


def find_database(target: Target) -> tuple[str, dict[str, str]]:
    """The DSN, and the options that are ours: those of a URL, and the size of a pool.

    Of a connection or a pool only where it leads is taken: we open connections of our own, in autocommit, so it does
    not matter in which OS thread or event loop it lives, nor when it is closed.

    Raises:
        InvalidConfigError: nothing that names a Postgres database.
    """
    if isinstance(target, str):
        return _from_text(target)
    if isinstance(target, psycopg.Connection | psycopg.AsyncConnection):
        info = target.info
        try:
            return conninfo.make_conninfo("", **info.get_parameters(), password=info.password or None), {}
        except psycopg.OperationalError:
            _refuse("The psycopg connection", "it is closed")
    pools = sys.modules.get("psycopg_pool")  # whoever has a pool has imported it
    if pools is not None and isinstance(target, pools.ConnectionPool | pools.AsyncConnectionPool):
        said: object = target.conninfo
        keywords: object = target.kwargs
        if not isinstance(said, str) or callable(keywords):
            _refuse("The pool", "where it leads is computed anew for each connection, which we cannot follow")
        size = {"max_size": str(target.max_size)} if target.max_size else {}  # a NullConnectionPool may have no limit
        return _of_pool(said, cast("Mapping[str, Any]", keywords or {})), size
    raise InvalidConfigError(
        f"A Postgres database is named by a URL, a DSN, a connection or a pool, not {type(target).__name__}.",
        cure=_EXAMPLES,
    )


def place_of(dsn: str, schema: str, *, prepare: bool) -> Place:
    """What is shared by all who use this data in this process."""
    known = conninfo.conninfo_to_dict(dsn)
    host = known.get("host") or known.get("hostaddr") or known.get("service") or "the default host"
    where = f"Postgres database {known.get('dbname') or known.get('user') or 'of this user'!s} at {host}"
    if port := known.get("port"):
        where += f":{port}"
    dsn = conninfo.make_conninfo("", **{name: known[name] for name in sorted(known)})  # spelled in one way
    return Place(dsn, schema, prepare, f"{where}, schema {schema}")


def checked_schema(schema: str) -> str:
    """The name of a schema.

    Raises:
        InvalidConfigError: Postgres has no schema of such a name.
    """
    try:
        size = len(schema.encode())
    except (AttributeError, UnicodeEncodeError):  # no text, or a lone surrogate
        size = 0
    if not 0 < size <= _LONGEST or "\0" in schema or schema.startswith("pg_"):
        raise InvalidConfigError(
            f"schema={schema!r}: a name has 1 to {_LONGEST} bytes of UTF-8, no NUL, and does not begin with 'pg_'.",
            cure=f"Leave it out ({SCHEMA!r} is the default), or name one of your own.",
        )
    return schema


def _from_text(text: str) -> tuple[str, dict[str, str]]:
    options: dict[str, str] = {}
    what = "The DSN"
    if (scheme := _SCHEME.match(text)) is not None:
        what = "The URL"
        if scheme[1] not in {"postgresql", "postgres"}:
            _refuse(what, f"{scheme[1]!r} is not the scheme of a Postgres database")
        text, options = _without_options(text)
    if "\0" in text:
        _refuse(what, "it has a NUL in it")
    try:
        known = conninfo.conninfo_to_dict(text)
    except (psycopg.Error, UnicodeError) as error:
        _refuse(what, _reason(str(error)))
    if not _PORT.fullmatch(str(known.get("port", ""))):
        _refuse(what, "its port is no number; in a URL, write special characters of a password as %2F and so on")
    return conninfo.make_conninfo("", **known), options


def _reason(said: str) -> str:
    """What libpq says, without what it cites: that may be a piece of a password."""
    unknown = _UNKNOWN.search(said)
    return f"there is no option {unknown[1]!r}" if unknown else re.sub(r'".*"', '"…"', " ".join(said.split()))


def _without_options(url: str) -> tuple[str, dict[str, str]]:
    """The URL without our options, all else to the letter: libpq's rules are its own ("+" is no space to it)."""
    login = re.match(r"[^/@]*@", url.partition("://")[2])
    start = url.find("?", len(url.partition("://")[0]) + 3 + (login.end() if login else 0))
    if start < 0:
        return url, {}
    said = [part.partition("=") for part in url[start + 1 :].split("&")]
    options = {unquote(name): unquote(value) for name, _, value in said if unquote(name) in OPTIONS}
    theirs = "&".join("".join(part) for part in said if unquote(part[0]) not in OPTIONS)
    return url[:start] + (theirs and f"?{theirs}"), options


def _of_pool(said: str, keywords: Mapping[str, Any]) -> str:
    try:
        return conninfo.make_conninfo(said, **{name: value for name, value in keywords.items() if name not in _OURS})
    except psycopg.Error as error:
        _refuse("The pool", _reason(str(error)))


def _refuse(what: str, why: str) -> NoReturn:
    # From None: libpq's error may cite a piece of a password.
    raise InvalidConfigError(f"{what}: {why}.", cure=_EXAMPLES) from None
