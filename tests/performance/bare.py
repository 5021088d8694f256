"""The drivers alone: what one durable step must cost, a fenced insert and its commit."""

import sqlite3
from contextlib import closing
from pathlib import Path

ROW = bytes(150)
"""As long as what durable_graph stores for a superstep of a tiny state."""
EPOCH = 7

THREADS = "CREATE TABLE thread (no BIGINT PRIMARY KEY, epoch BIGINT NOT NULL)"
RECORDS = """\
CREATE TABLE record (
    thread BIGINT NOT NULL, lane BIGINT NOT NULL, part BIGINT NOT NULL, seq BIGINT NOT NULL,
    kind BIGINT NOT NULL, data {bytes} NOT NULL, PRIMARY KEY (thread, lane, part, seq)
)"""
THREAD = f"INSERT INTO thread VALUES (1, {EPOCH})"

SQLITE = """\
INSERT INTO record (thread, lane, part, seq, kind, data)
SELECT ?, 1, 0, ?, 0, ? WHERE EXISTS (SELECT 1 FROM thread WHERE no = ? AND epoch = ?)"""
POSTGRES = b"""\
INSERT INTO record (thread, lane, part, seq, kind, data)
SELECT no, 1, 0, %s, 0, %b FROM (SELECT no FROM thread WHERE no = %s AND epoch = %s FOR SHARE) AS fence"""
"""The row of the thread is locked: else a writer in flight would add its row after a takeover has looked."""


def bare_inserts(store, place, n, clock):
    """Seconds for n commits of one fenced insert each."""
    return (_on_postgres if store == "postgres" else _on_sqlite)(place, n, clock)


def _on_sqlite(folder, n, clock):
    with closing(sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        for statement in (THREADS, RECORDS.format(bytes="BLOB"), THREAD):
            database.execute(statement)
        started = clock()
        for seq in range(n):
            if database.execute(SQLITE, (1, seq, ROW, 1, EPOCH)).rowcount != 1:
                raise AssertionError(f"insert {seq} was refused")
        return clock() - started


def _on_postgres(dsn, n, clock):
    import psycopg

    with psycopg.connect(dsn, autocommit=True, prepare_threshold=0) as database:
        for statement in (THREADS, RECORDS.format(bytes="BYTEA"), THREAD):
            database.execute(statement)
        database.execute(POSTGRES, (-1, ROW, 1, EPOCH))  # the first one is prepared
        started = clock()
        for seq in range(n):
            if database.execute(POSTGRES, (seq, ROW, 1, EPOCH)).rowcount != 1:
                raise AssertionError(f"insert {seq} was refused")
        return clock() - started
