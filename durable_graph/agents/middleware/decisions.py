"""What a human is asked about tool calls, what they may answer, and how an answer is held against that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NotRequired, TypeAlias, Union, cast

from typing_extensions import TypedDict

from durable_graph.errors import shortened
from durable_graph.prebuilt.structured_output import OutputSchema
from durable_graph.schema.adapters import reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "DECISIONS",
    "Action",
    "ActionRequest",
    "ApproveDecision",
    "Decision",
    "DecisionType",
    "EditDecision",
    "HITLRequest",
    "HITLResponse",
    "RejectDecision",
    "RespondDecision",
    "ReviewConfig",
    "ToolApprovalRequest",
    "several_of",
    "type_of",
]

DecisionType: TypeAlias = Literal["approve", "edit", "reject", "respond"]
DECISIONS: Final[tuple[DecisionType, ...]] = ("approve", "edit", "reject", "respond")

_FORBID: Final[Any] = {"extra": "forbid"}
"""Nothing else may stand in an answer: an approval with an edit beside it is neither."""


# --- what is asked ---------------------------------------------------------------------------------------------------


class ActionRequest(TypedDict):
    """A call that a model wants to have made. description: for who reads it."""

    name: str
    args: dict[str, Any]
    description: str


class ReviewConfig(TypedDict):
    """What may be decided on calls of one tool. args_schema: the JSON schema of its arguments, for edits."""

    action_name: str
    allowed_decisions: list[DecisionType]
    args_schema: NotRequired[dict[str, Any]]


class HITLRequest(TypedDict):
    """The question about all calls of one message ("batched"). Its answer is a `HITLResponse`."""

    action_requests: list[ActionRequest]
    review_configs: list[ReviewConfig]


class ToolApprovalRequest(TypedDict):
    """The question about one call ("per_call"). Its answer is one `Decision`."""

    type: Literal["tool_approval"]
    tool_call_id: str | None
    action_request: ActionRequest
    review_config: ReviewConfig


# --- what is answered ------------------------------------------------------------------------------------------------


class _Strict(TypedDict):
    __pydantic_config__ = _FORBID  # type: ignore[misc] # pyright: ignore[reportGeneralTypeIssues] - pydantic reads it here


class Action(_Strict):
    """The call that is to be made instead."""

    name: str
    args: dict[str, Any]


class ApproveDecision(_Strict):
    """Make the call as it is."""

    type: Literal["approve"]


class EditDecision(_Strict):
    """Make another call instead."""

    type: Literal["edit"]
    edited_action: Action


class RejectDecision(_Strict):
    """Do not make it; the model is told so, or `message`."""

    type: Literal["reject"]
    message: NotRequired[str]


class RespondDecision(_Strict):
    """Do not make it: `message` is its result."""

    type: Literal["respond"]
    message: str


Decision: TypeAlias = ApproveDecision | EditDecision | RejectDecision | RespondDecision


class HITLResponse(_Strict):
    """One decision for each of the calls, in their order."""

    decisions: list[Decision]


# --- an answer held against the question -----------------------------------------------------------------------------


def type_of(call: str, allowed: Sequence[DecisionType], args_schema: Any) -> Any:
    """The type of a decision on one call. Its errors name the call; its JSON schema has what is allowed.

    call: what errors call it.   args_schema: a JSON schema or a type; None where edits may have any arguments.
    """
    from pydantic import Discriminator, ValidationError

    arguments = None if args_schema is None else OutputSchema(args_schema)
    known = {
        "approve": ApproveDecision,
        "edit": EditDecision if arguments is None else _edit_with(arguments),
        "reject": RejectDecision,
        "respond": RespondDecision,
    }
    members: Any = Union[tuple(known[one] for one in allowed)]  # noqa: UP007 - of a number that is known only now
    hint: Any = Annotated[members, Discriminator("type")] if len(allowed) > 1 else members

    def check(given: Any, check_form: Callable[[Any], Any]) -> Any:
        kind: Any = cast("dict[str, Any]", given).get("type") if isinstance(given, dict) else None
        if kind not in allowed:
            told = shortened(cast("object", given) if kind is None else kind)
            raise ValueError(f"{call} is answered with {told}; allowed: {', '.join(allowed)}")
        try:
            decision = check_form(given)
            if kind == "edit" and arguments is not None:
                _ = arguments.read(decision["edited_action"]["args"])
        except ValidationError as error:
            raise ValueError(
                f"the {kind} of {call} does not fit: {reason(error, skip=1 if len(allowed) > 1 else 0)}"
            ) from error
        except ValueError as error:
            raise ValueError(f"the arguments in the edit of {call} do not fit: {error}") from error
        return decision

    return _checked("Decision", hint, check)


def several_of(calls: Sequence[str], types: Sequence[Any]) -> Any:
    """The type of an answer with one decision for each call."""
    made: Any = TypedDict  # made at run time, of what is known only then
    hint = made("Decisions", {"decisions": tuple[tuple(types)]})
    hint.__pydantic_config__ = _FORBID

    def check(given: Any, check_each: Callable[[Any], Any]) -> Any:
        decisions: Any = cast("dict[str, Any]", given).get("decisions") if isinstance(given, dict) else None
        if not isinstance(decisions, list | tuple):
            raise ValueError(f'expected {{"decisions": [...]}} with one for each of {", ".join(calls)}')  # noqa: TRY004 - pydantic makes an error of its own of a ValueError only
        if (count := len(cast("list[Any]", decisions))) != len(calls):
            raise ValueError(f"{count} decisions for {len(calls)} calls: {', '.join(calls)}")
        return check_each(given)

    return _checked("Decisions", hint, check)


def _edit_with(arguments: OutputSchema) -> Any:
    """The type of an edit whose arguments are shown with this schema."""
    from pydantic import WithJsonSchema

    made: Any = TypedDict  # as above
    action = made("Action", {"name": str, "args": Annotated[dict[str, Any], WithJsonSchema(arguments.json_schema)]})
    edit = made("EditDecision", {"type": Literal["edit"], "edited_action": action})
    action.__pydantic_config__ = edit.__pydantic_config__ = _FORBID
    return edit


def _checked(name: str, hint: Any, check: Callable[[Any, Callable[[Any], Any]], Any]) -> Any:
    """A type with a name for messages, that is `hint` with a check around it."""
    from pydantic_core import core_schema

    def schema(_cls: Any, _source: Any, handler: Any) -> Any:
        return core_schema.no_info_wrap_validator_function(check, handler.generate_schema(hint))

    return type(name, (), {"__get_pydantic_core_schema__": classmethod(schema)})
