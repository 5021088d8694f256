"""`RunControl`: asking a run from outside to stop where it can be resumed."""

from __future__ import annotations

from typing import Final

__all__ = ["ANY_EPOCH", "CarryControl", "RunControl"]

ANY_EPOCH: Final = -1
"""Wherever the thread stands."""


class RunControl:
    """Handed to a run as `control=`; any OS thread may then ask it to stop.

    The run finishes the step it is in, stores it, and raises `GraphDrained`; `invoke(None, config)` goes on from there.
    Graphs inside its nodes stop in the same way. A run that had nothing left to do ends as usual.
    """

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        self._asked: dict[str, str] = {}

    def request_drain(self, reason: str = "shutdown") -> None:
        """Ask the run to stop before its next step. The first reason stays."""
        _ = self._asked.setdefault("reason", reason)  # one step, whatever other OS threads do

    @property
    def drain_requested(self) -> bool:
        """Whether somebody asked."""
        return bool(self._asked)

    @property
    def drain_reason(self) -> str | None:
        """Why; None when nobody asked."""
        return self._asked.get("reason")


class CarryControl(RunControl):
    """The control of a run that a worker carries.

    since: the epoch that the thread had (None: there was none) when the run was still this worker's for certain. Where
    the thread has another one, somebody else goes on with the run, and this worker, who stood still, must not begin.
    """

    __slots__ = ("since",)

    def __init__(self) -> None:
        super().__init__()
        self.since: int | None = ANY_EPOCH
