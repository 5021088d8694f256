"""What an edge from several nodes waits on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from typing_extensions import override

from durable_graph.channels.base import BaseChannel
from durable_graph.types import Missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["NamedBarrierValue"]

Names: TypeAlias = tuple[str, ...]


class NamedBarrierValue(BaseChannel[Names, str]):
    """The names written so far, out of `names`; complete when all are there. The engine then empties it again."""

    __slots__ = ("names",)

    def __init__(self, typ: Any, names: Iterable[str]) -> None:
        super().__init__(typ)
        self.names = frozenset(names)

    @override
    def options(self) -> tuple[Any, ...]:
        return (sorted(self.names),)

    @override
    def update(self, value: Names | Missing, writes: Sequence[str]) -> Names | Missing:
        """All names seen, sorted: the order in which nodes finished leaves no trace.

        Raises:
            InvalidUpdateError: a name that this barrier does not wait for.
        """
        foreign = sorted(set(writes) - self.names)
        if foreign:
            raise self.reject(
                f"{', '.join(map(repr, foreign))} is none of the awaited names {sorted(self.names)}",
                "Write only names that the barrier was made with.",
            )
        seen = () if isinstance(value, Missing) else value
        return tuple(sorted({*seen, *writes}))

    def complete(self, value: Names | Missing) -> bool:
        """Whether every name was written."""
        return not isinstance(value, Missing) and self.names.issubset(value)
