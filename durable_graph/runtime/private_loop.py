"""The event loop on which async nodes run when the graph is called without async.

One loop in one daemon OS thread for the whole process: clients that bind to a loop (HTTP, databases) keep working
from node to node and from call to call.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeAlias

from typing_extensions import TypeVar

from durable_graph.errors import EventLoopError
from durable_graph.runtime import pool

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["check_no_loop_here", "run"]

T = TypeVar("T")
_Outcome: TypeAlias = "tuple[T] | BaseException"

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the private loop, in the caller's context, and wait for it.

    When the wait is broken off (Ctrl-C), the coroutine is cancelled.
    """
    loop = _running_loop()
    context = contextvars.copy_context()
    future: Future[T] = Future()

    def begin() -> None:
        task = loop.create_task(_outcome(coroutine), context=context)
        running.append(task)
        task.add_done_callback(lambda done: _hand_over(done, future))

    running: list[asyncio.Task[_Outcome[T]]] = []
    _ = loop.call_soon_threadsafe(begin)
    lent = pool.lend()
    try:
        return future.result()
    except BaseException:
        if not future.done() and running:
            _ = loop.call_soon_threadsafe(running[0].cancel)
        raise
    finally:
        pool.give_back(lent)


async def _outcome(coroutine: Coroutine[Any, Any, T]) -> _Outcome[T]:
    """The result, or what was raised: SystemExit and KeyboardInterrupt left alone would end the loop for everybody."""
    try:
        return (await coroutine,)
    except BaseException as error:  # noqa: BLE001 - handed to the caller
        return error


def _hand_over(task: asyncio.Task[_Outcome[T]], future: Future[T]) -> None:
    outcome = asyncio.CancelledError() if task.cancelled() else task.result()
    if isinstance(outcome, BaseException):
        future.set_exception(outcome)
    else:
        future.set_result(outcome[0])


def check_no_loop_here(node: str) -> None:
    """Refuse to block an event loop that runs in this OS thread.

    Raises:
        EventLoopError: one does.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    what = f"invoke() would have to run async node {node!r} while an event loop already runs in this OS thread"
    raise EventLoopError(what)


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop  # noqa: PLW0603 - one per process, made when the first async node needs it
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="durable_graph-loop", daemon=True).start()
        return _loop


def _after_fork() -> None:
    global _loop, _lock
    _loop, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
