"""The asyncio driver: performs the effects of a script on the running event loop.

One task and nobody listening: it is awaited inline. Several: an asyncio task each, or `max_concurrency` slots. Sync
nodes run in OS threads of the warm pool, with their context. Commits go to the committer's thread; the loop never waits
for a disk. A task with a time limit has an asyncio task or OS thread of its own, which is left behind when the time is
over.
"""

from __future__ import annotations

import asyncio
import contextvars
import types
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import TypeVar

from durable_graph.core.effects import Cancel, Emit, Flush, Launch, Load, Persist, Receive
from durable_graph.errors import ThreadBusy
from durable_graph.runtime import owner, pool
from durable_graph.runtime.attempt import attempt, perform
from durable_graph.runtime.blocking import RunAbandoned, call_here, retry_delay
from durable_graph.runtime.caching import through_cache
from durable_graph.runtime.deadlines import StepLimit, TimedAttempt, Watch
from durable_graph.runtime.landing import landed, result_of, settled

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
    from concurrent.futures import Future

    from durable_graph.core.effects import Effect, Script
    from durable_graph.core.ending import Outcome
    from durable_graph.core.mail import Mail
    from durable_graph.core.planning import Task
    from durable_graph.core.streaming import Event
    from durable_graph.runtime.callables import Body
    from durable_graph.runtime.context import RunContext
    from durable_graph.runtime.hold import Hold
    from durable_graph.runtime.nested import NestedSession
    from durable_graph.runtime.outbox import Outbox
    from durable_graph.runtime.session import Session

__all__ = ["AsyncDriver", "flushed", "in_thread"]

T = TypeVar("T")

_TURNS = 2
"""A `break` leaves a stream to the event loop, which closes it in its second turn from now. A run that finds its thread
busy looks again after them, so that a stream that was just left is not in its way."""


class AsyncDriver:
    """Performs one script. After `drive` ended, `outcome` is what the script returned."""

    def __init__(
        self, shared: RunContext, session: Session | NestedSession | None, *, live: bool, limit: int | None
    ) -> None:
        self.outcome: Outcome | None = None
        self._shared = shared
        self._session = session
        self._outbox: Outbox | None = None
        self._live = live
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._mail: deque[Mail] = deque()
        self._fatal: BaseException | None = None  # SystemExit or the like in a node: raised by the driver
        self._waiter: asyncio.Future[None] | None = None
        self._woken = False
        self._waiting: deque[Task] = deque()
        self._running: set[asyncio.Task[Any] | None] = set()
        self._delayed: dict[Task, asyncio.Task[Any] | None] = {}
        self._threads = 0
        self._slots = 0
        self._step = None if shared.program.step_timeout is None else StepLimit(shared.program.step_timeout)
        if live:
            shared.post = self._put_from_thread

    async def drive(self, script: Script[Outcome]) -> AsyncGenerator[Sequence[Event], None]:
        """Perform the script; yields what it emits."""
        advance: Any = script.send
        given: Any = None
        listening = True
        handlers = self._handlers
        lent = pool.lend()  # a loop that a sync node runs stands in an OS thread of the pool
        try:
            while True:
                try:
                    effect: Effect[Any] = advance(given)
                except StopIteration as end:
                    self.outcome = end.value
                    return
                advance = script.send
                given = None
                try:
                    if type(effect) is Emit:
                        if listening:
                            yield effect.events
                    else:
                        given = await handlers[type(effect)](self, effect)
                except GeneratorExit:
                    listening = False
                    self._break_off()
                    advance, given = script.throw, RunAbandoned()
                except BaseException as error:  # noqa: BLE001 - the script decides what it means
                    if not isinstance(error, Exception):
                        self._break_off()
                    advance, given = script.throw, error
        except RunAbandoned:
            return
        finally:
            pool.give_back(lent)
            self._shared.post = None
            self._break_off()
            if self._session is not None:
                self._session.close()

    # --- storage --------------------------------------------------------------------------------------------------

    async def _load(self, _: Load) -> Any:
        session = self._session
        assert session is not None  # noqa: S101 - only scripts of runs that have one load
        stored = await self._begin(session)
        self._outbox = session.outbox
        return stored

    async def _begin(self, session: Session | NestedSession) -> Any:
        """Read the thread. A run of this process that was told to end and has not yet is waited for."""
        turns = _TURNS
        while True:
            try:
                return session.begin() if session.instant else await in_thread(session.begin)
            except ThreadBusy as busy:
                ending = owner.ending(busy.owner)
                pause = session.patience.after(busy) if ending is None and not turns else 0.0
            if ending is not None:
                await settled(ending)
            else:
                turns = max(turns - 1, 0)
                await asyncio.sleep(pause)

    async def _persist(self, effect: Persist) -> Any:
        outbox = self._outbox
        assert outbox is not None  # noqa: S101 - every script loads before it persists
        parent = self._shared.parent
        addresses = outbox.add(effect.batch) if parent is None else parent.fenced(lambda: outbox.add(effect.batch))
        hold = outbox.hold
        if hold.claim is None:
            request = hold.claim_request(outbox.lane, outbox.seen)
            checkpointer = hold.checkpointer
            hold.claimed(
                checkpointer.claim(request)
                if checkpointer.instant
                else await landed(pool.start(lambda: checkpointer.claim(request)))
            )
        elif hold.durability == "async":
            while (late := hold.behind()) is not None:
                await settled(late)
        return addresses

    async def _flush(self, _: Flush) -> None:
        assert self._outbox is not None  # noqa: S101 - every script loads before it persists
        hold = self._outbox.hold
        if hold.checkpointer.instant:
            hold.flush()
        else:
            await flushed(hold)

    # --- tasks ------------------------------------------------------------------------------------------------------

    async def _launch(self, effect: Launch) -> Sequence[Mail]:
        tasks = effect.tasks
        if self._shared.parent is not None:
            self._shared.parent.check()
            self._shared.parent.alive()
        if self._step is not None:
            self._step.launch(self._shared.run)
        if not (tasks[1:] or self._live or self._running or self._threads or tasks[0].spec.work.threaded):
            if tasks[0].delay or tasks[0].timeout or self._step:
                return (await self._perform(tasks[0]),)
            return (await _in_own_context(aperform(tasks[0], self._shared)),)
        if self._limit is not None:
            self._waiting.extend(tasks)
            for _ in range(min(len(tasks), self._limit - self._slots)):
                self._slots += 1
                self._spawn(self._slot())
        else:
            threaded = [
                task for task in tasks if task.spec.work.threaded and not (task.delay or task.timeout or self._step)
            ]
            self._waiting.extend(threaded)
            self._start_threads(len(threaded))
            for task in tasks:
                if not task.spec.work.threaded or task.delay or task.timeout or self._step:
                    self._spawn(self._alone(task))
        return ()

    def _spawn(self, job: Any) -> None:
        self._running.add(self._loop.create_task(job))

    async def _slot(self) -> None:
        """Pull tasks until none is left."""
        while self._waiting:
            await self._one(self._perform(self._waiting.popleft()))
        self._slots -= 1  # here and not when asyncio is done with it: until then a Launch would count on this slot
        self._running.discard(asyncio.current_task())

    async def _alone(self, task: Task) -> None:
        """One task in an asyncio task, and so a context, of its own."""
        plain = not (task.delay or task.spec.work.threaded or task.timeout or self._step)
        await self._one(aperform(task, self._shared) if plain else self._perform(task))
        self._running.discard(asyncio.current_task())

    async def _one(self, job: Any) -> None:
        try:
            self._mail.append(await job)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - kept for the driver to raise
            self._fatal = error
        if self._waiter is not None:
            self._wake()

    async def _perform(self, task: Task) -> Mail:
        if task.delay:
            self._delayed[task] = asyncio.current_task()
            try:
                delay = retry_delay(task)
                await asyncio.sleep(delay if self._step is None else self._step.within(task, delay))
            finally:
                del self._delayed[task]
            task.delay = 0.0
        if task.timeout or self._step:
            return await self._in_time(task)
        if task.spec.work.threaded:
            return await in_thread(lambda: perform(task, self._shared, call_here))
        return await _in_own_context(aperform(task, self._shared))

    async def _in_time(self, task: Task) -> Mail:
        """One attempt under a time limit: its mail, or that its time was over."""
        watch = Watch(task, self._step)
        if (over := watch.expire()) is not None:  # the step was, before the attempt began
            return over
        timed = TimedAttempt(self._loop, watch, self._put_from_thread)
        if task.spec.work.threaded:
            return await timed.in_thread(self._shared)
        return await timed.on_loop(aperform(task, self._shared, watch))

    def _start_threads(self, count: int) -> None:
        more = min(count, pool.LIMIT - self._threads)
        self._threads += max(more, 0)
        context = contextvars.copy_context()
        for _ in range(more):
            pool.submit(lambda: self._work(context))

    def _work(self, context: contextvars.Context) -> None:
        """In an OS thread: pull tasks until none is left."""
        while True:
            try:
                task = self._waiting.popleft()
            except IndexError:
                break
            try:
                self._put_from_thread(context.copy().run(perform, task, self._shared, call_here))
            except BaseException as error:  # noqa: BLE001 - kept for the driver to raise
                self._fatal = error
                self._call_loop(self._wake)
        self._call_loop(self._thread_ended)

    def _thread_ended(self) -> None:
        self._threads -= 1
        if self._waiting and self._limit is None and not self._threads:
            self._start_threads(len(self._waiting))  # a task came while the last worker was leaving

    async def _cancel(self, _: Cancel) -> list[Task]:
        taken: list[Task] = []
        while self._waiting:
            try:
                taken.append(self._waiting.popleft())
            except IndexError:
                break
        for task, job in self._delayed.items():
            if job is not None:
                job.cancel()
            taken.append(task)
        return taken

    def _break_off(self) -> None:
        if self._session is not None:
            self._session.end()
        for task in tuple(self._running):
            if task is not None:
                _ = task.cancel()

    # --- mail -------------------------------------------------------------------------------------------------------

    async def _receive(self, effect: Receive) -> list[Mail]:
        if effect.wait and not (self._mail or self._fatal):
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        mails: list[Mail] = []
        while self._mail:
            mails += (self._mail.popleft(),)
        if self._fatal is not None:
            fatal, self._fatal = self._fatal, None
            raise fatal
        return mails

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _put_from_thread(self, mail: Mail) -> None:
        self._mail.append(mail)
        if not self._woken:  # one wake-up for all mail that comes before the driver looks
            self._woken = True
            self._call_loop(self._wake_up)

    def _wake_up(self) -> None:
        self._woken = False
        self._wake()

    def _call_loop(self, callback: Callable[[], None]) -> None:
        try:
            _ = self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            return  # the loop is closed: the run was broken off and nobody waits for this mail

    # Of the class: bound methods would tie each driver to itself, and its run would wait for the garbage collector.
    _handlers: ClassVar[Mapping[type[Effect[Any]], Callable[[Any, Any], Any]]] = {
        Load: _load,
        Persist: _persist,
        Flush: _flush,
        Launch: _launch,
        Cancel: _cancel,
        Receive: _receive,
    }


async def aperform(task: Task, shared: RunContext, watch: Watch | None = None) -> Mail:
    """Run a task here, awaiting what is async."""
    steps = (attempt if task.spec.work.cache is None else through_cache)(task, shared, watch)
    if shared.bridge is not None:
        steps = shared.bridge.follow(task, steps)
    try:
        body, args, keywords = next(steps)
        while True:
            try:
                result = await (acall(body, args, keywords) if watch is None else _acall(watch, body, args, keywords))
            except BaseException as error:
                current = asyncio.current_task()
                cancelled = isinstance(error, asyncio.CancelledError) and current is not None and current.cancelling()
                if cancelled and (watch is None or not watch.given_up):
                    steps.close()
                    raise
                body, args, keywords = steps.throw(error)  # the attempt decides what it means
            else:
                body, args, keywords = steps.send(result)
    except StopIteration as end:
        mail: Mail = end.value
        return mail


@types.coroutine
def _in_own_context(coroutine: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    """Await in a copy of the caller's context, without the asyncio task that usually brings one: a context variable
    that a node sets is seen neither by the next node nor by the caller.
    """
    run = contextvars.copy_context().run
    step: Callable[[Any], Any] = coroutine.send
    given: Any = None
    while True:
        try:
            waiting = run(step, given)
        except StopIteration as end:
            return end.value
        try:
            given = yield waiting
            step = coroutine.send
        except BaseException as error:  # noqa: BLE001 - the coroutine decides what it means
            step, given = coroutine.throw, error


async def acall(body: Body, args: tuple[Any, ...], keywords: Any) -> Any:
    """Call a body. Plain functions that serve as routers run here; other sync code in an OS thread."""
    if body.asyn is not None:
        return await body.asyn(*args, **(keywords or {}))
    sync = body.sync
    assert sync is not None  # noqa: S101 - a body has one or the other; this tells the type checker
    if body.light:
        return sync(*args, **(keywords or {}))
    return await in_thread(lambda: sync(*args, **(keywords or {})))


async def _acall(watch: Watch, body: Body, args: tuple[Any, ...], keywords: Any) -> Any:
    """`acall` in an attempt under a time limit."""
    if body.asyn is not None:
        return await watch.acall(body, args, keywords)
    if body.light:
        return watch.call(body, args, keywords)

    def call() -> Any:
        watch.occupy()
        return watch.call(body, args, keywords)

    return await in_thread(call)


async def in_thread(job: Callable[[], T]) -> T:
    """Run blocking code in an OS thread of the warm pool, with the caller's context."""
    return await result_of(pool.start(job))


async def flushed(hold: Hold) -> None:
    """Wait until every row that was added to a hold is durable. *Raises* as `Hold.flush`."""
    newest: Future[Any] | None
    while (newest := hold.push()) is not None:
        await landed(newest)
