"""The state that a chat has."""

from __future__ import annotations

from typing import Annotated, Any

from typing_extensions import TypedDict

from durable_graph.messages.reducer import add_messages

__all__ = ["MessagesState"]


class MessagesState(TypedDict):
    """A state whose one key `messages` holds a chat. Add keys in a subclass.

    Its elements are messages of either family, so the type asks for none: what is written as str, pair or dict becomes
    one of the family of the messages already there.
    """

    messages: Annotated[list[Any], add_messages]
