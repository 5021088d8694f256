"""The tasks of one run that sync code called: who runs them.

    called ──► waiting ──► a worker of the warm pool takes it
                  └──────► whoever waits for its result takes it, when no worker has: then it runs on the spot

So tasks start at once and in parallel, and a loop that calls one task after the other costs no switch between OS
threads. With `max_concurrency` at most so many run at a time; a task that waits for another one gives its place away
meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from durable_graph.runtime import pool

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from durable_graph.functional.futures import TaskFuture
    from durable_graph.runtime.context import RunContext

__all__ = ["Crew", "crew_of"]

_AT_ONCE = 4
"""Workers started at once. Each starts one more while tasks wait: quick tasks are over before many OS threads exist."""

_here = threading.local()
"""`crew`: the one this OS thread works for."""

_making = threading.Lock()


class Crew:
    """`limit`: how many tasks may run at once; None: as many as there are OS threads (then `limited` is False)."""

    def __init__(self, limit: int | None) -> None:
        self._lock = threading.Lock()
        self._waiting: OrderedDict[TaskFuture[Any], None] = OrderedDict()
        self.limited = limit is not None
        self._limit = min(limit or pool.LIMIT, pool.LIMIT)
        self._running = 0  # workers, those that were not woken yet too, and with a limit others that run a task
        self._starting = 0
        self._places: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}

    def add(self, job: TaskFuture[Any]) -> None:
        """Have a task run."""
        with self._lock:
            self._waiting[job] = None
            if not self._grows():
                return
        pool.submit(self._work)

    def _grows(self) -> bool:
        """Whether one more worker is to be started; it counts from here on."""
        starting = self._starting
        if starting >= _AT_ONCE or starting >= len(self._waiting) or self._running >= self._limit:
            return False
        self._running += 1
        self._starting = starting + 1
        return True

    def _work(self) -> None:
        """In an OS thread of the pool: run tasks until none waits."""
        _here.crew = self
        try:
            first = True
            while True:
                with self._lock:
                    if first:
                        self._starting -= 1
                        first = False
                    if not self._waiting or self._running > self._limit:
                        self._running -= 1
                        return
                    job, _ = self._waiting.popitem(last=False)
                    grow = self._grows()
                if grow:
                    pool.submit(self._work)
                job.run()
                del job
        finally:
            _here.crew = None

    def take(self, job: TaskFuture[Any]) -> bool:
        """The caller runs this task itself, if nobody has begun it and there is room. Then `left` is to follow."""
        with self._lock:
            if job not in self._waiting:
                return False
            if self.limited and getattr(_here, "crew", None) is not self:
                if self._running >= self._limit:
                    return False
                self._running += 1
            del self._waiting[job]
            return True

    def withdraw(self, job: TaskFuture[Any]) -> bool:
        """Nobody runs this task. False when somebody has begun it."""
        with self._lock:
            return self._waiting.pop(job, self) is None

    def left(self) -> None:
        """A task that was taken is over."""
        if self.limited and getattr(_here, "crew", None) is not self:
            self._leave()

    def pause(self) -> bool:
        """This OS thread is going to wait for another task. The answer is to be given to `go_on`."""
        paused = self.limited and getattr(_here, "crew", None) is self
        if paused:
            self._leave()
        return paused

    def go_on(self, paused: bool) -> None:  # noqa: FBT001 - what `pause` answered
        """The wait is over."""
        if paused:
            with self._lock:
                self._running += 1

    def _leave(self) -> None:
        with self._lock:
            self._running -= 1
            if not self._grows():
                return
        pool.submit(self._work)

    def place(self, *, nested: bool) -> AbstractAsyncContextManager[Any]:
        """What an async task runs in. A task in a task takes no place: the outer one waits for it."""
        if not self.limited or nested:
            return nullcontext()
        loop = asyncio.get_running_loop()
        with self._lock:
            return self._places.setdefault(loop, asyncio.Semaphore(self._limit))


def crew_of(shared: RunContext) -> Crew:
    """The crew of a run."""
    crew = shared.crew
    if crew is None:
        with _making:
            crew = shared.crew = shared.crew or Crew(shared.config.get("max_concurrency"))
    return crew
