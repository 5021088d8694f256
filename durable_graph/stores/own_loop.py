"""An event loop of the stores' own, on which a sync call waits for an async embedding function.

Not `asyncio.run` for each call: clients of embedding services keep connections that are bound to the loop which opened
them, and fail on the next one ("Event loop is closed"). Not the loop of `runtime.private_loop`: stores stand below the
runtime. It runs in a daemon OS thread, so it also works when the caller's OS thread runs a loop itself.
"""

from __future__ import annotations

import asyncio
import os
import threading
from typing import TYPE_CHECKING, Any

from durable_graph.errors import EventLoopError

if TYPE_CHECKING:
    from collections.abc import Awaitable

__all__ = ["run"]

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def run(awaitable: Awaitable[Any]) -> Any:
    """The result of the awaitable, in the caller's context. When the wait is broken off (Ctrl-C), it is cancelled.

    Raises:
        EventLoopError: this is called on that very loop, by async code that makes a sync call.
    """
    loop = _running_loop()

    async def outcome() -> tuple[Any] | BaseException:
        # Handed over as a value: SystemExit and KeyboardInterrupt left alone would end the loop for everybody.
        try:
            return (await awaitable,)
        except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's OS thread
            return error

    if _running_here() is loop:
        if asyncio.iscoroutine(awaitable):
            awaitable.close()
        raise EventLoopError(
            "An async embedding function made a sync call to a store that would have to wait for it.",
            cure="Await the async twin there: await store.asearch(...).",
        )
    future = asyncio.run_coroutine_threadsafe(outcome(), loop)  # takes the context along
    try:
        found = future.result()
    except BaseException:
        future.cancel()
        raise
    if isinstance(found, BaseException):
        raise found
    return found[0]


def _running_here() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop  # noqa: PLW0603 - one per process, made when the first async embedding function needs it
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="durable_graph-embed", daemon=True).start()
        return _loop


def _after_fork() -> None:
    global _loop, _lock
    _loop, _lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
