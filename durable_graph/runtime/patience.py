"""What a call does while another run holds its thread: `on_busy`."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from durable_graph.errors import ThreadBusy
    from durable_graph.types import OnBusy

__all__ = ["NONE", "Patience"]

_FIRST: Final = 0.005
_LONGEST: Final = 0.25
"""Seconds between two looks at the thread, the first and the longest."""


class Patience:
    """How long one call waits for its thread.

    "reject": not at all.   "wait": until it is free.   "takeover": until the lease of its owner is over, but no longer
    once the owner gives a sign of life.
    """

    def __init__(self, policy: OnBusy) -> None:
        self._policy: OnBusy = policy
        self._pause = _FIRST
        self._left: dict[str, float] = {}

    def after(self, busy: ThreadBusy) -> float:
        """Seconds to wait before the next look.

        Raises:
            ThreadBusy: the same one, when there is nothing to wait for.
        """
        if self._policy == "reject" or busy.own:
            raise busy
        if self._policy == "takeover":
            left = busy.left
            if left is None or left > self._left.setdefault(busy.owner, left):
                raise busy  # it keeps no lease, or lives
            self._left[busy.owner] = left
        pause, self._pause = self._pause, min(self._pause * 1.5, _LONGEST)
        return pause * (0.5 + random.random())  # noqa: S311 - a pause guards no secret


NONE: Final = Patience("reject")
"""It keeps nothing, so one serves all calls that do not wait."""
