"""What a node gets as `runtime`: what it may know of its run, and what it may ask of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from durable_graph.types import StreamWriter

if TYPE_CHECKING:
    from durable_graph.core.control import RunControl

__all__ = ["ExecutionInfo", "Runtime"]

ContextT = TypeVar("ContextT", default=Any)


@dataclass(slots=True, frozen=True)
class ExecutionInfo:
    """Which execution this is. `checkpoint_id` and `thread_id` are None without a checkpointer.

    node_attempt: 1, 2, ...   node_first_attempt_time: when the first of them began, seconds since 1970.
    """

    task_id: str
    checkpoint_id: str | None = None
    checkpoint_ns: str = ""
    thread_id: str | None = None
    run_id: str | None = None
    node_attempt: int = 1
    node_first_attempt_time: float | None = None


@dataclass(slots=True, frozen=True, kw_only=True)
class Runtime(Generic[ContextT]):
    """What a node gets as `runtime`.

    context: what the caller passed as `context=`.   store: the long-term memory, None when the graph has none.
    stream_writer: writes to the "custom" stream.   execution_info: which task, checkpoint and attempt this is.
    idempotency_key: stable over attempts and resumes, for services that do a thing once for each key; in a recorded
        step that step's own.
    heartbeat: to be called now and then by a node with an `idle_timeout`: it is alive. In an attempt that was given up
        it raises `AttemptOver`, so that the node ends.
    previous: what an entrypoint saved in its last run on this thread; None in the first one, and in graphs.
    control: what the caller passed as `control=`, here or to a graph around this one; a node may ask it to stop.
    """

    context: ContextT = field(default=None)  # pyright: ignore[reportAssignmentType] - None where no context is used
    store: Any = None
    stream_writer: StreamWriter = field(default=lambda _: None)
    execution_info: ExecutionInfo = field(default_factory=lambda: ExecutionInfo(""))
    key_source: Callable[[], str] = field(default=lambda: "", repr=False)
    heartbeat: Callable[[], None] = field(default=lambda: None, repr=False)
    previous: Any = None
    control: RunControl | None = None

    @property
    def idempotency_key(self) -> str:
        """Computed when somebody asks; then the task's checkpoint is durable before this returns."""
        return self.key_source()

    @property
    def drain_requested(self) -> bool:
        """Whether the run was asked to stop before its next step: a node that takes long may end early."""
        return self.control is not None and self.control.drain_requested

    @property
    def drain_reason(self) -> str | None:
        """Why; None when nobody asked."""
        return None if self.control is None else self.control.drain_reason

    def override(self, **changes: Any) -> Runtime[ContextT]:
        """A copy with other fields."""
        return replace(self, **changes)
