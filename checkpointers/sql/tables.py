"""The tables, as SQLAlchemy sees them: the one source of the schema.

Everything else is held against this file by tests: the DDL of a fresh database and the fixed statements
(`checkpointers.sql.statements`), and what the migrations make. Importing it imports SQLAlchemy, so a run never does.

The user's text (keys, namespaces) is kept as bytes, UTF-8 with surrogates let through: NUL and lone surrogates are
text that SQLite refuses or cuts and Postgres refuses. `owner` and `status` are words of ours.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

__all__ = [
    "METADATA",
    "awaited",
    "cache",
    "event",
    "item",
    "lane",
    "lease",
    "record",
    "run",
    "schedule",
    "thread",
    "vector",
    "version",
]

METADATA: Final = sa.MetaData()

_Number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""64 bits everywhere. On SQLite only a column called INTEGER can count by itself."""


def _number(name: str, **options: Any) -> sa.Column[int]:
    return sa.Column(name, _Number, nullable=False, **options)


thread: Final = sa.Table(
    "thread",
    METADATA,
    # AUTOINCREMENT: the number of a deleted thread must not come back, or its zombie writes into somebody else's.
    _number("no", primary_key=True, autoincrement=True),
    sa.Column("key", sa.LargeBinary, nullable=False),
    _number("epoch"),
    sa.Column("owner", sa.Text),
    sa.Column("status", sa.Text, nullable=False),
    sa.UniqueConstraint("key", name="thread_key"),
    sqlite_autoincrement=True,
)

# Who holds a thread gives signs of life here: in the thread's own row they and commits would wait for each other.
# Milliseconds: on SQLite since the machine's start, whose id the owner's name holds; on Postgres by the server's clock.
lease: Final = sa.Table(
    "lease",
    METADATA,
    _number("thread", autoincrement=False),
    _number("epoch"),
    _number("since"),
    _number("beat"),
    _number("moved"),
    _number("expires"),
    sa.PrimaryKeyConstraint("thread", name="lease_pk"),
)

lane: Final = sa.Table(
    "lane",
    METADATA,
    _number("thread"),
    _number("lane"),
    sa.Column("ns", sa.LargeBinary, nullable=False),
    _number("parent_lane"),
    _number("parent_seq"),
    sa.PrimaryKeyConstraint("thread", "lane", name="lane_pk"),
)

# A rowid table: WITHOUT ROWID took 4.9 times the bytes for rows of 1 KB [measured].
record: Final = sa.Table(
    "record",
    METADATA,
    _number("thread"),
    _number("lane"),
    _number("part"),
    _number("seq"),
    _number("kind"),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("thread", "lane", "part", "seq", name="record_pk"),
)

_bases = sa.and_(record.c.part == sa.text("0"), record.c.kind == sa.text("1"))

sa.Index(
    "record_base",
    record.c.thread,
    record.c.lane,
    record.c.seq,
    sqlite_where=_bases,
    postgresql_where=_bases,
)

# --- long-term memory: stores ---------------------------------------------------------------------------------------

# namespace: labels as `checkpointers.sql.store` writes them, so that a prefix is a range and order is tuple order.
# Times are milliseconds since 1970; ttl is milliseconds, by which a read moves `expires` on.
item: Final = sa.Table(
    "item",
    METADATA,
    sa.Column("namespace", sa.LargeBinary, nullable=False),
    sa.Column("key", sa.LargeBinary, nullable=False),
    sa.Column("value", sa.LargeBinary, nullable=False),
    _number("created_at"),
    _number("updated_at"),
    sa.Column("expires", _Number),
    sa.Column("ttl", _Number),
    sa.PrimaryKeyConstraint("namespace", "key", name="item_pk"),
)

_item_expires = item.c.expires.is_not(sa.null())

sa.Index("item_expires", item.c.expires, sqlite_where=_item_expires, postgresql_where=_item_expires)

# One row for each vector of an item: little-endian 64-bit floats.
vector: Final = sa.Table(
    "vector",
    METADATA,
    sa.Column("namespace", sa.LargeBinary, nullable=False),
    sa.Column("key", sa.LargeBinary, nullable=False),
    _number("no"),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("namespace", "key", "no", name="vector_pk"),
)

# --- caches ----------------------------------------------------------------------------------------------------------

cache: Final = sa.Table(
    "cache",
    METADATA,
    sa.Column("ns", sa.LargeBinary, nullable=False),
    sa.Column("key", sa.LargeBinary, nullable=False),
    sa.Column("expires", _Number),
    sa.Column("value", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("ns", "key", name="cache_pk"),
)

_cache_expires = cache.c.expires.is_not(sa.null())

sa.Index("cache_expires", cache.c.expires, sqlite_where=_cache_expires, postgresql_where=_cache_expires)

# --- the queue of runs ------------------------------------------------------------------------------------------------

# What the columns mean is said by `durable_graph.persistence.run_rows`.
run: Final = sa.Table(
    "run",
    METADATA,
    _number("no", primary_key=True, autoincrement=True),
    sa.Column("id", sa.LargeBinary, nullable=False),
    sa.Column("thread", sa.LargeBinary, nullable=False),
    sa.Column("graph", sa.LargeBinary, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    _number("rank"),
    sa.Column("due", _Number),
    _number("attempt"),
    sa.Column("owner", sa.Text),
    _number("beat"),
    _number("expires"),
    _number("stop"),
    sa.Column("epoch", _Number),
    _number("submitted"),
    sa.Column("started", _Number),
    sa.Column("ended", _Number),
    sa.Column("request", sa.LargeBinary, nullable=False),
    sa.Column("answers", sa.LargeBinary),
    sa.Column("report", sa.LargeBinary),
    sa.UniqueConstraint("id", name="run_id"),
    sqlite_autoincrement=True,
)

_run_open = run.c.ended.is_(sa.null())

sa.Index("run_open", run.c.rank, run.c.due, run.c.no, sqlite_where=_run_open, postgresql_where=_run_open)
# With all that ended: how the run before ended is asked too.
sa.Index("run_thread", run.c.thread, run.c.no)

event: Final = sa.Table(
    "event",
    METADATA,
    sa.Column("name", sa.LargeBinary, nullable=False),
    sa.Column("key", sa.LargeBinary, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    _number("at"),
    sa.PrimaryKeyConstraint("name", "key", name="event_pk"),
)

# Which run waits for which event.
awaited: Final = sa.Table(
    "awaited",
    METADATA,
    sa.Column("name", sa.LargeBinary, nullable=False),
    sa.Column("key", sa.LargeBinary, nullable=False),
    _number("run"),
    sa.PrimaryKeyConstraint("name", "key", "run", name="awaited_pk"),
)

sa.Index("awaited_run", awaited.c.run)

schedule: Final = sa.Table(
    "schedule",
    METADATA,
    sa.Column("name", sa.LargeBinary, nullable=False),
    sa.Column("graph", sa.LargeBinary, nullable=False),
    sa.Column("cron", sa.Text, nullable=False),
    sa.Column("zone", sa.Text, nullable=False),
    _number("due"),
    sa.Column("request", sa.LargeBinary, nullable=False),
    sa.PrimaryKeyConstraint("name", name="schedule_pk"),
)

# ---------------------------------------------------------------------------------------------------------------------

# alembic makes this one by itself; it stands here so that a fresh database needs no alembic.
version: Final = sa.Table(
    "durable_graph_version",
    METADATA,
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="durable_graph_version_pkc"),
)
