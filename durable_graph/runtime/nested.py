"""A graph that runs inside a task of another one: where its state is in the thread they share.

Its rows lie in lanes of their own namespace, a stable path such as "research" or "research:2|summary". They are
written under the claim of the outermost run, which alone takes and gives back the thread. Each of its checkpoints says
for which checkpoint of the graph above it runs (its owner), so that

- the same task, run again, goes on where the graph inside it stopped, or gets what it gave;
- another task starts it anew, or, with a memory of its own, from where the parent's checkpoint pins it;
- travelling or branching the parent takes it along: another branch is another owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from durable_graph.core.opening import asked_at
from durable_graph.core.run import OWNER
from durable_graph.persistence.codec import CODEC
from durable_graph.persistence.layout import LaneWriter
from durable_graph.runtime.outbox import Outbox
from durable_graph.runtime.session import read_from

if TYPE_CHECKING:
    from durable_graph.core.run import Run
    from durable_graph.records import StoredCheckpoint
    from durable_graph.runtime.context import TaskContext
    from durable_graph.runtime.hold import Hold
    from durable_graph.types import Durability

__all__ = ["NestedSession", "namespace_below"]

LEVEL: Final = "|"
"""Between the levels of a namespace. Names of nodes hold none of these signs."""


def namespace_below(context: TaskContext) -> str:
    """The namespace of the next graph that this task runs: the path of the task, and for its second graph "+1"."""
    number = context.graphs
    context.graphs += 1
    above = context.shared.run.request.ns if context.shared.run is not None else ""
    segment = context.task.path.replace("#", ":") + (f"+{number}" if number else "")
    return f"{above}{LEVEL}{segment}" if above else segment


class NestedSession:
    """Between a run inside a task and the hold of the outermost run. See `session.Session`."""

    def __init__(self, context: TaskContext, ns: str, *, stateful: bool) -> None:
        self._context = context
        self._ns = ns
        self._stateful = stateful
        self._outbox: Outbox | None = None
        run, session = context.shared.run, context.shared.session
        assert run is not None  # noqa: S101 - a task that runs has a run,
        assert session is not None  # noqa: S101 - and one that is stored a session
        self._run: Run = run
        self._hold: Hold = session.outbox.hold
        self.checkpointer = self._hold.checkpointer
        self.durability: Durability = self._hold.durability
        self._read_first = self._may_have_begun()
        self.instant = self.checkpointer.instant or not (self._read_first or ns in run.directed or self._pin)

    @property
    def owner(self) -> tuple[int, int]:
        """(lane, seq) of the checkpoint of the task it runs in."""
        return (self._run.address.lane, self._run.address.seq)

    @property
    def _pin(self) -> tuple[int, int] | None:
        return self._run.pins.get(self._ns) if self._stateful else None

    def _may_have_begun(self) -> bool:
        """Whether this very task may have run the graph before: in an earlier run, or in an earlier attempt."""
        fresh = self._run.address.seq > self._hold.first and self._context.task.attempt == 1
        return not fresh and self._hold.newest_lane(self._ns) is not None

    def begin(self) -> StoredCheckpoint | None:
        """Read where it goes on, and prepare to write behind it."""
        if not self.instant or self._read_first or self._pin:
            self._hold.flush()  # what this run wrote may be what is read
        stored, writer = self._directed()
        if writer is None and self._read_first:
            stored, writer = self._begun()
        if writer is None and self._pin is not None:
            stored, writer = self._pinned(self._pin)
        if writer is None:
            lane = self._hold.newest_lane(self._ns)
            writer = LaneWriter(CODEC, self._hold.new_lane(self._ns) if lane is None else lane)
        self._outbox = Outbox(self._hold, writer, nested=True)
        if stored is not None:
            self._outbox.at = (stored.address.lane, stored.address.seq)
        return stored

    def _directed(self) -> tuple[StoredCheckpoint | None, LaneWriter | None]:
        """On a branch that was started by another answer: where the question was asked."""
        at = self._run.directed.get(self._ns)
        if at is None:
            return None, None
        found, writer = self._read(*at)
        if found is None:
            return None, None
        wanted, owner = (found, writer), found.values.get(OWNER)
        while found is not None:
            if not self._run.answers.keys().isdisjoint(asked.id for asked in asked_at(found)):
                wanted = (found, writer)
            parent = found.parent
            found, writer = (None, None) if parent is None else self._read(parent.lane, parent.seq)
            if found is None or found.values.get(OWNER) != owner:
                break
        stored, writer = wanted
        assert stored is not None  # noqa: S101 - found above; this tells the type checker
        return self._branch(stored, writer, past=True)

    def _begun(self) -> tuple[StoredCheckpoint | None, LaneWriter | None]:
        """What this very task did before."""
        lane = self._hold.newest_lane(self._ns)
        if lane is None:
            return None, None
        stored, writer = self._read(lane, None)
        if stored is None or tuple(stored.values.get(OWNER, ())) != self.owner:
            return None, None
        return stored, writer

    def _pinned(self, at: tuple[int, int]) -> tuple[StoredCheckpoint | None, LaneWriter | None]:
        """Its memory, as it was at the parent's checkpoint."""
        stored, writer = self._read(*at)
        if stored is None or writer is None:
            return None, None
        newest = self._hold.last.get(stored.address.lane) == writer.seq and writer.seq >= stored.address.seq
        if newest and writer.at_tip:
            return stored, writer
        return self._branch(stored, writer, past=False)

    def _branch(
        self, stored: StoredCheckpoint, writer: LaneWriter | None, *, past: bool
    ) -> tuple[StoredCheckpoint | None, LaneWriter | None]:
        if writer is None:
            return None, None
        at = (stored.address.lane, stored.address.seq)
        stored.past = past
        return stored, writer.branch(self._hold.new_lane(self._ns, at))

    def _read(self, lane: int, seq: int | None) -> tuple[StoredCheckpoint | None, LaneWriter | None]:
        return read_from(self._hold, lane, seq) or (None, None)

    @property
    def outbox(self) -> Outbox:
        """The writing side; there is one once the run has begun."""
        assert self._outbox is not None  # noqa: S101 - every script loads before it persists
        return self._outbox

    @property
    def at(self) -> tuple[int, int] | None:
        """Where its newest checkpoint is; None when it did not come to one."""
        return None if self._outbox is None else self._outbox.at

    def end(self) -> None:
        """The run was told to end; the outermost one says so."""

    def close(self) -> None:
        """The run is over; what it held is the outermost one's."""
