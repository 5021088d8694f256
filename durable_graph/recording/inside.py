"""What the function of a recorded step can reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from durable_graph.runtime.context import current
from durable_graph.runtime.places import INSIDE

if TYPE_CHECKING:
    from durable_graph.runtime.context import RunContext, Runtime, TaskContext

__all__ = ["StepContext"]


class StepContext:
    """A node's context as one of its steps sees it: with an idempotency key of its own."""

    __slots__ = ("_context", "_place")

    def __init__(self) -> None:
        self._place: Any = INSIDE.get()
        self._context: TaskContext = current("a step") if self._place is None else self._place.context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    @property
    def shared(self) -> RunContext:
        """What all tasks of the run share."""
        return self._context.shared

    @property
    def runtime(self) -> Runtime[Any]:
        """The node's runtime with the step's idempotency key."""
        runtime, place = self._context.runtime, self._place
        return runtime if place is None else runtime.override(key_source=place.durable_key)
