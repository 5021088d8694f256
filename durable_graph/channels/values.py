"""Channels whose value is what was written last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from typing_extensions import override

from durable_graph.channels.base import BaseChannel, type_name, unwrap_overwrite
from durable_graph.types import MISSING, Missing

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["AnyValue", "EphemeralValue", "LastValue", "UntrackedValue"]

_Channel: TypeAlias = BaseChannel[Any, Any]


def _last(writes: Sequence[Any]) -> Any:
    value = unwrap_overwrite(writes[-1])
    return writes[-1] if value is MISSING else value


def _only(channel: _Channel, writes: Sequence[Any]) -> Any:
    if len(writes) > 1:
        name = "T" if channel.typ is Any else type_name(channel.typ)
        raise channel.reject(
            f"can receive only one value per step, got {len(writes)}",
            f"Say how several values are combined: Annotated[{name}, reducer], e.g. operator.add for lists.",
        )
    return _last(writes)


class LastValue(BaseChannel[Any, Any]):
    """Holds the last value written; two writes in one step are an error. What a plain field becomes."""

    __slots__ = ()

    @override
    def update(self, value: Any, writes: Sequence[Any]) -> Any:
        del value
        return _only(self, writes)


class AnyValue(BaseChannel[Any, Any]):
    """Holds the last value written, however many there are; absent after a step without a write."""

    __slots__ = ()
    transient: bool = True

    @override
    def update(self, value: Any, writes: Sequence[Any]) -> Any:
        del value
        return _last(writes)

    @override
    def passed(self, value: Any) -> Missing:
        del value
        return MISSING


class _Guarded(BaseChannel[Any, Any]):
    """Holds the last value written; with `guard`, two writes in one step are an error."""

    __slots__ = ("guard",)

    def __init__(self, typ: Any = Any, guard: bool = True) -> None:  # noqa: FBT001, FBT002 - LangGraph's signature
        super().__init__(typ)
        self.guard = guard

    @override
    def options(self) -> tuple[Any, ...]:
        return (self.guard,)

    @override
    def update(self, value: Any, writes: Sequence[Any]) -> Any:
        del value
        return _only(self, writes) if self.guard else _last(writes)


class EphemeralValue(_Guarded):
    """Visible in the step after the write, then absent. With `guard`, two writes in one step are an error."""

    __slots__ = ()
    transient: bool = True

    @override
    def passed(self, value: Any) -> Missing:
        del value
        return MISSING


class UntrackedValue(_Guarded):
    """Kept in memory while the run lasts and never stored, so it may hold anything: a client, a lock, a file.

    After a resume in another process the key is absent until it is written again.
    """

    __slots__ = ()
    stored: bool = False
