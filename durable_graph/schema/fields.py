"""From one field's hint to its channel.

    RemainingSteps, IsLastStep          computed, no channel
    Annotated[T, Channel(...)]          that channel; a channel class is made with the field's type
    Annotated[T, reducer]               BinaryOperatorAggregate(T, reducer)
    T                                   LastValue(T)

The extras may hold anything else too (a doc string, pydantic's Field), in any order. A reducer is a callable
that takes two positional arguments, `(current, update) -> new`. A field has one way to accumulate: two are an
error, and so is a function in the last place that cannot be a reducer, where it would be taken for one.
"""

from __future__ import annotations

import copy
import inspect
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, cast, get_origin

from durable_graph.channels import BaseChannel, BinaryOperatorAggregate, LastValue
from durable_graph.channels.base import type_name
from durable_graph.errors import InvalidSchemaError
from durable_graph.schema.managed import ManagedValue

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Accumulation", "read_field"]

POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Accumulation(NamedTuple):
    """What became of a field: a channel, or the class that computes it. One of the two is None."""

    channel: BaseChannel[Any, Any] | None
    managed: type[ManagedValue] | None


def read_field(schema: str, key: str, hint: Any) -> Accumulation:
    """The channel of the field `key` of the schema called `schema`, whose resolved hint is `hint`.

    Raises:
        InvalidSchemaError: the extras hold two ways to accumulate, or a function that is no reducer.
    """
    extras: tuple[Any, ...] = hint.__metadata__ if get_origin(hint) is Annotated else ()
    typ = hint.__origin__ if extras else hint
    managed = [extra for extra in extras if isinstance(extra, type) and issubclass(extra, ManagedValue)]
    channels = [extra for extra in extras if _is_channel(extra)]
    last = extras[-1] if extras else None
    reducers = [extra for extra in extras if not _is_channel(extra) and _is_reducer(extra, last=extra is last)]
    found = [*managed, *channels, *reducers]
    if len(found) > 1:
        raise InvalidSchemaError(
            f"Field {key!r} of {schema} has {len(found)} ways to accumulate: {', '.join(map(type_name, found))}",
            cure="Leave one reducer or channel in its Annotated[...].",
        )
    if managed:
        return Accumulation(None, managed[0])
    if extras and not found:
        _reject_unusable(schema, key, last)
    channel = _made(schema, key, typ, channels[0]) if channels else _reduced(schema, key, typ, reducers)
    channel.key = key
    return Accumulation(channel, None)


def _is_channel(extra: Any) -> bool:
    return isinstance(extra, BaseChannel) or (isinstance(extra, type) and issubclass(extra, BaseChannel))


def _made(schema: str, key: str, typ: Any, extra: Any) -> BaseChannel[Any, Any]:
    if not isinstance(extra, type):
        return copy.copy(extra)  # one object may stand in several fields, and each needs its own key
    try:
        return extra(typ)
    except TypeError as error:
        raise InvalidSchemaError(
            f"Field {key!r} of {schema}: {extra.__name__} cannot be made from the field's type alone: {error}",
            cure=f"Put a finished channel there: Annotated[T, {extra.__name__}(T, ...)].",
        ) from error


def _reduced(schema: str, key: str, typ: Any, reducers: list[Any]) -> BaseChannel[Any, Any]:
    if not reducers:
        return LastValue(typ)
    if inspect.iscoroutinefunction(reducers[0]):
        raise InvalidSchemaError(
            f"Field {key!r} of {schema}: the reducer {type_name(reducers[0])} is async",
            cure="Make it a plain function (current, update) -> new; do async work in the node.",
        )
    return BinaryOperatorAggregate(typ, reducers[0])


def _is_reducer(extra: Any, *, last: bool) -> bool:
    """Whether it takes `(current, update)`. A class does so only in the last place: elsewhere it is a marker."""
    if not callable(extra) or (isinstance(extra, type) and (not last or issubclass(extra, ManagedValue))):
        return False
    try:
        signature = inspect.signature(cast("Callable[..., Any]", extra))
    except (TypeError, ValueError):  # some builtins, like max, do not tell
        return not isinstance(extra, type)
    if isinstance(extra, type):
        kinds = [parameter.kind for parameter in signature.parameters.values()]
        return sum(kind in POSITIONAL for kind in kinds) == 2  # noqa: PLR2004 - current and update
    try:
        signature.bind(None, None)
    except TypeError:
        return False
    return True


def _reject_unusable(schema: str, key: str, extra: Any) -> None:
    if callable(extra) and not isinstance(extra, type):
        raise InvalidSchemaError(
            f"Field {key!r} of {schema}: {type_name(extra)}{_signature(extra)} cannot be a reducer, which is called "
            "with two positional arguments",
            cure="Give it the form (current, update) -> new.",
        )


def _signature(function: Any) -> str:
    return str(inspect.signature(function))
