"""Leases: signs of life of who holds a thread.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "lease",
        sa.Column("thread", NUMBER, autoincrement=False, nullable=False),
        sa.Column("epoch", NUMBER, nullable=False),
        sa.Column("since", NUMBER, nullable=False),
        sa.Column("beat", NUMBER, nullable=False),
        sa.Column("moved", NUMBER, nullable=False),
        sa.Column("expires", NUMBER, nullable=False),
        sa.PrimaryKeyConstraint("thread", name="lease_pk"),
    )


def downgrade() -> None:
    op.drop_table("lease")
