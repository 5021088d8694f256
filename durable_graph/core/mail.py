"""The only way into the core: what drivers report about tasks. Times are seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durable_graph.core.planning import Task
    from durable_graph.records import ErrorRecord, Write
    from durable_graph.types import Command, Interrupt, Send

__all__ = ["Failed", "Finished", "Interrupted", "Late", "Mail", "Relayed", "Said"]


@final
class Finished:
    """A task ended well. `cached`: its result was kept from another one."""

    __slots__ = ("answered", "cached", "duration", "routes", "started", "task", "writes")

    def __init__(
        self,
        task: Task,
        writes: Sequence[Write],
        routes: Sequence[str | Send | Command[Any]] = (),
        answered: tuple[str, ...] = (),
        started: float = 0.0,
        duration: float = 0.0,
        *,
        cached: bool = False,
    ) -> None:
        self.task = task
        self.cached = cached
        self.writes = writes
        self.routes = routes
        self.answered = answered
        self.started = started
        self.duration = duration


@final
class Failed:
    """A task raised. `rejected` are the ids of interrupts whose stored answers did not fit."""

    __slots__ = ("duration", "error", "record", "rejected", "started", "task")

    def __init__(
        self,
        task: Task,
        error: BaseException,
        record: ErrorRecord,
        rejected: tuple[str, ...] = (),
        started: float = 0.0,
        duration: float = 0.0,
    ) -> None:
        self.task = task
        self.error = error
        self.record = record
        self.rejected = rejected
        self.started = started
        self.duration = duration


@final
class Interrupted:
    """A task asked for a human."""

    __slots__ = ("answered", "duration", "interrupts", "started", "task")

    def __init__(
        self,
        task: Task,
        interrupts: Sequence[Interrupt],
        answered: tuple[str, ...] = (),
        started: float = 0.0,
        duration: float = 0.0,
    ) -> None:
        self.task = task
        self.interrupts = tuple(interrupts)
        self.answered = answered
        self.started = started
        self.duration = duration


@final
class Said:
    """A running task wrote to the custom stream, or, with another `mode`, to that one."""

    __slots__ = ("data", "mode", "task")

    def __init__(self, task: Task, data: Any, mode: str = "custom") -> None:
        self.task = task
        self.data = data
        self.mode = mode


@final
class Relayed:
    """A graph inside a running task shows something. `ns`: its namespace, a segment for each level."""

    __slots__ = ("mode", "ns", "payload", "task")

    def __init__(self, task: Task, ns: tuple[str, ...], mode: str, payload: Any) -> None:
        self.task = task
        self.ns = ns
        self.mode = mode
        self.payload = payload


@final
class Late:
    """An attempt that was given up because of its time has ended after all. Its result is not used."""

    __slots__ = ("attempt", "duration", "task")

    def __init__(self, task: Task, attempt: int, duration: float) -> None:
        self.task = task
        self.attempt = attempt
        self.duration = duration


Mail: TypeAlias = Finished | Failed | Interrupted | Said | Relayed | Late
