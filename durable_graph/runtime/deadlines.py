"""Time limits of attempts: when one is over, and what becomes of an attempt that goes on all the same.

1. An attempt with a limit has a `Watch` and ends once: it finishes in time, or it is given up. Who comes second lost.
2. An attempt that is given up answers with `NodeTimeoutError` at once. Async code is cancelled. Sync code cannot be:
   its OS thread is left to itself and counts no more, neither against the run's limit nor against the pool's.
3. Nothing it does from then on counts: its mail and what it writes to streams are dropped, its routers are not asked,
   and whatever would be stored (`interrupt`, recorded steps, graphs inside) raises `AttemptOver`. Its end is told as
   `Late`.
4. Who finishes after its time is given up too, even if nobody had noticed yet.
5. Nobody polls. Drivers wait until `Watch.deadline`; a sign of life moves it, which they see when the old one has come.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

from typing_extensions import TypeVar

from durable_graph.core.mail import Failed, Late
from durable_graph.core.reports import error_record
from durable_graph.errors import AttemptOver, NodeTimeoutError
from durable_graph.runtime import pool, private_loop
from durable_graph.runtime.attempt import perform
from durable_graph.types import TimeoutPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from durable_graph.core.mail import Mail
    from durable_graph.core.planning import Task
    from durable_graph.core.run import Run
    from durable_graph.runtime.callables import Body
    from durable_graph.runtime.context import RunContext, TaskContext
    from durable_graph.runtime.work import NodeWork

__all__ = ["StepLimit", "TimedAttempt", "Watch", "perform_in_time"]

T = TypeVar("T")
Kind: TypeAlias = Literal["run", "idle", "step"]
Answer: TypeAlias = "Mail | BaseException"

_UNLIMITED = TimeoutPolicy()


@final
class StepLimit:
    """The time of the step that is under way. `seconds`: what each step may take.   rung: its end was dealt with."""

    __slots__ = ("_ends", "_step", "rung", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.rung = False
        self._ends = inf
        self._step: tuple[Run, int] | None = None

    def launch(self, run: Run | None) -> None:
        """Tasks are started. With the first ones of a step its time begins."""
        assert run is not None  # noqa: S101 - tasks exist only in a run; this tells the type checker
        step = (run, run.step)
        if step != self._step:
            self._step, self._ends, self.rung = step, time.monotonic() + self.seconds, False

    @property
    def over(self) -> bool:
        """Whether it is."""
        return time.monotonic() >= self._ends

    @property
    def left(self) -> float:
        """Seconds that are left of it."""
        return self._ends - time.monotonic()

    def ends(self, task: Task) -> float:
        """When the step must be over for this task (monotonic). An error handler that runs because it was over has all
        the time it wants.
        """
        return inf if task.cause is not None and self.over else self._ends

    def within(self, task: Task, seconds: float) -> float:
        """A delay that does not outlast the step."""
        return max(min(seconds, self.ends(task) - time.monotonic()), 0.0)


@final
class Watch:
    """One attempt under time limits, and the fence around it. `begin` it, then one of `expire` and `finish` wins.

    ended: it needs no watching any more.   given_up: `expire` won.   error: why nothing of it counts any more; None as
    long as it does.   let_go: called when it is given up; None where nobody else waits for what it does.
    """

    __slots__ = (
        "_began",
        "_cancel",
        "_context",
        "_ends",
        "_home",
        "_lent",
        "_lock",
        "_obeyed",
        "_policy",
        "_seconds",
        "_seen",
        "_started",
        "attempt",
        "ended",
        "error",
        "given_up",
        "let_go",
        "task",
    )

    def __init__(self, task: Task, step: StepLimit | None) -> None:
        self.task = task
        self.attempt = task.attempt
        self.ended = False
        self.given_up = False
        self.let_go: Callable[[], None] | None = None
        self.error: NodeTimeoutError | None = None
        self._lock = threading.Lock()
        self._policy = task.timeout or _UNLIMITED
        self._ends = inf if step is None else step.ends(task)
        self._seconds = 0.0 if step is None else step.seconds
        self._began: float | None = None
        self._started = self._seen = 0.0
        self._context: TaskContext | None = None
        self._cancel: Callable[[], object] | None = None
        self._obeyed = False
        self._home: Any = None
        self._lent: Any = None

    # --- its time -----------------------------------------------------------------------------------------------------

    def begin(self) -> bool:
        """The attempt begins now. False: it must not, its step was over first."""
        with self._lock:
            if self.error is not None:
                return False
            self._started = time.time()
            self._began = self._seen = time.monotonic()
            return True

    def alive(self, *, heartbeat: bool = False) -> None:
        """A sign of life."""
        idle = self._policy.idle_timeout
        if idle is not None and (heartbeat or self._policy.refresh_on == "auto"):
            now = time.monotonic()
            if now < self._seen + idle:  # else it comes too late
                self._seen = now

    def deadline(self) -> tuple[float, Kind]:
        """When it is to be given up (monotonic) and because of which limit."""
        at, kind = self._ends, "step"
        if self._began is not None:
            policy = self._policy
            if policy.run_timeout is not None and self._began + policy.run_timeout < at:
                at, kind = self._began + policy.run_timeout, "run"
            if policy.idle_timeout is not None and self._seen + policy.idle_timeout < at:
                at, kind = self._seen + policy.idle_timeout, "idle"
        return at, kind

    def expire(self) -> Failed | None:
        """Give the attempt up if its time is over: what the run is told. None when it is not, or the attempt ended."""
        with self._lock:
            failed = None if self.ended else self._overdue()
            if failed is None:
                return None
            self.given_up = True
            cancel = self._cancel
            if self._home is not None:
                self._lent = self._home
                self._lent.lend()
        if cancel is not None:
            _ = cancel()
        if self.let_go is not None:
            self.let_go()
        return failed

    def finish(self, answer: Answer) -> Answer | None:
        """The attempt ended: what the run is told. For one that was given up that is `Late`, or nothing when it ended
        because it was cancelled.
        """
        with self._lock:
            now = time.monotonic()
            if self._lent is not None:
                pool.give_back(self._lent)
            self._home = self._lent = None
            if self.given_up:
                return None if self._obeyed or self._began is None else Late(self.task, self.attempt, now - self._began)
            failed = None if isinstance(answer, BaseException) else self._overdue()
            self.ended = True
            return failed or answer

    def _overdue(self) -> Failed | None:
        now = time.monotonic()
        at, kind = self.deadline()
        if now < at:
            return None
        elapsed = 0.0 if self._began is None else now - self._began
        self.ended = True
        self.error = error = self._error(kind, elapsed)
        if self._context is not None:
            self._context.over = True
        return Failed(self.task, error, error_record(error), (), self._started, elapsed)

    def _error(self, kind: Kind, elapsed: float) -> NodeTimeoutError:
        name, policy = self.task.name, self._policy
        if kind == "run":
            what = f"node {name!r} ran for {elapsed:.3g} s, its run_timeout is {policy.run_timeout:g} s"
        elif kind == "idle":
            what = (
                f"node {name!r} gave no sign of life for {policy.idle_timeout:g} s (idle_timeout), "
                f"{elapsed:.3g} s after it began"
            )
        else:
            state = "began" if self._began is None else "ended"
            what = f"the time of the step ({self._seconds:g} s, step_timeout) was over before node {name!r} {state}"
        return NodeTimeoutError(
            what,
            node=name,
            elapsed=elapsed,
            kind=kind,
            run_timeout=policy.run_timeout,
            idle_timeout=policy.idle_timeout,
            task=self.task.id,
        )

    # --- what the attempt does ----------------------------------------------------------------------------------------

    def bind(self, context: TaskContext) -> None:
        """What the attempt's code can reach of the run."""
        with self._lock:
            self._context = context
            context.watch = self
            context.over = self.error is not None

    def fenced(self, act: Callable[[], T]) -> T:
        """Do something that counts; the attempt is not given up meanwhile.

        Raises:
            AttemptOver: it was before.
        """
        with self._lock:
            if self.error is not None:
                raise AttemptOver(self.task.name)
            return act()

    def occupy(self) -> None:
        """The attempt runs in this OS thread of the pool; it is nobody's when the attempt is given up."""
        home = pool.lend()
        pool.give_back(home)  # it was borrowed only to learn which pool this is
        self._home = home

    def call(self, body: Body, args: tuple[Any, ...], keywords: Mapping[str, Any] | None) -> Any:
        """Call a body in this OS thread; an async one runs on the private loop and can be cancelled there.

        Raises:
            AttemptOver: it is code of the user, and the attempt was given up before or meanwhile.
        """
        if body.sync is None:
            return private_loop.run(self.acall(body, args, keywords))
        self._check(body)
        result = body.sync(*args, **(keywords or {}))
        self._check(body)
        return result

    async def acall(self, body: Body, args: tuple[Any, ...], keywords: Mapping[str, Any] | None) -> Any:
        """Call an async body so that it can be cancelled. *Raises* as `call`."""
        assert body.asyn is not None  # noqa: S101 - the callers looked; this tells the type checker
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None  # noqa: S101 - a coroutine that runs on a loop has one

        def cancel() -> None:
            if self._cancel is ask:  # else this call is over, and another one is not meant
                _ = task.cancel()

        def ask() -> None:
            _call_loop(loop, cancel)

        with self._lock:
            self._check(body)
            if self.error is None:
                self._cancel = ask
        try:
            result = await body.asyn(*args, **(keywords or {}))
        except asyncio.CancelledError:
            self._obeyed = self.given_up
            raise
        finally:
            self._cancel = None
        self._check(body)
        return result

    def _check(self, body: Body) -> None:
        """The node and its routers are for nothing once the attempt was given up. What else is called for it must come
        to its end: handlers are told, graphs inside are closed, caches are let go.
        """
        if self.error is not None:
            work: NodeWork = self.task.spec.work
            if body is work.body or any(body is branch.body for branch in work.branches):
                raise AttemptOver(self.task.name)


def perform_in_time(watch: Watch, shared: RunContext) -> Answer | None:
    """Run an attempt that has begun, in this OS thread of the pool. What the run is told (see `Watch.finish`)."""
    watch.occupy()
    try:
        answer: Answer = perform(watch.task, shared, watch.call, watch)
    except BaseException as error:  # noqa: BLE001 - SystemExit in a node: the driver raises it
        answer = error
    return watch.finish(answer)


@final
class TimedAttempt:
    """An attempt that an event loop waits for: until it ends or until its time is over, whichever comes first.

    late: takes the mail of an attempt that was given up and has ended after all.
    """

    __slots__ = ("_answer", "_late", "_loop", "_timer", "_watch")

    def __init__(self, loop: asyncio.AbstractEventLoop, watch: Watch, late: Callable[[Late], None]) -> None:
        self._answer: asyncio.Future[Mail] = loop.create_future()
        self._late = late
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._watch = watch

    async def in_thread(self, shared: RunContext) -> Mail:
        """Run it in an OS thread of the pool."""
        context = contextvars.copy_context()
        watch = self._watch

        def run() -> None:
            if watch.begin():
                _call_loop(self._loop, self._set_timer)
                answer = context.run(perform_in_time, watch, shared)
                _call_loop(self._loop, lambda: self._ended(answer))

        self._set_timer()  # the step may be over before an OS thread is free
        pool.submit(run)
        try:
            return await self._answer
        finally:
            self._stop_timer()

    async def on_loop(self, attempt: Coroutine[Any, Any, Mail]) -> Mail:
        """Run it on the loop, as an asyncio task of its own."""
        job = self._loop.create_task(self._run(attempt))
        _jobs.add(job)
        job.add_done_callback(_jobs.discard)
        _ = self._watch.begin()
        self._set_timer()
        try:
            return await self._answer
        except asyncio.CancelledError:
            _ = job.cancel()
            raise
        finally:
            self._stop_timer()

    async def _run(self, attempt: Coroutine[Any, Any, Mail]) -> None:
        try:
            answer: Answer = await attempt
        except asyncio.CancelledError:
            raise  # the run is broken off
        except BaseException as error:  # noqa: BLE001 - SystemExit in a node: the driver raises it
            answer = error
        self._ended(self._watch.finish(answer))

    def _ended(self, answer: Answer | None) -> None:
        if isinstance(answer, Late):
            self._late(answer)
        elif answer is not None and not self._answer.done():  # done: the run was broken off
            self._settle(answer)

    def _settle(self, answer: Answer) -> None:
        if isinstance(answer, BaseException):
            self._answer.set_exception(answer)
        else:
            self._answer.set_result(answer)

    def _set_timer(self) -> None:
        self._stop_timer()
        at = self._watch.deadline()[0]
        if at < inf and not self._answer.done():
            self._timer = self._loop.call_later(at - time.monotonic(), self._ring)

    def _ring(self) -> None:
        failed = self._watch.expire()
        if failed is not None:
            self._settle(failed)
        elif not self._watch.ended:  # a sign of life came meanwhile
            self._set_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


_jobs: set[asyncio.Task[None]] = set()
"""Attempts on event loops, which do not keep alive what runs on them: one that was given up is known to nobody else."""


def _call_loop(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    try:
        _ = loop.call_soon_threadsafe(callback)
    except RuntimeError:
        return  # the loop is closed, and with it ended what was to be cancelled
