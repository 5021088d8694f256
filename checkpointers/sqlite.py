"""Keeps runs in a SQLite file.

All writes and the short reads go through the standard library's sqlite3; aiosqlite serves long async reads, each on a
connection that lives as long as the read. aiosqlite as a held connection would be another writer in this process, dies
with the event loop that closed under it, and its OS thread keeps the interpreter from ending [all measured].
"""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from typing_extensions import override

from checkpointers.fencing import LEASE_SECONDS, RUNNING, checked_lease, different_rows
from checkpointers.sql import statements as sql
from checkpointers.sql.runs import TableRuns, wall
from checkpointers.sql.sqlite_database import MEMORY
from checkpointers.sql.sqlite_errors import explain, is_busy, locked
from checkpointers.sql.sqlite_user import SqliteUser
from checkpointers.sql.text import as_bytes, as_text
from durable_graph.persistence.checkpointer import Checkpointer
from durable_graph.persistence.run_rows import Clock
from durable_graph.records import Claim, LaneInfo, Lease, LoadedThread, Row, ThreadInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from checkpointers.sql.sqlite_database import Synchronous
    from checkpointers.sql.sqlite_target import Target
    from durable_graph.persistence.run_rows import RunRows
    from durable_graph.records import Beat, ClaimRequest, CommitItem, Outcome, RowRange

__all__ = ["AsyncSqliteSaver", "SqliteSaver"]

T = TypeVar("T")

_END: Final = 2**63 - 1
"""The largest seq SQLite can hold."""
_LONG_READ: Final = 2000
"""Ranges that span more seqs than this are read through aiosqlite: a connection of its own costs 1-3 ms, and keeps a
long read from taking one of the event loop's few default OS threads, which the user's sync nodes need."""
_CHUNK: Final = 1000
"""Rows taken from aiosqlite at once; between two chunks other tasks run."""


class SqliteSaver(SqliteUser, Checkpointer):
    """A checkpointer in a SQLite file, for one machine and any number of its processes.

    target: a path, "sqlite:///relative.db", "sqlite:////absolute.db", ":memory:" (lives as long as this object is
        open), or a sqlite3 or aiosqlite connection, whose file is taken. The file is made when first used.
    synchronous: "FULL" keeps every acknowledged step through a power cut; "NORMAL" may lose the last ones then (never
        through a crash of the process) and spares a disk flush per commit. The strictest saver of a file decides.
    busy_timeout: seconds to wait for a lock of another process.
    lease: seconds after its last sign of life at which a run is taken for dead where nobody can see its process.

    One object serves sync and async callers, any OS thread and event loop, and both sides of `os.fork()`.

    Raises:
        InvalidConfigError: the target names no SQLite database, or an option is wrong.
    """

    def __init__(
        self,
        target: Target,
        *,
        synchronous: Synchronous = "FULL",
        busy_timeout: float = 5.0,
        lease: float = LEASE_SECONDS,
    ) -> None:
        options = self._use(target, synchronous, busy_timeout)
        self.lease = checked_lease(options.get("lease", lease))
        self._token = object()

    @classmethod
    def from_conn_string(
        cls,
        target: Target,
        *,
        synchronous: Synchronous = "FULL",
        busy_timeout: float = 5.0,
        lease: float = LEASE_SECONDS,
    ) -> Self:
        """The checkpointer, to be kept, or used with `with` or `async with`."""
        return cls(target, synchronous=synchronous, busy_timeout=busy_timeout, lease=lease)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self._file!r}, synchronous={self._synchronous!r}, busy_timeout={self._patience!r})"
        )

    @property
    @override
    def identity(self) -> tuple[Any, ...]:
        return ("sqlite", self._token if self._file == MEMORY else self._file)

    # --- reading ---------------------------------------------------------------------------------------------------

    @override
    def load(self, key: str, *, ns: str = "", lane: int | None = None, upto: int | None = None) -> LoadedThread | None:
        return (self._database or self._open()).read(
            partial(_load, key=key, ns=ns, lane=lane, upto=upto), self._patience
        )

    @override
    def read(self, no: int, ranges: Sequence[RowRange]) -> list[list[Row]]:
        return (self._database or self._open()).read(partial(_read, no=no, ranges=ranges), self._patience)

    @override
    async def aread(self, no: int, ranges: Sequence[RowRange]) -> list[list[Row]]:
        span = sum(wanted.last - wanted.first + 1 for wanted in ranges)
        if self._file == MEMORY or span <= _LONG_READ:
            return await asyncio.to_thread(self.read, no, ranges)
        started = time.monotonic()
        while True:
            try:
                return await self._read_apart(no, ranges)
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise explain(error, self._file) from error
                if time.monotonic() - started >= self._patience:
                    raise locked(self._file, self._patience) from error
            await asyncio.sleep(random.random() * 0.01)  # noqa: S311 - a pause guards no secret

    async def _read_apart(self, no: int, ranges: Sequence[RowRange]) -> list[list[Row]]:
        """`read` on a connection of its own, which ends with the read."""
        import aiosqlite

        database = self._open()
        await asyncio.to_thread(database.prepare, self._patience)
        connection = aiosqlite.connect(self._file, timeout=0, isolation_level=None)
        # If the event loop dies under us nobody stops this OS thread; it must not keep the interpreter from ending.
        connection._thread.daemon = True  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        with database.reading_apart():
            async with connection, connection.execute(sql.RANGES, (json.dumps(ranges), no)) as cursor:
                found: list[list[Row]] = [[] for _ in ranges]
                while chunk := cast("list[Any]", await cursor.fetchmany(_CHUNK)):
                    _sort_in(found, chunk)
        return _in_order(found)

    # --- writing ---------------------------------------------------------------------------------------------------

    @override
    def threads(self, after: int = 0, limit: int = 1000) -> list[ThreadInfo]:
        return (self._database or self._open()).read(partial(_threads, after=after, limit=limit), self._patience)

    @override
    def claim(self, request: ClaimRequest) -> Claim | None:
        return (self._database or self._open()).write(partial(_claim, request=request), self._patience)

    @override
    def renew(self, beats: Sequence[Beat]) -> None:
        (self._database or self._open()).write(partial(_renew, beats=beats), self._patience)

    @override
    def commit(self, items: Sequence[CommitItem]) -> list[Outcome]:
        database = self._database or self._open()
        if len(items) == 1:
            claim, rows, new_lanes, status = items[0]
            # The hot path: one row is one statement. Whatever it cannot do, the transaction below does.
            if status is None and not new_lanes and len(rows) == 1 and database.try_write(sql.APPEND, rows[0] + claim):
                return ["written"]
        return database.write(partial(_commit, items=items), self._patience)

    @override
    def with_runs(self, work: Callable[[RunRows], T], *, reads: bool = False) -> T:
        database = self._database or self._open()
        return (database.read if reads else database.write)(
            lambda connection: work(_SqliteRuns(connection)), self._patience
        )


AsyncSqliteSaver = SqliteSaver


class _SqliteRuns(TableRuns):
    """The rows of the queue as one transaction sees them; one that writes is alone from its first statement on."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @override
    def _run(self, statement: str, values: Iterable[Any]) -> Any:
        return self._connection.execute(statement.replace("@", ""), tuple(values))

    @override
    def clock(self) -> Clock:
        return Clock(wall(), _now())

    @override
    def hold(self, *names: str) -> None: ...


# --- what happens inside one transaction ---------------------------------------------------------------------------


def _load(
    connection: sqlite3.Connection, *, key: str, ns: str, lane: int | None, upto: int | None
) -> LoadedThread | None:
    found = connection.execute(sql.FIND_THREAD, (as_bytes(key),)).fetchone()
    if found is None:
        return None
    no, epoch, owner, status, *leased = found
    lanes = tuple(
        LaneInfo(number, as_text(name), parent_lane, parent_seq, last)
        for number, name, parent_lane, parent_seq, last in connection.execute(sql.LANES, (no,))
    )
    if lane is None:
        lane = max(((info.last, info.lane) for info in lanes if info.ns == ns), default=(0, 0))[1]
    rows = connection.execute(sql.ROWS_FROM_BASE, (no, lane, no, lane, _END if upto is None else upto))
    thread = ThreadInfo(no, key, epoch, owner, status, _lease(*leased))
    return LoadedThread(thread, lanes, lane, tuple(map(Row._make, rows)))


def _threads(connection: sqlite3.Connection, *, after: int, limit: int) -> list[ThreadInfo]:
    rows = connection.execute(sql.THREADS, (after, limit))
    return [
        ThreadInfo(no, as_text(key), epoch, owner, status, _lease(*leased))
        for no, key, epoch, owner, status, *leased in rows
    ]


def _now() -> int:
    """Milliseconds since the machine started: nobody can set that clock back, and all its processes read the same."""
    return time.monotonic_ns() // 1_000_000


def _lease(since: int | None, beat: int, moved: int, expires: int) -> Lease | None:
    if since is None:
        return None
    now = _now()
    return Lease(now - since, now - beat, now - moved, expires - now)


def _renew(connection: sqlite3.Connection, *, beats: Sequence[Beat]) -> None:
    now = _now()
    connection.executemany(sql.RENEW, [(now, now + lease, moved, now, *claim) for claim, moved, lease in beats])


def _read(connection: sqlite3.Connection, *, no: int, ranges: Sequence[RowRange]) -> list[list[Row]]:
    found: list[list[Row]] = [[] for _ in ranges]
    _sort_in(found, connection.execute(sql.RANGES, (json.dumps(ranges), no)))
    return _in_order(found)


def _sort_in(found: list[list[Row]], rows: Iterable[tuple[int, int, int, int, int, bytes]]) -> None:
    for number, lane, part, seq, kind, data in rows:
        found[number].append(Row(lane, part, seq, kind, data))


def _in_order(found: list[list[Row]]) -> list[list[Row]]:
    # The index gives each range in order already, which SQL does not promise; sorting what is sorted costs nothing.
    for rows in found:
        rows.sort(key=lambda row: row.seq)
    return found


def _claim(connection: sqlite3.Connection, *, request: ClaimRequest) -> Claim | None:
    key = as_bytes(request.key)
    if request.epoch is None:
        taken = connection.execute(sql.CREATE_THREAD, (key, request.new_epoch, request.owner, RUNNING))
    else:
        taken = connection.execute(
            sql.TAKE_OVER,
            (request.new_epoch, request.owner, RUNNING, key, request.epoch, request.lane, request.seen),
        )
    if not taken.rowcount:
        return None
    (no, *_) = connection.execute(sql.FIND_THREAD, (key,)).fetchone()
    claim = Claim(no, request.new_epoch)
    wanted = len(request.new_lanes) + len(request.rows)
    if _insert(connection, claim, request.new_lanes, request.rows) != wanted:
        # The caller has seen another history than the one stored. Raising undoes the whole claim.
        _check_stored(connection, claim, request.new_lanes, request.rows)
        raise different_rows(claim, request.lane, request.seen)
    now = _now()
    connection.execute(sql.LEASE, (*claim, now, now, now, now + request.lease))
    return claim


def _commit(connection: sqlite3.Connection, *, items: Sequence[CommitItem]) -> list[Outcome]:
    return [_commit_item(connection, item) for item in items]


def _commit_item(connection: sqlite3.Connection, item: CommitItem) -> Outcome:
    claim, rows, new_lanes, status = item
    wanted = len(rows) + len(new_lanes)
    done = _insert(connection, claim, new_lanes, rows)
    if done != wanted or not wanted:
        if connection.execute(sql.HOLDS, claim).fetchone() is None:
            return "stale"
        _check_stored(connection, claim, new_lanes, rows)
        if done:
            raise different_rows(claim, rows[0].lane if rows else new_lanes[0].lane, rows[0].seq if rows else 0)
    if status is not None:
        released = connection.execute(sql.RELEASE, (status, *claim, status)).rowcount
        done = done if wanted else released
    return "written" if done else "already mine"


def _insert(connection: sqlite3.Connection, claim: Claim, new_lanes: Sequence[LaneInfo], rows: Sequence[Row]) -> int:
    """Insert what is not there yet, if the claim holds; how many lanes and rows were new."""
    count = 0
    for lane, ns, parent_lane, parent_seq, _ in new_lanes:
        count += connection.execute(sql.NEW_LANE, (lane, as_bytes(ns), parent_lane, parent_seq, *claim)).rowcount
    for row in rows:
        count += connection.execute(sql.APPEND, row + claim).rowcount
    return count


def _check_stored(
    connection: sqlite3.Connection, claim: Claim, new_lanes: Sequence[LaneInfo], rows: Sequence[Row]
) -> None:
    """Compare what is stored with what was sent.

    Raises:
        InternalError: a lane or row is stored with another content.
    """
    for lane, ns, parent_lane, parent_seq, _ in new_lanes:
        stored = connection.execute(sql.FIND_LANE, (claim.no, lane)).fetchone()
        if stored != (lane, as_bytes(ns), parent_lane, parent_seq):
            raise different_rows(claim, lane, 0)
    for row in rows:
        stored = connection.execute(sql.FIND_ROW, (claim.no, row.lane, row.part, row.seq)).fetchone()
        if stored != row:
            raise different_rows(claim, row.lane, row.seq)
