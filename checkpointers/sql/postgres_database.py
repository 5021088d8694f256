"""One schema of a Postgres database as this process sees it: ONE connection that writes, and a pool that reads.

All writes of a process come one after the other through the committer, which sends what waits in one pipeline; more
connections would only wait for each other's locks. Reads come from any OS thread and have the pool.

A connection that is gone is replaced and the work done again: every statement of ours may be sent twice. How long we
go on trying is the caller's patience, but a server that never answered this process is an error at once.
"""

from __future__ import annotations

import random
import threading
import time
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg.types.numeric import Int8BinaryDumper
from psycopg_pool import ConnectionPool, PoolTimeout

from checkpointers.forking import survive_forks
from checkpointers.sql import migrate
from checkpointers.sql import postgres_statements as sql
from checkpointers.sql.postgres_errors import away, explain, is_lost, may_pass
from checkpointers.sql.sharing import Databases

if TYPE_CHECKING:
    from collections.abc import Callable

    from checkpointers.sql.postgres_target import Place

__all__ = ["Connection", "PostgresDatabase", "databases"]

T = TypeVar("T")
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

_PAUSE: Final = 0.25
"""Longest pause between two attempts, in seconds."""
_WAIT: Final = 1.0
"""Seconds for which the pool is asked for a session before we look again whether our patience has ended."""
_PREPARE_AFTER: Final = 3
"""A statement that comes for the so-manieth time in a session is prepared."""


class PostgresDatabase:
    """The connections of this process to one schema.

    users: how many savers, stores and caches hold it; the connections are closed when the last one lets go.
    """

    def __init__(self, place: Place, max_size: int) -> None:
        self.key = place
        self.where = place.where
        self.users = 0
        self._max_size = max_size
        self._lock = threading.RLock()  # guards the connection that writes, and making ready
        self._writer: Connection | None = None
        self._readers: ConnectionPool[Connection] | None = None
        self._reached = False
        self._ready = False
        self._resting = False
        self._orphans: list[object] = []  # what a fork found open is the parent's; kept so that nothing closes it
        survive_forks(self)

    @lru_cache(maxsize=512)  # noqa: B019 - there is one object per schema and process
    def text(self, statement: str) -> bytes:
        """A statement for the tables of this schema."""
        return sql.in_schema(statement, self.key.schema)

    # --- work ------------------------------------------------------------------------------------------------------

    def write(self, work: Callable[[Connection], T], patience: float) -> T:
        """The result of `work`, which gets the connection that writes, in autocommit.

        `work` may be called several times, also after it succeeded and the answer was lost; only the last call counts.
        `patience` is in seconds.

        Raises:
            StorageError: it failed, or the server was away for too long.
        """

        def attempt() -> T:
            with self._lock:
                writer = self._writer or self._open_writer()
                try:
                    return work(writer)
                except BaseException as error:
                    # Whoever was struck (Ctrl-C) may have left half a pipeline.
                    if not isinstance(error, Exception) or not _is_sound(writer):
                        self._close_writer()
                    raise

        return self._patiently(attempt, patience)

    def read(self, work: Callable[[Connection], T], patience: float) -> T:
        """The result of `work`, which gets a connection of its own, in autocommit. *Raises* as `write`."""

        def attempt() -> T:
            pool = self._readers or self._open_readers()
            reader = pool.getconn(timeout=_WAIT)
            try:
                return work(reader)
            except BaseException as error:
                if not isinstance(error, Exception) or not _is_sound(reader):
                    reader.close()
                raise
            finally:
                pool.putconn(reader)

        return self._patiently(attempt, patience)

    def prepare(self, patience: float) -> None:
        """Create or upgrade our tables, unless they are known to be there.

        Raises:
            StorageError: the database cannot be used.
        """

        def attempt() -> None:
            with self._lock:
                if self._writer is None:
                    self._open_writer()

        if not self._ready:
            self._patiently(attempt, patience)

    def close(self) -> None:
        """Close all connections that nobody uses right now; the next use opens new ones."""
        with self._lock:
            self._close_writer()
            readers, self._readers = self._readers, None
        if readers is not None:
            readers.close()

    def _patiently(self, attempt: Callable[[], T], patience: float) -> T:
        started: float | None = None
        pause = 0.0
        while True:
            try:
                return attempt()
            except (psycopg.Error, PoolTimeout) as error:
                lost = is_lost(error)
                if not lost and not may_pass(error):
                    raise explain(error, self.where) from error
                now = time.monotonic()
                started = now if started is None else started
                if lost and not self._reached:
                    raise away(self.where, error, 0) from error
                if now - started >= patience:
                    raise (away(self.where, error, patience) if lost else explain(error, self.where)) from error
            time.sleep(random.random() * pause)  # noqa: S311 - a pause guards no secret
            pause = min(_PAUSE, pause * 2 + 0.005)

    # --- connections -----------------------------------------------------------------------------------------------

    def _keywords(self) -> dict[str, Any]:
        return {"autocommit": True, "prepare_threshold": _PREPARE_AFTER if self.key.prepare else None}

    def _open_writer(self) -> Connection:
        writer = psycopg.connect(self.key.dsn, **self._keywords())
        self._reached = True
        try:
            _configure(writer)
            if not self._ready:
                self._make_ready(writer)
        except BaseException:
            writer.close()
            raise
        self._writer, self._ready = writer, True
        return writer

    def _close_writer(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with suppress(psycopg.Error):
                writer.close()

    def _open_readers(self) -> ConnectionPool[Connection]:
        """The pool. It tries to connect once for each who asks: how long is the affair of our patience."""
        with self._lock:
            if not self._ready:
                self._open_writer()
            if self._readers is None:
                self._readers = ConnectionPool(
                    self.key.dsn,
                    kwargs=self._keywords(),
                    min_size=0,
                    max_size=self._max_size,
                    max_idle=60.0,
                    reconnect_timeout=0.0,
                    num_workers=1,
                    configure=_configure,
                    name="durable_graph",
                    open=True,
                )
            return self._readers

    # --- tables ----------------------------------------------------------------------------------------------------

    def _make_ready(self, writer: Connection) -> None:
        state = self._inspect(writer)
        if state == "fresh":
            with writer.transaction():
                _ = writer.execute(sql.LOCK_SETUP, (self.key.schema,))
                state = self._inspect(writer)  # again, now that nobody else makes them
                if state == "fresh":
                    self._create(writer)
                    state = "ready"
        if state == "older":
            self._upgrade()

    def _inspect(self, connection: Connection) -> migrate.State:
        columns = connection.execute(sql.COLUMNS, (self.key.schema, list(migrate.TABLES)))
        return migrate.judged(columns, lambda: connection.execute(self.text(sql.REVISION), ()), self.where)

    def _create(self, connection: Connection) -> None:
        known = connection.execute(sql.FIND_SCHEMA, (self.key.schema,))
        if known.fetchone() is None:  # IF NOT EXISTS would ask for the right to make one, though it is there
            _ = connection.execute(b"CREATE SCHEMA " + self.text("@").removesuffix(b"."), ())
        for statement in sql.CREATE:
            _ = connection.execute(self.text(statement), ())
        _ = connection.execute(self.text(sql.STAMP), (migrate.HEAD,))

    def _upgrade(self) -> None:
        """On a connection of its own, which SQLAlchemy may configure as it likes."""
        schema = self.key.schema
        with psycopg.connect(self.key.dsn) as connection:

            def lock() -> None:
                _ = connection.execute(sql.LOCK_SETUP, (schema,))
                _ = connection.execute(sql.SEARCH_HERE, (schema,))

            try:
                migrate.run_revisions("postgresql+psycopg://", connection, lock, self.where, schema=schema)
            except psycopg.Error as error:
                raise explain(error, self.where) from error

    # --- forks -----------------------------------------------------------------------------------------------------

    def before_fork(self, deadline: float) -> None:
        """Hold still while the process forks."""
        self._resting = self._lock.acquire(timeout=max(0.0, deadline - time.monotonic()))

    def after_fork(self, *, child: bool) -> None:
        """Go on. Sessions belong to the parent: the child opens its own, and never touches or closes these."""
        resting, self._resting = self._resting, False
        if child:
            self._orphans += [self._writer, self._readers, self._lock]
            self._writer = self._readers = None
            self._lock = threading.RLock()
        elif resting:
            self._lock.release()


def _is_sound(connection: Connection) -> bool:
    """Whether the connection can be used again: it lives, and no transaction is open."""
    return (
        not connection.closed
        and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        and connection.info.pipeline_status == psycopg.pq.PipelineStatus.OFF
    )


def _configure(connection: psycopg.Connection[Any]) -> None:
    # One width for all numbers: else each mixture of small and large ones is another statement to prepare.
    connection.adapters.register_dumper(int, Int8BinaryDumper)


databases: Final[Databases[PostgresDatabase]] = Databases()
