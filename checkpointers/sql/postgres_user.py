"""What every user of a Postgres database does alike: read its options, and attach to the one `PostgresDatabase`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from typing_extensions import override

from checkpointers.sql.postgres_database import PostgresDatabase, databases
from checkpointers.sql.postgres_target import checked_schema, find_database, place_of
from checkpointers.sql.sharing import User
from durable_graph.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from checkpointers.sql.postgres_database import Connection
    from checkpointers.sql.postgres_target import Place, Target

__all__ = ["MAX_SIZE", "PostgresUser"]

T = TypeVar("T")

MAX_SIZE: Final = 10
"""Sessions that read, at the most, where nobody says how many."""
_LOCK_WAIT: Final = 1.0
"""Seconds for which one attempt waits for a lock. Between two attempts others of this process have their turn."""
_WAITING: Final = "SELECT set_config('lock_timeout', %s, true)"
_WRITING: Final = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
"""Whatever the server's default is: what is read after a lock was granted is what its last holder left."""
_READING: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
"""All that is read is of one state."""
_SWITCH: Final = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}


class PostgresUser(User[PostgresDatabase]):
    """Mixed into a checkpointer, a store or a cache, before its base class."""

    _databases = databases
    _place: Place
    _max_size: int

    def _use(
        self, target: Target, schema: str, timeout: float, max_size: int | None, *, prepare: bool
    ) -> dict[str, str]:
        """Note the database and its options; those of a URL win, and are given back. A pool's size is ours where nobody
        says another.

        Raises:
            InvalidConfigError: the target names no Postgres database, or an option is wrong.
        """
        dsn, options = find_database(target)
        if max_size is not None and not (isinstance(target, str) and "max_size" in options):
            options["max_size"] = str(max_size)
        self._place = place_of(
            dsn, checked_schema(options.get("schema", schema)), prepare=_switch(options.get("prepare", str(prepare)))
        )
        self._patience = _number("timeout", options.get("timeout", str(timeout)), least=0.0)
        self._max_size = int(_number("max_size", options.get("max_size", str(MAX_SIZE)), least=1.0))
        return options

    def _transact(self, work: Callable[[Connection, PostgresDatabase], T], *, reads: bool = False) -> T:
        """The result of `work` in one transaction, which writes or only reads, and is one pipeline.

        `work` may be called several times; only the last call counts. What it raises undoes the transaction.

        Raises:
            StorageError: it failed; the server was away, or a lock was held, for too long.
        """
        database = self._database or self._open()
        wait = f"{max(1, round(min(self._patience, _LOCK_WAIT) * 1000))}ms"

        def attempt(connection: Connection) -> T:
            with connection.pipeline(), connection.transaction():
                _ = connection.execute(_READING if reads else _WRITING)
                _ = connection.execute(_WAITING, (wait,))
                return work(connection, database)

        return (database.read if reads else database.write)(attempt, self._patience)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} on {self._place.where}>"

    @override
    def _attach(self) -> PostgresDatabase:
        return databases.attach(self._place, lambda: PostgresDatabase(self._place, self._max_size))


def _switch(value: str) -> bool:
    if value.lower() not in _SWITCH:
        raise InvalidConfigError(f"prepare={value!r}: it is true or false.", cure="Write prepare=false for a proxy.")
    return _SWITCH[value.lower()]


def _number(name: str, value: str, *, least: float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not least <= number < float("inf"):
        raise InvalidConfigError(f"{name}={value!r}: it is a number, {least:g} or more.")
    return number
