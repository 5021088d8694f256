"""Sync code of a user's, on the async face, that calls async code of ours back: wrappers around tools and models."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from typing_extensions import TypeVar

from durable_graph.runtime import pool
from durable_graph.runtime.aio import in_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["calling_back"]

T = TypeVar("T")


async def calling_back(job: Callable[[Callable[[Any], Any]], T], back: Callable[[Any], Awaitable[Any]]) -> T:
    """Run `job` in an OS thread. What it is given is `back` in a sync form: it waits while `back` runs on this loop, so
    that async tools and clients stay on the loop they belong to.
    """
    loop = asyncio.get_running_loop()

    def wait_for(argument: Any) -> Any:
        with pool.lent():
            return asyncio.run_coroutine_threadsafe(_whole(back(argument)), loop).result()()

    return await in_thread(lambda: job(wait_for))


async def _whole(due: Awaitable[Any]) -> Callable[[], Any]:
    """What `due` gives or raises, for another OS thread: asyncio lets SystemExit, say, end the loop instead."""
    try:
        found = await due
    except BaseException as error:  # noqa: BLE001 - raised there
        caught = error

        def fail() -> Any:
            raise caught

        return fail
    return lambda: found
