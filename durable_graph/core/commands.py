"""A Command given as input: writes and routes that belong to no task.

On a thread that waits or was cut short, its writes are applied before the step that waits and its targets run in that
step. It is kept as a record of its own among the pending ones, so that task ids, and with them the open questions,
stay. On any other thread it makes a checkpoint of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from durable_graph.channels import EphemeralValue, LastValue, UntrackedValue
from durable_graph.core.planning import hold_back
from durable_graph.records import Frontier, TaskRecord
from durable_graph.types import Overwrite, Send

if TYPE_CHECKING:
    from collections.abc import Mapping

    from durable_graph.channels import BaseChannel
    from durable_graph.core.request import Request
    from durable_graph.records import StoredCheckpoint

__all__ = ["COMMAND_PATH", "combined", "command_of", "extended", "live_frontier", "replaces"]

COMMAND_PATH: Final = ""
"""The path of the record of a Command."""


def command_of(request: Request) -> TaskRecord | None:
    """The record of a request's writes and routes; None when it has none."""
    if request.kind != "command" or not (request.writes or request.routes):
        return None
    return TaskRecord(COMMAND_PATH, "", "", writes=tuple(request.writes), routes=tuple(request.routes))


def combined(
    channels: Mapping[str, BaseChannel[Any, Any]], earlier: TaskRecord | None, later: TaskRecord | None
) -> TaskRecord | None:
    """Two Commands for one waiting step, as one. Where the later says what a key holds, the earlier is forgotten."""
    if earlier is None or later is None:
        return earlier or later
    added = later.writes or ()
    replaced = {write.key for write in added if replaces(channels.get(write.key), write.value)}
    kept = [write for write in earlier.writes or () if write.key not in replaced]
    return TaskRecord(COMMAND_PATH, "", "", writes=(*kept, *added), routes=(*earlier.routes, *later.routes))


def replaces(channel: BaseChannel[Any, Any] | None, value: Any) -> bool:
    """Whether a write says all of what its key holds, instead of adding to it."""
    return isinstance(value, Overwrite) or isinstance(channel, LastValue | EphemeralValue | UntrackedValue)


def extended(frontier: Frontier, command: TaskRecord | None, deferred: frozenset[str] = frozenset()) -> Frontier:
    """What runs next, with the targets of a Command. `deferred`: nodes that wait as long as anything else would run."""
    if command is None or not command.routes:
        return frontier
    nodes = {*frontier.nodes, *(route for route in command.routes if isinstance(route, str))}
    sends = (*frontier.sends, *(route for route in command.routes if isinstance(route, Send)))
    found = Frontier(tuple(sorted(nodes)), sends, frontier.arrived, frontier.deferred)
    return hold_back(deferred, found, released=frontier.nodes)


def live_frontier(stored: StoredCheckpoint, deferred: frozenset[str] = frozenset()) -> Frontier:
    """What runs next on a thread as it is now, with the targets of a Command that came after the checkpoint."""
    return extended(stored.step.frontier, stored.pending.get(COMMAND_PATH), deferred)
