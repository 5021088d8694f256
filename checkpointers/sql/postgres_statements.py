# ruff: noqa: S608 - every name in these texts is our own; a schema is quoted
"""The fixed texts on Postgres, and the DDL of a fresh schema. Tests hold them against `checkpointers.sql.tables`.

`@` before a table's name becomes the quoted schema (`in_schema`). Rules they follow, each found by a failure:

- the fence is a row lock, not an EXISTS: else a writer that is in flight adds its row after a takeover has loaded
- a takeover locks in one statement and looks in the next: the first one's snapshot is older than its lock
- an item is one statement, so it is all or nothing without a transaction of its own; where only some of its places are
  free it divides by zero, which undoes it
- VALUES, not unnest, for one item: 1.05 against 1.2-1.5 times a bare insert
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

__all__ = [
    "COLUMNS",
    "COMMIT_ROWS",
    "CREATE",
    "FIND_LANE",
    "FIND_ROW",
    "FIND_SCHEMA",
    "LOAD",
    "LOCK",
    "LOCK_SETUP",
    "MINE",
    "RANGES",
    "RENEW",
    "REVISION",
    "SEARCH_HERE",
    "SETTLE",
    "STAMP",
    "THREADS",
    "commit_text",
    "create_text",
    "in_schema",
    "takeover_text",
]


def in_schema(text: str, schema: str) -> bytes:
    """A text for the tables of one schema, as psycopg sends it. % doubled: every text is run with parameters."""
    quoted = schema.replace('"', '""').replace("%", "%%")
    return text.replace("@", f'"{quoted}".').encode()


# --- commit --------------------------------------------------------------------------------------------------------

_HELD: Final = "SELECT no, owner, status FROM @thread WHERE no = %s AND epoch = %s FOR SHARE"
_HELD_TO_RELEASE: Final = "SELECT no, owner, status FROM @thread WHERE no = %s AND epoch = %s FOR NO KEY UPDATE"
_RELEASED: Final = """\
UPDATE @thread AS held SET owner = NULL, status = %s FROM fence
    WHERE held.no = fence.no AND (fence.owner IS NOT NULL OR fence.status <> %s) RETURNING 1"""

_CREATED: Final = """\
INSERT INTO @thread (key, epoch, owner, status) VALUES (%b, %s, %s, %s) ON CONFLICT DO NOTHING RETURNING no"""
_TAKEN: Final = """\
UPDATE @thread AS taken SET epoch = %s, owner = %s, status = %s
    WHERE key = %b AND epoch = %s AND NOT EXISTS (
        SELECT 1 FROM @record AS newer WHERE newer.thread = taken.no AND lane = %s AND part = 0 AND seq > %s
    ) RETURNING no"""

_LANE: Final = "(%s::bigint, %b::bytea, %s::bigint, %s::bigint)"
_ROW: Final = "(%s::bigint, %s::bigint, %s::bigint, %s::bigint, %b::bytea)"


@lru_cache(maxsize=512)
def commit_text(lanes: int, rows: int, *, release: bool) -> str:
    """A CommitItem. Parameters: Claim, lanes (lane, ns, parent_lane, parent_seq), rows, and twice the status.

    Gives (the fence held, lanes and rows added, the thread was released). An item that releases and whose places are
    taken is undone too: whether the same is there has to be looked at before the thread is given back.
    """
    more = f",\nreleased AS (\n    {_RELEASED}\n)" if release else ""
    released = "(SELECT count(*) FROM released)" if release else "0"
    fence = _HELD_TO_RELEASE if release else _HELD
    instead = "NOT EXISTS (SELECT FROM fence)" if release else "added = 0"
    return (
        _adding(fence, lanes, rows)
        + more
        + f"\nSELECT (SELECT count(*) FROM fence), added, {released}, 1 / (added = {lanes + rows} OR {instead})::int"
        + "\nFROM (SELECT "
        + _added(lanes, rows)
        + ") AS sum"
    )


COMMIT_ROWS: Final = """\
WITH given AS (
    SELECT * FROM unnest(
        %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bytea[]
    ) AS given (lane, part, seq, kind, no, epoch, data)
), fence AS (
    SELECT no, epoch FROM @thread WHERE (no, epoch) IN (SELECT no, epoch FROM given) ORDER BY no FOR SHARE
), new_row AS (
    INSERT INTO @record (thread, lane, part, seq, kind, data)
    SELECT no, lane, part, seq, kind, data FROM fence JOIN given USING (no, epoch)
    ON CONFLICT DO NOTHING RETURNING 1
), stale AS (
    SELECT no, epoch FROM given WHERE (no, epoch) NOT IN (SELECT no, epoch FROM fence)
)
SELECT (SELECT array_agg(no) FROM stale), (SELECT array_agg(epoch) FROM stale),
    1 / ((SELECT count(*) FROM new_row) + (SELECT count(*) FROM stale) = %s)::int"""
"""Rows of several claims. Parameters: a list of each column, and how many rows. Gives the claims that do not hold, one
for each of their rows; where a place of another one is taken it divides by zero.

Sending a statement takes psycopg longer than Postgres takes to run it: for a row among many this is a tenth.
"""

_LEASED: Final = """\
INSERT INTO @lease (thread, epoch, since, beat, moved, expires)
    SELECT no, %s, clock.now, clock.now, clock.now, clock.now + %s::bigint FROM fence, clock
    ON CONFLICT (thread) DO UPDATE SET epoch = excluded.epoch, since = excluded.since, beat = excluded.beat,
        moved = excluded.moved, expires = excluded.expires"""
_CLOCK: Final = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now"
"""Milliseconds since 1970 by the server's clock."""


def create_text(lanes: int, rows: int) -> str:
    """A claim of a new thread. Parameters: key, epoch, owner, status, lanes, rows, epoch, lease. Gives its number;
    NULL: refused.
    """
    return _claiming(_CREATED, lanes, rows)


def takeover_text(lanes: int, rows: int) -> str:
    """A claim, after LOCK in the same transaction. Parameters: new epoch, owner, status, key, epoch, lane, seen, lanes,
    rows, new epoch, lease. Gives the thread's number; NULL: refused.
    """
    return _claiming(_TAKEN, lanes, rows)


def _claiming(fence: str, lanes: int, rows: int) -> str:
    return (
        _adding(fence, lanes, rows)
        + f",\nclock AS (\n    {_CLOCK}\n), leased AS (\n    {_LEASED}\n)"
        + f"\nSELECT no, 1 / (no IS NULL OR added = {lanes + rows})::int"
        + "\nFROM (SELECT (SELECT no FROM fence) AS no, "
        + _added(lanes, rows)
        + ") AS sum"
    )


def _adding(fence: str, lanes: int, rows: int) -> str:
    parts = [f"WITH fence AS (\n    {fence}\n)"]
    if lanes:
        parts.append(
            "new_lane AS (\n    INSERT INTO @lane (thread, lane, ns, parent_lane, parent_seq)\n"
            f"    SELECT fence.no, given.* FROM fence, (VALUES {', '.join([_LANE] * lanes)}) AS given\n"
            "    ON CONFLICT DO NOTHING RETURNING 1\n)"
        )
    if rows:
        parts.append(
            "new_row AS (\n    INSERT INTO @record (thread, lane, part, seq, kind, data)\n"
            f"    SELECT fence.no, given.* FROM fence, (VALUES {', '.join([_ROW] * rows)}) AS given\n"
            "    ON CONFLICT DO NOTHING RETURNING 1\n)"
        )
    return ",\n".join(parts)


def _added(lanes: int, rows: int) -> str:
    counts = [f"(SELECT count(*) FROM {name})" for name, n in (("new_lane", lanes), ("new_row", rows)) if n]
    return (" + ".join(counts) or "0") + " AS added"


LOCK: Final = "SELECT 1 FROM @thread WHERE key = %b AND epoch = %s FOR UPDATE"

MINE: Final = "SELECT no FROM @thread WHERE key = %b AND epoch = %s AND owner = %s"
"""Whether a claim whose answer was lost was granted: an owner names one run."""

RENEW: Final = f"""\
WITH clock AS (
    {_CLOCK}
)
UPDATE @lease SET beat = now, expires = now + given.lease, moved = CASE WHEN given.moved THEN now ELSE lease.moved END
FROM clock, unnest(%b::bigint[], %b::bigint[], %b::boolean[], %b::bigint[]) AS given (thread, epoch, moved, lease)
WHERE lease.thread = given.thread AND lease.epoch = given.epoch"""

FIND_ROW: Final = """\
SELECT lane, part, seq, kind, data FROM @record WHERE thread = %s AND lane = %s AND part = %s AND seq = %s"""

FIND_LANE: Final = "SELECT lane, ns, parent_lane, parent_seq FROM @lane WHERE thread = %s AND lane = %s"

# --- load ----------------------------------------------------------------------------------------------------------

LOAD: Final = f"""\
WITH found AS (
    SELECT no, thread.epoch, owner, status, lease.since, lease.beat, lease.moved, lease.expires
    FROM @thread AS thread
    LEFT JOIN @lease AS lease ON lease.thread = no AND lease.epoch = thread.epoch AND owner IS NOT NULL
    WHERE key = %(key)b
), branch AS (
    SELECT lane.lane, ns, parent_lane, parent_seq, coalesce((
        SELECT max(seq) FROM @record AS newest
        WHERE newest.thread = lane.thread AND newest.lane = lane.lane AND part = 0
    ), 0) AS last
    FROM found JOIN @lane AS lane ON lane.thread = found.no
), wanted AS (
    SELECT coalesce(
        %(lane)s::bigint, (SELECT lane FROM branch WHERE ns = %(ns)b ORDER BY last DESC, lane DESC LIMIT 1), 0
    ) AS lane
), part AS (
    SELECT no, lane, coalesce((
        SELECT max(seq) FROM @record AS base
        WHERE base.thread = no AND base.lane = wanted.lane AND part = 0 AND kind = 1
            AND seq <= coalesce(%(upto)s::bigint, 9223372036854775807)
    ), 0) AS first
    FROM found, wanted
)
SELECT 0, no, epoch, (SELECT lane FROM wanted), 0, owner, status, NULL::bytea FROM found
UNION ALL SELECT 3, now - since, now - beat, now - moved, expires - now, NULL, NULL, NULL
FROM found, ({_CLOCK}) AS clock WHERE since IS NOT NULL
UNION ALL SELECT 1, lane, parent_lane, parent_seq, last, NULL, NULL, ns FROM branch
UNION ALL SELECT 2, record.lane, record.part, seq, kind, NULL, NULL, data
FROM part JOIN @record AS record
    ON record.thread = part.no AND record.lane = part.lane AND record.part = 0 AND seq >= part.first"""
"""One statement, so that the thread, its lanes and the rows are of one moment."""

THREADS: Final = f"""\
SELECT no, key, thread.epoch, owner, status, now - lease.since, now - lease.beat, now - lease.moved,
    lease.expires - now
FROM ({_CLOCK}) AS clock, @thread AS thread
    LEFT JOIN @lease AS lease ON lease.thread = no AND lease.epoch = thread.epoch AND owner IS NOT NULL
WHERE no > %s ORDER BY no LIMIT %s"""

RANGES: Final = """\
SELECT wanted.number, record.lane, record.part, seq, kind, data
FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[])
    WITH ORDINALITY AS wanted (lane, part, first, last, number)
JOIN @record AS record
    ON thread = %s AND record.lane = wanted.lane AND record.part = wanted.part
    AND seq BETWEEN wanted.first AND wanted.last"""

# --- a fresh schema ------------------------------------------------------------------------------------------------

SETTLE: Final = """\
SELECT set_config(name, value, false)
FROM (VALUES
    ('lock_timeout', '1s'),
    ('tcp_keepalives_idle', '10'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '4')
) AS ours (name, value)
WHERE name <> 'lock_timeout' OR current_setting(name) = '0'"""
"""For a session of our own: how long it waits for a lock before others of its process have a try, where nobody says
otherwise; and the server shall notice soon that our machine is gone, and with it the locks of half a pipeline."""

LOCK_SETUP: Final = "SELECT pg_advisory_xact_lock(hashtext('durable_graph'), hashtext(%s))"
"""Of processes that start together one makes the tables of a schema, and the others find them."""

COLUMNS: Final = """\
SELECT c.relname, a.attname
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid
WHERE n.nspname = %s AND c.relname = ANY(%s) AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped"""

SEARCH_HERE: Final = "SELECT set_config('search_path', quote_ident(%s), true)"
"""What a revision makes without saying where is made in this schema, until the transaction ends."""

FIND_SCHEMA: Final = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = %s"

REVISION: Final = "SELECT version_num FROM @durable_graph_version"
STAMP: Final = "INSERT INTO @durable_graph_version (version_num) VALUES (%s)"

CREATE: Final = (
    """\
CREATE TABLE @durable_graph_version (
    version_num VARCHAR(32) NOT NULL,
    CONSTRAINT durable_graph_version_pkc PRIMARY KEY (version_num)
)""",
    """\
CREATE TABLE @lane (
    thread BIGINT NOT NULL,
    lane BIGINT NOT NULL,
    ns BYTEA NOT NULL,
    parent_lane BIGINT NOT NULL,
    parent_seq BIGINT NOT NULL,
    CONSTRAINT lane_pk PRIMARY KEY (thread, lane)
)""",
    """\
CREATE TABLE @lease (
    thread BIGINT NOT NULL,
    epoch BIGINT NOT NULL,
    since BIGINT NOT NULL,
    beat BIGINT NOT NULL,
    moved BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    CONSTRAINT lease_pk PRIMARY KEY (thread)
)""",
    """\
CREATE TABLE @record (
    thread BIGINT NOT NULL,
    lane BIGINT NOT NULL,
    part BIGINT NOT NULL,
    seq BIGINT NOT NULL,
    kind BIGINT NOT NULL,
    data BYTEA NOT NULL,
    CONSTRAINT record_pk PRIMARY KEY (thread, lane, part, seq)
)""",
    "CREATE INDEX record_base ON @record (thread, lane, seq) WHERE part = 0 AND kind = 1",
    """\
CREATE TABLE @thread (
    no BIGSERIAL NOT NULL,
    "key" BYTEA NOT NULL,
    epoch BIGINT NOT NULL,
    owner TEXT,
    status TEXT NOT NULL,
    PRIMARY KEY (no),
    CONSTRAINT thread_key UNIQUE ("key")
)""",
    """\
CREATE TABLE @item (
    namespace BYTEA NOT NULL,
    "key" BYTEA NOT NULL,
    value BYTEA NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    expires BIGINT,
    ttl BIGINT,
    CONSTRAINT item_pk PRIMARY KEY (namespace, "key")
)""",
    "CREATE INDEX item_expires ON @item (expires) WHERE expires IS NOT NULL",
    """\
CREATE TABLE @vector (
    namespace BYTEA NOT NULL,
    "key" BYTEA NOT NULL,
    no BIGINT NOT NULL,
    data BYTEA NOT NULL,
    CONSTRAINT vector_pk PRIMARY KEY (namespace, "key", no)
)""",
    """\
CREATE TABLE @cache (
    ns BYTEA NOT NULL,
    "key" BYTEA NOT NULL,
    expires BIGINT,
    value BYTEA NOT NULL,
    CONSTRAINT cache_pk PRIMARY KEY (ns, "key")
)""",
    "CREATE INDEX cache_expires ON @cache (expires) WHERE expires IS NOT NULL",
    """\
CREATE TABLE @run (
    no BIGSERIAL NOT NULL,
    id BYTEA NOT NULL,
    thread BYTEA NOT NULL,
    graph BYTEA NOT NULL,
    status TEXT NOT NULL,
    rank BIGINT NOT NULL,
    due BIGINT,
    attempt BIGINT NOT NULL,
    owner TEXT,
    beat BIGINT NOT NULL,
    expires BIGINT NOT NULL,
    stop BIGINT NOT NULL,
    epoch BIGINT,
    submitted BIGINT NOT NULL,
    started BIGINT,
    ended BIGINT,
    request BYTEA NOT NULL,
    answers BYTEA,
    report BYTEA,
    PRIMARY KEY (no),
    CONSTRAINT run_id UNIQUE (id)
)""",
    "CREATE INDEX run_open ON @run (rank, due, no) WHERE ended IS NULL",
    "CREATE INDEX run_thread ON @run (thread, no)",
    """\
CREATE TABLE @event (
    name BYTEA NOT NULL,
    "key" BYTEA NOT NULL,
    data BYTEA NOT NULL,
    at BIGINT NOT NULL,
    CONSTRAINT event_pk PRIMARY KEY (name, "key")
)""",
    """\
CREATE TABLE @awaited (
    name BYTEA NOT NULL,
    "key" BYTEA NOT NULL,
    run BIGINT NOT NULL,
    CONSTRAINT awaited_pk PRIMARY KEY (name, "key", run)
)""",
    "CREATE INDEX awaited_run ON @awaited (run)",
    """\
CREATE TABLE @schedule (
    name BYTEA NOT NULL,
    graph BYTEA NOT NULL,
    cron TEXT NOT NULL,
    zone TEXT NOT NULL,
    due BIGINT NOT NULL,
    request BYTEA NOT NULL,
    CONSTRAINT schedule_pk PRIMARY KEY (name)
)""",
)
