"""The one committer of a store: every write of every run and both faces goes through it.

A caller that is alone commits inline, on its own OS thread. Whatever comes while a commit runs waits in a queue, and
one daemon OS thread commits the queue in groups. A group never runs on a caller's thread: Ctrl-C there would
strike the commits of others.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakValueDictionary

from durable_graph.errors import (
    CorruptDataError,
    DatabaseFullError,
    DatabaseLockedError,
    DatabaseUnavailableError,
    NewerDatabaseError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.records import Claim, CommitItem, Outcome

__all__ = ["Committer", "committer_for"]

GROUP = 256
"""Items in one group at the most, so that one group does not hold the database for long."""
LINGER = 0.02
"""Seconds for which background commits wait for company."""
IDLE = 10.0
"""Seconds without work after which the OS thread ends."""

_OF_THE_STORE = (
    CorruptDataError,
    DatabaseFullError,
    DatabaseLockedError,
    DatabaseUnavailableError,
    NewerDatabaseError,
)
"""Failures of the whole store; any other is the fault of one item of a group."""

_Entry: TypeAlias = "tuple[CommitItem, Future[Outcome], bool]"


class Committer:
    """Commits for one store. Items of one claim are written in the order in which they were given."""

    def __init__(self, checkpointer: Checkpointer) -> None:
        self.checkpointer = checkpointer
        self._busy = threading.Lock()
        self._queue: SimpleQueue[_Entry] = SimpleQueue()
        self._broken: dict[Claim, BaseException] = {}
        self._thread: threading.Thread | None = None
        self._turn = threading.Lock()
        self._start = threading.Lock()
        # Not an Event: that is Python code, and Ctrl-C inside its set() would leave its lock locked for ever.
        self._hurry: SimpleQueue[None] = SimpleQueue()

    def commit(self, item: CommitItem) -> Outcome:
        """Write one item now and wait for it."""
        if self.checkpointer.instant:
            return self.checkpointer.commit((item,))[0]
        if self._queue.empty() and not self._busy.locked():
            with self._busy:  # not acquire() and try: Ctrl-C between the two would leave it locked for ever
                return self.checkpointer.commit((item,))[0]
        return self.submit(item).result()

    def submit(self, item: CommitItem, *, patient: bool = False) -> Future[Outcome]:
        """Write one item soon. The future gives the outcome, or the StorageError; it cannot be cancelled.

        patient: it may wait a moment (LINGER) for others to share its commit. `hurry` ends the wait.

        After an item failed, later items of the same claim fail too: a line of rows must have no gap.
        """
        future: Future[Outcome] = Future()
        _ = future.set_running_or_notify_cancel()
        with self._start:
            if self._thread is None or not self._thread.is_alive():  # the latter: Ctrl-C struck its start
                self._thread = threading.Thread(target=self._serve, name="durable_graph-committer", daemon=True)
                self._thread.start()
            self._queue.put((item, future, patient))
        return future

    def hurry(self) -> None:
        """Somebody waits: what is queued is to be committed now."""
        self._hurry.put(None)

    def forget(self, claim: Claim) -> None:
        """The run of this claim is over."""
        self._broken.pop(claim, None)

    def _serve(self) -> None:
        """Commit what comes. The OS thread ends when nothing came for a while; the next item starts another."""
        with self._turn:  # of two OS threads (see submit) one works: the order is kept
            self._serve_queue()

    def _serve_queue(self) -> None:
        while True:
            try:
                group = [self._queue.get(timeout=IDLE)]
            except Empty:
                with self._start:
                    if self._queue.empty():
                        self._thread = None
                        return
                continue
            self._gather(group)
            if group[-1][2] and len(group) < GROUP:
                self._linger()
                self._gather(group)
            with self._busy:
                self._gather(group)  # what came while another OS thread's commit ran
                self._commit([(item, future) for item, future, _ in group])

    def _linger(self) -> None:
        try:
            self._hurry.get(timeout=LINGER)
            while True:
                self._hurry.get_nowait()
        except Empty:
            return

    def _gather(self, group: list[_Entry]) -> None:
        while len(group) < GROUP:
            try:
                group.append(self._queue.get_nowait())
            except Empty:
                return

    def _commit(self, group: Sequence[tuple[CommitItem, Future[Outcome]]]) -> None:
        sound = [entry for entry in group if entry[0].claim not in self._broken]
        try:
            outcomes = self.checkpointer.commit([item for item, _ in sound]) if sound else []
            answered = tuple(zip(sound, outcomes, strict=True))
        except BaseException as error:  # noqa: BLE001 - handed to those who wait; the thread must live on
            if len(sound) > 1 and not isinstance(error, _OF_THE_STORE):
                for entry in sound:  # one item is at fault, and the others must not suffer for it
                    self._commit([entry])
            else:
                self._broken.update((item.claim, error) for item, _ in sound)
        else:
            for (_, future), outcome in answered:
                future.set_result(outcome)
        for item, future in group:
            if not future.done():
                future.set_exception(self._broken[item.claim])


_committers: WeakValueDictionary[tuple[Any, ...], Committer] = WeakValueDictionary()
_lock = threading.Lock()


def committer_for(checkpointer: Checkpointer) -> Committer:
    """The committer of a store; objects over the same data share it."""
    with _lock:
        found = _committers.get(checkpointer.identity)
        if found is None:
            found = _committers[checkpointer.identity] = Committer(checkpointer)
        found.checkpointer = checkpointer  # an older object may have been closed, and would open what it had again
        return found


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - the child has none of the parent's OS threads, and no part in its commits
    _lock = threading.Lock()
    _committers.clear()


os.register_at_fork(after_in_child=_after_fork)
