"""One run's hold on its thread: who has it, what is stored there, and the outbox that writes to it.

And reads that no run is needed for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from typing_extensions import TypeVar

from durable_graph.core import identity
from durable_graph.errors import InvalidConfigError, ThreadBusy
from durable_graph.persistence.codec import CODEC
from durable_graph.persistence.layout import LaneWriter, read_at, read_head, read_history
from durable_graph.records import MAIN, RowRange
from durable_graph.runtime import owner
from durable_graph.runtime.committer import committer_for
from durable_graph.runtime.context import CURRENT
from durable_graph.runtime.hold import Hold
from durable_graph.runtime.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Generator

    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.records import Address, LoadedThread, Row, StoredCheckpoint
    from durable_graph.types import Durability

__all__ = ["Asking", "Session", "aask", "ask", "at", "newest", "read_from", "walk"]

T = TypeVar("T")


class Session:
    """Between a run and its checkpointer. `begin` reads; then `outbox` writes.

    instant: `begin` waits for nothing.
    """

    def __init__(self, checkpointer: Checkpointer, key: str, wanted: str | None, durability: Durability) -> None:
        self.checkpointer = checkpointer
        self.key = key
        self.durability: Durability = durability
        self.instant = checkpointer.instant
        self._outbox: Outbox | None = None
        self._wanted = identity.parse_checkpoint_id(wanted) if wanted else None

    def begin(self) -> StoredCheckpoint | None:
        """Read the checkpoint that is wanted, or the thread's newest one, and prepare to write behind it.

        Raises:
            ThreadBusy: a run that lives holds the thread.
            InvalidConfigError: a checkpoint id was given and the thread has no such checkpoint.
        """
        self.close()
        checkpointer = self.checkpointer
        loaded = self._look()
        hold = Hold(checkpointer, committer_for(checkpointer), self.key, loaded, self.durability)
        stored, writer = None, None
        if loaded is not None:
            stored, writer = ask(checkpointer, _reading(read_head(loaded, CODEC, tasks=False), loaded))
        if self._wanted is not None and (stored is None or stored.address != self._wanted):
            stored, writer = self._branch(hold, self._wanted)
        if writer is None:
            writer = LaneWriter(CODEC, 1 if loaded is not None else hold.new_lane(""))
        self._outbox = Outbox(hold, writer)
        return stored

    def _branch(self, hold: Hold, wanted: Address) -> tuple[StoredCheckpoint, LaneWriter]:
        """A checkpoint that others follow, and a lane that starts from it."""
        found = read_from(hold, wanted.lane, wanted.seq)
        stored, writer = found if found is not None else (None, None)
        if stored is None or writer is None or stored.address != wanted or hold.lanes[wanted.lane].ns:
            what = f"thread {self.key!r} has no checkpoint {identity.checkpoint_id(wanted)}"
            cure = "Pass the config of a snapshot of this thread, or leave checkpoint_id out to go on from the newest."
            raise InvalidConfigError(what, cure=cure)
        stored.past = True
        return stored, writer.branch(hold.new_lane("", (wanted.lane, wanted.seq)))

    def _look(self) -> LoadedThread | None:
        """The thread, which nobody alive holds.

        A dead owner is looked at twice: it may have lived, and written, between the look and the question.
        """
        before: str | None = None
        while True:
            loaded = self.checkpointer.load(self.key)
            holder = loaded.thread.owner if loaded is not None else None
            if holder is None or holder == before:
                return loaded
            if not owner.is_dead(holder, one_host=self.checkpointer.one_host):
                raise self._busy(holder)
            before = holder

    def _busy(self, holder: str) -> ThreadBusy:
        inside = CURRENT.get()
        if inside is not None and inside.task.origin[0] == self.key:
            what = f"node {inside.task.name!r} called a graph on its own thread {self.key!r}, which its run holds"
            return ThreadBusy(what, owner=holder, cure="Leave the thread_id out to run it inside this run, or give it one of its own.")
        what = f"thread {self.key!r} is held by another run, of {owner.describe_owner(holder)}"
        return ThreadBusy(what, owner=holder)

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


Asking: TypeAlias = "Generator[tuple[str, tuple[Any, ...], dict[str, Any]], Any, T]"
"""A read in steps: yields (verb, arguments, keywords) of a Checkpointer and is sent the answers, so that sync and async
callers share it. Drive it with `ask` or `aask`."""


def newest(key: str) -> Asking[StoredCheckpoint | None]:
    """The newest checkpoint of a thread."""
    loaded = yield "load", (key,), {}
    if loaded is None:
        return None
    return (yield from _reading(read_head(loaded, CODEC), loaded))[0]


def at(key: str, address: Address) -> Asking[StoredCheckpoint | None]:
    """The checkpoint with this address; None when there is none."""
    loaded = yield "load", (key,), {"lane": address.lane, "upto": address.seq}
    if loaded is None:
        return None
    found = (yield from _reading(read_at(loaded, address.seq, CODEC), loaded))[0]
    return found if found is not None and found.address == address else None


def walk(key: str, before: Address | None, limit: int | None) -> Asking[list[StoredCheckpoint]]:
    """Checkpoints, newest first: those of the newest lane (or those `before` an address), then of the lanes that it
    branched from.
    """
    found: list[StoredCheckpoint] = []
    lane, bound = None, None
    if before is not None:
        first = yield from at(key, before)
        if first is None or first.parent is None:
            return found
        lane, bound = first.parent.lane, first.parent.seq
    while limit is None or len(found) < limit:
        loaded = yield "load", (key,), {"lane": lane, "upto": bound}
        if loaded is None:
            break
        if limit is None:  # all of it: one read from the lane's first row on
            whole = RowRange(loaded.lane, MAIN, 0, loaded.rows[-1].seq if loaded.rows else 0)
            rows = yield "read", (loaded.thread.no, [whole]), {}
            loaded = loaded._replace(rows=tuple(rows[0]))
        wanted = None if limit is None else limit - len(found)
        until = None if bound is None else bound + 1
        page = yield from _reading(read_history(loaded, CODEC, before=until, limit=wanted), loaded)
        found += page
        if not page or page[-1].parent is None:
            break
        lane, bound = page[-1].parent.lane, page[-1].parent.seq
    return found


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
