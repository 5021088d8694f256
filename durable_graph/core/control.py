"""`RunControl`: asking a run from outside to stop where it can be resumed."""

from __future__ import annotations

__all__ = ["RunControl"]


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
