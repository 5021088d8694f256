"""One warm pool of OS threads for the whole process.

Not concurrent.futures: its threads are joined at interpreter exit, so that one node which never returns would keep the
process alive for ever (also after Ctrl-C), and every submit costs a Future. These threads are daemons; what they run
reports by mail. A thread stays and waits for more work; a new one is started only when none is idle.
"""

from __future__ import annotations

import os
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LIMIT", "submit"]

LIMIT = 64
"""OS threads at the most; further work waits until one is free."""


class _Pool:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.waiting = 0  # jobs nobody has taken
        self.idle = 0
        self.size = 0

    def submit(self, job: Callable[[], None]) -> None:
        with self.lock:
            self.waiting += 1
            grow = self.idle < self.waiting and self.size < LIMIT
            if grow:
                self.size += 1
        self.work.put(job)
        if grow:
            threading.Thread(target=self._serve, name=f"durable_graph-{self.size}", daemon=True).start()

    def _serve(self) -> None:
        try:
            while True:
                with self.lock:
                    self.idle += 1
                job = self.work.get()
                with self.lock:
                    self.idle -= 1
                    self.waiting -= 1
                job()
        finally:  # a job raised, which none may: this OS thread ends and shows it, the pool goes on
            with self.lock:
                self.size -= 1


_pool = _Pool()


def submit(job: Callable[[], None]) -> None:
    """Run `job` in an OS thread. It must not raise."""
    _pool.submit(job)


def _after_fork() -> None:
    global _pool  # noqa: PLW0603 - the child has none of the parent's OS threads
    _pool = _Pool()


os.register_at_fork(after_in_child=_after_fork)
