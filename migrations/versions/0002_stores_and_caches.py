"""Long-term memory (items and their vectors) and caches of nodes and tasks.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "item",
        sa.Column("namespace", sa.LargeBinary, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sa.Column("created_at", NUMBER, nullable=False),
        sa.Column("updated_at", NUMBER, nullable=False),
        sa.Column("expires", NUMBER),
        sa.Column("ttl", NUMBER),
        sa.PrimaryKeyConstraint("namespace", "key", name="item_pk"),
    )
    op.create_table(
        "vector",
        sa.Column("namespace", sa.LargeBinary, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("no", NUMBER, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("namespace", "key", "no", name="vector_pk"),
    )
    op.create_table(
        "cache",
        sa.Column("ns", sa.LargeBinary, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.Column("expires", NUMBER),
        sa.Column("value", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("ns", "key", name="cache_pk"),
    )
    for table in ("item", "cache"):
        op.create_index(
            f"{table}_expires",
            table,
            ["expires"],
            sqlite_where=sa.text("expires IS NOT NULL"),
            postgresql_where=sa.text("expires IS NOT NULL"),
        )


def downgrade() -> None:
    for table in ("cache", "vector", "item"):
        op.drop_table(table)
