"""The state of `create_react_agent`: what there is, and what a user's own must have."""

from __future__ import annotations

import typing
from typing import Annotated, Any, Final, NotRequired, cast

from pydantic import BaseModel, create_model
from typing_extensions import TypedDict, is_typeddict

from durable_graph.channels import EphemeralValue
from durable_graph.errors import InvalidSchemaError
from durable_graph.messages.reducer import add_messages
from durable_graph.schema import read_schema
from durable_graph.schema.managed import RemainingSteps  # noqa: TC001 - the schemas' hints are resolved at run time

__all__ = [
    "AgentState",
    "AgentStatePydantic",
    "AgentStateWithStructuredResponse",
    "AgentStateWithStructuredResponsePydantic",
    "state_of",
    "with_model_input",
]

MODEL_INPUT: Final = "llm_input_messages"
"""The key with what a `pre_model_hook` wants the model to be sent instead of the history; it lives one step."""


class AgentState(TypedDict):
    """messages: the chat.   remaining_steps: how many more supersteps the run may take."""

    messages: Annotated[list[Any], add_messages]
    remaining_steps: NotRequired[RemainingSteps]


class AgentStateWithStructuredResponse(AgentState):
    """The same, with what `response_format` asked for."""

    structured_response: NotRequired[Any]


class AgentStatePydantic(BaseModel):
    """`AgentState` as a pydantic model."""

    messages: Annotated[list[Any], add_messages]
    remaining_steps: RemainingSteps = 25


class AgentStateWithStructuredResponsePydantic(AgentStatePydantic):
    """The same, with what `response_format` asked for."""

    structured_response: Any = None


def state_of(given: Any, response: Any) -> Any:
    """The state's schema: the user's own, or ours. response: the type of the structured response; None for none.

    Raises:
        InvalidSchemaError: the user's own lacks a key.
    """
    if given is None:
        hints = typing.get_type_hints(AgentState, include_extras=True)
        if response is not None:
            hints["structured_response"] = NotRequired[response]
        return _typed("AgentState", hints)
    wanted = {"messages", "remaining_steps", *(() if response is None else ("structured_response",))}
    missing = sorted(wanted - read_schema(given).hints.keys())
    if missing:
        raise InvalidSchemaError(
            f"state_schema {getattr(given, '__name__', given)!r} lacks {', '.join(missing)}",
            cure="Derive it from durable_graph.prebuilt.AgentState, or add: messages: Annotated[list, add_messages]; "
            "remaining_steps: RemainingSteps; structured_response: Any.",
        )
    return given


def with_model_input(state: Any) -> Any:
    """What the model's node reads where a hook may say what the model is sent."""
    hint = Annotated[list[Any] | None, EphemeralValue]
    if is_typeddict(state):
        hints = typing.get_type_hints(state, include_extras=True)
        return _typed("ModelInput", {**hints, MODEL_INPUT: NotRequired[hint]})
    if hasattr(state, "model_fields"):
        made: Any = cast("Any", create_model)("ModelInput", __base__=state, **{MODEL_INPUT: (hint, None)})
        return made
    raise InvalidSchemaError(
        f"state_schema {state.__name__!r} is neither a TypedDict nor a pydantic model, and there is a pre_model_hook",
        cure="Derive a TypedDict from durable_graph.prebuilt.AgentState.",
    )


def _typed(name: str, hints: dict[str, Any]) -> Any:
    made: Any = TypedDict  # made at run time, of what is known only then
    return made(name, hints)
