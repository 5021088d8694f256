"""A graph that runs inside a task of another one: where its state is in the thread they share.

Its rows lie in lanes of their own namespace, a stable path such as "research" or "research:2|summary". They are
written under the claim of the outermost run, which alone takes and gives back the thread. Each of its checkpoints says
for which checkpoint of the graph above it runs (its owner), so that

- the same task, run again, goes on where the graph inside it stopped, or gets what it gave;
- another task starts it anew, or, with a memory of its own, from where the parent's checkpoint pins it;
- travelling or branching the parent takes it along: another branch is another owner.

A task may run several graphs. Each call has a number, in the order in which they come: "research", "research:+1". When
the task runs again they may come in another order (who is first depends on the network, say), so a call that was made
before is then known by its graph and its input; by its place, where it has another input than it had. Of several at
once the place says nothing (one may never have come to be stored), unless an edit changed what they are called with.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from durable_graph.core.opening import asked_at
from durable_graph.core.run import OWNER
from durable_graph.persistence.codec import CODEC
from durable_graph.persistence.layout import LaneWriter
from durable_graph.runtime.hold import call_namespace
from durable_graph.runtime.outbox import NestedOutbox
from durable_graph.runtime.patience import NONE
from durable_graph.runtime.session import note_edits, read_from

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from durable_graph.core.request import Request
    from durable_graph.core.run import Run
    from durable_graph.records import StoredCheckpoint
    from durable_graph.runtime.context import TaskContext
    from durable_graph.runtime.hold import Hold
    from durable_graph.types import Durability

    Found: TypeAlias = tuple[StoredCheckpoint | None, LaneWriter | None]

__all__ = ["LEVEL", "GraphCalls", "NestedSession", "calls_of", "path_below", "path_inside"]

LEVEL: Final = "|"
"""Between the levels of a namespace. Names of nodes hold neither this sign nor ":"."""

_DIGEST: Final = 2
"""In what a checkpoint says of its owner: where the digest of the call is."""

_making = threading.Lock()


def path_below(context: TaskContext) -> str:
    """The namespace of the first graph that this task runs: the path of the task."""
    above = context.shared.run.request.ns if context.shared.run is not None else ""
    return path_inside(above, context.task.known_as or context.task.path)


def path_inside(ns: str, task: str) -> str:
    """The namespace of the first graph inside a task with this path, of a graph with this namespace."""
    segment = task.replace("#", ":")
    return f"{ns}{LEVEL}{segment}" if ns else segment


class GraphCalls:
    """The graphs that one attempt of a task calls. Several OS threads and async functions may do so at once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.RLock()
        self._taken: set[int] = set()
        self._known: dict[int, StoredCheckpoint] | None = None
        self._counts: dict[bytes, int] = {}
        self._running = 0
        self._waiting: list[Future[None]] = []

    def next(self) -> str:
        """The namespace of a call that was not made before."""
        with self._lock:
            number = len(self._taken)
            while number in self._taken or number in (self._known or ()):
                number += 1
            self._taken.add(number)
            return call_namespace(self._path, number)

    def occurrence(self, digest: bytes) -> int:
        """How many calls with this digest came before."""
        with self._lock:
            count = self._counts.get(digest, 0)
            self._counts[digest] = count + 1
            return count

    def place(self, digest: bytes, session: NestedSession) -> str:
        """The namespace of a call that may have been made before."""
        with self._lock:
            if self._known is None:
                self._known = self._read(session)
            free = [number for number in sorted(self._known) if number not in self._taken]
            equal = [number for number in free if self._known[number].values[OWNER][_DIGEST:] == [digest]]
            here = len(self._taken)  # its place, where calls come in the order in which they came
            by_place = here in free and (self._running <= 1 or session.edited)
            found = equal[:1] or ([here] if by_place else [])
            if not found:
                return self.next()
            self._taken.add(found[0])
            return call_namespace(self._path, found[0])

    def _read(self, session: NestedSession) -> dict[int, StoredCheckpoint]:
        """The calls that were made before, by number."""
        found: dict[int, StoredCheckpoint] = {}
        for number in session.hold.numbers_of(self._path):
            stored, _ = session.begun(call_namespace(self._path, number))
            if stored is not None:
                found[number] = stored
        return found

    # --- calls that run at the same time ------------------------------------------------------------------------------

    def begin(self) -> None:
        """An async call begins."""
        with self._lock:
            self._running += 1

    def end(self) -> None:
        """It is over."""
        with self._lock:
            self._running -= 1
            waiting: list[Future[None]] = []
            if not self._running:
                waiting, self._waiting = self._waiting, []
        for one in waiting:
            one.set_result(None)

    def others(self) -> Future[None] | None:
        """Is there when no async call runs any more; None when none does."""
        with self._lock:
            if not self._running:
                return None
            waiting: Future[None] = Future()
            self._waiting.append(waiting)
            return waiting


def calls_of(context: TaskContext) -> GraphCalls:
    """The calls of an attempt."""
    found: GraphCalls | None = context.graphs
    if found is not None:
        return found
    with _making:
        context.graphs = made = context.graphs or GraphCalls(path_below(context))
        return made


class NestedSession:
    """Between a run inside a task and the hold of the outermost run. See `session.Session`.

    calls: those of the task, where it may make several; then `digest` tells them apart.
    """

    patience = NONE  # the outermost run has the thread

    def __init__(
        self,
        context: TaskContext,
        request: Request,
        *,
        stateful: bool,
        calls: GraphCalls | None,
        digest: bytes = b"",
    ) -> None:
        self._context = context
        self._request = request
        self._stateful = stateful
        self._calls = calls
        self._digest = digest
        self._outbox: NestedOutbox | None = None
        run, session = context.shared.run, context.shared.session
        assert run is not None  # noqa: S101 - a task that runs has a run,
        assert session is not None  # noqa: S101 - and one that is stored a session
        self._run: Run = run
        self.hold: Hold = session.outbox.hold
        self.checkpointer = self.hold.checkpointer
        self.durability: Durability = self.hold.durability
        path = path_below(context)
        self._read_first = self._may_have_begun(path)
        self.ns = path
        if calls is not None and not self._read_first:
            self.ns = calls.next()
        self._tell()
        self.instant = self.checkpointer.instant or not (self._read_first or self.ns in run.directed or self._pin)

    @property
    def edited(self) -> bool:
        """Whether somebody edited the checkpoint of the task while the graph waited."""
        return self._run.edited

    @property
    def owner(self) -> tuple[int, int]:
        """(lane, seq) of the checkpoint of the task it runs in."""
        return (self._run.address.lane, self._run.address.seq)

    @property
    def _owners(self) -> tuple[tuple[int, int], ...]:
        """The same; where somebody edited that checkpoint while the graph waited, also what it was before."""
        stored = self._run.stored
        return stored.places if self._run.edited and stored is not None else (self.owner,)

    @property
    def _pin(self) -> tuple[int, int] | None:
        return self._run.pins.get(self.ns) if self._stateful else None

    def _tell(self) -> None:
        """Say in the request where the run is."""
        self._request.ns = self.ns
        self._request.owner = (*self.owner, self._digest) if self._digest else self.owner

    def _may_have_begun(self, path: str) -> bool:
        """Whether this very task may have run graphs before: in an earlier run, or in an earlier attempt."""
        fresh = self._run.address.seq > self.hold.first and self._context.task.attempt == 1
        return not fresh and bool(self.hold.numbers_of(path))

    def begin(self) -> StoredCheckpoint | None:
        """Read where it goes on, and prepare to write behind it."""
        hold = self.hold
        reads = self._read_first or self._pin is not None or self.ns in self._run.directed
        if reads:
            hold.flush()  # what this run wrote may be what is read
        if self._calls is not None and self._read_first:
            self.ns = self._calls.place(self._digest, self)
            self._tell()
        hold.take_over(self.ns, self)
        if reads:
            hold.flush()  # what another attempt wrote meanwhile, too: from now on it writes no more
        stored, writer = self._directed()
        if writer is None and self._read_first:
            stored, writer = self.begun(self.ns)
            if stored is not None:
                self._request.owner = tuple(stored.values[OWNER])
        if writer is None and self._pin is not None:
            stored, writer = self._pinned(self._pin)
        if writer is None:
            lane = hold.newest_lane(self.ns)
            writer = LaneWriter(CODEC, hold.new_lane(self.ns) if lane is None else lane)
        self._outbox = NestedOutbox(hold, writer, self.ns, self)
        if stored is not None:
            self._outbox.at = (stored.address.lane, stored.address.seq)
        return stored

    def _directed(self) -> Found:
        """On a branch that was started by another answer: where the question was asked. Or where the config said."""
        at = self._run.directed.get(self.ns)
        if at is None:
            return None, None
        found, writer = self._read(*at)
        if found is None:
            return None, None
        wanted, owner = (found, writer), _owner(found)
        above = self._run.stored
        named: Mapping[str, tuple[int, int]] = {} if above is None else above.directed
        while self.ns not in named:
            if not self._run.answers.keys().isdisjoint(asked.id for asked in asked_at(found)):
                wanted = (found, writer)
            parent = found.parent
            found, writer = (None, None) if parent is None else self._read(parent.lane, parent.seq)
            if found is None or _owner(found) != owner:
                break
        stored, writer = wanted
        assert stored is not None  # noqa: S101 - found above; this tells the type checker
        stored.directed = named
        return self._branch(stored, writer, past=True)

    def begun(self, ns: str) -> Found:
        """What this very task did before, in the newest lane of a namespace that is about it."""
        for lane in self.hold.lanes_of(ns):
            stored, writer = self._read(lane, None)
            if stored is not None and _owner(stored) in self._owners:
                note_edits(self.hold, stored)
                return stored, writer
        return None, None

    def _pinned(self, at: tuple[int, int]) -> Found:
        """Its memory, as it was at the parent's checkpoint."""
        stored, writer = self._read(*at)
        if stored is None or writer is None:
            return None, None
        newest = self.hold.last.get(stored.address.lane) == writer.seq and writer.seq >= stored.address.seq
        if newest and writer.at_tip:
            return stored, writer
        return self._branch(stored, writer, past=False)

    def _branch(self, stored: StoredCheckpoint, writer: LaneWriter | None, *, past: bool) -> Found:
        if writer is None:
            return None, None
        at = (stored.address.lane, stored.address.seq)
        stored.past = past
        return stored, writer.branch(self.hold.new_lane(self.ns, at))

    def _read(self, lane: int, seq: int | None) -> Found:
        return read_from(self.hold, lane, seq) or (None, None)

    @property
    def outbox(self) -> NestedOutbox:
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


def _owner(stored: StoredCheckpoint) -> tuple[Any, ...]:
    """(lane, seq) of the checkpoint of the task for which it was made."""
    return tuple(stored.values.get(OWNER, ()))[:_DIGEST]
