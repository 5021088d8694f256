"""Tokens of LangChain's chat models in the stream mode "messages".

One handler for all runs: which node a token belongs to is found where the model is called. Its type asks LangChain's
models to stream inside `invoke` too.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from durable_graph.models.streaming import emit_token, listener
from durable_graph.runtime.context import CURRENT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from uuid import UUID

    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.outputs import LLMResult

    from durable_graph.models.streaming import Heard
    from durable_graph.runtime.context import TaskContext

__all__ = ["TokenHandler", "token_handler"]


class _Call:
    """A model's call that somebody listens to."""

    __slots__ = ("context", "heard", "metadata", "streamed", "tags")

    def __init__(self, context: TaskContext, heard: Heard, metadata: dict[str, Any], tags: list[str]) -> None:
        self.context = context
        self.heard = heard
        self.metadata = metadata
        self.tags = tags
        self.streamed = False

    def emit(self, message: Any) -> None:
        _ = emit_token(message, tags=self.tags, metadata=self.metadata, context=self.context)


class TokenHandler:
    """Shows what chat models say inside nodes. It runs where the model is called, also in async code."""

    run_inline = True
    raise_error = False
    ignore_chain = ignore_agent = ignore_retriever = ignore_custom_event = True

    def __init__(self) -> None:
        self._calls: dict[UUID, _Call] = {}

    def on_chat_model_start(self, *_args: Any, run_id: UUID, **told: Any) -> None:
        """A chat model is called: remember where, if somebody listens there."""
        context = CURRENT.get()
        heard = listener(context)
        if context is not None and heard is not None:
            given: dict[str, Any] = told.get("metadata") or {}
            tags: list[str] = told.get("tags") or []
            metadata = {name: value for name, value in given.items() if not _ours(name)}
            own_tags = [tag for tag in tags if not tag.startswith("seq:step:")]
            self._calls[run_id] = _Call(context, heard, metadata, own_tags)

    def on_llm_start(self, *_args: Any, **_told: Any) -> None:
        """Models that are no chat models say no messages."""

    def on_llm_new_token(self, *_args: Any, run_id: UUID, chunk: Any = None, **_told: Any) -> None:
        """A chat model says a piece."""
        call = self._calls.get(run_id)
        message = getattr(chunk, "message", None)
        if call is not None and message is not None:
            if message.id is None:
                message.id = f"lc_run--{run_id}"
            call.streamed = True
            call.emit(message)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **_told: Any) -> None:
        """A chat model has answered; show it whole when it did not stream."""
        call = self._calls.pop(run_id, None)
        found = response.generations[0] if response.generations else []
        message = getattr(found[0], "message", None) if found else None
        if call is None or message is None:
            return
        if not call.streamed:
            call.emit(message)
        elif message.id is not None:
            call.heard.seen.add(message.id)

    def on_llm_error(self, *_args: Any, run_id: UUID, **_told: Any) -> None:
        """It failed, or nobody wants to hear the rest."""
        _ = self._calls.pop(run_id, None)

    def tap_output_iter(self, _run_id: UUID, output: Iterator[Any]) -> Iterator[Any]:
        """What a chain streams is not touched."""
        return output

    def tap_output_aiter(self, _run_id: UUID, output: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Async `tap_output_iter`."""
        return output


def _ours(name: str) -> bool:
    return name.startswith("langgraph_")


@cache
def token_handler() -> BaseCallbackHandler:
    """The handler, of the two types that LangChain knows it by; LangChain is loaded when somebody asks for it."""
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.tracers import _streaming

    asks_for_streams: Any = _streaming._StreamingCallbackHandler  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - there is no other way
    made: Any = type("TokenHandler", (TokenHandler, BaseCallbackHandler, asks_for_streams), {})
    return made()
