"""The events of one run, in their one total order, for the modes that somebody listens to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from durable_graph.core import streaming
from durable_graph.core.reports import snapshot_payload

if TYPE_CHECKING:
    from collections.abc import Mapping

    from durable_graph.core.mail import Relayed
    from durable_graph.core.planning import Task
    from durable_graph.core.program import Program
    from durable_graph.core.request import Request
    from durable_graph.core.streaming import Event
    from durable_graph.records import StoredCheckpoint

__all__ = ["Show"]

_TASKS = ("tasks", "debug")
_CHECKPOINTS = ("checkpoints", "debug")


class Show:
    """What happened and was not handed over yet: `events`. `modes` is empty when nobody listens."""

    __slots__ = ("_program", "_request", "events", "modes")

    def __init__(self, program: Program, request: Request) -> None:
        self._program = program
        self._request = request
        self.modes = request.modes
        self.events: list[Event] = []

    def take(self) -> list[Event]:
        """The events since the last call."""
        events, self.events = self.events, []
        return events

    @property
    def checkpoints(self) -> bool:
        """Whether somebody wants to see checkpoints."""
        return not self.modes.isdisjoint(_CHECKPOINTS)

    def note(self, mode: str, payload: Any) -> None:
        """An event of one mode."""
        if mode in self.modes:
            self.events.append((mode, payload))

    def relay(self, mail: Relayed) -> None:
        """An event of a graph inside a task: (mode, payload, namespace)."""
        self.events.append((mail.mode, mail.payload, mail.ns))

    def stopped(self) -> None:
        """The run stops at a static breakpoint."""
        self.note("updates", {"__interrupt__": ()})

    def values(self, values: Mapping[str, Any]) -> None:
        """The state as it is now."""
        if "values" in self.modes:
            self.note("values", streaming.state(self._program, values, self._request.copy))

    def checkpoint(self, stored: StoredCheckpoint) -> None:
        """A checkpoint was stored."""
        payload = snapshot_payload(self._program, self._request, stored)
        self.note("checkpoints", payload)
        self._debug(stored.step.step, "checkpoint", payload)

    def started(self, task: Task, values: Mapping[str, Any], step: int) -> None:
        """An attempt of a task starts; an error handler's goes without saying, its node has just failed."""
        if task.spec.hidden or self.modes.isdisjoint(_TASKS) or (task.cause is not None and task.attempt == 1):
            return
        payload = streaming.start_payload(task, values, self._request.copy)
        self.note("tasks", payload)
        self._debug(step, "task", payload)

    def ended(self, task: Task, values: Mapping[str, Any], step: int) -> None:
        """A task finished, failed for good, or asked."""
        if task.spec.hidden:
            return
        if task.writes is not None:
            if self._request.heard is not None:
                for payload in self._request.heard(task, values):
                    self.note("messages", payload)
            self.note("updates", streaming.update_payload(task, self._request.copy, cached=task.cached))
        elif task.interrupts:
            self.question(task, values)
        if not self.modes.isdisjoint(_TASKS):
            payload = streaming.result_payload(task, self._request.copy)
            self.note("tasks", payload)
            self._debug(step, "task_result", payload)

    def known(self, task: Task) -> None:
        """A task whose result was stored by an earlier call."""
        if self._request.heard is not None:
            self._request.heard.known(task)
        if not task.spec.hidden and "updates" in self.modes:
            self.note("updates", streaming.update_payload(task, self._request.copy, cached=True))

    def question(self, task: Task, values: Mapping[str, Any]) -> None:
        """A task waits for a human."""
        self.note("updates", {"__interrupt__": task.interrupts})
        if "values" in self.modes:
            shown = streaming.state(self._program, values, self._request.copy)
            self.note("values", shown if self._program.root else {**shown, "__interrupt__": task.interrupts})

    def _debug(self, step: int, kind: str, payload: Any) -> None:
        self.note("debug", {"step": step, "timestamp": "", "type": kind, "payload": payload})
