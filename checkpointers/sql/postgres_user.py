"""What every user of a Postgres database does alike: read its options, and attach to the one `PostgresDatabase`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from typing_extensions import override

from checkpointers.sql.postgres_database import PostgresDatabase, databases
from checkpointers.sql.postgres_target import checked_schema, find_database, place_of
from checkpointers.sql.sharing import User
from durable_graph.errors import InvalidConfigError

if TYPE_CHECKING:
    from checkpointers.sql.postgres_target import Place, Target

__all__ = ["MAX_SIZE", "PostgresUser"]

MAX_SIZE: Final = 10
"""Sessions that read, at the most, where nobody says how many."""
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
        if max_size is not None:
            _ = options.setdefault("max_size", str(max_size))
        self._place = place_of(
            dsn, checked_schema(options.get("schema", schema)), prepare=_switch(options.get("prepare", str(prepare)))
        )
        self._patience = _number("timeout", options.get("timeout", str(timeout)), least=0.0)
        self._max_size = int(_number("max_size", options.get("max_size", str(MAX_SIZE)), least=1.0))
        return options

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
