"""The writing side of one lane: from batches to rows of its hold.

With durability "exit" only the last checkpoint is kept, and written when the run stops.

Rows are encoded when a batch is added, so nothing that a node changes later can reach them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from durable_graph.core.applying import merge_changes
from durable_graph.errors import UnserializableValueError
from durable_graph.persistence.codec import CODEC
from durable_graph.records import Address, Change, PendingRecord
from durable_graph.signals import AttemptOver
from durable_graph.types import MISSING

if TYPE_CHECKING:
    from durable_graph.core.effects import Batch
    from durable_graph.persistence.layout import LaneWriter
    from durable_graph.records import CallRecord, StepRecord
    from durable_graph.runtime.hold import Hold

__all__ = ["NestedOutbox", "Outbox"]


class Outbox:
    """One run's rows in one lane.

    at: (lane, seq) of the newest checkpoint.   status: what the thread's status stays, whatever the run comes to.
    """

    def __init__(self, hold: Hold, writer: LaneWriter, *, status: str | None = None) -> None:
        self.hold = hold
        self.lane = writer.lane
        self.seen = writer.seq
        self.at: tuple[int, int] | None = None
        self._writer = writer
        self._status = status
        self._exit = hold.durability == "exit"
        self._held: StepRecord | None = None
        self._held_seq = 0
        self._held_lengths: dict[str, int] = {}
        self._calls: dict[Any, CallRecord] = {}
        self._struck = False

    def add(self, batch: Batch) -> list[Address]:
        """Encode a batch; the addresses of its checkpoints.

        Raises:
            UnserializableValueError: a value cannot be stored; the outbox is as it was.
        """
        if self._struck:  # Ctrl-C cut the last call short: what may be missing must not be followed by anything
            return []
        self._struck = True
        try:
            with self.hold.lock:
                return self._add(batch)
        except (Exception, AttemptOver):
            self._struck = False
            raise

    def _add(self, batch: Batch) -> list[Address]:
        hold = self.hold
        addresses: list[Address] = []
        for record in batch.steps:
            record.created_at = time.time_ns() // 1_000_000
            seq = hold.seq + 1
            if self._exit:
                self._keep(record, seq)
            else:
                hold.rows += self._writer.checkpoint(record, seq, hold.epoch)
            hold.seq = seq
            self.at = (self.lane, seq)
            addresses += (Address(self.lane, seq, hold.epoch),)
        pending = batch.pending
        if pending is not None and (pending.tasks or pending.answers or pending.calls):
            self._settle_held()
            self._append(pending)
        if batch.status is not None:
            self._settle_held()
            self._end(self._status or batch.status)
        hold.last[self.lane] = hold.seq
        self._struck = False
        return addresses

    def record(self, call: CallRecord) -> None:
        """A recorded step of a task ended. It is stored at once; with durability "exit" when the run stops."""
        with self.hold.lock:
            if self._exit:
                self._calls[call.place] = call
            else:
                self._append(PendingRecord(calls=(call,)))

    def _end(self, status: str) -> None:
        """The run gives the thread back."""
        hold = self.hold
        for inside in hold.inside.values() if self._exit else ():  # those that are cut short with it
            inside.settle()
        hold.status = status
        hold.over = True

    def settle(self) -> None:
        """Add what was held back."""
        self._settle_held()

    def _append(self, pending: PendingRecord) -> None:
        hold = self.hold
        hold.rows += self._writer.pending(pending, hold.seq + 1, hold.epoch)
        hold.seq += 1

    def _keep(self, record: StepRecord, seq: int) -> None:
        """Hold a checkpoint back. The next step may change values in place, and then be refused: what is held must
        not change with them. Lists to which was only appended are cut to the length they have now.
        """
        lengths: dict[str, int] = {}
        for key, change in record.changes.items():
            if change.suffix is not None:
                lengths[key] = len(change.value)
            elif change.data is None and change.value is not MISSING:
                change.data = _encoded(key, change.value)
        for key in record.changes:
            self._held_lengths.pop(key, None)
        self._held_lengths.update(lengths)
        if self._held is not None:
            record.changes = merge_changes(self._held.changes, record.changes)
        self._held, self._held_seq = record, seq
        self._calls.clear()

    def _settle_held(self) -> None:
        self._write_held()
        if self._calls:
            self._append(PendingRecord(calls=tuple(self._calls.values())))
            self._calls.clear()

    def _write_held(self) -> None:
        held = self._held
        if held is None:
            return
        for key, length in self._held_lengths.items():
            change = held.changes[key]
            if len(change.value) > length:
                held.changes[key] = Change(change.value[:length], change.suffix, change.data)
        self.hold.rows += self._writer.checkpoint(held, self._held_seq, self.hold.epoch)
        self._held = None
        self._held_lengths.clear()


class NestedOutbox(Outbox):
    """The rows of a run inside a task. The outermost run alone gives the thread back.

    From the moment on at which that one is over, or another attempt of the task runs the graph, nothing it does counts:
    the node that called it may be gone.
    """

    def __init__(self, hold: Hold, writer: LaneWriter, ns: str, session: object) -> None:
        super().__init__(hold, writer)
        self._ns = ns
        self._session = session
        hold.enter(ns, self)

    @override
    def _add(self, batch: Batch) -> list[Address]:
        hold = self.hold
        if hold.over or hold.writers[self._ns] is not self._session:
            if batch.steps:
                raise AttemptOver(self._ns)
            return []  # the run ends: what it knows of its tasks is nobody's
        return super()._add(batch)

    @override
    def record(self, call: CallRecord) -> None:
        hold = self.hold
        if hold.over or hold.writers[self._ns] is not self._session:
            raise AttemptOver(self._ns)
        super().record(call)

    @override
    def _end(self, status: str) -> None:
        pass


def _encoded(key: str, value: Any) -> bytes:
    try:
        return CODEC.encode(value)
    except UnserializableValueError as error:
        error.what = f"key {key!r} has a value that cannot be stored: {error.what}"
        raise
