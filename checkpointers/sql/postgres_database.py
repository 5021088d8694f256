"""One schema of a Postgres database as this process sees it: ONE session that writes, and a few that read.

All writes of a process come one after the other through the committer, which sends what waits in one pipeline; more
sessions would only wait for each other's locks. Reads come from any OS thread, each with a session for itself.

A session that is gone is replaced and the work done again: every statement of ours may be sent twice. How long we go on
trying is the caller's patience, but a server that never answered this process is an error at once.

The sessions that read are kept here and not in a psycopg_pool: that tells a caller only that it had to wait, not why no
session was to be had, hands out the dead ones after a restart, and leaves OS threads and sockets behind in a fork.
"""

from __future__ import annotations

import math
import os
import random
import threading
import time
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from checkpointers.forking import survive_forks
from checkpointers.sql import migrate
from checkpointers.sql import postgres_statements as sql
from checkpointers.sql.postgres_driver import Int8BinaryDumper, conninfo, psycopg
from checkpointers.sql.postgres_errors import away, comes_back, explain, is_lost, may_pass
from checkpointers.sql.sharing import Databases
from durable_graph.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Callable

    from checkpointers.sql.postgres_target import Place

__all__ = ["Connection", "PostgresDatabase", "databases"]

T = TypeVar("T")
Connection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"

_PAUSE: Final = 0.25
"""Longest pause between two attempts, in seconds."""
_IDLE: Final = 60.0
"""Seconds for which a session that reads is kept without being used, at least."""
_TURN: Final = 0.002
"""Pause of a read that waits because all sessions are taken, in seconds."""
_CONNECT: Final = 10.0
"""Seconds for which a host may leave an attempt to connect unanswered."""
_NETWORK: Final = {
    "connect_timeout": 0,  # reckoned for each attempt
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}
"""How a machine that went away without a word is noticed; by themselves a system waits for a quarter of an hour. What
the DSN says goes first."""
_PREPARE_AFTER: Final = 3
"""A statement that comes for the so-manieth time in a session is prepared."""


class PostgresDatabase:
    """The sessions of this process in one schema.

    users: how many savers, stores and caches hold it; the sessions are closed when the last one lets go.
    """

    def __init__(self, place: Place, max_size: int) -> None:
        self.key = place
        self.where = place.where
        self.users = 0
        self._max_size = max_size
        said = {
            *conninfo.conninfo_to_dict(place.dsn),
            *(("connect_timeout",) if "PGCONNECT_TIMEOUT" in os.environ else ()),
        }
        self._network: dict[str, Any] = {name: value for name, value in _NETWORK.items() if name not in said}
        self._lock = threading.RLock()  # guards the session that writes, and making ready
        self._writer: Connection | None = None
        self._idle: list[tuple[float, Connection]] = []  # sessions between two reads, and since when; the newest last
        self._reading: list[_Turn] = []
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
        """The result of `work`, which gets the session that writes, in autocommit.

        `work` may be called several times, also after it succeeded and the answer was lost; only the last call counts.
        `patience` is in seconds.

        Raises:
            StorageError: it failed, or the server was away for too long.
        """

        def attempt() -> T:
            with self._lock:
                writer = self._writer
                if writer is None or not _is_sound(writer):  # two interrupts in a row can leave it in the middle
                    writer = self._open_writer(patience)
                try:
                    return work(writer)
                except BaseException as error:
                    # Whoever was struck (Ctrl-C) may have left half a pipeline.
                    if not isinstance(error, Exception) or not _is_sound(writer):
                        self._close_writer()
                    raise

        return self._patiently(attempt, patience)

    def read(self, work: Callable[[Connection], T], patience: float) -> T:
        """The result of `work`, which gets a session of its own, in autocommit. *Raises* as `write`."""

        def attempt() -> T:
            turn = _Turn()
            try:
                self._reading.append(turn)  # one operation each, so no lock that an interrupt could leave locked
                while self._reading.index(turn) >= self._max_size:
                    time.sleep(_TURN)
                turn.reader = reader = self._idle_reader() or self._open_reader(patience)
                result = work(reader)
                self._keep(turn)
            except BaseException as error:
                if isinstance(error, Exception) and turn.reader is not None and _is_sound(turn.reader):
                    self._keep(turn)
                if is_lost(error):
                    self._close_idle()  # they are gone too
                raise
            else:
                return result
            finally:
                _close(turn.reader)
                with suppress(ValueError):
                    self._reading.remove(turn)

        return self._patiently(attempt, patience)

    def prepare(self, patience: float) -> None:
        """Create or upgrade our tables, unless they are known to be there.

        Raises:
            StorageError: the database cannot be used.
        """

        def attempt() -> None:
            with self._lock:
                if not self._ready:
                    _ = self._open_writer(patience)

        if not self._ready:
            self._patiently(attempt, patience)

    def close(self) -> None:
        """Close all sessions that nobody uses right now; the next use opens new ones."""
        with self._lock:
            self._close_writer()
        self._close_idle()

    def _patiently(self, attempt: Callable[[], T], patience: float) -> T:
        began = time.monotonic()
        started: float | None = None
        pause = 0.0
        while True:
            try:
                return attempt()
            except psycopg.Error as error:
                lost = is_lost(error)
                if not lost and not may_pass(error):
                    raise explain(error, self.where) from error
                now = time.monotonic()
                if lost and not self._reached and not comes_back(error):
                    raise explain(error, self.where) from error
                # A session that was lost may have been lost long ago: one new one is tried without any patience.
                again = lost and started is None and self._reached
                if started is None:
                    started = now if lost else began
                if now - started >= patience and not again:
                    raise (away(self.where, error, patience) if lost else explain(error, self.where)) from error
            time.sleep(random.random() * pause)  # noqa: S311 - a pause guards no secret
            pause = min(_PAUSE, pause * 2 + 0.005)

    # --- sessions --------------------------------------------------------------------------------------------------

    def session(self) -> Connection:
        """A new session in autocommit, for a use of its own: who asked closes it. *Raises* psycopg's errors too."""
        return self._open_reader(_CONNECT)

    def _connect(self, patience: float) -> Connection:
        network = dict(self._network)
        if "connect_timeout" in network:
            network["connect_timeout"] = max(2, math.ceil(min(_CONNECT, patience)))
        connection = psycopg.connect(
            self.key.dsn,
            autocommit=True,
            prepare_threshold=_PREPARE_AFTER if self.key.prepare else None,
            client_encoding="utf8",  # that of our texts
            **network,
        )
        self._reached = True
        try:
            # One width for all numbers: else each mixture of small and large ones is another statement to prepare.
            connection.adapters.register_dumper(int, Int8BinaryDumper)
            # A takeover looks after it has locked; where a role's default is another one, it would look at the past.
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            if self.key.prepare:  # else the session is the proxy's, and others would find it so
                _ = connection.execute(sql.SETTLE, ())
        except BaseException:
            _close(connection)
            raise
        return connection

    def _open_writer(self, patience: float) -> Connection:
        self._close_writer()
        writer = self._connect(patience)
        try:
            if not self._ready:
                self._make_ready(writer, patience)
        except BaseException:
            _close(writer)
            raise
        self._writer, self._ready = writer, True
        return writer

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        _close(writer)

    def _open_reader(self, patience: float) -> Connection:
        if not self._ready:
            with self._lock:
                if not self._ready:
                    _ = self._open_writer(patience)
        return self._connect(patience)

    def _idle_reader(self) -> Connection | None:
        try:
            return self._idle.pop()[1]
        except IndexError:
            return None

    def _keep(self, turn: _Turn) -> None:
        """Keep its session for the next read, and close those that no read needed for a while."""
        if not self.users or turn.reader is None:
            return
        now = time.monotonic()
        self._idle.append((now, turn.reader))
        turn.reader = None
        while self._idle and self._idle[0][0] < now - _IDLE:
            with suppress(IndexError):
                _close(self._idle.pop(0)[1])

    def _close_idle(self) -> None:
        while (reader := self._idle_reader()) is not None:
            _close(reader)

    # --- tables ----------------------------------------------------------------------------------------------------

    def _make_ready(self, writer: Connection, patience: float) -> None:
        try:
            state = self._inspect(writer)
        except (
            CorruptDataError
        ):  # so it looks, too, while somebody upgrades it: columns from before, revision from after
            state = "fresh"
        if state == "fresh":
            with writer.transaction():
                _ = writer.execute(sql.LOCK_SETUP, (self.key.schema,))
                state = self._inspect(writer)  # again, now that nobody else makes them
                if state == "fresh":
                    self._create(writer)
                    state = "ready"
        if state == "older":
            self._upgrade(patience)

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

    def _upgrade(self, patience: float) -> None:
        """In a session of its own, which SQLAlchemy may configure as it likes."""
        schema = self.key.schema
        with self._connect(patience) as connection:
            connection.autocommit = False

            def lock() -> None:
                _ = connection.execute(sql.LOCK_SETUP, (schema,))
                _ = connection.execute(sql.SEARCH_HERE, (schema,))

            migrate.run_revisions("postgresql+psycopg://", connection, lock, self.where, schema=schema)

    # --- forks -----------------------------------------------------------------------------------------------------

    def before_fork(self, deadline: float) -> None:
        """Hold still while the process forks."""
        self._resting = self._lock.acquire(timeout=max(0.0, deadline - time.monotonic()))

    def after_fork(self, *, child: bool) -> None:
        """Go on. Sessions belong to the parent: the child opens its own and closes its ends of these without a word, so
        that a parent that dies has ended them.
        """
        resting, self._resting = self._resting, False
        if child:
            readers = [reader for _, reader in self._idle] + [turn.reader for turn in self._reading]
            for session in (self._writer, *readers):
                _forsake(session)
            self._orphans += [self._writer, *readers, self._lock]
            self._writer, self._idle, self._reading = None, [], []
            self._lock = threading.RLock()
        elif resting:
            self._lock.release()


class _Turn:
    """One read: its place in line, and the session it has."""

    reader: Connection | None = None


def _is_sound(connection: Connection) -> bool:
    """Whether the session can be used again: it lives, and no transaction is open."""
    wire = connection.pgconn
    return (
        wire.transaction_status == psycopg.pq.TransactionStatus.IDLE
        and wire.pipeline_status == psycopg.pq.PipelineStatus.OFF
    )


def _close(connection: Connection | None) -> None:
    if connection is not None:
        with suppress(psycopg.Error):
            connection.close()


def _forsake(connection: Connection | None) -> None:
    """Put nothing in the place of its socket: the number stays taken, and the server hears nothing."""
    if connection is not None:
        with suppress(psycopg.Error, OSError):
            nothing = os.open(os.devnull, os.O_RDWR)
            _ = os.dup2(nothing, connection.fileno())
            os.close(nothing)


databases: Final[Databases[PostgresDatabase]] = Databases()
