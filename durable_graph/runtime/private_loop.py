"""The event loop on which async nodes run when the graph is called without async: one for the whole process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from typing_extensions import TypeVar

from durable_graph.errors import EventLoopError
from durable_graph.own_loop import OwnLoop
from durable_graph.runtime import pool

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["check_no_loop_here", "run"]

T = TypeVar("T")

_loop = OwnLoop("durable_graph-loop")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the private loop, in the caller's context, and wait for it.

    When the wait is broken off (Ctrl-C), the coroutine is cancelled.
    """
    with pool.lent():
        return _loop.run(coroutine)


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
