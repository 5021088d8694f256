"""The faces of our own chat models: invoke, ainvoke, stream and astream from one async implementation.

A model says how it answers (`_answer`) and how it streams (`_pieces`); everything else is here. Inside a node, while
somebody listens to the stream mode "messages", `invoke` streams too and shows every piece.

A model whose async code never waits runs where it is called (`_waits = False`). One that talks to a server runs on the
private loop under the sync face; closing or dropping a stream cancels it there, which closes the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from abc import ABC, abstractmethod
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from typing_extensions import TypeVar

from durable_graph.errors import EventLoopError
from durable_graph.models.streaming import emit_token, listener
from durable_graph.runtime import pool, private_loop
from durable_graph.runtime.context import CURRENT

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Generator, Iterator, Mapping, Sequence
    from typing import Self

    from durable_graph.runtime.context import TaskContext

__all__ = ["ChatModelBase", "history_of"]

T = TypeVar("T")

_OVER: Final = object()
"""What the last thing in a queue of pieces is followed by."""


def history_of(input: Any) -> list[Any]:
    """The messages a model was given: a str, a message, a list in any form, or an object with `to_messages`."""
    if isinstance(input, str):
        from durable_graph.messages.models import HumanMessage

        return [HumanMessage(content=input)]
    if hasattr(input, "to_messages"):
        return list(input.to_messages())
    from durable_graph.messages.coercion import as_list, to_message

    return [to_message(one, "ours") for one in as_list(input)]


class ChatModelBase(ABC):
    """What our chat models share.

    name: of the model, shown in metadata.   provider: whose it is.   metadata, tags: come with every token; the tag
    "nostream" keeps them out of streams.
    """

    _waits: ClassVar[bool] = True

    def __init__(self, name: str | None, *, provider: str | None = None, tags: Sequence[str] = ()) -> None:
        self.name = name
        self.provider = provider
        self.tags: tuple[str, ...] = tuple(tags)
        self.metadata: dict[str, Any] = {}

    @abstractmethod
    async def _answer(self, history: list[Any], options: dict[str, Any]) -> Any:
        """The whole answer."""

    @abstractmethod
    def _pieces(self, history: list[Any], options: dict[str, Any]) -> AsyncGenerator[Any, None]:
        """The answer in pieces; the last one is marked. Closing it stops the answer."""

    def with_config(self, config: Mapping[str, Any] | None = None, **fields: Any) -> Self:
        """The same model with more `tags` and `metadata`, such as `model.with_config(tags=["nostream"])`."""
        told = {**(config or {}), **fields}
        other = copy.copy(self)
        other.tags = (*dict.fromkeys((*self.tags, *(told.get("tags") or ()))),)
        other.metadata = {**self.metadata, **(told.get("metadata") or {})}
        return other

    # --- the whole answer -----------------------------------------------------------------------------------------

    def invoke(self, input: Any, config: Any = None, **options: Any) -> Any:
        """Answer a history.

        input: messages in any form, or a str.   config: a node's config; its tags come with the tokens.
        options: what this model understands, such as temperature.

        Raises:
            EventLoopError: an event loop runs in this OS thread, and the answer has to be waited for.
        """
        return self._wait(self.ainvoke(input, config, **options))

    async def ainvoke(self, input: Any, config: Any = None, **options: Any) -> Any:
        """Async `invoke`."""
        history = history_of(input)
        context = CURRENT.get()
        if listener(context) is None:
            return await self._answer(history, options)
        from durable_graph.messages.models import AIMessageChunk, join_chunks

        pieces = [piece async for piece in self._shown(history, config, options, context)]
        if isinstance(pieces[0], AIMessageChunk):
            return join_chunks(pieces).to_message()
        return pieces[0]

    # --- in pieces ------------------------------------------------------------------------------------------------

    def stream(self, input: Any, config: Any = None, **options: Any) -> Iterator[Any]:
        """Answer a history in pieces (`AIMessageChunk`s that add up). Closing the iterator stops the answer.

        Raises:
            EventLoopError: as `invoke`.
        """
        pieces = self._shown(history_of(input), config, options, CURRENT.get())
        return self._pumped(pieces) if self._waits else _driven(pieces)

    async def astream(self, input: Any, config: Any = None, **options: Any) -> AsyncIterator[Any]:
        """Async `stream`."""
        pieces = self._shown(history_of(input), config, options, CURRENT.get())
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def _shown(
        self, history: list[Any], config: Any, options: dict[str, Any], context: TaskContext | None
    ) -> AsyncGenerator[Any, None]:
        """The pieces, each shown to who listens before it is handed on."""
        told = cast("dict[str, Any]", config) if isinstance(config, dict) else {}
        tags = (*self.tags, *(told.get("tags") or ()))
        metadata: dict[str, Any] = {**self.metadata, **(told.get("metadata") or {})}
        pieces = self._pieces(history, options)
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                _ = emit_token(
                    piece,
                    model_name=self.name,
                    provider=self.provider,
                    tags=tags,
                    metadata=metadata,
                    context=context,
                )
                yield piece

    # --- the sync face --------------------------------------------------------------------------------------------

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if not self._waits:
            return _at_once(coroutine)
        try:
            _no_loop_here()
        except EventLoopError:
            coroutine.close()
            raise
        return private_loop.run(coroutine)

    def _pumped(self, pieces: AsyncGenerator[Any, None]) -> Generator[Any, None, None]:
        """Read pieces that come on the private loop, all in one asyncio task: clients bind to theirs."""
        _no_loop_here()
        queue: SimpleQueue[Any] = SimpleQueue()

        async def begin() -> asyncio.Task[None]:
            return asyncio.create_task(_pump(pieces, queue))

        async def end() -> None:
            _ = running.cancel()
            _ = await asyncio.wait([running])

        running = private_loop.run(begin())
        try:
            while True:
                lent = pool.lend()
                try:
                    piece, error = queue.get()
                finally:
                    pool.give_back(lent)
                if error is not None:
                    raise error
                if piece is _OVER:
                    return
                yield piece
        finally:
            private_loop.run(end())


async def _pump(pieces: AsyncGenerator[Any, None], queue: SimpleQueue[Any]) -> None:
    """Put (piece, None) for each piece, and (_OVER, what was raised) in the end."""
    try:
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                queue.put((piece, None))
    except BaseException as error:
        queue.put((_OVER, error))
        if not isinstance(error, Exception):
            raise
    else:
        queue.put((_OVER, None))


def _no_loop_here() -> None:
    """Refuse to block an event loop.

    Raises:
        EventLoopError: one runs in this OS thread.
    """
    try:
        _ = asyncio.get_running_loop()
    except RuntimeError:
        return
    what = "a model was called without async while an event loop runs in this OS thread"
    raise EventLoopError(what, cure="Use await model.ainvoke(...) or async for ... in model.astream(...).")


def _at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits."""
    try:
        _ = coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise RuntimeError("a model that says it never waits did")


def _driven(pieces: AsyncGenerator[Any, None]) -> Generator[Any, None, None]:
    """Read pieces that come without waiting."""
    try:
        while True:
            try:
                piece = _at_once(pieces.__anext__())
            except StopAsyncIteration:
                return
            yield piece
    finally:
        _at_once(pieces.aclose())
