"""The first tables: threads, their lanes, and the rows of each lane.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "thread",
        sa.Column("no", NUMBER, primary_key=True, autoincrement=True, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("epoch", NUMBER, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("status", sa.Text, nullable=False),
        sa.UniqueConstraint("key", name="thread_key"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "lane",
        sa.Column("thread", NUMBER, nullable=False),
        sa.Column("lane", NUMBER, nullable=False),
        sa.Column("ns", sa.LargeBinary, nullable=False),
        sa.Column("parent_lane", NUMBER, nullable=False),
        sa.Column("parent_seq", NUMBER, nullable=False),
        sa.PrimaryKeyConstraint("thread", "lane", name="lane_pk"),
    )
    op.create_table(
        "record",
        sa.Column("thread", NUMBER, nullable=False),
        sa.Column("lane", NUMBER, nullable=False),
        sa.Column("part", NUMBER, nullable=False),
        sa.Column("seq", NUMBER, nullable=False),
        sa.Column("kind", NUMBER, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("thread", "lane", "part", "seq", name="record_pk"),
    )
    op.create_index(
        "record_base",
        "record",
        ["thread", "lane", "seq"],
        sqlite_where=sa.text("part = 0 AND kind = 1"),
        postgresql_where=sa.text("part = 0 AND kind = 1"),
    )


def downgrade() -> None:
    for table in ("record", "lane", "thread"):
        op.drop_table(table)
