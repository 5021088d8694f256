"""One run's hold on its thread: the claim under which it writes, the counter of its rows, and their way to the store.

All lanes of a run (its own and those of graphs inside its nodes) write through one hold, from any OS thread. Rows get
their seq and their place in line under one lock, which is never held while the store works; so what is committed later
has higher numbers, and a line of rows never has a gap.

    "sync"    rows wait until `flush` and are then one commit
    "async"   every batch is handed to the committer; the run is at most 64 commits or 100 ms ahead
    "exit"    rows wait until the run stops

Drivers do the waiting: `push` answers with what is to be waited for, `flush` waits in this OS thread.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from durable_graph.errors import LostLease
from durable_graph.records import ClaimRequest, CommitItem, LaneInfo
from durable_graph.runtime import heart, owner

if TYPE_CHECKING:
    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.records import Claim, LoadedThread, Outcome, Row
    from durable_graph.runtime.committer import Committer
    from durable_graph.runtime.outbox import NestedOutbox
    from durable_graph.types import Durability

__all__ = ["BEHIND", "BEHIND_SECONDS", "Hold", "Raced", "call_namespace", "call_of"]

BEHIND = 64
"""How many commits a run with durability "async" may be ahead of its disk."""
BEHIND_SECONDS = 0.1
"""How long its oldest commit may be under way before the run waits for it."""


_CALL: Final = re.compile(r"(?P<path>.*?(?P<send>:\d*))\+(?P<number>\d+)")


def call_namespace(path: str, number: int) -> str:
    """The namespace of one of the graphs that a task calls. `path`: that of the first one."""
    if not number:
        return path
    return f"{path}{'' if ':' in path.rpartition('|')[2] else ':'}+{number}"


def call_of(ns: str) -> tuple[str, int]:
    """The namespace of the first graph that the same task calls, and the number of this call."""
    above, level, segment = ns.rpartition("|")
    found = _CALL.fullmatch(segment)
    if found is None:
        return ns, 0
    return f"{above}{level}{found['path'].removesuffix(':')}", int(found["number"])


class Raced(Exception):
    """Somebody claimed or wrote the thread between our look and our claim."""


class Hold:
    """The rows of one run on their way to the store.

    seq: of the newest row.   first: the newest row when the run began: what has a higher seq is this run's own.
    lanes: all lanes of the thread by number.   last: the seq of each one's newest row.
    ahead: the commits under way, each with the time it began.   over: the run was told to give the thread back.
    durable: seq of the last row that is.   beaten: when it last gave a sign of life.   beaten_seq: `durable` then.
    inside: what graphs inside tasks write through, by namespace.   writers: who alone may write in a namespace.
    """

    def __init__(
        self,
        checkpointer: Checkpointer,
        committer: Committer,
        key: str,
        loaded: LoadedThread | None,
        durability: Durability,
    ) -> None:
        self.checkpointer = checkpointer
        self.committer = committer
        self.key = key
        self.durability: Durability = durability
        self.owner = owner.claim_name()
        self.claim: Claim | None = None
        self.lock = threading.Lock()
        self._instant = checkpointer.instant
        self._epoch_seen = loaded.thread.epoch if loaded is not None else None
        # A new thread's epochs start at random: a zombie of a deleted thread of that name must find none of its own.
        self.epoch = (self._epoch_seen or int.from_bytes(os.urandom(3), "big") + 1) + 1
        self.lanes = {info.lane: info for info in loaded.lanes} if loaded is not None else {}
        self.last = {lane: info.last for lane, info in self.lanes.items()}
        self.seq = self.first = max(self.last.values(), default=0)
        self.rows: list[Row] = []
        self.status: str | None = None
        self.over = False
        self.ahead: deque[tuple[float, Future[Outcome]]] = deque()
        self._new_lanes: list[LaneInfo] = []
        self._of_namespace: dict[str, list[int]] = {}
        self._of_task: dict[str, set[int]] = {}
        self.inside: dict[str, NestedOutbox] = {}
        self.writers: dict[str, object] = {}
        self._newest = max(self.lanes, default=0)
        for lane, info in self.lanes.items():
            self._index(lane, info.ns)
        self._sent: CommitItem | None = None
        self._inline = False
        self._passed: Future[None] | None = None
        self._failed: BaseException | None = None
        self.durable = self.beaten_seq = self.seq
        self.beaten = 0.0

    # --- lanes ----------------------------------------------------------------------------------------------------

    def new_lane(self, ns: str, parent: tuple[int, int] = (0, 0)) -> int:
        """The number of a new lane, which is stored with the next rows. `parent`: (lane, seq) it branches from."""
        with self.lock:
            self._newest = lane = self._newest + 1
            self.lanes[lane] = info = LaneInfo(lane, ns, *parent, 0)
            self._new_lanes.append(info)
            self.last[lane] = 0
            self._index(lane, ns)
            return lane

    def _index(self, lane: int, ns: str) -> None:
        self._of_namespace.setdefault(ns, []).append(lane)
        if ns:
            path, number = call_of(ns)
            self._of_task.setdefault(path, set()).add(number)

    def newest_lane(self, ns: str) -> int | None:
        """The lane of a namespace that was written last; None when it has none."""
        with self.lock:
            return max(self._of_namespace.get(ns, ()), key=self.last.__getitem__, default=None)

    def lanes_of(self, ns: str) -> list[int]:
        """The lanes of a namespace, the one that was written last first."""
        with self.lock:
            return sorted(self._of_namespace.get(ns, ()), key=self.last.__getitem__, reverse=True)

    def numbers_of(self, path: str) -> list[int]:
        """The numbers of the calls of graphs that a task may have made. `path`: the namespace of the first one."""
        with self.lock:
            return sorted(self._of_task.get(path, ()))

    def written_since(self, seq: int) -> list[str]:
        """The namespaces with newer rows than this."""
        with self.lock:
            return [info.ns for lane, info in self.lanes.items() if self.last[lane] > seq]

    def take_over(self, ns: str, writer: object) -> None:
        """From now on only this one writes in a namespace. What another one held back there is added."""
        with self.lock:
            self.writers[ns] = writer
            if ns in self.inside:
                self.inside[ns].settle()

    def enter(self, ns: str, outbox: NestedOutbox) -> None:
        """What the writer of a namespace writes through."""
        with self.lock:
            self.inside[ns] = outbox

    # --- the claim ------------------------------------------------------------------------------------------------

    def claim_request(self, lane: int, seen: int) -> ClaimRequest:
        """Take the thread over, with the rows that are there, if lane `lane` has none behind `seen`."""
        rows, self.rows = tuple(self.rows), []
        lanes, self._new_lanes = tuple(self._new_lanes), []
        request = ClaimRequest(self.key, self.owner, self._epoch_seen, self.epoch, lane, seen, lanes, rows)
        lease = self.checkpointer.lease
        return request if lease is None else request._replace(lease=int(lease * 1000))

    def claimed(self, claim: Claim | None) -> None:
        """The answer to the request.

        Raises:
            Raced: the thread changed since it was loaded.
        """
        if claim is None:
            raise Raced
        self.claim = claim
        self.durable = self.seq
        lease = self.checkpointer.lease
        if lease is not None:
            self.beaten, self.beaten_seq = time.monotonic(), self.seq
            heart.begin(self, lease)

    # --- commits --------------------------------------------------------------------------------------------------

    def flush(self) -> None:  # noqa: C901 - the way of each step: every function on it costs a call
        """Wait, in this OS thread, until every row that was added is durable.

        Raises:
            LostLease: somebody else holds the thread now.
            StorageError: the store failed.
        """
        while True:
            with self.lock:
                resent = self._sent is not None
                if self._instant:
                    item = self._take()
                    if item is not None:
                        outcome = self.checkpointer.commit((item,))[0]
                        if outcome == "stale":
                            self.settle(outcome)
                        self._sent, self.durable = None, self.seq
                    if resent:
                        continue
                    return
                if self._failed is not None:
                    raise self._failed
                item = None if self._inline or self.ahead else self._take()
                waiting = self._hand_over() if item is None else None
                if item is not None:
                    self._inline = True
            if item is None:
                if waiting is None:
                    return
                _ = waiting.exception()
                self.reap()
                continue
            self._commit_here(item)
            if not resent:
                return

    def _commit_here(self, item: CommitItem) -> None:
        came = False
        try:
            outcome = self.committer.commit(item)
            came = True
        finally:
            with self.lock:  # in one piece: another OS thread must not take this item for one whose outcome never came
                self._inline = False
                if came:
                    self._sent = None
                passed, self._passed = self._passed, None
            if passed is not None:
                passed.set_result(None)
        self.judge(outcome)

    def push(self) -> Future[Outcome] | Future[None] | None:
        """Hand everything to the committer; the newest commit under way. None when everything is durable.

        To be called again after it was waited for, until None comes.
        """
        with self.lock:
            self._reap()
            return self._hand_over()

    def _hand_over(self) -> Future[Outcome] | Future[None] | None:
        if self._inline:  # rows behind those that another OS thread commits right now
            if self._passed is None:
                self._passed = Future()
            return self._passed
        item = self._take()
        if item is not None:
            self.ahead.append((time.monotonic(), self.committer.submit(item)))
            self._sent = None
        return self._last()

    def _last(self) -> Future[Outcome] | None:
        if not self.ahead:
            return None
        self.committer.hurry()
        return self.ahead[-1][1]

    def _take(self) -> CommitItem | None:
        """What is to be committed now; None when there is nothing.

        An item whose outcome never came (Ctrl-C struck its commit) comes again, as it was: a line of rows must have no
        gap.
        """
        if self._sent is not None:
            return self._sent
        if self.claim is None or not (self.rows or self.status):
            return None
        lanes: tuple[LaneInfo, ...] = ()
        if self._new_lanes:
            lanes, self._new_lanes = tuple(self._new_lanes), []
        item = CommitItem(self.claim, tuple(self.rows), lanes, self.status)
        self.rows, self.status = [], None
        self._sent = item
        return item

    def settle(self, outcome: Outcome) -> None:
        """The outcome of the newest item.

        Raises:
            LostLease: somebody else holds the thread now.
        """
        self._sent = None
        self.judge(outcome)

    def judge(self, outcome: Outcome) -> None:
        """What an outcome means. *Raises* as `settle`."""
        if outcome == "stale":
            what = (
                f"thread {self.key!r} was taken over by another run; the last step of this one that is durable has "
                f"seq {self.durable}"
            )
            self._failed = LostLease(what)
            raise self._failed
        self.durable = self.seq

    def behind(self) -> Future[Outcome] | None:
        """With durability "async": start what is there. The commit to wait for before the run may go on; None when it
        is close enough to its disk.
        """
        with self.lock:
            self._reap()
            if not self._inline:
                self._start()
            if not self.ahead:
                return None
            since, oldest = self.ahead[0]
            if len(self.ahead) < BEHIND and time.monotonic() - since <= BEHIND_SECONDS:
                return None
            self.committer.hurry()
            return oldest

    def _start(self) -> None:
        item = self._take()
        if item is None:
            return
        if self.checkpointer.instant:
            self.settle(self.committer.commit(item))
            return
        self.ahead.append((time.monotonic(), self.committer.submit(item, patient=True)))
        self._sent = None

    def reap(self) -> None:
        """Look at the commits that ended.

        Raises:
            StorageError: one of them failed.
        """
        with self.lock:
            self._reap()

    def _reap(self) -> None:
        if self._failed is not None:
            raise self._failed
        while self.ahead and self.ahead[0][1].done():
            _, done = self.ahead.popleft()
            error = done.exception()
            if error is not None:
                self._failed = error
                raise error
            self.settle(done.result())

    def close(self) -> None:
        """The run is over, however it ended."""
        heart.end(self.owner)
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
            heart.end(self.owner)
            owner.forget(self.owner)
