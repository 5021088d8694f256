"""What a checkpointer keeps of queued runs, events and schedules: rows, and how they are found and changed.

What they mean is the engine's (`durable_graph.runs`), so it exists once. Inside one transaction a backend only finds,
adds and changes rows, under three rules:

1. Who read a row and writes it again holds its thread first (`hold`), so that nobody else does so meanwhile.
2. A change names the attempt and the status it was made for, and is refused when they are others (`change`): what a
   worker that was taken for dead says of its run counts no more.
3. Of two who take runs at once, none gets a run of the other (`take`); and a run is only given once all runs of its
   thread that were submitted before it have ended.

Times called wall are milliseconds since 1970. Times called steady are milliseconds on a clock that nobody sets back,
where there is one: since the machine's start on SQLite, the server's clock on Postgres.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["ENDED", "OPEN", "Clock", "EventKey", "RunFilter", "RunRow", "RunRows", "RunStatus", "ScheduleRow", "Taking"]

RunStatus: TypeAlias = Literal["queued", "running", "waiting", "done", "failed", "cancelled"]

OPEN: Final = ("queued", "running", "waiting")
"""The statuses of a run that has not ended."""
ENDED: Final = ("done", "failed", "cancelled")

EventKey: TypeAlias = tuple[str, str]
"""Name and key of an event."""


class Clock(NamedTuple):
    """What time it is for the rows of a transaction."""

    wall: int
    steady: int


class RunRow(NamedTuple):
    """One run as it is kept.

    no: order of submission; given by the backend.   id: what users know it by.   thread, graph: their names.
    rank: runs with a lower one are taken first.   due: wall; when it is to be taken up; None: not by time.
    attempt: how often it was taken.   owner: the worker that has it, or had it last.   beat, expires: steady; its last
    sign of life, and until when that is good.   stop: somebody cancelled it.   epoch: of its thread, when it stopped
    there to wait.   submitted, started, ended: wall.   request: what is to be done; it never changes.   answers: what
    was answered since it began.   report: what came of it so far.
    """

    no: int
    id: str
    thread: str
    graph: str
    status: str
    rank: int
    due: int | None
    attempt: int
    owner: str | None
    beat: int
    expires: int
    stop: int
    epoch: int | None
    submitted: int
    started: int | None
    ended: int | None
    request: bytes
    answers: bytes | None
    report: bytes | None


class ScheduleRow(NamedTuple):
    """One schedule. due: wall; when it submits the next run.   request: what that run is to do."""

    name: str
    graph: str
    cron: str
    zone: str
    due: int
    request: bytes


class RunFilter(NamedTuple):
    """Which runs are wanted; None: any. `before`: only those with a lower number."""

    thread: str | None = None
    graph: str | None = None
    status: str | None = None
    before: int | None = None


class Taking(NamedTuple):
    """Who takes runs: of which graphs, how many at most, with a lease of so many milliseconds; `dead` are owners that
    certainly live no more.
    """

    owner: str
    graphs: Sequence[str]
    limit: int
    lease: int
    dead: Sequence[str] = ()


class RunRows(Protocol):
    """The rows inside one transaction: what is changed is kept together, or not at all."""

    def clock(self) -> Clock:
        """What time it is."""
        ...

    def hold(self, *names: str) -> None:
        """Let nobody else hold one of these names until the transaction ends. Once per transaction, before all else."""
        ...

    def tell(self) -> None:
        """Let those who listen know that a run may be due, once the transaction is committed."""
        ...

    # --- runs --------------------------------------------------------------------------------------------------------

    def add(self, row: RunRow) -> bool:
        """Keep a new run (its `no` is ignored). False, and nothing is changed, where its id is taken."""
        ...

    def find(self, id: str) -> RunRow | None:
        """The run with this id."""
        ...

    def open_runs(self, thread: str) -> list[RunRow]:
        """The runs of a thread that have not ended, in the order they were submitted."""
        ...

    def ended_before(self, thread: str, no: int) -> str | None:
        """How the run of a thread ended that came before this one; None when there is none."""
        ...

    def search(self, wanted: RunFilter, limit: int) -> list[RunRow]:
        """The newest runs that are wanted, newest first."""
        ...

    def owners(self) -> list[str]:
        """The owners of the runs that run, once each."""
        ...

    def take(self, taking: Taking, clock: Clock) -> list[RunRow]:
        """Give runs to a worker: those that are due, or whose owner is dead or gave no sign of life for too long. They
        are running from now on, in their next attempt. In the answer their `status` is the one they had before.
        """
        ...

    def change(self, row: RunRow, was: str) -> bool:
        """Write a run again, except what never changes. False, and nothing is changed, when its attempt or its status
        (`was`) is another one.
        """
        ...

    def beat(self, runs: Sequence[tuple[int, int]], clock: Clock, lease: int) -> list[tuple[int, bool]]:
        """Signs of life of (number, attempt): which of them are still theirs, each with whether it is to stop."""
        ...

    def wake_moved(self, clock: Clock) -> int:
        """Make due the waiting runs whose thread somebody else moved on since, and holds no more; how many."""
        ...

    def stopped(self, owner: str) -> list[int]:
        """The numbers of the runs of a worker that somebody cancelled."""
        ...

    def pending(self, graphs: Sequence[str], clock: Clock) -> int:
        """How many runs of these graphs run, could, or will soon: they are due, or were put off after they began, and
        nothing of their thread comes before.
        """
        ...

    # --- events ------------------------------------------------------------------------------------------------------

    def emit(self, event: EventKey, data: bytes, at: int) -> bool:
        """Keep an event. False, and nothing is changed, when it is there."""
        ...

    def event(self, event: EventKey) -> bytes | None:
        """The data of an event; None when it did not happen yet."""
        ...

    def await_events(self, no: int, events: Collection[EventKey]) -> None:
        """A run waits for these events, and for none it waited for before."""
        ...

    def wake_awaiting(self, event: EventKey, clock: Clock) -> int:
        """Make due the runs that wait for an event; how many."""
        ...

    # --- schedules ---------------------------------------------------------------------------------------------------

    def put_schedule(self, row: ScheduleRow) -> None:
        """Keep a schedule, in place of one with its name."""
        ...

    def drop_schedule(self, name: str) -> bool:
        """Remove a schedule; whether it was there."""
        ...

    def schedules(self) -> list[ScheduleRow]:
        """All of them, by name."""
        ...

    def advance_schedule(self, row: ScheduleRow, due: int) -> bool:
        """The next run of a schedule comes then. False when somebody else has said so, or it is gone."""
        ...
