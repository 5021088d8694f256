"""Control flow, not failure: what passes `except Exception` in users' code. `durable_graph.errors` has them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["AttemptOver", "GraphBubbleUp", "GraphDrained", "GraphInterrupt", "ParentCommand"]


class GraphBubbleUp(BaseException):
    """Control flow, not failure: derives from BaseException so that `except Exception` lets it pass."""


class GraphInterrupt(GraphBubbleUp):
    """A node stopped for a human. `interrupts` are the open questions."""

    def __init__(self, interrupts: Sequence[Any] = ()) -> None:
        super().__init__(interrupts)
        self.interrupts = tuple(interrupts)


class ParentCommand(GraphBubbleUp):
    """Carries Commands to the parent graph: `commands`, most often one (`command`)."""

    def __init__(self, *commands: Any) -> None:
        super().__init__(*commands)
        self.commands = commands

    @property
    def command(self) -> Any:
        """The first of them."""
        return self.commands[0]


class GraphDrained(GraphBubbleUp):
    """A run was asked to stop (`RunControl.request_drain`) and did. `invoke(None, config)` goes on from there."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class AttemptOver(GraphBubbleUp):
    """Raised in a node whose attempt was given up and which goes on all the same: nothing it does counts any more."""

    def __init__(self, node: str = "") -> None:
        super().__init__(node)
        self.node = node
