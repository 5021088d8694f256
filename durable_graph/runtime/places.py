"""What the floors above tell this one of recorded steps, the tasks of a node, and entrypoints."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from durable_graph.runtime.callables import Body
    from durable_graph.runtime.context import TaskContext

__all__ = ["INSIDE", "PREVIOUS", "SAVED", "Children", "StepPlace"]

PREVIOUS: Final = "__previous__"
"""In the state of an entrypoint: what it saved for its next run, where that is not what it returned."""
SAVED: Final = "__end__"
"""In the state of an entrypoint: what it returned."""


class StepPlace(Protocol):
    """A recorded step. `path` names it among all steps of its task, those it is called in first; `order` is when it was
    called, among them.
    """

    @property
    def context(self) -> TaskContext:
        """The attempt it runs in."""
        ...

    @property
    def path(self) -> str:
        """See above."""
        ...

    @property
    def order(self) -> tuple[int, ...]:
        """See above."""
        ...


INSIDE: ContextVar[StepPlace | None] = ContextVar("durable_graph_step", default=None)
"""The innermost recorded step."""


class Children(Protocol):
    """The tasks that an attempt started and that may still run. `ending` is called with it before the attempt ends."""

    @property
    def ending(self) -> Body:
        """Waits for all of them."""
        ...

    def abandon(self) -> None:
        """The attempt is over. Where it was cut short, nothing that still runs counts from now on."""
        ...
