"""What a call of a task returns, on each face, and what a node does about tasks that still run at its end."""

from __future__ import annotations

import asyncio
import concurrent.futures as cf
import contextvars
import threading
import warnings
from typing import TYPE_CHECKING, Any, cast

from typing_extensions import TypeVar, override

from durable_graph.functional.crew import crew_of
from durable_graph.recording.doing import ado_step, do_step
from durable_graph.runtime import pool
from durable_graph.runtime.callables import Body
from durable_graph.runtime.context import TaskContext

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from durable_graph.functional.crew import Crew
    from durable_graph.recording.step import Place, Step

__all__ = ["Started", "TaskFuture", "begin", "begin_async"]

T = TypeVar("T")

_making = threading.Lock()

_WAITING, _RUNNING, _FINISHED = "PENDING", "RUNNING", "FINISHED"  # as concurrent.futures calls them


class Started:
    """The tasks that one attempt of a node started. Its end waits for them, so that what they did is recorded."""

    __slots__ = ("_context", "_failed", "_lock", "_loops", "_running", "_waiter")

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._running = 0
        self._waiter: cf.Future[None] | None = None
        self._failed: list[tuple[str, BaseException, Callable[[], bool]]] = []
        self._loops: dict[asyncio.Future[Any], asyncio.AbstractEventLoop] = {}

    @property
    def ending(self) -> Body:
        """Waits for all of them."""
        return _ENDING

    def begin(self) -> None:
        """One more runs."""
        with self._lock:
            self._running += 1

    def end(self) -> None:
        """One is over."""
        with self._lock:
            self._running = left = self._running - 1
            if left or self._waiter is None:
                return
            waiter, self._waiter = self._waiter, None
        waiter.set_result(None)

    def fail(self, name: str, error: BaseException, noticed: Callable[[], bool]) -> None:
        """One failed. `noticed()` tells, at the end, whether anybody asked for its result."""
        self._failed.append((name, error, noticed))

    def wait_for(self) -> cf.Future[None]:
        """Is over when all of them are."""
        with self._lock:
            waiter: cf.Future[None] = cf.Future()
            if self._running:
                self._waiter = waiter
                return waiter
        waiter.set_result(None)
        return waiter

    def close(self) -> None:
        """All of them are over: bring order into what they asked, and tell of failures that nobody saw."""
        asked = self._context.asked
        if asked is not None:
            asked.arrange()
        failed, self._failed = self._failed, []
        for name, error, noticed in failed:
            if not noticed() and isinstance(error, Exception):
                node = self._context.task.name
                text = f"task {name!r} of node {node!r} failed and nobody asked for its result: {error!r}"
                warnings.warn(text, RuntimeWarning, stacklevel=1)

    def abandon(self) -> None:
        """The attempt is over. Where it was cut short, nobody waited for what still runs."""
        if not self._running:
            return
        self._context.over = True
        for future, loop in tuple(self._loops.items()):
            try:
                _ = loop.call_soon_threadsafe(future.cancel)
            except RuntimeError:
                continue  # its loop is closed, and so it is over

    # --- async tasks: cancelled when the attempt is -------------------------------------------------------------------

    def follow(self, future: asyncio.Future[Any], loop: asyncio.AbstractEventLoop) -> None:
        """An async task began."""
        self._loops[future] = loop

    def forget(self, future: asyncio.Future[Any]) -> None:
        """An async task is over."""
        _ = self._loops.pop(future, None)


def _wait(started: Started) -> None:
    waiter = started.wait_for()
    lent = pool.lend()
    try:
        waiter.result()
    finally:
        pool.give_back(lent)
    started.close()


async def _await(started: Started) -> None:
    waiter = started.wait_for()
    if not waiter.done():
        await asyncio.wrap_future(waiter)
    started.close()


_ENDING = Body(_wait, _await)


def started_by(caller: TaskContext | Place) -> Started:
    """The tasks of an attempt, or of one of its steps."""
    found = caller.children
    if found is None:
        context = caller if isinstance(caller, TaskContext) else caller.context
        with _making:
            found = caller.children = caller.children or Started(context)
    return cast("Started", found)


class TaskFuture(cf.Future[T]):
    """The result of a task that sync code called, once it is there: a `concurrent.futures.Future`.

    The task runs in an OS thread of the pool, or in the caller's when it asks for the result before one was free.
    """

    def __init__(self, place: Place, step: Step, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        # Not the base's __init__: most futures are asked in the OS thread that runs them, and need no Condition.
        self._state = _WAITING
        self._result = None
        self._exception = None
        self._waiters = []
        self._done_callbacks = []
        self._job: Any = (contextvars.copy_context().run, place, step, args, keywords)
        context = place.context
        self.crew: Crew = context.shared.crew or crew_of(context.shared)
        self.started: Any = context.children or started_by(context)
        self.outer: Started | None = None if place.outer is None else started_by(place.outer)
        self._noticed = False

    @property
    def _condition(self) -> threading.Condition:  # pyright: ignore[reportIncompatibleVariableOverride] - made when used
        return self.__dict__.setdefault("_made", threading.Condition())

    def __await__(self) -> Generator[Any, Any, T]:
        """In async code its result comes on the running loop."""
        self._noticed = True
        return asyncio.wrap_future(self).__await__()

    def run(self) -> None:
        """Run it here. Once, by who took it from the crew."""
        run, place, step, args, keywords = self._job
        self._job = None
        self._state = _RUNNING
        try:
            result = run(do_step, place, step, args, keywords)
        except BaseException as error:  # noqa: BLE001 - handed to whoever asks
            self._exception = error
            self.started.fail(step.name, error, self._was_noticed)
        else:
            self._result = result
        self._settle(_FINISHED)

    def _settle(self, state: str) -> None:
        self._state = state
        if "_made" in self.__dict__:
            with self._condition:
                for waiter in self._waiters:
                    if self._exception is not None:
                        waiter.add_exception(self)
                    else:
                        waiter.add_result(self)
                self._condition.notify_all()
            invoke: Any = getattr(self, "_invoke_callbacks")  # noqa: B009 - no stub knows it
            invoke()
        self.started.end()
        if self.outer is not None:
            self.outer.end()

    def _was_noticed(self) -> bool:
        return self._noticed

    @override
    def result(self, timeout: float | None = None) -> T:
        """The result. Waits for it, at most `timeout` seconds.

        Raises:
            TimeoutError: it is not there yet; the task goes on.
            Exception: what the task raised.
            GraphInterrupt: the task waits for a human, and so does who waits for it.
        """
        self._noticed = True
        if self._state != _FINISHED:
            self._wait(timeout)
        if self._exception is not None:
            try:
                raise self._exception
            finally:
                self = None  # type: ignore[assignment] # noqa: PLW0642 # pyright: ignore[reportAssignmentType] - or the traceback refers to itself
        return self._result  # type: ignore[return-value] # pyright: ignore[reportReturnType] - it is there

    @override
    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the task raised; None when it ended well. Waits as `result`."""
        self._noticed = True
        if self._state != _FINISHED:
            self._wait(timeout)
        return self._exception

    def _wait(self, timeout: float | None) -> None:
        crew = self.crew
        if timeout is None and crew.take(self):
            self.run()
            if crew.limited:
                crew.left()
            return
        lent, paused = pool.lend(), crew.pause()
        try:
            _ = super().exception(timeout)
        finally:
            crew.go_on(paused)
            pool.give_back(lent)

    @override
    def cancel(self) -> bool:
        """Have it not run. False when it has begun."""
        if self._state == _WAITING and self.crew.withdraw(self):
            _ = super().cancel()
            self._job = None
            self.started.end()
        if self.outer is not None:
            self.outer.end()
        return self.cancelled()


def begin(place: Place, step: Step, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> TaskFuture[Any]:
    """Start a task in sync code."""
    future: TaskFuture[Any] = TaskFuture(place, step, args, keywords)
    future.started.begin()
    if future.outer is not None:
        future.outer.begin()
    future.crew.add(future)
    return future


def begin_async(
    place: Place,
    step: Step,
    args: tuple[Any, ...],
    keywords: Mapping[str, Any],
    loop: asyncio.AbstractEventLoop,
) -> asyncio.Future[Any]:
    """Start a task in async code.

    A future that an asyncio task fulfils, and not that task: SystemExit in it would end the event loop.
    """
    started = started_by(place.context)
    future: asyncio.Future[Any] = loop.create_future()
    started.begin()
    started.follow(future, loop)
    outer = None if place.outer is None else started_by(place.outer)
    if outer is not None:
        outer.begin()
    job = loop.create_task(_fulfil(future, place, step, args, keywords))
    job.add_done_callback(lambda _: _over(future, started, outer))
    future.add_done_callback(lambda done: job.cancel() if done.cancelled() else None)
    return future


async def _fulfil(
    future: asyncio.Future[Any], place: Place, step: Step, args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> None:
    crew = crew_of(place.context.shared)
    try:
        async with crew.place(nested=place.outer is not None):
            result = await ado_step(place, step, args, keywords)
    except asyncio.CancelledError:
        _ = future.cancel()
        raise
    except BaseException as error:  # noqa: BLE001 - handed to whoever awaits it
        if not future.done():
            future.set_exception(error)
            started_by(place.context).fail(step.name, error, lambda: _was_noticed(future))
    else:
        if not future.done():
            future.set_result(result)


def _was_noticed(future: asyncio.Future[Any]) -> bool:
    """Whether anybody asked a failed future. From here on somebody did, and asyncio need not log it."""
    noticed = not getattr(future, "_log_traceback", False)
    _ = future.exception()
    return noticed


def _over(future: asyncio.Future[Any], started: Started, outer: Started | None) -> None:
    if not future.done():
        _ = future.cancel()
    started.forget(future)
    started.end()
    if outer is not None:
        outer.end()
