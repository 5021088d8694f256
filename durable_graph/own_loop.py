"""An event loop in an OS thread of its own, on which sync callers wait for async code."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeAlias

from typing_extensions import TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable

__all__ = ["OwnLoop", "outcome_of"]

T = TypeVar("T")
_Outcome: TypeAlias = "tuple[T] | BaseException"


class OwnLoop:
    """Started when it is first needed, one for all calls, and a new one in a forked child. `name` is its OS thread's.

    Not `asyncio.run` for each call: clients of services (HTTP, databases) keep connections that are bound to the loop
    which opened them, and fail on the next one ("Event loop is closed"). The OS thread is a daemon, so it holds up no
    end of the process.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def run(self, awaitable: Awaitable[T]) -> T:
        """The result of the awaitable, in the caller's context. When the wait is broken off (Ctrl-C), it is cancelled.

        Not for code that runs on this very loop (`runs_here`): it would wait for itself.
        """
        loop = self._loop or self._start()
        outcome: Future[T] = Future()
        tasks: list[asyncio.Task[_Outcome[T]]] = []

        def begin() -> None:  # in a copy of the caller's context, as `call_soon_threadsafe` does
            task = loop.create_task(outcome_of(awaitable))
            tasks.append(task)
            task.add_done_callback(lambda done: _hand_over(done, outcome))

        def break_off() -> None:
            if tasks:
                _ = tasks[0].cancel()
            elif asyncio.iscoroutine(awaitable):
                awaitable.close()

        try:
            _ = loop.call_soon_threadsafe(begin)
            return outcome.result()
        except BaseException:
            # Wherever Ctrl-C struck, inside `call_soon_threadsafe` too: the loop does this after `begin`, or instead.
            if not outcome.done():
                _ = loop.call_soon_threadsafe(break_off)
            raise

    def runs_here(self) -> bool:
        """Whether the caller is code that runs on this loop."""
        return threading.current_thread() is self._thread

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=loop.run_forever, name=self._name, daemon=True)
                self._thread.start()
                self._loop = loop  # last: Ctrl-C above must leave no loop that nobody runs
            return self._loop

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None


async def outcome_of(awaitable: Awaitable[T]) -> _Outcome[T]:
    """The result, or what was raised: SystemExit and KeyboardInterrupt left alone would end the loop for everybody."""
    try:
        return (await awaitable,)
    except BaseException as error:  # noqa: BLE001 - handed to the caller
        return error


def _hand_over(task: asyncio.Task[_Outcome[T]], outcome: Future[T]) -> None:
    found = asyncio.CancelledError() if task.cancelled() else task.result()
    if isinstance(found, BaseException):
        outcome.set_exception(found)
    else:
        outcome.set_result(found[0])
