"""Sync code of a user's, on the async face, that calls async code of ours back: wrappers around tools and models."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from typing_extensions import TypeVar

from durable_graph.own_loop import outcome_of
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
            found = asyncio.run_coroutine_threadsafe(outcome_of(back(argument)), loop).result()
        if isinstance(found, BaseException):
            raise found
        return found[0]

    return await in_thread(lambda: job(wait_for))
