"""What a chat model is: LangChain's models are one as they are, and so is anything with these methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

__all__ = ["ChatModel"]


@runtime_checkable
class ChatModel(Protocol):
    """Answers a history of messages with an AI message.

    `input` is a list of messages, a str (one human message), or what else the model reads. `config` is a node's config.
    """

    def invoke(self, input: Any, config: Any = None, **options: Any) -> Any:
        """The whole answer."""
        ...

    async def ainvoke(self, input: Any, config: Any = None, **options: Any) -> Any:
        """Async `invoke`."""
        ...

    def stream(self, input: Any, config: Any = None, **options: Any) -> Iterator[Any]:
        """The answer in pieces that add up (`+`)."""
        ...

    def astream(self, input: Any, config: Any = None, **options: Any) -> AsyncIterator[Any]:
        """Async `stream`."""
        ...

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **options: Any) -> Any:
        """The same model, which may ask for calls of these tools."""
        ...
