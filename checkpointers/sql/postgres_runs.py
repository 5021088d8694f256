"""Queued runs, events and schedules on Postgres: how a transaction keeps others off, and how workers hear of a run."""

from __future__ import annotations

import time
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from checkpointers.sql.postgres_driver import psycopg
from checkpointers.sql.runs import TableRuns
from checkpointers.sql.text import as_bytes
from durable_graph.errors import StorageError
from durable_graph.persistence.run_rows import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from checkpointers.sql.postgres_database import Connection, PostgresDatabase

__all__ = ["PostgresRuns", "listen"]

CLOCK: Final = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
HOLD: Final = "SELECT pg_advisory_xact_lock(%s)"
TELL: Final = "SELECT pg_notify('durable_graph_runs', %s)"
LISTEN: Final = b"LISTEN durable_graph_runs"

_LISTENED: Final = 0.5
"""Seconds for which one look for notifications waits, and for which a lost session is not replaced."""


@cache
def _in_dialect(statement: str) -> str:
    return statement.replace("?", "%s")


class PostgresRuns(TableRuns):
    """The rows as one transaction of the connection sees them."""

    alone = "\nFOR UPDATE OF run SKIP LOCKED"

    def __init__(self, connection: Connection, database: PostgresDatabase) -> None:
        self._connection = connection
        self._database = database

    @override
    def _run(self, statement: str, values: Iterable[Any]) -> Any:
        text = self._database.text(_in_dialect(statement))
        return self._connection.execute(text, tuple(values), binary=True)

    @override
    def clock(self) -> Clock:
        now = self._run(CLOCK, ()).fetchone()[0]
        return Clock(now, now)

    @override
    def hold(self, *names: str) -> None:
        for number in sorted({_number(self._database.key.schema, name) for name in names}):
            _ = self._run(HOLD, (number,))

    @override
    def tell(self) -> None:
        _ = self._run(TELL, (self._database.key.schema,))


def _number(schema: str, name: str) -> int:
    """What stands for a name among all advisory locks of the database."""
    found = blake2b(as_bytes(f"{schema}\0{name}"), digest_size=8, person=b"dg runs")
    return int.from_bytes(found.digest(), "big", signed=True)


def listen(database: PostgresDatabase, heard: Callable[[], object], over: Callable[[], bool]) -> None:
    """Call `heard` for each notification, on a session of its own, until `over()`. A session that is lost is replaced;
    what was told meanwhile is not heard, so `heard` is called once then too.
    """
    while not over():
        try:
            with database.session() as connection:
                _ = connection.execute(LISTEN)
                _ = heard()
                while not over():
                    for note in connection.notifies(timeout=_LISTENED):
                        if note.payload == database.key.schema:
                            _ = heard()
        except (psycopg.Error, StorageError):
            time.sleep(_LISTENED)
