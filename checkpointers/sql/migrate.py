"""Makes a database ready: finds out what it is, creates our tables, or upgrades older ones.

A normal run only looks (two statements) and imports neither SQLAlchemy nor alembic. Revision ids are zero-padded
numbers, so their order is the order of their text.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from checkpointers.sql.statements import CREATE, TABLES
from durable_graph.errors import CorruptDataError, DatabaseUnavailableError, NewerDatabaseError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

__all__ = ["HEAD", "State", "create", "inspect", "judged", "revisions", "run_revisions", "upgrade"]

HEAD: Final = "0004"
"""The newest revision; a test holds it against `migrations/`."""

State: TypeAlias = Literal["fresh", "older", "ready"]

_VERSION_TABLE: Final = "durable_graph_version"

_REVISION: Final = "SELECT version_num FROM durable_graph_version"
_STAMP: Final = "INSERT INTO durable_graph_version (version_num) VALUES (?)"
_COLUMNS: Final = f"""\
SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c
WHERE m.name IN ({", ".join(f"'{table}'" for table in TABLES)})"""  # noqa: S608 - names of our own


def inspect(connection: sqlite3.Connection, file: str) -> State:
    """What the database is to us. Reads only. *Raises* as `judged`."""
    return judged(connection.execute(_COLUMNS), lambda: connection.execute(_REVISION), file)


def judged(columns: Iterable[Any], revisions: Callable[[], Iterable[Any]], where: str) -> State:
    """What a database is to us.

    columns: (table, column) of all its tables that carry our names.   revisions: reads what the version table holds.

    Returns:
        "fresh": none of our tables (other people's may be there). "older": to be upgraded. "ready": use it.

    Raises:
        NewerDatabaseError: a later version of this library made it.
        CorruptDataError: tables have our names and another shape.
    """
    found: dict[str, set[str]] = {}
    for table, column in columns:
        found.setdefault(table, set()).add(column)
    if not found:
        return "fresh"
    if _VERSION_TABLE not in found:
        raise _foreign(where, sorted(found))
    revision = _revision([str(version) for (version,) in revisions()], where)
    if revision > HEAD:
        raise NewerDatabaseError(f"{where} has schema {revision}; this version of durable_graph knows up to {HEAD}.")
    if revision < HEAD:
        return "older"
    other_shape = sorted(table for table, columns in TABLES.items() if not columns <= found.get(table, set()))
    if other_shape:
        raise _foreign(where, other_shape)
    return "ready"


def create(connection: sqlite3.Connection) -> None:
    """Create our tables, inside the caller's transaction."""
    for statement in CREATE:
        connection.execute(statement)
    connection.execute(_STAMP, (HEAD,))


def upgrade(connection: sqlite3.Connection, file: str) -> None:
    """Run the revisions that are missing, in one transaction of their own. *Raises* as `run_revisions`."""
    run_revisions("sqlite://", connection, lambda: connection.execute("BEGIN IMMEDIATE"), file)


def run_revisions(
    dialect: str, connection: Any, lock: Callable[[], object], where: str, *, schema: str | None = None
) -> None:
    """Run the revisions that are missing, over the driver's own connection and in one transaction.

    lock: begins that transaction, or locks inside it; who waited there finds the work done and does nothing.

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
    engine = create_engine(dialect, creator=lambda: connection, poolclass=StaticPool)
    with engine.connect() as borrowed, borrowed.begin():
        _ = lock()  # only now: SQLAlchemy's first connect rolls back
        config.attributes.update(connection=borrowed, schema=schema)
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise CorruptDataError(f"{where} cannot be upgraded: {error}.") from error
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


def _revision(versions: list[str], where: str) -> str:
    if len(versions) != 1:
        raise CorruptDataError(f"{where}: table {_VERSION_TABLE} holds {len(versions)} versions instead of one.")
    return versions[0]


def _foreign(where: str, tables: list[str]) -> CorruptDataError:
    names = ", ".join(repr(table) for table in tables)
    return CorruptDataError(
        f"{where} has tables that carry our names and were not made by durable_graph as it is: {names}.",
        cure="Point to another database, or rename these tables.",
    )
