"""Wrappers around a call, made into one: the first is the outermost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from durable_graph.agents.middleware.base import own
from durable_graph.runtime.calling_back import calling_back

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from durable_graph.agents.middleware.base import AgentMiddleware

__all__ = ["Wrapper", "wrapper_of"]

_Handler: TypeAlias = "Callable[[Any], Any]"
_AHandler: TypeAlias = "Callable[[Any], Awaitable[Any]]"
_Read: TypeAlias = "Callable[[Any, Sequence[Any], Any], Any]"


class Wrapper(NamedTuple):
    """A function `(request, handler)` in two forms.

    sync: None where one of the wrappers is async only, which then decides how the call is made on either face.
    """

    sync: Callable[[Any, _Handler], Any] | None
    asyn: Callable[[Any, _AHandler], Awaitable[Any]]


def wrapper_of(middleware: Sequence[AgentMiddleware[Any, Any]], hook: str, read: _Read) -> Wrapper | None:
    """All wrappers `hook` of an agent as one; None when there are none.

    read: what the next one outside sees, of what one returned, and of what its handler gave it: one for each time it
    was called, None where that raised; and of the request.
    """
    wraps = [(own(one, hook), own(one, f"a{hook}")) for one in middleware]
    wraps = [(sync, asyn) for sync, asyn in wraps if sync is not None or asyn is not None]
    if not wraps:
        return None

    def wrap(request: Any, handler: _Handler) -> Any:
        for sync, _ in reversed(wraps):
            handler = _around(sync, handler, read)
        return handler(request)

    async def awrap(request: Any, handler: _AHandler) -> Any:
        for sync, asyn in reversed(wraps):
            handler = _aaround(sync, asyn, handler, read)
        return await handler(request)

    return Wrapper(None if any(sync is None for sync, _ in wraps) else wrap, awrap)


def _around(wrap: Any, inner: _Handler, read: _Read) -> _Handler:
    def call(request: Any) -> Any:
        given: list[Any] = []

        def handler(changed: Any) -> Any:
            number = len(given)
            given.append(None)
            given[number] = found = inner(changed)
            return found

        return read(wrap(request, handler), given, request)

    return call


def _aaround(sync: Any, asyn: Any, inner: _AHandler, read: _Read) -> _AHandler:
    async def call(request: Any) -> Any:
        given: list[Any] = []

        async def handler(changed: Any) -> Any:
            number = len(given)
            given.append(None)
            given[number] = found = await inner(changed)
            return found

        if asyn is not None:
            return read(await asyn(request, handler), given, request)
        answer = await calling_back(lambda back: sync(request, back), handler)
        return read(answer, given, request)

    return call
