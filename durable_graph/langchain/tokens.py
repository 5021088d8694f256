"""Tokens of LangChain's chat models in the stream mode "messages".

One handler for all runs: which node a token belongs to is found where the model is called. Its type asks LangChain's
models to stream inside `invoke` too.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

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

_SHOWN: Final = ("ls_provider", "ls_model_type", "ls_temperature", "ls_max_tokens", "ls_model_name")


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

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[Any]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        context = CURRENT.get()
        heard = listener(context)
        if context is not None and heard is not None:
            told = {name: value for name, value in (metadata or {}).items() if name in _SHOWN or not _ours(name)}
            own_tags = [tag for tag in tags or () if not tag.startswith("seq:step:")]
            self._calls[run_id] = _Call(context, heard, told, own_tags)

    def on_llm_start(self, serialized: Any, prompts: Any, **kwargs: Any) -> None:
        """Models that are no chat models say no messages."""

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, run_id: UUID, **kwargs: Any) -> None:
        call = self._calls.get(run_id)
        message = getattr(chunk, "message", None)
        if call is not None and message is not None:
            if message.id is None:
                message.id = f"lc_run--{run_id}"
            call.streamed = True
            call.emit(message)

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        call = self._calls.pop(run_id, None)
        found = response.generations[0] if response.generations else []
        message = getattr(found[0], "message", None) if found else None
        if call is None or message is None:
            return
        if not call.streamed:
            call.emit(message)
        elif message.id is not None:
            call.heard.seen.add(message.id)

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:
        _ = self._calls.pop(run_id, None)

    def tap_output_iter(self, run_id: UUID, output: Iterator[Any]) -> Iterator[Any]:
        return output

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[Any]) -> AsyncIterator[Any]:
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
