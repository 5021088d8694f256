"""What every backend of ours does alike about claims, so that it is written once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from durable_graph.errors import InternalError

if TYPE_CHECKING:
    from durable_graph.records import Claim

__all__ = ["RUNNING", "different_rows"]

RUNNING: Final = "running"
"""The status of a thread that somebody holds."""


def different_rows(claim: Claim, lane: int, seq: int) -> InternalError:
    """The error for rows that were sent again under one epoch with another content."""
    return InternalError(
        f"Thread number {claim.no}, lane {lane}, seq {seq}: under epoch {claim.epoch} other rows are stored already. "
        "Nothing of this item was written; only identical rows may be sent again."
    )
