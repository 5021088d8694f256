"""Signs of life of the runs of this process, given by one OS thread beside them.

A run whose thread hangs or whose event loop is blocked goes on beating, as it should: it may come back, and what it
holds is still its own. That it stores nothing is told with each beat (`moved`), and shown to who finds the thread busy.
A process that is frozen or cut off gives no sign; its leases run out, and should it come back, its commits are refused.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from durable_graph.records import Beat

if TYPE_CHECKING:
    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.runtime.hold import Hold

__all__ = ["Heart", "begin", "end"]

_IDLE: Final = 30.0
"""Seconds without a run after which the OS thread ends."""
_BEATS: Final = 3
"""Signs of life in the time of a lease: two may fail."""

_log = logging.getLogger("durable_graph")


class Heart:
    """Gives signs of life for the holds that were told to it, until they end."""

    def __init__(self) -> None:
        self._holds: dict[str, weakref.ref[Hold]] = {}
        self._shortest = _IDLE
        self._thread: threading.Thread | None = None
        self._start = threading.Lock()
        self._woken: SimpleQueue[None] = SimpleQueue()

    def begin(self, hold: Hold, lease: float) -> None:
        """This hold has its claim, good for `lease` seconds."""
        self._holds[hold.owner] = weakref.ref(hold)
        if self._thread is None or lease / _BEATS < self._shortest:
            self._hurry(lease / _BEATS)

    def end(self, owner: str) -> None:
        """Its run is over."""
        _ = self._holds.pop(owner, None)

    def _hurry(self, pause: float) -> None:
        with self._start:
            self._shortest = min(self._shortest, pause)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._beat, name="durable_graph-heart", daemon=True)
                self._thread.start()
            else:
                self._woken.put(None)

    def _beat(self) -> None:
        idle_since: float | None = None
        while True:
            try:
                self._woken.get(timeout=self._shortest / 2)
            except Empty:
                now = time.monotonic()
                alive = self._give_signs(now)
                idle_since = None if alive else idle_since or now
                if idle_since is not None and now - idle_since >= _IDLE and self._ends():
                    return

    def _ends(self) -> bool:
        with self._start:
            if self._holds:
                return False
            self._thread, self._shortest = None, _IDLE
            return True

    def _give_signs(self, now: float) -> bool:
        """Renew what is due; whether any run is going on."""
        due: dict[Checkpointer, list[tuple[Hold, int, Beat]]] = {}
        found = [hold for one in tuple(self._holds.values()) if (hold := one()) is not None]
        for hold in found:
            claim, lease, seq = hold.claim, hold.checkpointer.lease, hold.durable
            if claim is None or lease is None or now - hold.beaten < lease / _BEATS - self._shortest / 4:
                continue
            beat = Beat(claim, seq != hold.beaten_seq, int(lease * 1000))
            due.setdefault(hold.checkpointer, []).append((hold, seq, beat))
        for checkpointer, signs in due.items():
            try:
                checkpointer.renew([beat for _, _, beat in signs])
            except Exception as error:  # noqa: BLE001 - whatever it is, the next beat may come through
                _log.warning("no sign of life could be stored for %d runs: %s", len(signs), error)
            else:
                for hold, seq, _ in signs:
                    hold.beaten, hold.beaten_seq = now, seq
        return bool(found)


_heart = Heart()


def begin(hold: Hold, lease: float) -> None:
    """This hold has its claim, good for `lease` seconds after each sign of life."""
    _heart.begin(hold, lease)


def end(owner: str) -> None:
    """The run of this owner is over."""
    _heart.end(owner)


def _after_fork() -> None:
    global _heart  # noqa: PLW0603 - the child has none of the parent's OS threads, and none of its runs
    _heart = Heart()


os.register_at_fork(after_in_child=_after_fork)
