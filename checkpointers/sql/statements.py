"""The fixed texts of the hot path on SQLite, and the DDL of a fresh database.

Fixed, because a compiled statement costs 2.6 times as much and importing SQLAlchemy half a second; tests hold all of
them against `checkpointers.sql.tables`. Rules they follow, each found by a failure:

- every statement that writes reads the fence (`no` and `epoch`) itself; rowcount 0 is a refusal
- no RETURNING: what `execute` ran with it is not committed until it is fetched
- none starts with WITH: its rowcount would be -1
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "APPEND",
    "CREATE",
    "CREATE_THREAD",
    "FIND_LANE",
    "FIND_ROW",
    "FIND_THREAD",
    "HOLDS",
    "LANES",
    "LEASE",
    "NEW_LANE",
    "RANGES",
    "RELEASE",
    "RENEW",
    "ROWS_FROM_BASE",
    "TABLES",
    "TAKE_OVER",
    "THREADS",
]

# --- commit --------------------------------------------------------------------------------------------------------

APPEND: Final = """\
INSERT INTO record (thread, lane, part, seq, kind, data)
SELECT no, ?, ?, ?, ?, ? FROM thread WHERE no = ? AND epoch = ?
ON CONFLICT DO NOTHING"""
"""One row under its fence. Parameters: a Row followed by a Claim."""

NEW_LANE: Final = """\
INSERT INTO lane (thread, lane, ns, parent_lane, parent_seq)
SELECT no, ?, ?, ?, ? FROM thread WHERE no = ? AND epoch = ?
ON CONFLICT DO NOTHING"""
"""One lane under its fence. Parameters: lane, ns, parent_lane, parent_seq, and a Claim."""

RELEASE: Final = """\
UPDATE thread SET owner = NULL, status = ?
WHERE no = ? AND epoch = ? AND (owner IS NOT NULL OR status <> ?)"""
"""Give the thread back, unless it was given back like this before. Parameters: status, a Claim, status."""

HOLDS: Final = "SELECT 1 FROM thread WHERE no = ? AND epoch = ?"

FIND_ROW: Final = """\
SELECT lane, part, seq, kind, data FROM record WHERE thread = ? AND lane = ? AND part = ? AND seq = ?"""

FIND_LANE: Final = "SELECT lane, ns, parent_lane, parent_seq FROM lane WHERE thread = ? AND lane = ?"

# --- claim ---------------------------------------------------------------------------------------------------------

CREATE_THREAD: Final = """\
INSERT INTO thread (key, epoch, owner, status) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"""

TAKE_OVER: Final = """\
UPDATE thread SET epoch = ?, owner = ?, status = ?
WHERE key = ? AND epoch = ? AND NOT EXISTS (
    SELECT 1 FROM record WHERE record.thread = thread.no AND lane = ? AND part = 0 AND seq > ?
)"""

LEASE: Final = """\
INSERT INTO lease (thread, epoch, since, beat, moved, expires) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (thread) DO UPDATE SET
    epoch = excluded.epoch, since = excluded.since, beat = excluded.beat, moved = excluded.moved,
    expires = excluded.expires"""
"""The lease of a claim that was just granted. Parameters: the Claim, three times now, and when it is over."""

RENEW: Final = """\
UPDATE lease SET beat = ?, expires = ?, moved = CASE WHEN ? THEN ? ELSE moved END WHERE thread = ? AND epoch = ?"""
"""A sign of life. Parameters: now, when the lease is over, whether it moved, now, and the Claim."""

# --- load ----------------------------------------------------------------------------------------------------------

FIND_THREAD: Final = """\
SELECT no, thread.epoch, owner, status, lease.since, lease.beat, lease.moved, lease.expires
FROM thread LEFT JOIN lease ON lease.thread = no AND lease.epoch = thread.epoch AND owner IS NOT NULL
WHERE key = ?"""

THREADS: Final = """\
SELECT no, key, thread.epoch, owner, status, lease.since, lease.beat, lease.moved, lease.expires
FROM thread LEFT JOIN lease ON lease.thread = no AND lease.epoch = thread.epoch AND owner IS NOT NULL
WHERE no > ? ORDER BY no LIMIT ?"""
"""Threads, page by page. Parameters: the number before the page's first, and how many."""

LANES: Final = """\
SELECT lane, ns, parent_lane, parent_seq, coalesce((
    SELECT max(seq) FROM record WHERE record.thread = lane.thread AND record.lane = lane.lane AND part = 0
), 0)
FROM lane WHERE thread = ? ORDER BY lane"""

ROWS_FROM_BASE: Final = """\
SELECT lane, part, seq, kind, data FROM record
WHERE thread = ? AND lane = ? AND part = 0 AND seq >= coalesce((
    SELECT max(seq) FROM record INDEXED BY record_base
    WHERE thread = ? AND lane = ? AND part = 0 AND kind = 1 AND seq <= ?
), 0)
ORDER BY seq"""
"""Parameters: thread, lane, thread, lane, upto (Python 3.12 frowns on ?1 with a tuple). INDEXED BY: left to itself
SQLite walks back over all rows since the base to find it."""

RANGES: Final = """\
SELECT wanted.key, record.lane, record.part, seq, kind, data
FROM json_each(?) AS wanted CROSS JOIN record
WHERE thread = ?
    AND lane = json_extract(wanted.value, '$[0]') AND part = json_extract(wanted.value, '$[1]')
    AND seq BETWEEN json_extract(wanted.value, '$[2]') AND json_extract(wanted.value, '$[3]')"""
"""Rows of many ranges in one statement. Parameters: the RowRanges as JSON, and the thread. Each row comes with the
number of its range; CROSS JOIN keeps SQLite walking the ranges and not the table."""

# --- a fresh database ----------------------------------------------------------------------------------------------

TABLES: Final = {
    "thread": frozenset({"no", "key", "epoch", "owner", "status"}),
    "lease": frozenset({"thread", "epoch", "since", "beat", "moved", "expires"}),
    "lane": frozenset({"thread", "lane", "ns", "parent_lane", "parent_seq"}),
    "record": frozenset({"thread", "lane", "part", "seq", "kind", "data"}),
    "item": frozenset({"namespace", "key", "value", "created_at", "updated_at", "expires", "ttl"}),
    "vector": frozenset({"namespace", "key", "no", "data"}),
    "cache": frozenset({"ns", "key", "expires", "value"}),
    "run": frozenset(
        [
            "no",
            "id",
            "thread",
            "graph",
            "status",
            "rank",
            "due",
            "attempt",
            "owner",
            "beat",
            "expires",
            "stop",
            "epoch",
            "submitted",
            "started",
            "ended",
            "request",
            "answers",
            "report",
        ]
    ),
    "event": frozenset({"name", "key", "data", "at"}),
    "awaited": frozenset({"name", "key", "run"}),
    "schedule": frozenset({"name", "graph", "cron", "zone", "due", "request"}),
    "durable_graph_version": frozenset({"version_num"}),
}
"""Our tables and their columns, by which a database of ours is known."""

CREATE: Final = (
    """\
CREATE TABLE durable_graph_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT durable_graph_version_pkc PRIMARY KEY (version_num)
)""",
    """\
CREATE TABLE lane (
    thread INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    ns BLOB NOT NULL,
    parent_lane INTEGER NOT NULL,
    parent_seq INTEGER NOT NULL,
    CONSTRAINT lane_pk PRIMARY KEY (thread, lane)
)""",
    """\
CREATE TABLE lease (
    thread INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    since INTEGER NOT NULL,
    beat INTEGER NOT NULL,
    moved INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    CONSTRAINT lease_pk PRIMARY KEY (thread)
)""",
    """\
CREATE TABLE record (
    thread INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    part INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    data BLOB NOT NULL,
    CONSTRAINT record_pk PRIMARY KEY (thread, lane, part, seq)
)""",
    "CREATE INDEX record_base ON record (thread, lane, seq) WHERE part = 0 AND kind = 1",
    """\
CREATE TABLE thread (
    no INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    "key" BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    owner TEXT,
    status TEXT NOT NULL,
    CONSTRAINT thread_key UNIQUE ("key")
)""",
    """\
CREATE TABLE item (
    namespace BLOB NOT NULL,
    "key" BLOB NOT NULL,
    value BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    expires INTEGER,
    ttl INTEGER,
    CONSTRAINT item_pk PRIMARY KEY (namespace, "key")
)""",
    "CREATE INDEX item_expires ON item (expires) WHERE expires IS NOT NULL",
    """\
CREATE TABLE vector (
    namespace BLOB NOT NULL,
    "key" BLOB NOT NULL,
    no INTEGER NOT NULL,
    data BLOB NOT NULL,
    CONSTRAINT vector_pk PRIMARY KEY (namespace, "key", no)
)""",
    """\
CREATE TABLE cache (
    ns BLOB NOT NULL,
    "key" BLOB NOT NULL,
    expires INTEGER,
    value BLOB NOT NULL,
    CONSTRAINT cache_pk PRIMARY KEY (ns, "key")
)""",
    "CREATE INDEX cache_expires ON cache (expires) WHERE expires IS NOT NULL",
    """\
CREATE TABLE run (
    no INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    id BLOB NOT NULL,
    thread BLOB NOT NULL,
    graph BLOB NOT NULL,
    status TEXT NOT NULL,
    rank INTEGER NOT NULL,
    due INTEGER,
    attempt INTEGER NOT NULL,
    owner TEXT,
    beat INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    stop INTEGER NOT NULL,
    epoch INTEGER,
    submitted INTEGER NOT NULL,
    started INTEGER,
    ended INTEGER,
    request BLOB NOT NULL,
    answers BLOB,
    report BLOB,
    CONSTRAINT run_id UNIQUE (id)
)""",
    "CREATE INDEX run_open ON run (rank, due, no) WHERE ended IS NULL",
    "CREATE INDEX run_thread ON run (thread, no)",
    """\
CREATE TABLE event (
    name BLOB NOT NULL,
    "key" BLOB NOT NULL,
    data BLOB NOT NULL,
    at INTEGER NOT NULL,
    CONSTRAINT event_pk PRIMARY KEY (name, "key")
)""",
    """\
CREATE TABLE awaited (
    name BLOB NOT NULL,
    "key" BLOB NOT NULL,
    run INTEGER NOT NULL,
    CONSTRAINT awaited_pk PRIMARY KEY (name, "key", run)
)""",
    "CREATE INDEX awaited_run ON awaited (run)",
    """\
CREATE TABLE schedule (
    name BLOB NOT NULL,
    graph BLOB NOT NULL,
    cron TEXT NOT NULL,
    zone TEXT NOT NULL,
    due INTEGER NOT NULL,
    request BLOB NOT NULL,
    CONSTRAINT schedule_pk PRIMARY KEY (name)
)""",
)
