"""The sync driver: performs the effects of a script with OS threads.

One task and nobody listening: it runs inline, in the caller's OS thread. Several: workers of the warm pool pull them
from one queue. Async code runs on the private loop. A task with a time limit always goes to a worker, so that the
driver can go on without it.
"""

from __future__ import annotations

import contextvars
import heapq
import random
import threading
import time
from collections import deque
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar

from durable_graph.core.effects import Cancel, Emit, Flush, Launch, Load, Persist, Receive
from durable_graph.errors import ThreadBusy
from durable_graph.runtime import pool, private_loop
from durable_graph.runtime.attempt import perform
from durable_graph.runtime.deadlines import StepLimit, Watch, perform_in_time

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from concurrent.futures import Future

    from durable_graph.core.effects import Effect, Script
    from durable_graph.core.ending import Outcome
    from durable_graph.core.mail import Mail
    from durable_graph.core.planning import Task
    from durable_graph.core.streaming import Event
    from durable_graph.runtime.callables import Body
    from durable_graph.runtime.context import RunContext
    from durable_graph.runtime.nested import NestedSession
    from durable_graph.runtime.outbox import Outbox
    from durable_graph.runtime.session import Session

__all__ = ["BlockingDriver", "RunAbandoned", "call_here", "retry_delay"]


_AT_ONCE = 4
"""Workers started at once. Each starts one more while tasks wait: quick tasks are over before many OS threads exist,
slow ones soon have as many as they may."""


class RunAbandoned(BaseException):
    """Thrown into a script whose stream was closed early."""


class BlockingDriver:
    """Performs one script."""

    def __init__(
        self, shared: RunContext, session: Session | NestedSession | None, *, live: bool, limit: int | None
    ) -> None:
        self._shared = shared
        self._session = session
        self._outbox: Outbox | None = None
        self._live = live
        self._limit = min(limit or pool.LIMIT, pool.LIMIT)
        self._inbox: SimpleQueue[Mail | BaseException | Watch] = SimpleQueue()  # a Watch: an attempt under it began
        self._waiting: deque[Task] = deque()
        self._later: list[tuple[float, int, Task]] = []
        self._watches: list[Watch] = []
        self._step = None if shared.program.step_timeout is None else StepLimit(shared.program.step_timeout)
        self._workers = 0
        self._lock = threading.Lock()
        if live:
            shared.post = self._inbox.put

    def drive(self, script: Script[Outcome]) -> Generator[Sequence[Event], None, Outcome]:
        """Perform the script; yields what it emits, returns its outcome."""
        advance: Any = script.send
        given: Any = None
        listening = True
        handlers = self._handlers
        lent = pool.lend()
        try:
            while True:
                try:
                    effect: Effect[Any] = advance(given)
                except StopIteration as end:
                    return end.value
                advance = script.send
                try:
                    if type(effect) is Emit:
                        given = None
                        if listening:
                            yield effect.events
                    else:
                        given = handlers[type(effect)](self, effect)
                except GeneratorExit:
                    listening = False
                    advance, given = script.throw, RunAbandoned()
                except BaseException as error:  # noqa: BLE001 - the script decides what it means
                    advance, given = script.throw, error
        except RunAbandoned:
            return None  # type: ignore[return-value] # pyright: ignore[reportReturnType] - nobody looks at it
        finally:
            pool.give_back(lent)
            self._shared.post = None
            if self._session is not None:
                self._session.close()

    # --- storage --------------------------------------------------------------------------------------------------

    def _load(self, _: Load) -> Any:
        session = self._session
        assert session is not None  # noqa: S101 - only scripts of runs that have one load
        while True:
            try:
                stored = session.begin()
            except ThreadBusy as busy:
                time.sleep(session.patience.after(busy))
            else:
                self._outbox = session.outbox
                return stored

    def _persist(self, effect: Persist) -> Any:
        outbox = self._outbox
        assert outbox is not None  # noqa: S101 - every script loads before it persists
        parent = self._shared.parent
        addresses = outbox.add(effect.batch) if parent is None else parent.fenced(lambda: outbox.add(effect.batch))
        hold = outbox.hold
        if hold.claim is None:
            hold.claimed(hold.checkpointer.claim(hold.claim_request(outbox.lane, outbox.seen)))
        elif hold.durability == "async":
            while (late := hold.behind()) is not None:
                _settle(late)
        return addresses

    def _flush(self, _: Flush) -> None:
        assert self._outbox is not None  # noqa: S101 - every script loads before it persists
        self._outbox.hold.flush()

    # --- tasks ------------------------------------------------------------------------------------------------------

    def _launch(self, effect: Launch) -> Sequence[Mail]:
        tasks = effect.tasks
        if self._shared.parent is not None:
            self._shared.parent.check()
            self._shared.parent.alive()
        for task in tasks:
            if task.spec.work.needs_loop:
                private_loop.check_no_loop_here(task.name)
        if self._step is not None:
            self._step.launch(self._shared.run)
        if not (tasks[1:] or self._live or self._workers or self._later or tasks[0].timeout or self._step):
            task = tasks[0]
            if task.delay:
                time.sleep(retry_delay(task))
                task.delay = 0.0
            return (contextvars.copy_context().run(perform, task, self._shared, call_here),)
        now = time.monotonic()
        ready: list[Task] = []
        for task in tasks:
            if task.delay:
                delay = retry_delay(task) if self._step is None else self._step.within(task, retry_delay(task))
                heapq.heappush(self._later, (now + delay, id(task), task))
            else:
                ready.append(task)
        self._start(ready)
        return ()

    def _start(self, tasks: Sequence[Task]) -> None:
        with self._lock:
            self._waiting.extend(tasks)
            more = min(len(self._waiting), self._limit - self._workers, _AT_ONCE)
            self._workers += max(more, 0)
        context = contextvars.copy_context()
        for _ in range(more):
            pool.submit(lambda: self._work(context))

    def _work(self, context: contextvars.Context) -> None:
        """Pull tasks until none is left."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._workers -= 1
                    return
                task = self._waiting.popleft()
                grow = bool(self._waiting) and self._workers < self._limit
                self._workers += grow
            if grow:
                pool.submit(lambda: self._work(context))
            if task.timeout or self._step:
                if self._work_in_time(task, context):
                    continue
                return
            try:
                mail: Mail | BaseException = context.copy().run(perform, task, self._shared, call_here)
            except BaseException as error:  # noqa: BLE001 - SystemExit in a node: the driver raises it
                mail = error
            self._inbox.put(mail)

    def _work_in_time(self, task: Task, context: contextvars.Context) -> bool:
        """One attempt under a time limit. False when it was given up: then this worker counts no more."""
        watch = Watch(task, self._step)
        answer = watch.expire()  # the step may be over before it begins
        if answer is not None:
            self._inbox.put(answer)
            return True
        _ = watch.begin()
        self._inbox.put(watch)
        answer = context.copy().run(perform_in_time, watch, self._shared)
        if answer is not None:
            self._inbox.put(answer)
        return not watch.given_up

    def _cancel(self, _: Cancel) -> list[Task]:
        with self._lock:
            taken = [*self._waiting, *(task for _, _, task in self._later)]
            self._waiting.clear()
            self._later.clear()
        return taken

    def _receive(self, effect: Receive) -> list[Mail]:
        found: list[Any] = [] if not effect.wait else [self._wait()]
        while True:
            try:
                found.append(self._inbox.get_nowait())
            except Empty:
                break
        watches: list[Watch] = []
        for mail in found:
            if isinstance(mail, BaseException):
                raise mail
            if type(mail) is Watch:
                watches += (mail,)
        if watches:
            self._watches += watches
            found = [mail for mail in found if type(mail) is not Watch]
        return found

    def _wait(self) -> Mail | BaseException:
        while True:
            if self._later or self._watches or self._step:
                try:
                    found = self._inbox.get(timeout=self._do_what_is_due())
                except Empty:
                    continue
            else:
                found = self._inbox.get()
            if type(found) is not Watch:
                return found
            self._watches += (found,)

    def _do_what_is_due(self) -> float | None:
        """Start what had to wait, give up what took too long. Seconds until the next such thing; None: nothing is."""
        times: list[float] = []
        step = self._step
        if step is not None and not step.rung:
            if step.over:
                self._give_up_waiting(step)
            else:
                times.append(step.left)
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            task = heapq.heappop(self._later)[2]
            task.delay = 0.0
            self._start([task])
        if self._later:
            times.append(self._later[0][0] - now)
        watching: list[Watch] = []
        for watch in self._watches:
            answer = watch.expire()
            if answer is not None:
                self._inbox.put(answer)
                self._replace_worker()
            elif not watch.ended:
                watching.append(watch)
                times.append(watch.deadline()[0] - now)
        self._watches = watching
        return min(max(min(times), 0.0), threading.TIMEOUT_MAX) if times else None

    def _give_up_waiting(self, step: StepLimit) -> None:
        """The time of the step is over for what has not even begun."""
        step.rung = True
        for task in self._cancel(Cancel()):
            answer = Watch(task, step).expire()
            if answer is not None:
                self._inbox.put(answer)
            else:
                self._start([task])

    def _replace_worker(self) -> None:
        """The worker of an attempt that was given up is nobody's; another one does what it would have done next."""
        with self._lock:
            self._workers -= 1
        self._start(())

    # Of the class: bound methods would tie each driver to itself, and its run would wait for the garbage collector.
    _handlers: ClassVar[Mapping[type[Effect[Any]], Callable[[Any, Any], Any]]] = {
        Load: _load,
        Persist: _persist,
        Flush: _flush,
        Launch: _launch,
        Cancel: _cancel,
        Receive: _receive,
    }


def call_here(body: Body, args: tuple[Any, ...], keywords: Any) -> Any:
    """Call a body and wait for it; an async one runs on the private loop."""
    if body.sync is not None:
        return body.sync(*args, **keywords) if keywords else body.sync(*args)
    assert body.asyn is not None  # noqa: S101 - a body has one or the other; this tells the type checker
    coroutine = body.asyn(*args, **(keywords or {}))
    return private_loop.run(coroutine)


def retry_delay(task: Task) -> float:
    """Seconds before the next attempt."""
    return task.delay + (random.random() if task.jitter else 0.0)  # noqa: S311 - jitter, no secret


def _settle(future: Future[Any]) -> None:
    """Wait; what it gave is looked at by the outbox."""
    _ = future.exception()
