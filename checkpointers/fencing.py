"""What every backend of ours does alike about claims, so that it is written once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from durable_graph.errors import InternalError, InvalidConfigError
from durable_graph.records import LEASE

if TYPE_CHECKING:
    from durable_graph.records import Claim

__all__ = ["LEASE_SECONDS", "RUNNING", "checked_lease", "different_rows"]

RUNNING: Final = "running"
"""The status of a thread that somebody holds."""

LEASE_SECONDS: Final = LEASE / 1000
"""How long a claim is good after its owner's last sign of life, where nobody says another time."""


def checked_lease(seconds: float | str) -> float:
    """The length of a lease in seconds.

    Raises:
        InvalidConfigError: no number of seconds, or too short for signs of life at a third of it.
    """
    try:
        found = float(seconds)
    except ValueError:
        found = 0.0
    if not 0.3 <= found <= 86_400:  # noqa: PLR2004 - the bounds of the text below
        raise InvalidConfigError(
            f"lease={seconds!r}: it is a number of seconds, from 0.3 to 86,400 (a day).", cure="Leave it out: 15 s."
        )
    return found


def different_rows(claim: Claim, lane: int, seq: int) -> InternalError:
    """The error for rows that were sent again under one epoch with another content."""
    return InternalError(
        f"Thread number {claim.no}, lane {lane}, seq {seq}: under epoch {claim.epoch} other rows are stored already. "
        "Nothing of this item was written; only identical rows may be sent again."
    )
