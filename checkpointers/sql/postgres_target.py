"""Finds the Postgres database that a user means: a URL, a DSN, a connection or a pool they opened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeAlias, cast
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from durable_graph.errors import InvalidConfigError

try:
    import psycopg
    import psycopg_pool
    from psycopg import conninfo
except ImportError as error:
    _missing = "PostgresSaver, PostgresStore and PostgresCache need psycopg and psycopg_pool"
    raise InvalidConfigError(
        f"{_missing}, which cannot be imported here: {error}.", cure="Run: pip install 'durable-graph[postgres]'"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        except psycopg.OperationalError as error:
            raise InvalidConfigError(f"The psycopg connection is closed: {error}", cure=_EXAMPLES) from error
    if isinstance(target, psycopg_pool.ConnectionPool | psycopg_pool.AsyncConnectionPool):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        said: object = target.conninfo
        keywords: object = target.kwargs
        if not isinstance(said, str) or callable(keywords):
            _refuse("The pool", "where it leads is computed anew for each connection, which we cannot follow")
        return _of_pool(said, cast("Mapping[str, Any]", keywords or {})), {"max_size": str(target.max_size)}
    raise InvalidConfigError(
        f"A Postgres database is named by a URL, a DSN, a connection or a pool, not {type(target).__name__}.",
        cure=_EXAMPLES,
    )


def place_of(dsn: str, schema: str, *, prepare: bool) -> Place:
    """What is shared by all who use this data in this process."""
    known = conninfo.conninfo_to_dict(dsn)
    host = known.get("host") or known.get("hostaddr") or "the local socket"
    where = f"Postgres database {known.get('dbname') or known.get('user') or 'of this user'!s} at {host}"
    if port := known.get("port"):
        where += f":{port}"
    return Place(dsn, schema, prepare, f"{where}, schema {schema}")


def checked_schema(schema: str) -> str:
    """The name of a schema.

    Raises:
        InvalidConfigError: Postgres has no schema of such a name.
    """
    size = len(schema.encode("utf-8", "surrogatepass"))
    if not schema or "\0" in schema or size > _LONGEST or schema.startswith("pg_"):
        raise InvalidConfigError(
            f"schema={schema!r}: a name has 1 to {_LONGEST} bytes, no NUL, and does not begin with 'pg_'.",
            cure=f"Leave it out ({SCHEMA!r} is the default), or name one of your own.",
        )
    return schema


def _from_text(text: str) -> tuple[str, dict[str, str]]:
    scheme, colon, _ = text.partition("://")
    options: dict[str, str] = {}
    if colon:
        if scheme not in {"postgresql", "postgres"}:
            _refuse(repr(text), f"{scheme!r} is not the scheme of a Postgres database")
        parts = urlsplit(text)
        said = parse_qsl(parts.query, keep_blank_values=True)
        options = {name: value for name, value in said if name in OPTIONS}
        theirs = urlencode([(name, value) for name, value in said if name not in OPTIONS])
        text = urlunsplit(parts._replace(query=theirs))
    try:
        known = conninfo.conninfo_to_dict(text)
    except psycopg.ProgrammingError as error:
        reason = " ".join(str(error).split())
        _refuse("The DSN" if "password" in text or "@" in text else repr(text), reason)
    return conninfo.make_conninfo("", **known), options


def _of_pool(said: str, keywords: Mapping[str, Any]) -> str:
    return conninfo.make_conninfo(said, **{name: value for name, value in keywords.items() if name not in _OURS})


def _refuse(what: str, why: str) -> NoReturn:
    raise InvalidConfigError(f"{what}: {why}.", cure=_EXAMPLES)
