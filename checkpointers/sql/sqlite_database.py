"""One SQLite file as this process sees it: ONE write connection behind a lock, and reads beside it.

All savers over one file share the object: two write connections of one process would only wait for each other
(3 s at worst against 20 ms, measured). Reads have connections of their own, so they never wait for a commit.

Waiting is ours: SQLite's busy handler can starve a process for seconds, so its timeout is 0 and we try again after a
short random pause, holding no lock meanwhile.
"""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from checkpointers.forking import survive_forks
from checkpointers.sql import migrate
from checkpointers.sql.sharing import Databases
from checkpointers.sql.sqlite_errors import explain, is_busy, locked, spoils_connection
from durable_graph.errors import DatabaseUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

__all__ = ["MEMORY", "SqliteDatabase", "Synchronous", "attach", "databases"]

T = TypeVar("T")
Synchronous: TypeAlias = Literal["FULL", "NORMAL"]
MEMORY: Final = ":memory:"

_PAUSE: Final = 0.01
"""Longest pause between two attempts, in seconds."""
_IDLE_READERS: Final = 4
"""Read connections that are kept open between reads."""


class SqliteDatabase:
    """The connections of this process to one file, or one private database in memory.

    file: absolute path, or ":memory:". synchronous: the strictest that any saver over the file asked for.
    users: how many savers hold it; the connections are closed when the last one lets go.
    """

    def __init__(self, file: str) -> None:
        self.file = file
        self.in_memory = file == MEMORY
        self.key = None if self.in_memory else file
        self.synchronous: Synchronous = "NORMAL"
        self.users = 0
        self.place: tuple[int, int] | None = None  # device and inode of the open file
        self._lock = threading.Lock()  # guards the write connection
        self._writer: sqlite3.Connection | None = None
        self._gate = threading.Lock()  # guards the readers
        self._idle: list[sqlite3.Connection] = []
        self._reading = 0
        self._ready = False
        self._resting: list[threading.Lock] = []
        self._orphans: list[Any] = []  # connections a fork caught open; kept so that nothing ever closes them
        survive_forks(self)

    # --- writing ---------------------------------------------------------------------------------------------------

    def try_write(self, statement: str, values: tuple[Any, ...]) -> bool:
        """Run one writing statement in autocommit; True when it changed a row.

        False says nothing: not ready, busy, failed, or refused. `write` then does the same with all care.
        """
        with self._lock:
            # A second interrupt while the first one was being undone can leave a transaction open; what were added to
            # it now would be lost with it.
            if (writer := self._writer) is not None and not writer.in_transaction and not self._moved():
                try:
                    return writer.execute(statement, values).rowcount == 1
                except sqlite3.Error:
                    return False
        return False

    def write(self, work: Callable[[sqlite3.Connection], T], patience: float) -> T:
        """The result of `work`, done in one transaction that is committed when this returns.

        `work` may be called several times; only the last one counts. `patience` is in seconds.

        Raises:
            StorageError: nothing of the transaction was stored.
        """

        def attempt() -> T:
            with self._lock:
                if self._writer is not None and self._moved():
                    self._let_go()
                    raise _replaced(self.file)
                if self._writer is not None and self._writer.in_transaction and not self.in_memory:
                    self._close_writer()  # see try_write
                writer = self._writer or self._open_writer()
                try:
                    return _transact(writer, work)
                except BaseException as error:
                    # A connection whose transaction could not be undone, or which met a broken file, is not used again.
                    if not self.in_memory and (writer.in_transaction or spoils_connection(error)):
                        self._close_writer()
                    raise

        return self._patiently(attempt, patience)

    def prepare(self, patience: float) -> None:
        """Create or upgrade our tables, unless they are known to be there.

        Raises:
            StorageError: the file cannot be used.
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
        with self._gate:
            self._close_idle()

    def _let_go(self) -> None:
        """Forget a file that is not at its path any more. SQLite deletes no WAL then: it looks before it does."""
        self._close_writer()
        self._ready = False
        with self._gate:
            self._close_idle()

    def _moved(self) -> bool:
        """Whether the open file was deleted or replaced: SQLite would go on and write into what nobody sees."""
        return self.place is not None and self.place != _place(self.file)

    def ask_for(self, synchronous: Synchronous) -> None:
        """Make commits at least as durable as this."""
        with self._lock:
            if synchronous == "FULL" and self.synchronous == "NORMAL":
                self.synchronous = synchronous
                if self._writer is not None:
                    self._writer.execute("PRAGMA synchronous = FULL")

    def _open_writer(self) -> sqlite3.Connection:
        writer = self._connect()
        try:
            writer.execute(f"PRAGMA synchronous = {self.synchronous}")
            self._make_ready(writer)
        except BaseException:
            writer.close()
            raise
        if not self.in_memory:
            self.place = _place(self.file)
        self._writer = writer
        self._ready = True
        return writer

    def _make_ready(self, writer: sqlite3.Connection) -> None:
        if migrate.inspect(writer, self.file) == "fresh":
            # Only heeded before the first table is there, and before the file has a header.
            writer.execute("PRAGMA auto_vacuum = INCREMENTAL")
        (mode,) = writer.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode not in {"wal", "memory"}:
            raise DatabaseUnavailableError(
                f"{self.file}: this file system gives SQLite no write-ahead log (journal mode is {mode!r}).",
                cure="Put the database on a local disk; a network file system cannot keep it safely.",
            )
        state = migrate.inspect(writer, self.file)
        if state == "fresh":
            state = _transact(writer, partial(_create_if_fresh, file=self.file))
        if state == "older":
            migrate.upgrade(writer, self.file)

    def _close_writer(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with suppress(sqlite3.Error):
                writer.close()

    # --- reading ---------------------------------------------------------------------------------------------------

    def read(self, work: Callable[[sqlite3.Connection], T], patience: float) -> T:
        """The result of `work`, done inside one read transaction: it sees one state of the database.

        Raises:
            StorageError: the database cannot be read.
        """
        if self.in_memory:  # its only connection
            return self.write(work, patience)
        if self._ready and self._moved():
            with self._lock:
                if self._moved():
                    self._let_go()
        if not self._ready:
            self.prepare(patience)

        def attempt() -> T:
            place = self.place
            reader = self._enter()
            try:
                if reader is None:
                    reader = self._connect()
                reader.execute("BEGIN")
                result = work(reader)
                reader.execute("COMMIT")
            except BaseException:
                if reader is not None:
                    reader.close()
                self._leave(None)
                raise
            self._leave(reader, place)
            return result

        return self._patiently(attempt, patience)

    def _enter(self) -> sqlite3.Connection | None:
        """Note that a read connection is in use; gives an idle one, or None: the caller opens its own."""
        with self._gate:
            self._refuse_orphan()
            self._reading += 1
            return self._idle.pop() if self._idle else None

    def _leave(self, reader: sqlite3.Connection | None, place: tuple[int, int] | None = None) -> None:
        """Undo `_enter`, and keep the reader, which was opened at `place`, for the next one."""
        with self._gate:
            self._reading -= 1
            if reader is not None:
                if self.users and place == self.place and len(self._idle) < _IDLE_READERS:
                    self._idle.append(reader)
                else:
                    reader.close()

    @contextmanager
    def reading_apart(self) -> Generator[None, None, None]:
        """For a read on a connection that is not ours: forks know that the file is open."""
        with self._gate:
            self._refuse_orphan()
            self._reading += 1
        try:
            yield
        finally:
            self._leave(None)

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    # --- both ------------------------------------------------------------------------------------------------------

    def _connect(self) -> sqlite3.Connection:
        self._refuse_orphan()
        return sqlite3.connect(self.file, timeout=0, isolation_level=None, check_same_thread=False)

    def _patiently(self, attempt: Callable[[], T], patience: float) -> T:
        """The result of the first attempt that finds the database free."""
        started: float | None = None
        while True:
            try:
                return attempt()
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise explain(error, self.file) from error
                now = time.monotonic()
                started = now if started is None else started
                if now - started >= patience:
                    raise locked(self.file, patience) from error
            time.sleep(random.random() * _PAUSE)  # noqa: S311 - a pause guards no secret

    # --- forks -----------------------------------------------------------------------------------------------------

    def before_fork(self, deadline: float) -> None:
        """Close the file and hold still. A private database in memory has no file and stays open."""
        if self._lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
            self._resting.append(self._lock)
            if not self.in_memory:
                self._close_writer()
        while self._gate.acquire(timeout=max(0.0, deadline - time.monotonic())):
            if not self._reading:
                self._close_idle()
            if not self._reading or time.monotonic() >= deadline:
                self._resting.append(self._gate)
                break
            self._gate.release()
            time.sleep(_PAUSE / 10)

    def after_fork(self, *, child: bool) -> None:
        """Go on. In the child, what could not be brought to rest is never touched again."""
        resting, self._resting = self._resting, []
        if not child:
            for lock in resting:
                lock.release()
            return
        if self._lock not in resting or self._gate not in resting or self._reading:
            self._orphans += [self._writer, *self._idle, self._lock, self._gate]
            self._writer, self._idle = None, []
        self._lock, self._gate, self._reading = threading.Lock(), threading.Lock(), 0

    def _refuse_orphan(self) -> None:
        if self._orphans:
            raise DatabaseUnavailableError(
                f"{self.file}: this process was forked while another OS thread or an async read had the file open; "
                "SQLite cannot be used safely on it here.",
                cure="Start processes with multiprocessing's 'spawn' or 'forkserver', or fork when no run is active.",
            )


def _replaced(file: str) -> DatabaseUnavailableError:
    return DatabaseUnavailableError(
        f"{file}: this file was deleted, moved or replaced while it was open; nothing of this transaction was stored.",
        cure="Put the file back, or begin anew: the next call uses what is at this path then.",
    )


def _transact(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    """The result of `work`, committed; any exception undoes it.

    A function and not a context manager: a KeyboardInterrupt between entering one and its body would leave the
    transaction open.
    """
    try:
        connection.execute("BEGIN IMMEDIATE")
        result = work(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has rolled back by itself, and ROLLBACK would be an error then
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        raise
    return result


def _create_if_fresh(connection: sqlite3.Connection, file: str) -> migrate.State:
    """Looks again, now that nobody else can write: another process may have been faster."""
    state = migrate.inspect(connection, file)
    if state == "fresh":
        migrate.create(connection)
        return "ready"
    return state


# --- who shares a database -----------------------------------------------------------------------------------------

databases: Final[Databases[SqliteDatabase]] = Databases()


def attach(file: str, synchronous: Synchronous) -> SqliteDatabase:
    """This process's database for the file, counted as used once more."""
    # Another file may have taken the place of the one we have open: that is another database.
    database = databases.attach(
        None if file == MEMORY else file,
        lambda: SqliteDatabase(file),
        usable=lambda known: known.place is None or known.place == _place(file),
    )
    database.ask_for(synchronous)
    return database


def _place(file: str) -> tuple[int, int] | None:
    try:
        found = os.stat(file)  # noqa: PTH116 - one call on a string
    except OSError:
        return None
    return (found.st_dev, found.st_ino)
