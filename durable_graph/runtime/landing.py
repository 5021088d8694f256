"""Waiting on an event loop for what OS threads do.

What lands at about the same time wakes the loop once: a wake-up is a system call, for which the OS thread gives up the
interpreter, and a group of commits would make one for each of its runs.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["landed", "result_of", "settled"]

T = TypeVar("T")


class _Quay:
    """Those of one event loop who wait, and whose future landed."""

    def __init__(self) -> None:
        self._landed: deque[asyncio.Future[None]] = deque()
        self._woken = False

    def land(self, waiter: asyncio.Future[None], _: Future[T]) -> None:
        """In any OS thread: a future has its result."""
        self._landed.append(waiter)
        if not self._woken:  # one wake-up for all that land before the loop looks
            try:
                self._woken = True
                waiter.get_loop().call_soon_threadsafe(self._wake)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more
            except BaseException:  # Ctrl-C: the next one that lands wakes the loop
                self._woken = False
                raise

    def _wake(self) -> None:
        self._woken = False
        while self._landed:
            waiter = self._landed.popleft()
            if not waiter.done():
                waiter.set_result(None)


_quays: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Quay]] = WeakKeyDictionary()


async def _wait(future: Future[T]) -> None:
    loop = asyncio.get_running_loop()
    quay = _quays.get(loop)
    if quay is None:
        quay = _quays[loop] = _Quay()
    waiter: asyncio.Future[None] = loop.create_future()
    future.add_done_callback(partial(quay.land, waiter))
    await waiter


async def result_of(future: Future[T]) -> T:
    """The result. Who is cancelled does not wait any longer; the future goes on."""
    try:
        if not future.done():
            await _wait(future)
        return future.result()
    finally:
        del future  # it has the error, whose traceback has this frame


async def settled(future: Future[T]) -> None:
    """Wait; what it gave is for others to look at."""
    if not future.done():
        await _wait(future)


async def landed(future: Future[T]) -> T:
    """Wait for storage to the end, even when the caller is cancelled; the cancellation comes after.

    A cancelled caller does not stop a commit: it lands, and it must be known that it did.
    """
    try:
        return await result_of(future)
    except asyncio.CancelledError:
        while not future.done():
            with suppress(asyncio.CancelledError):
                await settled(future)
        _ = future.exception()
        raise
