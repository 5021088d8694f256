"""What is kept of a run: what it is to do (`RunRequest`), what came of it (`RunReport`), and what users see of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from durable_graph.errors import UnserializableValueError
from durable_graph.persistence.codec import CODEC
from durable_graph.runtime import owner

if TYPE_CHECKING:
    from durable_graph.persistence.run_rows import Clock, RunRow, RunStatus, ScheduleRow
    from durable_graph.types import Interrupt

__all__ = ["RunPolicy", "RunRecord", "RunReport", "RunRequest", "Schedule", "answers_in", "shown"]

RunPolicy: TypeAlias = Literal["queue", "reject", "replace"]
"""What a new run does where its thread has runs that have not ended: come after them, be refused, or take their place:
they are cancelled."""


@dataclass(slots=True, frozen=True)
class RunRecord:
    """A run, as it was when somebody looked.

    status: "queued" (also while it is put off until `due_at`), "running", "waiting" (for a person, a time or an event),
        "done", "failed" or "cancelled".
    attempt: how often a worker took it.   owner: which one has it, or had it last.   heartbeat: when that one last gave
    a sign of life; only while it runs.   due_at: when it is to be taken up; None: not by time.   error: why it failed.
    interrupts: what it waits for.   checkpoint_id: where its thread stood when it ended.
    """

    id: str
    thread_id: str
    graph: str
    status: RunStatus
    attempt: int = 0
    priority: int = 0
    owner: str | None = None
    heartbeat: datetime | None = None
    submitted_at: datetime | None = None
    due_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    error: str | None = None
    interrupts: tuple[Interrupt, ...] = ()
    checkpoint_id: str | None = None

    @property
    def ended(self) -> bool:
        """Whether it is over, in whichever way."""
        return self.status in ("done", "failed", "cancelled")


@dataclass(slots=True, frozen=True)
class Schedule:
    """A schedule: at the times that `cron` names in `timezone`, it submits a run. next_at: when the next one comes."""

    name: str
    graph: str
    cron: str
    timezone: str
    next_at: datetime

    @classmethod
    def of(cls, row: ScheduleRow) -> Schedule:
        """What users see of a row."""
        return cls(row.name, row.graph, row.cron, row.zone, _time(row.due))


@dataclass(slots=True)
class RunRequest:
    """What a run is to do. given: its input; MISSING where it goes on with what its thread has.

    config: all of it but callbacks.   options: of `invoke`, by name.
    """

    given: Any
    config: dict[str, Any]
    context: Any = None
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def packed(self) -> bytes:
        """As it is stored.

        Raises:
            UnserializableValueError: the input, the config or the context cannot be stored; the text says which.
        """
        parts = {"input": self.given, "config": self.config, "context": self.context, "options": self.options}
        for name, part in parts.items():
            try:
                _ = CODEC.encode(part)
            except UnserializableValueError as error:
                error.what = f"the {name} of a run cannot be stored: {error.what}"
                error.cure = "Pass what can be stored; what cannot, the worker's own code has to provide."
                raise
        return CODEC.encode(list(parts.values()))

    @classmethod
    def unpacked(cls, data: bytes) -> RunRequest:
        """As it was submitted."""
        return cls(*CODEC.decode(data))


@dataclass(slots=True)
class RunReport:
    """What came of a run so far.

    checkpoint: the id of its newest checkpoint when it last stopped.   error: the class of what it failed with, its
    text and its traceback.   interrupts: what it waits for.   seen, crashes: where its thread stood when a worker last
    died under it, and how many died there.
    """

    checkpoint: str | None = None
    error: tuple[str, str, str] | None = None
    interrupts: tuple[Interrupt, ...] = ()
    seen: str | None = None
    crashes: int = 0

    def packed(self) -> bytes:
        """As it is stored."""
        error = None if self.error is None else list(self.error)
        return CODEC.encode([self.checkpoint, error, list(self.interrupts), self.seen, self.crashes])

    @classmethod
    def unpacked(cls, data: bytes | None) -> RunReport:
        """As it was stored; an empty one where nothing is."""
        if data is None:
            return cls()
        checkpoint, error, interrupts, seen, crashes = CODEC.decode(data)
        told = None if error is None else cast("tuple[str, str, str]", tuple(error))
        return cls(checkpoint, told, tuple(interrupts), seen, crashes)


def shown(row: RunRow, clock: Clock) -> RunRecord:
    """A row as users see it."""
    report = RunReport.unpacked(row.report)
    running = row.status == "running"
    return RunRecord(
        id=row.id,
        thread_id=row.thread,
        graph=row.graph,
        status=cast("RunStatus", row.status),
        attempt=row.attempt,
        priority=-row.rank,
        owner=None if row.owner is None else owner.describe_owner(row.owner),
        heartbeat=_time(clock.wall - (clock.steady - row.beat)) if running else None,
        submitted_at=_time(row.submitted),
        due_at=None if row.due is None or running or row.ended is not None else _time(row.due),
        started_at=None if row.started is None else _time(row.started),
        ended_at=None if row.ended is None else _time(row.ended),
        error=None if report.error is None else f"{report.error[0].rpartition('.')[2]}: {report.error[1]}",
        interrupts=report.interrupts if row.status == "waiting" else (),
        checkpoint_id=report.checkpoint,
    )


def answers_in(row: RunRow) -> dict[str, Any]:
    """What was answered since the run began and no worker has taken yet, by interrupt id."""
    return {} if row.answers is None else CODEC.decode(row.answers)


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
