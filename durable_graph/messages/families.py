"""Two families of messages, ours and LangChain's, which may stand in one list.

LangChain's are found by the module of their class and never imported here: who has one has loaded it.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from durable_graph.messages.models import BaseMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LANGCHAIN", "Family", "default_family", "family_of", "family_of_hint"]

Family: TypeAlias = Literal["ours", "langchain"]

LANGCHAIN: Final = "langchain_core.messages"
"""The package LangChain's messages come from."""


@lru_cache(maxsize=1024)
def family_of(cls: type[Any]) -> Family | None:
    """Which family the instances of a class belong to; None: they are no messages."""
    if issubclass(cls, BaseMessage):
        return "ours"
    bases = (base for base in cls.__mro__ if base.__name__ == "BaseMessage")
    return "langchain" if any(_is_langchain(base) for base in bases) else None


def _is_langchain(cls: type[Any]) -> bool:
    return f"{cls.__module__}.".startswith(f"{LANGCHAIN}.")


def default_family() -> Family:
    """LangChain's where LangChain's messages are loaded, else ours."""
    return "langchain" if LANGCHAIN in sys.modules else "ours"


def family_of_hint(hint: Any) -> Family | None:
    """Which family a declared type asks for, such as `list[AnyMessage]`; None: neither, or both."""
    found: set[Family | None] = {family_of(cls) for cls in _classes(hint)}
    found.discard(None)
    return found.pop() if len(found) == 1 else None


def _classes(hint: Any) -> Iterator[type[Any]]:
    if isinstance(hint, type) and not get_args(hint):
        yield hint
    for part in get_args(hint):
        yield from _classes(part)
