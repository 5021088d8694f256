"""The state of an agent, put together from its own keys, those of its middleware, and the user's."""

from __future__ import annotations

import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, NotRequired, Required, get_args, get_origin

from typing_extensions import TypedDict, TypeVar, is_typeddict

from durable_graph.channels import EphemeralValue
from durable_graph.errors import InvalidSchemaError, shortened
from durable_graph.messages.reducer import add_messages

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "AgentState",
    "InputAgentState",
    "OmitFromInput",
    "OmitFromOutput",
    "OmitFromSchema",
    "OutputAgentState",
    "PrivateStateAttr",
    "Schemas",
    "merged",
]

ResponseT = TypeVar("ResponseT", default=Any)


@dataclass(frozen=True)
class OmitFromSchema:
    """Marks a key of the state that callers may not give (`input`) or do not get (`output`)."""

    input: bool = True
    output: bool = True


OmitFromInput: Final = OmitFromSchema(input=True, output=False)
"""A key that callers may not give."""

OmitFromOutput: Final = OmitFromSchema(input=False, output=True)
"""A key that callers do not get."""

PrivateStateAttr: Final = OmitFromSchema(input=True, output=True)
"""A key of the agent's own: `Annotated[NotRequired[int], PrivateStateAttr]`."""


class AgentState(TypedDict, Generic[ResponseT]):
    """What every agent's state has.

    messages: the chat.   jump_to: where a hook sends the run; it lives one step, and callers never see it.
    structured_response: what `response_format` asked for.
    """

    messages: Required[Annotated[list[Any], add_messages]]
    jump_to: NotRequired[Annotated[str | None, EphemeralValue, PrivateStateAttr]]
    structured_response: NotRequired[Annotated[ResponseT | None, OmitFromInput]]


class InputAgentState(TypedDict):
    """What callers give."""

    messages: Required[Annotated[list[Any], add_messages]]


class OutputAgentState(TypedDict, Generic[ResponseT]):
    """What callers get."""

    messages: Required[Annotated[list[Any], add_messages]]
    structured_response: NotRequired[ResponseT | None]


class Schemas(typing.NamedTuple):
    """Which keys the state has, which of them callers may give, and which they get."""

    state: Any
    input: Any
    output: Any


def merged(schemas: Iterable[Any], response: Any) -> Schemas:
    """One state of several schemas; where two have one key, the later says what it is, unless it says nothing else than
    AgentState, from which all are derived.

    response: the type of the structured response, so that its values can be stored; Any where there is none.

    Raises:
        InvalidSchemaError: one is no TypedDict.
    """
    own = _hints(AgentState, response)
    hints = dict(own)
    for schema in schemas:
        hints.update((key, hint) for key, hint in _hints(schema, response).items() if own.get(key) != hint)
    given = {key: hint for key, hint in hints.items() if not any(mark.input for mark in _marks(hint))}
    returned = {key: hint for key, hint in hints.items() if not any(mark.output for mark in _marks(hint))}
    made: Any = TypedDict  # made at run time, of what is known only then
    return Schemas(
        made("AgentState", hints), made("AgentInput", given) if given else None, made("AgentOutput", returned)
    )


def _hints(schema: Any, response: Any) -> dict[str, Any]:
    base = get_origin(schema) or schema
    if not is_typeddict(base):
        raise InvalidSchemaError(
            f"{shortened(schema)} cannot be part of an agent's state: it is no TypedDict",
            cure="Derive a TypedDict from AgentState.",
        )
    bound = {ResponseT: response, **dict(zip(getattr(base, "__parameters__", ()), get_args(schema), strict=False))}
    hints = typing.get_type_hints(base, include_extras=True)
    return {key: _filled(hint, bound) for key, hint in hints.items()}


def _filled(hint: Any, bound: dict[Any, Any]) -> Any:
    """A hint with its type variables filled in."""
    parameters: tuple[Any, ...] = getattr(hint, "__parameters__", ())
    return hint[tuple(bound.get(one, Any) for one in parameters)] if parameters else hint


def _marks(hint: Any) -> list[OmitFromSchema]:
    """The marks in a hint, also inside of NotRequired and the like."""
    found = [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, OmitFromSchema)]
    if get_origin(hint) in (Required, NotRequired, typing.Required, typing.NotRequired):
        return found + _marks(get_args(hint)[0])
    inner = getattr(hint, "__origin__", None)
    return found + _marks(inner) if inner is not None and hasattr(hint, "__metadata__") else found
