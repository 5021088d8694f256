"""Makes a SQLite database ready: finds out what it is, creates our tables, or upgrades older ones.

A normal run only looks (two statements) and imports neither SQLAlchemy nor alembic. Revision ids are zero-padded
numbers, so their order is the order of their text.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from checkpointers.sql.statements import CREATE, TABLES
from durable_graph.errors import CorruptDataError, DatabaseUnavailableError, NewerDatabaseError

if TYPE_CHECKING:
    import sqlite3

__all__ = ["HEAD", "State", "create", "inspect", "revisions", "upgrade"]

HEAD: Final = "0002"
"""The newest revision; a test holds it against `migrations/`."""

State: TypeAlias = Literal["fresh", "older", "ready"]

_VERSION_TABLE: Final = "durable_graph_version"

_REVISION: Final = "SELECT version_num FROM durable_graph_version"
_STAMP: Final = "INSERT INTO durable_graph_version (version_num) VALUES (?)"
_COLUMNS: Final = f"""\
SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c
WHERE m.name IN ({", ".join(f"'{table}'" for table in TABLES)})"""  # noqa: S608 - names of our own


def inspect(connection: sqlite3.Connection, file: str) -> State:
    """What the database is to us. Reads only.

    Returns:
        "fresh": none of our tables (other people's may be there). "older": to be upgraded. "ready": use it.

    Raises:
        NewerDatabaseError: a later version of this library made it.
        CorruptDataError: tables have our names and another shape.
    """
    found: dict[str, set[str]] = {}
    for table, column in connection.execute(_COLUMNS):
        found.setdefault(table, set()).add(column)
    if not found:
        return "fresh"
    if _VERSION_TABLE not in found:
        raise _foreign(file, sorted(found))
    revision = _revision(connection, file)
    if revision > HEAD:
        raise NewerDatabaseError(f"{file} has schema {revision}; this version of durable_graph knows up to {HEAD}.")
    if revision < HEAD:
        return "older"
    other_shape = sorted(table for table, columns in TABLES.items() if not columns <= found.get(table, set()))
    if other_shape:
        raise _foreign(file, other_shape)
    return "ready"


def create(connection: sqlite3.Connection) -> None:
    """Create our tables, inside the caller's transaction."""
    for statement in CREATE:
        connection.execute(statement)
    connection.execute(_STAMP, (HEAD,))


def upgrade(connection: sqlite3.Connection, file: str) -> None:
    """Run the revisions that are missing, in one transaction of their own.

    Raises:
        CorruptDataError: the stored revision is none of ours.
    """
    from alembic import command
    from alembic.config import Config
    from alembic.util.exc import CommandError
    from sqlalchemy import StaticPool, create_engine
    from sqlalchemy.exc import DBAPIError

    config = Config()
    config.set_main_option("script_location", revisions().replace("%", "%%"))
    # SQLAlchemy borrows the connection that holds the lock; a pool of its own would wait for us for ever.
    engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)
    with engine.connect() as borrowed, borrowed.begin():
        # Only now: SQLAlchemy's first connect rolls back. Whoever waited here finds the work done and does nothing.
        connection.execute("BEGIN IMMEDIATE")
        config.attributes["connection"] = borrowed
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise CorruptDataError(f"{file} cannot be upgraded: {error}.") from error
        except DBAPIError as error:
            raise (error.orig or error) from error


def revisions() -> str:
    """The folder with our alembic environment, inside the installed package.

    Looked up as part of `checkpointers`, so that a folder `migrations` of the user's own is never taken for ours.

    Raises:
        DatabaseUnavailableError: the package was put on the path without being installed.
    """
    try:
        environment = files("checkpointers._migrations").joinpath("env.py")
    except ModuleNotFoundError as error:
        raise DatabaseUnavailableError(
            "The database is older than this version of durable_graph and its migrations are not installed.",
            cure="Install the package (pip install durable-graph, or pip install -e . in a checkout).",
        ) from error
    return str(environment).removesuffix("env.py").rstrip("/\\")


def _revision(connection: sqlite3.Connection, file: str) -> str:
    versions = [str(version) for (version,) in connection.execute(_REVISION)]
    if len(versions) != 1:
        raise CorruptDataError(f"{file}: table {_VERSION_TABLE} holds {len(versions)} versions instead of one.")
    return versions[0]


def _foreign(file: str, tables: list[str]) -> CorruptDataError:
    names = ", ".join(repr(table) for table in tables)
    return CorruptDataError(
        f"{file} has tables that carry our names and were not made by durable_graph as it is: {names}.",
        cure="Point to another file, or rename these tables.",
    )
