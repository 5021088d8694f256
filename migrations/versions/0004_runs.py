"""Runs: the queue, events that runs wait for, and schedules.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "run",
        sa.Column("no", NUMBER, primary_key=True, autoincrement=True, nullable=False),
        sa.Column("id", sa.LargeBinary, nullable=False),
        sa.Column("thread", sa.LargeBinary, nullable=False),
        sa.Column("graph", sa.LargeBinary, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("rank", NUMBER, nullable=False),
        sa.Column("due", NUMBER),
        sa.Column("attempt", NUMBER, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("beat", NUMBER, nullable=False),
        sa.Column("expires", NUMBER, nullable=False),
        sa.Column("stop", NUMBER, nullable=False),
        sa.Column("epoch", NUMBER),
        sa.Column("submitted", NUMBER, nullable=False),
        sa.Column("started", NUMBER),
        sa.Column("ended", NUMBER),
        sa.Column("request", sa.LargeBinary, nullable=False),
        sa.Column("answers", sa.LargeBinary),
        sa.Column("report", sa.LargeBinary),
        sa.UniqueConstraint("id", name="run_id"),
        sqlite_autoincrement=True,
    )
    unended = sa.text("ended IS NULL")
    op.create_index("run_open", "run", ["rank", "due", "no"], sqlite_where=unended, postgresql_where=unended)
    op.create_index("run_thread", "run", ["thread", "no"])
    op.create_table(
        "event",
        sa.Column("name", sa.LargeBinary, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.Column("at", NUMBER, nullable=False),
        sa.PrimaryKeyConstraint("name", "key", name="event_pk"),
    )
    op.create_table(
        "awaited",
        sa.Column("name", sa.LargeBinary, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("run", NUMBER, nullable=False),
        sa.PrimaryKeyConstraint("name", "key", "run", name="awaited_pk"),
    )
    op.create_index("awaited_run", "awaited", ["run"])
    op.create_table(
        "schedule",
        sa.Column("name", sa.LargeBinary, nullable=False),
        sa.Column("graph", sa.LargeBinary, nullable=False),
        sa.Column("cron", sa.Text, nullable=False),
        sa.Column("zone", sa.Text, nullable=False),
        sa.Column("due", NUMBER, nullable=False),
        sa.Column("request", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("name", name="schedule_pk"),
    )


def downgrade() -> None:
    for table in ("schedule", "awaited", "event", "run"):
        op.drop_table(table)
