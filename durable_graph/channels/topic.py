"""A key that collects what several nodes say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from typing_extensions import override

from durable_graph.channels.base import BaseChannel, find_overwrite
from durable_graph.types import MISSING, Missing

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Topic"]


class Topic(BaseChannel["list[Any]", Any]):
    """A list of the values written in the last step, or with `accumulate` of all steps.

    A write that is a list adds its elements, any other write adds itself. An empty topic is an absent key.
    An `Overwrite` (of a list) replaces everything.
    """

    __slots__ = ("accumulate", "transient")

    def __init__(self, typ: Any = Any, accumulate: bool = False) -> None:  # noqa: FBT001, FBT002 - LangGraph's signature
        super().__init__(typ)
        self.accumulate = accumulate
        self.transient = not accumulate

    @override
    def options(self) -> tuple[Any, ...]:
        return (self.accumulate,)

    @override
    def update(self, value: list[Any] | Missing, writes: Sequence[Any]) -> list[Any] | Missing:
        """See `BaseChannel.update`.

        Raises:
            InvalidUpdateError: several `Overwrite`s, or one of something that is no list.
        """
        overwritten = find_overwrite(self, writes)
        if overwritten is MISSING:
            kept = value if self.accumulate and not isinstance(value, Missing) else []
            return (kept + _flat(writes)) or MISSING
        if not isinstance(overwritten, list):
            raise self.reject("an Overwrite of a Topic needs a list", "Write Overwrite([...]).")
        return cast("list[Any]", overwritten)[:] or MISSING

    @override
    def appended(self, value: list[Any] | Missing, writes: Sequence[Any]) -> list[Any] | None:
        del value
        if not self.accumulate:
            return None
        return _flat(writes) if find_overwrite(self, writes) is MISSING else None

    @override
    def passed(self, value: list[Any] | Missing) -> list[Any] | Missing:
        return value if self.accumulate else MISSING


def _flat(writes: Sequence[Any]) -> list[Any]:
    elements: list[Any] = []
    for write in writes:
        if isinstance(write, list):
            elements += write
        else:
            elements.append(write)
    return elements
