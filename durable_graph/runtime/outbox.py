"""The writing side of one run: from batches to rows, under one claim, as durable as was asked for.

    "sync"    rows wait until Flush and are then one commit
    "async"   every batch is handed to the committer; the run is at most 64 checkpoints or 100 ms ahead
    "exit"    only the last checkpoint is kept, and written when the run stops

Rows are encoded when a batch is added, so nothing that a node changes later can reach them. The methods here wait for
nothing; drivers do the waiting.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from durable_graph.core.applying import merge_changes
from durable_graph.errors import LostLease, UnserializableValueError
from durable_graph.persistence.codec import CODEC
from durable_graph.persistence.layout import LaneWriter
from durable_graph.records import Address, Change, ClaimRequest, CommitItem, LaneInfo
from durable_graph.runtime import owner
from durable_graph.types import MISSING

if TYPE_CHECKING:
    from concurrent.futures import Future

    from durable_graph.core.effects import Batch
    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.records import Claim, LoadedThread, Outcome, Row, StepRecord
    from durable_graph.runtime.committer import Committer
    from durable_graph.types import Durability

__all__ = ["BEHIND", "BEHIND_SECONDS", "Outbox", "Raced"]

BEHIND = 64
"""How many commits a run with durability "async" may be ahead of its disk."""
BEHIND_SECONDS = 0.1
"""How long its oldest commit may be under way before the run waits for it."""


class Raced(Exception):
    """Somebody claimed or wrote the thread between our look and our claim."""


class Outbox:
    """One run's rows on their way to the store. `ahead`: the commits under way, each with the time it began."""

    def __init__(
        self,
        checkpointer: Checkpointer,
        committer: Committer,
        key: str,
        loaded: LoadedThread | None,
        writer: LaneWriter | None,
        durability: Durability,
    ) -> None:
        self.checkpointer = checkpointer
        self.committer = committer
        self.key = key
        self.durability = durability
        self.owner = owner.claim_name()
        self.claim: Claim | None = None
        self._new_lanes: tuple[LaneInfo, ...] = ()
        if loaded is None or writer is None:
            self._new_lanes = (LaneInfo(1, "", 0, 0, 0),) if loaded is None else ()
            writer = writer or LaneWriter(CODEC, 1)
        self._writer = writer
        self._lane = writer.lane
        self._hold = durability == "exit"
        self._seen = writer.seq
        self._epoch_seen = loaded.thread.epoch if loaded is not None else None
        # A new thread's epochs start at random: a zombie of a deleted thread of that name must find none of its own.
        self.epoch = (self._epoch_seen or secrets.randbelow(1 << 24) + 1) + 1
        self._seq = max((lane.last for lane in loaded.lanes), default=0) if loaded is not None else 0
        self._rows: list[Row] = []
        self._held: StepRecord | None = None
        self._held_seq = 0
        self._held_lengths: dict[str, int] = {}
        self._struck = False
        self._status: str | None = None
        self._sent: CommitItem | None = None
        self.more = False
        self.ahead: deque[tuple[float, Future[Outcome]]] = deque()
        self._durable = self._seen

    # --- taking batches in --------------------------------------------------------------------------------------

    def add(self, batch: Batch) -> list[Address]:
        """Encode a batch; the addresses of its checkpoints.

        Raises:
            UnserializableValueError: a value cannot be stored; the outbox is as it was.
        """
        if self._struck:  # Ctrl-C cut the last call short: what may be missing must not be followed by anything
            return []
        self._struck = True
        try:
            return self._add(batch)
        except Exception:
            self._struck = False
            raise

    def _add(self, batch: Batch) -> list[Address]:
        addresses: list[Address] = []
        for record in batch.steps:
            record.created_at = time.time_ns() // 1_000_000
            seq = self._seq + 1
            if self._hold:
                self._keep(record, seq)
            else:
                self._rows += self._writer.checkpoint(record, seq, self.epoch)
            self._seq = seq
            addresses += (Address(self._lane, seq, self.epoch),)
        if batch.pending is not None and (batch.pending.tasks or batch.pending.answers):
            self._settle_held()
            self._rows += self._writer.pending(batch.pending, self._seq + 1, self.epoch)
            self._seq += 1
        if batch.status is not None:
            self._settle_held()
            self._status = batch.status
        self._struck = False
        return addresses

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

    def _settle_held(self) -> None:
        held = self._held
        if held is None:
            return
        for key, length in self._held_lengths.items():
            change = held.changes[key]
            if len(change.value) > length:
                held.changes[key] = Change(change.value[:length], change.suffix, change.data)
        self._rows += self._writer.checkpoint(held, self._held_seq, self.epoch)
        self._held = None
        self._held_lengths.clear()

    # --- the claim ------------------------------------------------------------------------------------------------

    def claim_request(self) -> ClaimRequest:
        """Take the thread over, with the rows that are there."""
        rows, self._rows = tuple(self._rows), []
        return ClaimRequest(
            self.key, self.owner, self._epoch_seen, self.epoch, self._lane, self._seen, self._new_lanes, rows
        )

    def claimed(self, claim: Claim | None) -> None:
        """The answer to the request.

        Raises:
            Raced: the thread changed since it was loaded.
        """
        if claim is None:
            raise Raced
        self.claim = claim
        self._durable = self._seq

    # --- commits ----------------------------------------------------------------------------------------------------

    def take(self) -> CommitItem | None:
        """What is to be committed now; None when there is nothing.

        An item whose outcome never came (Ctrl-C struck its commit) comes again, as it was: a line of rows must have no
        gap. `more` then says that there may be another one behind it.
        """
        self.more = self._sent is not None
        if self._sent is not None:
            return self._sent
        if self.claim is None or not (self._rows or self._status):
            return None
        item = CommitItem(self.claim, tuple(self._rows), (), self._status)
        self._rows, self._status = [], None
        self._sent = item
        return item

    def settle(self, outcome: Outcome) -> None:
        """The outcome of the newest item.

        Raises:
            LostLease: somebody else holds the thread now.
        """
        self._sent = None
        if outcome == "stale":
            what = (
                f"thread {self.key!r} was taken over by another run; the last step of this one that is durable has "
                f"seq {self._durable}"
            )
            raise LostLease(what)
        self._durable = self._seq

    def start(self, item: CommitItem) -> None:
        """Hand an item to the committer and go on; a store that answers at once has it right away."""
        if self.checkpointer.instant:
            self.settle(self.committer.commit(item))
            return
        self.ahead.append((time.monotonic(), self.committer.submit(item, patient=True)))
        self._sent = None

    def behind(self) -> Future[Outcome] | None:
        """The commit to wait for before the run may go on; None when it is close enough to its disk."""
        self._reap()
        if not self.ahead:
            return None
        since, oldest = self.ahead[0]
        if len(self.ahead) < BEHIND and time.monotonic() - since <= BEHIND_SECONDS:
            return None
        self.committer.hurry()
        return oldest

    def underway(self) -> Future[Outcome] | None:
        """The oldest commit under way; who asks is going to wait for it."""
        self._reap()
        if not self.ahead:
            return None
        self.committer.hurry()
        return self.ahead[0][1]

    def _reap(self) -> None:
        while self.ahead and self.ahead[0][1].done():
            self.settle(self.ahead.popleft()[1].result())

    def close(self) -> None:
        """The run is over, however it ended."""
        owner.forget(self.owner)
        claim, committer = self.claim, self.committer
        if claim is None:
            return
        if self.ahead:  # of these none may be written after one that failed: the line would have a gap
            self.ahead[-1][1].add_done_callback(lambda _: committer.forget(claim))
        else:
            committer.forget(claim)

    def __del__(self) -> None:
        """A run whose event loop was closed under it never comes to its `close`; nobody shall find its thread busy."""
        if hasattr(self, "owner"):
            owner.forget(self.owner)


def _encoded(key: str, value: Any) -> bytes:
    try:
        return CODEC.encode(value)
    except UnserializableValueError as error:
        error.what = f"key {key!r} has a value that cannot be stored: {error.what}"
        raise
