"""What passes between the engine and storage. Plain data; no behaviour beyond construction.

Two levels meet here. A *backend* knows `Row`s: numbered bytes in lanes of a thread, which it does not understand.
The *engine* knows `StepRecord`s and `TaskRecord`s. `persistence.layout` turns one into the other.

    thread    one conversation, found by the user's key; the backend gives it a number that is never used again
    lane      one branch of the thread; every thread starts with lane 1
    seq       ONE counter per thread: order, checkpoint id and channel version at once. Never a clock.
    part      0 is the lane's line of rows; part n > 0 holds the values of channel number n that are stored apart
    kind      in part 0: DELTA, BASE or PENDING; in other parts: LOG or VALUE
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from durable_graph.types import START, Send

if TYPE_CHECKING:
    from collections.abc import Mapping

    from durable_graph.types import Command, Interrupt

__all__ = [
    "BASE",
    "DELTA",
    "INPUT_LATER",
    "LOG",
    "MAIN",
    "PENDING",
    "VALUE",
    "Address",
    "CallRecord",
    "Change",
    "Claim",
    "ClaimRequest",
    "CommitItem",
    "ErrorRecord",
    "Frontier",
    "LaneInfo",
    "LoadedThread",
    "Outcome",
    "PendingRecord",
    "Row",
    "RowRange",
    "StepRecord",
    "StoredCheckpoint",
    "TaskRecord",
    "ThreadInfo",
    "Write",
]

MAIN: Final = 0
"""The part that holds a lane's line of rows."""

DELTA: Final = 0
BASE: Final = 1
PENDING: Final = 2

LOG: Final = 0
VALUE: Final = 1

INPUT_LATER: Final = Send(START, None)
"""What runs next, in the checkpoint of an input: where the next one comes in the same commit, that one holds the input,
and storing it here too would double it.
"""

# --- what a backend knows --------------------------------------------------------------------------------------


class Row(NamedTuple):
    """One stored row. `(lane, part, seq)` is unique in a thread; `data` is opaque to the backend."""

    lane: int
    part: int
    seq: int
    kind: int
    data: bytes


class RowRange(NamedTuple):
    """All rows of one part of a lane with `first <= seq <= last`, in order of seq."""

    lane: int
    part: int
    first: int
    last: int


class LaneInfo(NamedTuple):
    """One branch of one namespace. `parent_lane` is 0 and `parent_seq` 0 for a lane that branched from nothing.

    `last` is the seq of the lane's newest row, 0 when it has none.
    """

    lane: int
    ns: str
    parent_lane: int
    parent_seq: int
    last: int


class Lease(NamedTuple):
    """How a thread is held, in milliseconds by the backend's own clock: for how long (`held`), how long ago its owner
    last gave a sign of life (`silent`) and last stored something (`still`), and for how long the claim is still good
    (`left`; 0 or less: it is over).
    """

    held: int
    silent: int
    still: int
    left: int


class ThreadInfo(NamedTuple):
    """A thread's row. `owner` is None when nobody holds it. `epoch` grows with every claim and never repeats.

    `lease` is None where nobody holds it, and where the backend keeps no leases.
    """

    no: int
    key: str
    epoch: int
    owner: str | None
    status: str
    lease: Lease | None = None


class LoadedThread(NamedTuple):
    """What `Checkpointer.load` answers: the thread, all its lanes (by number), and rows of one of them.

    `rows` are part 0 of lane `lane`, from the last BASE at or before the wanted seq on, in order of seq.
    """

    thread: ThreadInfo
    lanes: tuple[LaneInfo, ...]
    lane: int
    rows: tuple[Row, ...]


LEASE: Final = 15_000
"""Milliseconds for which a claim is good after its owner's last sign of life, where nobody says another time."""


class ClaimRequest(NamedTuple):
    """Take a thread over, and append `rows` in the same transaction.

    The claim succeeds only if nothing happened since the caller looked: the thread still has epoch `epoch`
    (None: it does not exist and is created), and lane `lane` has no row in part 0 with a seq above `seen`.
    The thread's epoch becomes `new_epoch`, which the rows carry too: one above `epoch`, for a new thread a random
    number above 1. `new_lanes` are created too (their `last` is ignored). The claim is good for `lease` milliseconds
    after its last sign of life, where the backend keeps leases.
    """

    key: str
    owner: str
    epoch: int | None
    new_epoch: int
    lane: int
    seen: int
    new_lanes: tuple[LaneInfo, ...]
    rows: tuple[Row, ...]
    lease: int = LEASE


class Claim(NamedTuple):
    """A thread that is ours: its number and the epoch under which we may write."""

    no: int
    epoch: int


class Beat(NamedTuple):
    """A sign of life of who has a claim. `moved`: rows were stored since the last one."""

    claim: Claim
    moved: bool
    lease: int = LEASE


class CommitItem(NamedTuple):
    """Rows to append under a claim; all of them or none. `status` not None also gives the thread back
    (owner becomes None) with this status. `new_lanes` are created first.
    """

    claim: Claim
    rows: tuple[Row, ...]
    new_lanes: tuple[LaneInfo, ...] = ()
    status: str | None = None


Outcome: TypeAlias = Literal["written", "already mine", "stale"]
"""What became of an item. "already mine": the same rows were there (a retry after a lost answer).
"stale": somebody else claimed the thread; nothing was written."""

# --- what the engine knows -------------------------------------------------------------------------------------


class Address(NamedTuple):
    """Where a checkpoint is: lane, seq, and the epoch under which it was written."""

    lane: int
    seq: int
    epoch: int


class Write(NamedTuple):
    """One value a task wrote. `data` is its encoding when it is known already (so it is encoded once)."""

    key: str
    value: Any
    data: bytes | None = None


@dataclass(slots=True)
class Change:
    """How one key changed in a step.

    value: the new value, or MISSING when the key holds nothing any more.
    suffix: when the new value is the old one with these elements appended (a reported append); else None.
    data: the encoding of `suffix` if there is one, else of `value`; None when not known yet.
    """

    value: Any
    suffix: list[Any] | None = None
    data: bytes | None = None


@dataclass(slots=True)
class Frontier:
    """What runs next: nodes in order of their names, Sends in the order they were sent, and barrier edges
    (by the edge's name) with the sources that already arrived. `deferred` are nodes that run once nothing else does.
    """

    nodes: tuple[str, ...] = ()
    sends: tuple[Send, ...] = ()
    arrived: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    deferred: tuple[str, ...] = ()


class ErrorRecord(NamedTuple):
    """An exception as it is stored: its class's qualified name, its text, and the traceback as text."""

    type: str
    message: str
    traceback: str


@dataclass(slots=True)
class TaskRecord:
    """What is stored of one task of a step.

    path: stable in its checkpoint: "node" for a node, "node#3" for the third Send of the step (counted from 0).
    writes: what it wrote; None when it did not finish (then `error` or `interrupts` say why).
    routes: where its routers and Commands sent it, besides static edges: node names and Sends; a Command is what it
        told the parent graph.
    interrupts: its open questions. answered: ids of interrupts whose answers it used.
    rejected: ids of interrupts whose stored answer did not fit and is void.
    started: seconds since 1970; duration: seconds.
    children: the graphs that ran inside it: namespace -> (lane, seq) of the newest checkpoint.
    """

    path: str
    node: str
    id: str
    attempt: int = 1
    started: float = 0.0
    duration: float = 0.0
    writes: tuple[Write, ...] | None = None
    routes: tuple[str | Send | Command[Any], ...] = ()
    error: ErrorRecord | None = None
    interrupts: tuple[Interrupt, ...] = ()
    answered: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    children: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])


class CallRecord(NamedTuple):
    """One recorded step inside a task.

    task: the path of its task.   name: its key or name, behind the places of the steps it was called in.
    digest: of its arguments.   number: how many steps of this task with this name and digest came before it.
    data: the encoding of its result; None when it failed (`error`), or has started and nothing more is known.
    """

    task: str
    name: str
    digest: bytes
    number: int
    data: bytes | None = None
    error: ErrorRecord | None = None
    attempt: int = 1
    started: float = 0.0
    duration: float = 0.0

    @property
    def place(self) -> tuple[str, str, bytes, int]:
        """What it is found by."""
        return self[:4]


@dataclass(slots=True)
class PendingRecord:
    """What became known of the step that follows a checkpoint, before that step closed: finished, failed or
    interrupted tasks, answers (interrupt id -> answer), and recorded steps inside tasks. Later records of the same task
    or step replace earlier ones.
    """

    tasks: tuple[TaskRecord, ...] = ()
    answers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    calls: tuple[CallRecord, ...] = ()


@dataclass(slots=True)
class StepRecord:
    """One checkpoint as the engine hands it to storage.

    step: -1 for the input, then 0, 1, ...   source: "input" | "loop" | "update" | "fork".
    changes: the keys that changed since the checkpoint before.
    frontier: what runs next.
    tasks: the tasks of the step that just closed whose results were not stored as pending records before.
    stop: "before" | "after" when the run stops here at a static breakpoint, else None.
    created_at: milliseconds since 1970. fingerprint: of the graph. metadata: what the user's config brought.
    origin: the checkpoint whose next step this one's is, under other circumstances (a fork, an edit), so that its
        questions are the same ones; None: the checkpoint itself.
    names: path of a task -> the path which its id is made of, where that is another one.
    """

    step: int
    source: str
    changes: dict[str, Change]
    frontier: Frontier
    tasks: tuple[TaskRecord, ...] = ()
    stop: str | None = None
    created_at: int = 0
    run_id: str = ""
    fingerprint: str = ""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    origin: Address | None = None
    names: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class StoredCheckpoint:
    """One checkpoint as it was read back.

    versions: key -> seq of the checkpoint in which it last changed.
    step: the step's record; its `changes` are empty (see `values`).
    pending: what is known of the step after it: task path -> newest record (finished, failed or interrupted; from
    PENDING rows, and from the following checkpoint of the same lane when history is read).
    answers: interrupt id -> answer, without those rejected later.   calls: the recorded steps of its tasks.
    directed: where graphs inside its tasks are to go on: namespace -> (lane, seq).
    touched: paths of tasks that wait, and in whose graphs somebody edited something since.
    renamed: path of a task -> the path which its id is made of, where that is another one: its node has another name
        since, or an edit moved it.
    ran: the nodes that ran in the step that made it, where somebody asked.
    past: other checkpoints follow, or it is read for a branch: what goes on from it does so on a lane of its own.
    """

    address: Address
    parent: Address | None
    values: dict[str, Any]
    versions: dict[str, int]
    step: StepRecord
    pending: dict[str, TaskRecord] = field(default_factory=dict[str, TaskRecord])
    answers: dict[str, Any] = field(default_factory=dict[str, Any])
    calls: tuple[CallRecord, ...] = ()
    past: bool = False
    directed: Mapping[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    touched: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    ran: tuple[str, ...] = ()

    @property
    def origin(self) -> Address:
        """What the ids of its tasks are made of."""
        return self.step.origin or self.address

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """(lane, seq) of what graphs inside its tasks take for the checkpoint they run for: itself; where somebody
        edited it while they waited, what it was before.
        """
        found, origin = (self.address.lane, self.address.seq), self.step.origin
        return (found,) if origin is None or self.step.source != "update" else (found, (origin.lane, origin.seq))
