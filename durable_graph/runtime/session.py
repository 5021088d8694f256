"""One run's hold on its thread: who has it, what is stored there, and the outbox that writes to it.

And reads that no run is needed for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from typing_extensions import TypeVar

from durable_graph.core import identity
from durable_graph.core.control import ANY_EPOCH
from durable_graph.core.opening import asked_at
from durable_graph.core.run import owner_of
from durable_graph.errors import EmptyInputError, InvalidConfigError, LostLease, ThreadBusy
from durable_graph.persistence.codec import CODEC
from durable_graph.persistence.layout import LaneWriter, read_at, read_head, read_history
from durable_graph.records import MAIN, RowRange
from durable_graph.runtime import owner
from durable_graph.runtime.context import CURRENT
from durable_graph.runtime.hold import Hold
from durable_graph.runtime.outbox import Outbox
from durable_graph.runtime.patience import NONE, Patience
from durable_graph.types import END, START

if TYPE_CHECKING:
    from collections.abc import Generator

    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.records import Address, Lease, LoadedThread, Row, StoredCheckpoint, TaskRecord
    from durable_graph.runtime.committer import Committer
    from durable_graph.types import Durability, OnBusy

__all__ = [
    "Asking",
    "Session",
    "aask",
    "ask",
    "at",
    "begun",
    "lineage",
    "newest",
    "placed",
    "read_from",
    "walk",
]

T = TypeVar("T")

_ENDS: Final = ("done", "failed", "stopped", "waiting")
"""The statuses of a thread that nobody holds."""


class Session:
    """Between a run and its checkpointer. `begin` reads; then `outbox` writes.

    instant: `begin` waits for nothing.   editing: the call is an edit; find out what ran before the checkpoint.
    copying: go on on a lane of its own, beside the checkpoint.   ns: the namespace of the graph inside that is meant.
    since: the epoch that the thread must have (None: there is no thread).
    patience: what is done while another run holds the thread; drivers wait.
    """

    def __init__(
        self,
        checkpointer: Checkpointer,
        committer: Committer,
        key: str,
        wanted: str | None,
        durability: Durability,
        *,
        editing: bool = False,
        copying: bool = False,
        ns: str = "",
        on_busy: OnBusy = "reject",
        since: int | None = ANY_EPOCH,
    ) -> None:
        self.checkpointer = checkpointer
        self._committer = committer
        self.patience = NONE if on_busy == "reject" else Patience(on_busy)
        self.key = key
        self.durability: Durability = durability
        self.instant = checkpointer.instant
        self._outbox: Outbox | None = None
        self._wanted = identity.parse_checkpoint_id(wanted) if wanted else None
        self._editing = editing
        self._copying = copying
        self._ns = ns
        self._since = since

    def begin(self) -> StoredCheckpoint | None:
        """Read the checkpoint that is wanted, or the thread's newest one, and prepare to write behind it.

        Raises:
            ThreadBusy: a run that lives holds the thread.
            LostLease: the thread had to be as it was, and is not.
            InvalidConfigError: a checkpoint id was given and the thread has no such checkpoint.
        """
        self.close()
        checkpointer = self.checkpointer
        loaded = self._look()
        hold = Hold(checkpointer, self._committer, self.key, loaded, self.durability)
        stored, writer = None, None
        if self._ns and not self._editing:
            stored, writer = self._inside(hold)
        elif loaded is not None:
            stored, writer = ask(checkpointer, _reading(read_head(loaded, CODEC, tasks=False), loaded))
            if stored is not None and stored.pending and not self._ns:
                note_edits(hold, stored)
        wanted = None if self._ns and not self._editing else self._wanted
        if self._copying and stored is not None:
            wanted = wanted or stored.address
            stored = None
        if wanted is not None and (stored is None or stored.address != wanted):
            stored, writer = self._branch(hold, wanted)
        if self._editing and stored is not None:
            stored.ran = _ran_before(hold, stored)
        if writer is None and self._ns:
            what = f"thread {self.key!r} has nothing stored for the graph {self._ns!r} inside it"
            raise EmptyInputError(what, cure="get_state(config, subgraphs=True) shows which graphs have state.")
        if writer is None:
            writer = LaneWriter(CODEC, 1 if loaded is not None else hold.new_lane(""))
        self._outbox = Outbox(hold, writer, status=_kept_status(loaded) if self._ns and self._editing else None)
        return stored

    def _branch(self, hold: Hold, wanted: Address) -> tuple[StoredCheckpoint, LaneWriter]:
        """A checkpoint that others follow, and a lane that starts from it."""
        ns = self._ns if self._editing else ""
        found = read_from(hold, wanted.lane, wanted.seq)
        stored, writer = found if found is not None else (None, None)
        if stored is None or writer is None or stored.address != wanted or hold.lanes[wanted.lane].ns != ns:
            what = f"thread {self.key!r} has no checkpoint {identity.checkpoint_id(wanted)}"
            cure = "Pass the config of a snapshot of this thread, or leave checkpoint_id out to go on from the newest."
            raise InvalidConfigError(what, cure=cure)
        stored.past = True
        return stored, writer.branch(hold.new_lane(ns, (wanted.lane, wanted.seq)), sibling=self._copying)

    def _inside(self, hold: Hold) -> tuple[StoredCheckpoint | None, LaneWriter | None]:
        """A checkpoint of a graph inside: the checkpoints of those around it, up to the outermost, go along."""
        lane = hold.newest_lane(self._ns) if self._wanted is None else self._wanted.lane
        at = None if lane is None else (lane, None if self._wanted is None else self._wanted.seq)
        directed: dict[str, tuple[int, int]] = {}
        meant: StoredCheckpoint | None = None
        ns, head = self._ns, True
        while at is not None and ns:  # up to the outermost graph
            found, tail = read_from(hold, *at) or (None, None)
            above = owner_of(found) if found is not None else None
            if found is None or tail is None or above is None or hold.lanes[at[0]].ns != ns:
                at = None
                break
            head = head and tail.at_tip and hold.newest_lane(ns) == at[0]
            directed[ns] = (found.address.lane, found.address.seq)
            meant = meant or found
            at, ns = above, hold.lanes[above[0]].ns
            newest = self._newest(hold, ns) if head else None
            if newest is not None and newest[0] is not None and at in newest[0].places:
                at = (newest[0].address.lane, newest[0].address.seq)  # it was edited since
                if not ns:  # the thread stands there: it goes on, as if the config had named the thread alone
                    note_edits(hold, newest[0])
                    return newest
        stored, writer = (None, None) if at is None else read_from(hold, *at) or (None, None)
        if meant is None or stored is None or writer is None:
            wanted = "" if self._wanted is None else f" with the id {identity.checkpoint_id(self._wanted)}"
            what = f"thread {self.key!r} has no checkpoint{wanted} of the graph {self._ns!r} inside it"
            raise InvalidConfigError(what, cure="Pass the config of a snapshot of this thread.")
        stored.past, stored.directed = True, directed
        asked = {one.id for one in asked_at(meant)}  # an answer is for what is asked there, not for all that ever was
        for task in stored.pending.values():
            task.interrupts = tuple(one for one in task.interrupts if one.id in asked)
            task.answered = tuple(one for one in task.answered if one in asked)
        at = (stored.address.lane, stored.address.seq)
        return stored, writer.branch(hold.new_lane("", at))

    def _newest(self, hold: Hold, ns: str) -> tuple[StoredCheckpoint | None, LaneWriter] | None:
        """The newest checkpoint of a graph."""
        lane = hold.newest_lane(ns)
        return None if lane is None else read_from(hold, lane, None)

    def _look(self) -> LoadedThread | None:
        """The thread, which nobody alive holds.

        A dead owner is looked at twice: it may have lived, and written, between the look and the question.
        """
        before: str | None = None
        while True:
            loaded = self.checkpointer.load(self.key, ns=self._ns if self._editing else "")
            holder = loaded.thread.owner if loaded is not None else None
            if holder is None or holder == before:
                if self._since != ANY_EPOCH:
                    self._check_unmoved(loaded)
                return loaded
            lease = loaded.thread.lease if loaded is not None else None
            over = lease is not None and lease.left <= 0 and not owner.is_here(holder)
            if not over and not owner.is_dead(holder, one_host=self.checkpointer.one_host):
                raise self._busy(holder, lease)
            before = holder

    def _check_unmoved(self, loaded: LoadedThread | None) -> None:
        """The claim that follows holds only while the epoch is the one that is seen here."""
        hold = None if self._outbox is None else self._outbox.hold
        if hold is not None and hold.claim is not None:  # it was this session that moved it on
            self._since = hold.epoch
        if self._since != (None if loaded is None else loaded.thread.epoch):
            raise LostLease(f"thread {self.key!r} was moved on by another run before this one could begin")

    def _busy(self, holder: str, lease: Lease | None) -> ThreadBusy:
        inside = CURRENT.get()
        if inside is not None and inside.task.origin[0] == self.key:
            what = f"node {inside.task.name!r} called a graph on its own thread {self.key!r}, which its run holds"
            cure = "Leave the thread_id out to run it inside this run, or give it one of its own."
            return ThreadBusy(what, owner=holder, own=True, cure=cure)
        what = f"thread {self.key!r} is held by another run, of {owner.describe_owner(holder)}"
        if lease is None:
            return ThreadBusy(what, owner=holder)
        held, left = lease.held / 1000, lease.left / 1000
        what += f", for {held:.1f} s; it last stored something {lease.still / 1000:.1f} s ago"
        if left > 0:
            what += f", and its claim ends in {left:.1f} s unless it gives a sign of life"
        return ThreadBusy(what, owner=holder, held=held, left=left)

    @property
    def outbox(self) -> Outbox:
        """The writing side; there is one once the run has begun."""
        assert self._outbox is not None  # noqa: S101 - every script loads before it persists
        return self._outbox

    def end(self) -> None:
        """The run was told to end."""
        if self._outbox is not None:
            owner.end(self._outbox.hold.owner)

    def close(self) -> None:
        """Give back what the run held in this process."""
        if self._outbox is not None:
            self._outbox.hold.close()


def read_from(hold: Hold, lane: int, seq: int | None) -> tuple[StoredCheckpoint | None, LaneWriter] | None:
    """A checkpoint of a lane (None: its newest) and a writer for what follows it; None when there is no such lane."""
    checkpointer = hold.checkpointer
    loaded = checkpointer.load(hold.key, lane=lane, upto=seq)
    if loaded is None or lane not in hold.lanes:
        return None
    reader = read_head(loaded, CODEC) if seq is None else read_at(loaded, seq, CODEC)
    return ask(checkpointer, _reading(reader, loaded))


def note_edits(hold: Hold, stored: StoredCheckpoint) -> None:
    """Find out in which waiting tasks somebody edited a graph since the run stopped."""
    waiting = {path: task for path, task in stored.pending.items() if task.interrupts and task.writes is None}
    newer = [f"{ns}|" for ns in hold.written_since(hold.last[stored.address.lane])] if waiting else []
    stored.touched |= {
        path for path, task in waiting.items() if any(one.startswith(f"{ns}|") for one in newer for ns in task.children)
    }


def _kept_status(loaded: LoadedThread | None) -> str:
    """The status of a thread whose graph inside is edited: that of the outermost run."""
    status = loaded.thread.status if loaded is not None else ""
    return status if status in _ENDS else "stopped"


def _ran_before(hold: Hold, stored: StoredCheckpoint) -> tuple[str, ...]:
    """The nodes whose results made a checkpoint; of a copy, those that made the original."""
    step, parent = stored.step, stored.parent
    if step.source == "input":
        return (START,)
    if step.source == "fork":
        info = hold.lanes[stored.address.lane]
        original = (read_from(hold, info.parent_lane, info.parent_seq) or (None,))[0]
        return () if original is None else _ran_before(hold, original)
    ran = [_worker(task) for task in step.tasks if task.writes is not None and task.node != END]
    before = None
    if parent is not None and (step.source == "loop" or not ran) and parent.lane in hold.lanes:
        before = (read_from(hold, parent.lane, parent.seq) or (None,))[0]
    if before is None:
        return tuple(ran)
    if step.source != "loop":  # an end, or a Command: what ran is what ran before it
        return _ran_before(hold, before)
    if parent is not None and parent.lane == stored.address.lane:
        ran += [_worker(task) for path, task in before.pending.items() if path and task.writes is not None]
    return tuple(ran) or (START,)


def _worker(task: TaskRecord) -> str:
    """The node for which a task ran: its error handler's work is its own."""
    return task.node.removeprefix(identity.HANDLER)


Asking: TypeAlias = "Generator[tuple[str, tuple[Any, ...], dict[str, Any]], Any, T]"
"""A read in steps: yields (verb, arguments, keywords) of a Checkpointer and is sent the answers, so that sync and async
callers share it. Drive it with `ask` or `aask`."""


def newest(key: str, *, ns: str = "") -> Asking[StoredCheckpoint | None]:
    """The newest checkpoint of a thread; with `ns` of a graph inside it."""
    loaded = yield "load", (key,), {"ns": ns}
    if loaded is None or not loaded.rows:
        return None
    return (yield from _reading(read_head(loaded, CODEC), loaded))[0]


def begun(key: str, ns: str, above: StoredCheckpoint) -> Asking[StoredCheckpoint | None]:
    """The newest checkpoint of a graph inside a task of the step that follows a checkpoint."""
    loaded = yield "load", (key,), {"ns": ns}
    lanes = [info for info in loaded.lanes if info.ns == ns and info.last] if loaded is not None else []
    for info in sorted(lanes, key=lambda info: info.last, reverse=True):
        found = yield from placed(key, info.lane, None)
        if found is not None and owner_of(found) in above.places:
            return found
    return None


def placed(key: str, lane: int, seq: int | None) -> Asking[StoredCheckpoint | None]:
    """The checkpoint of a lane with this seq; None for its newest one."""
    loaded = yield "load", (key,), {"lane": lane, "upto": seq}
    if loaded is None or not loaded.rows:
        return None
    reader = read_head(loaded, CODEC) if seq is None else read_at(loaded, seq, CODEC)
    return (yield from _reading(reader, loaded))[0]


def at(key: str, address: Address) -> Asking[StoredCheckpoint | None]:
    """The checkpoint with this address; None when there is none."""
    loaded = yield "load", (key,), {"lane": address.lane, "upto": address.seq}
    if loaded is None:
        return None
    found = (yield from _reading(read_at(loaded, address.seq, CODEC), loaded))[0]
    return found if found is not None and found.address == address else None


def walk(key: str, before: Address | None, limit: int | None, *, ns: str = "") -> Asking[list[StoredCheckpoint]]:
    """Checkpoints of a namespace on all its lanes, newest first; those `before` an address only."""
    loaded = yield "load", (key,), {"ns": ns}
    if loaded is None:
        return []
    lanes = [info for info in loaded.lanes if info.ns == ns and info.last]
    pages = [_Page(info.lane, info.last if before is None else min(info.last, before.seq - 1)) for info in lanes]
    found: list[StoredCheckpoint] = []
    while pages and (limit is None or len(found) < limit):
        newest_page = max(pages, key=lambda page: page.bound)
        if not newest_page.ready:
            yield from newest_page.fill(key, None if limit is None else limit - len(found))
            if not newest_page.ready:
                pages.remove(newest_page)
            continue
        found.append(newest_page.take())
    return found


def lineage(key: str, address: Address) -> Asking[list[StoredCheckpoint]]:
    """A checkpoint and those it came from, newest first."""
    found: list[StoredCheckpoint] = []
    wanted: Address | None = address
    while wanted is not None:
        page = _Page(wanted.lane, wanted.seq)
        yield from page.fill(key, None)
        known = len(found)
        for stored in reversed(page.ready):
            if stored.address == wanted:
                found.append(stored)
                wanted = stored.parent
        if len(found) == known:
            break
    return found


class _Page:
    """The checkpoints of one lane up to seq `bound`, read piece by piece; `ready` are those that were read, oldest
    first.
    """

    def __init__(self, lane: int, bound: int) -> None:
        self.lane = lane
        self.bound = bound
        self.ready: list[StoredCheckpoint] = []

    def take(self) -> StoredCheckpoint:
        """The newest one."""
        found = self.ready.pop()
        self.bound = self.ready[-1].address.seq if self.ready else found.address.seq - 1
        return found

    def fill(self, key: str, limit: int | None) -> Asking[None]:
        """Read the next piece; `ready` stays empty when there is none."""
        loaded = yield "load", (key,), {"lane": self.lane, "upto": self.bound}
        if loaded is None or not loaded.rows:
            return
        if limit is None:  # all of it: one read from the lane's first row on
            rows = yield "read", (loaded.thread.no, [RowRange(self.lane, MAIN, 0, loaded.rows[-1].seq)]), {}
            loaded = loaded._replace(rows=tuple(rows[0]))
        page = yield from _reading(read_history(loaded, CODEC, before=self.bound + 1, limit=limit), loaded)
        self.ready = page[::-1]
        self.bound = page[0].address.seq if page else 0


def _reading(reader: Generator[list[RowRange], list[list[Row]], T], loaded: LoadedThread) -> Asking[T]:
    """A reader of the layout, in terms of a Checkpointer's verbs."""
    try:
        wanted = next(reader)
        while True:
            wanted = reader.send((yield "read", (loaded.thread.no, wanted), {}))
    except StopIteration as end:
        return end.value


def ask(checkpointer: Checkpointer, asking: Asking[T]) -> T:
    """Drive a read."""
    try:
        verb, args, keywords = next(asking)
        while True:
            verb, args, keywords = asking.send(getattr(checkpointer, verb)(*args, **keywords))
    except StopIteration as end:
        return end.value


async def aask(checkpointer: Checkpointer, asking: Asking[T]) -> T:
    """Drive a read with the async verbs."""
    try:
        verb, args, keywords = next(asking)
        while True:
            verb, args, keywords = asking.send(await getattr(checkpointer, f"a{verb}")(*args, **keywords))
    except StopIteration as end:
        return end.value
