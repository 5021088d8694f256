"""Keeps runs in a Postgres database, for any number of processes on any number of machines.

Every write of a process, sync or async, is one pipeline on its one writing session, sent by whoever commits: a caller
that is alone, or the committer's OS thread for all that came meanwhile. So no event loop waits for a commit that
another one's cancellation could take back on the server. Reads run on pooled sessions, in OS threads for async callers.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from typing_extensions import override

from checkpointers.fencing import LEASE_SECONDS, RUNNING, checked_lease, different_rows
from checkpointers.sql import postgres_statements as sql
from checkpointers.sql.postgres_driver import errors, psycopg
from checkpointers.sql.postgres_runs import PostgresRuns, listen
from checkpointers.sql.postgres_target import SCHEMA
from checkpointers.sql.postgres_user import PostgresUser
from checkpointers.sql.text import as_bytes, as_text
from durable_graph.errors import InternalError
from durable_graph.persistence.checkpointer import Checkpointer
from durable_graph.records import Claim, CommitItem, LaneInfo, Lease, LoadedThread, Row, RowRange, ThreadInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from checkpointers.sql.postgres_database import Connection, PostgresDatabase
    from checkpointers.sql.postgres_target import Target
    from durable_graph.persistence.run_rows import RunRows
    from durable_graph.records import Beat, ClaimRequest, Outcome

__all__ = ["AsyncPostgresSaver", "PostgresSaver"]

T = TypeVar("T")

_AT_ONCE: Final = 1000
"""Rows and lanes in one statement. Postgres takes 65,535 parameters, five for a row."""


_IN_ORDER: Final = (b"BEGIN ISOLATION LEVEL READ COMMITTED", b"COMMIT")
"""Around a takeover: whatever a role's default is, its second statement sees what the lock of the first waited for."""


class PostgresSaver(PostgresUser, Checkpointer):
    """A checkpointer in a Postgres database, for any number of processes and machines.

    target: "postgresql://user:password@host/database", a DSN ("host=… dbname=…"), or a psycopg connection or pool (sync
        or async), of which we take where it leads and open sessions of our own. A URL may carry the options below.
    schema: the schema of our tables; it is made when first used.
    timeout: seconds for which a server that is away, or a lock that is held, is waited for.
    max_size: sessions that read, at the most; one more writes.
    prepare: False where a proxy hands each transaction to another session (pgbouncer in transaction mode). How long
        locks are waited for is then for the role's lock_timeout to say: these sessions are not ours to set.
    lease: seconds after its last sign of life at which a run is taken for dead, by the server's clock.

    One object serves sync and async callers, any OS thread and event loop, and both sides of `os.fork()`.

    Raises:
        InvalidConfigError: psycopg is not installed, the target names no Postgres database, or an option is wrong.
    """

    one_host = False

    def __init__(
        self,
        target: Target,
        *,
        schema: str = SCHEMA,
        timeout: float = 30.0,
        max_size: int | None = None,
        prepare: bool = True,
        lease: float = LEASE_SECONDS,
    ) -> None:
        options = self._use(target, schema, timeout, max_size, prepare=prepare)
        self.lease = checked_lease(options.get("lease", lease))

    @classmethod
    def from_conn_string(
        cls,
        target: Target,
        *,
        schema: str = SCHEMA,
        timeout: float = 30.0,
        max_size: int | None = None,
        prepare: bool = True,
        lease: float = LEASE_SECONDS,
    ) -> Self:
        """The checkpointer, to be kept, or used with `with` or `async with`."""
        return cls(target, schema=schema, timeout=timeout, max_size=max_size, prepare=prepare, lease=lease)

    @property
    @override
    def identity(self) -> tuple[Any, ...]:
        return ("postgres", self._place)

    # --- reading ---------------------------------------------------------------------------------------------------

    @override
    def load(self, key: str, *, ns: str = "", lane: int | None = None, upto: int | None = None) -> LoadedThread | None:
        database = self._database or self._open()
        given = {"key": as_bytes(key), "ns": as_bytes(ns), "lane": lane, "upto": upto}
        return database.read(partial(_load, text=database.text(sql.LOAD), key=key, given=given), self._patience)

    @override
    def read(self, no: int, ranges: Sequence[RowRange]) -> list[list[Row]]:
        database = self._database or self._open()
        return database.read(partial(_read, text=database.text(sql.RANGES), no=no, ranges=ranges), self._patience)

    @override
    def threads(self, after: int = 0, limit: int = 1000) -> list[ThreadInfo]:
        database = self._database or self._open()
        text = database.text(sql.THREADS)

        def work(connection: Connection) -> list[ThreadInfo]:
            rows = connection.execute(text, (after, limit), binary=True)
            return [
                ThreadInfo(no, as_text(key), epoch, owner, status, None if leased[0] is None else Lease(*leased))
                for no, key, epoch, owner, status, *leased in rows
            ]

        return database.read(work, self._patience)

    # --- writing ---------------------------------------------------------------------------------------------------

    @override
    def claim(self, request: ClaimRequest) -> Claim | None:
        database = self._database or self._open()
        return database.write(_Claiming(database, request), self._patience)

    @override
    def renew(self, beats: Sequence[Beat]) -> None:
        database = self._database or self._open()
        claims, moved, leases = zip(*beats, strict=True)
        given = ([no for no, _ in claims], [epoch for _, epoch in claims], list(moved), list(leases))
        database.write(lambda connection: connection.execute(database.text(sql.RENEW), given), self._patience)

    @override
    def commit(self, items: Sequence[CommitItem]) -> list[Outcome]:
        database = self._database or self._open()
        return database.write(_Committing(database, items), self._patience)

    @override
    def with_runs(self, work: Callable[[RunRows], T], *, reads: bool = False) -> T:
        return self._transact(lambda connection, database: work(PostgresRuns(connection, database)), reads=reads)

    @override
    def listen(self, heard: Callable[[], object], over: Callable[[], bool]) -> None:
        if self._place.prepare:  # else a proxy hands each transaction to another session, and none of them would hear
            listen(self._database or self._open(), heard, over)


AsyncPostgresSaver = PostgresSaver


# --- reading -------------------------------------------------------------------------------------------------------


def _load(connection: Connection, *, text: bytes, key: str, given: dict[str, Any]) -> LoadedThread | None:
    thread: ThreadInfo | None = None
    lease: Lease | None = None
    newest = 0
    lanes: list[LaneInfo] = []
    rows: list[Row] = []
    for what, first, second, third, fourth, owner, status, data in connection.execute(text, given, binary=True):
        if what == 0:
            thread, newest = ThreadInfo(first, key, second, owner, status), third
        elif what == 1:
            lanes.append(LaneInfo(first, as_text(data), second, third, fourth))
        elif what == 2:  # noqa: PLR2004 - the numbers of LOAD
            rows.append(Row(first, second, third, fourth, data))
        else:
            lease = Lease(first, second, third, fourth)
    if thread is None:
        return None
    return LoadedThread(thread._replace(lease=lease), tuple(sorted(lanes)), newest, tuple(sorted(rows, key=_seq)))


def _read(connection: Connection, *, text: bytes, no: int, ranges: Sequence[RowRange]) -> list[list[Row]]:
    found: list[list[Row]] = [[] for _ in ranges]
    columns = [[wanted[place] for wanted in ranges] for place in range(len(RowRange._fields))]
    for number, lane, part, seq, kind, data in connection.execute(text, (*columns, no), binary=True):
        rows = found[int(number) - 1]
        rows.append(Row(lane, part, seq, kind, data))
    for rows in found:
        rows.sort(key=_seq)
    return found


def _seq(row: Row) -> int:
    return row.seq


# --- writing -------------------------------------------------------------------------------------------------------


class _Claiming:
    """One claim, to be tried on one connection after another."""

    def __init__(self, database: PostgresDatabase, request: ClaimRequest) -> None:
        self._database = database
        self._request = request
        self._tried = False

    def __call__(self, connection: Connection) -> Claim | None:
        again, self._tried = self._tried, True
        claim = self._granted(connection, self._request)
        if claim is None and again:
            # An answer was lost, so it may be us who changed the thread. Asked only now: the statement above has waited
            # for the one that was lost, which may have been under way still.
            request = self._request
            mine = (as_bytes(request.key), request.new_epoch, request.owner)
            found = connection.execute(self._database.text(sql.MINE), mine).fetchone()
            claim = None if found is None else Claim(found[0], request.new_epoch)
        return claim

    def _granted(self, connection: Connection, request: ClaimRequest) -> Claim | None:
        try:
            if len(request.rows) + len(request.new_lanes) <= _AT_ONCE:
                return self._sent(connection, request, _IN_ORDER)
            with connection.transaction():
                claim = self._sent(connection, request._replace(rows=(), new_lanes=()), ())
                if claim is not None:
                    _ = _in_parts(connection, self._database, CommitItem(claim, request.rows, request.new_lanes))
        except errors.DivisionByZero as error:  # the caller has seen another history than the one stored
            raise different_rows(Claim(0, request.new_epoch), request.lane, request.seen) from error
        return claim

    def _sent(self, connection: Connection, request: ClaimRequest, around: Sequence[bytes]) -> Claim | None:
        text, key = self._database.text, as_bytes(request.key)
        sizes = (len(request.new_lanes), len(request.rows))
        added = (*_lanes(request.new_lanes), *_rows(request.rows), request.new_epoch, request.lease)
        if request.epoch is None:
            given = (key, request.new_epoch, request.owner, RUNNING, *added)
            found = connection.execute(text(sql.create_text(*sizes)), given).fetchone()
        else:
            given = (request.new_epoch, request.owner, RUNNING, key, request.epoch, request.lane, request.seen)
            wanted = [
                (text(sql.LOCK), (key, request.epoch)),
                (text(sql.takeover_text(*sizes)), (*given, *added)),
            ]
            if around:
                wanted = [(around[0], ()), *wanted, (around[1], ())]
            found = _pipelined(connection, wanted)[-2 if around else -1].fetchone()
        no = found[0] if found is not None else None
        return None if no is None else Claim(no, request.new_epoch)


class _Committing:
    """One group of items, to be tried on one connection after another."""

    def __init__(self, database: PostgresDatabase, items: Sequence[CommitItem]) -> None:
        self._database = database
        self._items = items
        self._tried = False

    def __call__(self, connection: Connection) -> list[Outcome]:
        again, self._tried = self._tried, True
        outcomes = _commit(connection, self._database, self._items)
        if again and "stale" in outcomes:
            # The answer was lost, and before we asked again the thread was taken over: what is stored stays so.
            return [
                "already mine" if outcome == "stale" and self._stored(connection, item) else outcome
                for item, outcome in zip(self._items, outcomes, strict=True)
            ]
        return outcomes

    def _stored(self, connection: Connection, item: CommitItem) -> bool:
        try:
            _check_stored(connection, self._database, item)
        except InternalError:
            return False
        return bool(item.rows or item.new_lanes)


def _commit(connection: Connection, database: PostgresDatabase, items: Sequence[CommitItem]) -> list[Outcome]:
    if any(len(item.rows) + len(item.new_lanes) > _AT_ONCE for item in items):
        return [_commit_large(connection, database, item) for item in items]
    # In order of their threads, so that no two groups wait for each other's rows; a thread's items stay in theirs.
    order = sorted(range(len(items)), key=lambda place: items[place].claim.no) if len(items) > 1 else range(len(items))
    try:
        answers = dict(zip(order, _sent(connection, database, [items[place] for place in order]), strict=True))
    except errors.DivisionByZero:
        if len(items) == 1:
            return [_commit_over(connection, database, items[0])]
        return [_commit(connection, database, (item,))[0] for item in items]
    return [_outcome(connection, database, items[place], answers[place]) for place in range(len(items))]


def _commit_over(connection: Connection, database: PostgresDatabase, item: CommitItem) -> Outcome:
    """An item whose places are taken. Where the very same is there, its thread is still to be given back."""
    _check_stored(connection, database, item)
    if item.status is None:
        raise different_rows(item.claim, *_first_place(item))
    (answer,) = _sent(connection, database, (item._replace(rows=(), new_lanes=()),))
    return "already mine" if answer[0] else "stale"


def _commit_large(connection: Connection, database: PostgresDatabase, item: CommitItem) -> Outcome:
    """An item that may not fit into one statement, in a transaction: part by part, the status as the last one."""
    try:
        with connection.transaction():
            return _in_parts(connection, database, item)
    except errors.DivisionByZero:
        _check_stored(connection, database, item)
        raise different_rows(item.claim, *_first_place(item)) from None


def _in_parts(connection: Connection, database: PostgresDatabase, item: CommitItem) -> Outcome:
    claim, rows, lanes, status = item
    parts = [CommitItem(claim, (), lanes[at : at + _AT_ONCE]) for at in range(0, len(lanes), _AT_ONCE)]
    parts += [CommitItem(claim, rows[at : at + _AT_ONCE]) for at in range(0, len(rows), _AT_ONCE)]
    outcomes: list[Outcome] = [
        _outcome(connection, database, part, _sent(connection, database, (part,))[0]) for part in parts
    ]
    if outcomes.count(outcomes[0]) != len(outcomes):  # some of its places are free, others taken
        raise different_rows(item.claim, *_first_place(item))
    if status is not None:
        _ = _sent(connection, database, (CommitItem(claim, (), (), status),))
    return outcomes[0]


def _sent(connection: Connection, database: PostgresDatabase, items: Sequence[CommitItem]) -> list[tuple[int, ...]]:
    """What the statement of each item answers. One pipeline is one transaction."""
    if len(items) == 1:
        return [_one(connection.execute(database.text(_text_of(items[0])), _given(items[0])))]
    if not items:
        return []
    parts = _parts(items)
    wanted = [
        (database.text(_text_of(part[0])), _given(part[0]))
        if len(part) == 1
        else (database.text(sql.COMMIT_ROWS), _given_rows(part))
        for part in parts
    ]
    if len(wanted) == 1:
        [(text, given)] = wanted
        answers = [_one(connection.execute(text, given))]
    else:
        answers = [_one(cursor) for cursor in _pipelined(connection, wanted)]
    found: list[tuple[int, ...]] = []
    for part, answer in zip(parts, answers, strict=True):
        found += (answer,) if len(part) == 1 else _answers(part, *answer)
    return found


def _parts(items: Sequence[CommitItem]) -> list[list[CommitItem]]:
    """What one statement takes, in order: neighbours that only add rows, else one item."""
    parts: list[list[CommitItem]] = []
    before = False
    for item in items:
        only_rows = item.status is None and not item.new_lanes and bool(item.rows)
        if only_rows and before:
            parts[-1].append(item)
        else:
            parts.append([item])
        before = only_rows
    return parts


def _given_rows(items: Sequence[CommitItem]) -> tuple[Any, ...]:
    rows = [(*row[:-1], *item.claim, row.data) for item in items for row in item.rows]
    return (*map(list, zip(*rows, strict=True)), len(rows))


def _answers(
    items: Sequence[CommitItem], numbers: Sequence[int] | None, epochs: Sequence[int] | None, _: int
) -> list[tuple[int, ...]]:
    """What each item's own statement would have answered."""
    stale = set(zip(numbers or (), epochs or (), strict=True))
    return [(0, 0, 0, 1) if item.claim in stale else (1, len(item.rows), 0, 1) for item in items]


def _pipelined(connection: Connection, wanted: Iterable[tuple[bytes, tuple[Any, ...]]]) -> list[Any]:
    """The statements' cursors, after one round trip. The first error is raised; psycopg would also log the others."""
    cursors: list[Any] = []
    failed: psycopg.Error | None = None
    try:
        with connection.pipeline():
            try:
                for text, given in wanted:
                    cursors.append(connection.execute(text, given))
            except psycopg.Error as error:
                failed = error
    except psycopg.Error as error:
        failed = failed or error
    if failed is not None:
        if failed.sqlstate is not None:  # else the server is away, and nothing is asked of it
            _forget_prepared(connection)
        raise failed
    return cursors


def _forget_prepared(connection: Connection) -> None:
    """Statements behind one that failed were never prepared, which psycopg does not see; a rollback makes it forget."""
    with suppress(psycopg.Error):  # a session that is lost is replaced anyway
        if connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            connection.execute(b"BEGIN")
        connection.execute(b"ROLLBACK")


def _one(cursor: Any) -> tuple[Any, ...]:
    return cursor.fetchone()


def _text_of(item: CommitItem) -> str:
    return sql.commit_text(len(item.new_lanes), len(item.rows), release=item.status is not None)


def _given(item: CommitItem) -> tuple[Any, ...]:
    status = () if item.status is None else (item.status, item.status)
    return (*item.claim, *_lanes(item.new_lanes), *_rows(item.rows), *status)


def _lanes(lanes: Iterable[LaneInfo]) -> Iterable[Any]:
    for lane, ns, parent_lane, parent_seq, _ in lanes:
        yield from (lane, as_bytes(ns), parent_lane, parent_seq)


def _rows(rows: Iterable[Row]) -> Iterable[Any]:
    for row in rows:
        yield from row


def _outcome(connection: Connection, database: PostgresDatabase, item: CommitItem, answer: tuple[int, ...]) -> Outcome:
    held, added, released, _ = answer
    if not held:
        return "stale"
    if added:
        return "written"
    if item.rows or item.new_lanes:
        _check_stored(connection, database, item)
        return "already mine"
    return "written" if released else "already mine"


def _check_stored(connection: Connection, database: PostgresDatabase, item: CommitItem) -> None:
    """Compare what is stored with what was sent.

    Raises:
        InternalError: a lane or row is stored with another content, or not at all.
    """
    claim = item.claim
    for lane, ns, parent_lane, parent_seq, _ in item.new_lanes:
        stored = connection.execute(database.text(sql.FIND_LANE), (claim.no, lane), binary=True).fetchone()
        if stored != (lane, as_bytes(ns), parent_lane, parent_seq):
            raise different_rows(claim, lane, 0)
    for row in item.rows:
        place = (claim.no, row.lane, row.part, row.seq)
        if connection.execute(database.text(sql.FIND_ROW), place, binary=True).fetchone() != row:
            raise different_rows(claim, row.lane, row.seq)


def _first_place(item: CommitItem) -> tuple[int, int]:
    if item.rows:
        return item.rows[0].lane, item.rows[0].seq
    return item.new_lanes[0].lane, 0
