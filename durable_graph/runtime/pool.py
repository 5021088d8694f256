"""One warm pool of OS threads for the whole process.

Not concurrent.futures: its threads are joined at interpreter exit, so that one node which never returns would keep the
process alive for ever (also after Ctrl-C), and every submit costs a Future. These threads are daemons; what they run
reports by mail. A thread stays and waits for more work; a new one is started only when none is idle.

A node may run a graph itself, and its OS thread then waits for work of that run. Such a thread is `lent` and does not
count: with all of them waiting, nobody would be left to do what they wait for.
"""

from __future__ import annotations

import contextvars
import os
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING

from typing_extensions import TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

T = TypeVar("T")

__all__ = ["LIMIT", "give_back", "lend", "lent", "start", "submit"]

LIMIT = 64
"""OS threads at the most, beside those that are lent; further work waits until one is free."""

_here = threading.local()
"""`pooled` is set in OS threads of the pool."""


class _Pool:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.waiting = 0  # jobs nobody has taken
        self.idle = 0
        self.size = 0
        self.lent = 0  # OS threads that wait for work of a run inside the one they work for

    def submit(self, job: Callable[[], None]) -> None:
        with self.lock:
            self.waiting += 1
            grow = self._grows()
        self.work.put(job)
        if grow:
            self._start()

    def lend(self) -> None:
        with self.lock:
            self.lent += 1
            grow = self._grows()
        if grow:
            self._start()

    def give_back(self) -> None:
        with self.lock:
            self.lent -= 1

    def _grows(self) -> bool:
        """Whether one more OS thread is to be started; it counts from here on."""
        if self.idle >= self.waiting or self.size >= LIMIT + self.lent:
            return False
        self.size += 1
        return True

    def _start(self) -> None:
        try:
            threading.Thread(target=self._serve, name=f"durable_graph-{self.size}", daemon=True).start()
        except BaseException as error:
            with self.lock:
                self.size -= 1
                others = self.size > self.lent
            if not (others and isinstance(error, RuntimeError)):  # else: no room for one more, and others will do it
                raise

    def _serve(self) -> None:
        _here.pooled = True
        try:
            while True:
                with self.lock:
                    if self.size > LIMIT + self.lent and not self.waiting:
                        return  # was needed while others were lent
                    self.idle += 1
                job = self.work.get()
                with self.lock:
                    self.idle -= 1
                    self.waiting -= 1
                job()
                del job  # or an idle OS thread would keep alive what its last job worked on
        finally:  # a job raised, which none may: this OS thread ends and shows it, the pool goes on
            with self.lock:
                self.size -= 1


_pool = _Pool()


def submit(job: Callable[[], None]) -> None:
    """Run `job` in an OS thread. It must not raise."""
    _pool.submit(job)


def start(job: Callable[[], T]) -> Future[T]:
    """Run `job` in an OS thread, in a copy of the caller's context. It cannot be cancelled."""
    future: Future[T] = Future()
    _ = future.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result = context.run(job)
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            future.set_exception(error)
        else:
            future.set_result(result)

    submit(run)
    return future


def lend() -> _Pool | None:
    """This OS thread is going to wait for other work of the pool. To be given to `give_back`."""
    if not hasattr(_here, "pooled"):
        return None
    lent_to = _pool
    lent_to.lend()
    return lent_to


def give_back(lent_to: _Pool | None) -> None:
    """The wait is over."""
    if lent_to is not None:
        lent_to.give_back()


@contextmanager
def lent() -> Generator[None]:
    """Around a wait for other work of the pool."""
    taken = lend()
    try:
        yield
    finally:
        give_back(taken)


def _after_fork() -> None:
    global _pool  # noqa: PLW0603 - the child has none of the parent's OS threads
    _pool = _Pool()


os.register_at_fork(after_in_child=_after_fork)
