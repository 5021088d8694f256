"""`HumanInTheLoopMiddleware`: a human decides on tool calls before they are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NotRequired, TypeAlias, cast

from typing_extensions import TypedDict, override

from durable_graph.agents.middleware.base import AgentMiddleware
from durable_graph.agents.middleware.deciding import decided
from durable_graph.agents.middleware.decisions import DECISIONS, DecisionType, several_of, type_of
from durable_graph.errors import GraphInterrupt, InvalidConfigError, InvalidValueError, shortened
from durable_graph.persistence.codec import CODEC
from durable_graph.persistence.isolation import peek
from durable_graph.prebuilt.injection import runtime_for
from durable_graph.prebuilt.structured_output import OutputSchema
from durable_graph.prebuilt.tool_calls import ToolCallRequest
from durable_graph.prebuilt.tool_input import last_ai, pending_calls
from durable_graph.recording.step import Step, take_place
from durable_graph.runtime.asking import interrupt
from durable_graph.runtime.callables import Body
from durable_graph.runtime.context import CURRENT
from durable_graph.runtime.places import INSIDE

if TYPE_CHECKING:
    from durable_graph.agents.middleware.decisions import ActionRequest, HITLRequest, ReviewConfig, ToolApprovalRequest
    from durable_graph.runtime.context import Runtime

__all__ = ["HumanInTheLoopMiddleware", "InterruptOnConfig"]

Call: TypeAlias = dict[str, Any]


class InterruptOnConfig(TypedDict):
    """What is asked about calls of one tool.

    allowed_decisions: some of "approve", "edit", "reject", "respond".
    description: for who decides: a text, or a function `(tool_call, state, runtime)` that gives one.
    args_schema: of the tool's arguments: a JSON schema or a type. It is shown, and edits are held against it.
    when: a function of the `ToolCallRequest` (its `tool` is None): whether to ask about this call at all.
    """

    allowed_decisions: list[DecisionType]
    description: NotRequired[str | Callable[[Call, Any, Any], str]]
    args_schema: NotRequired[Any]
    when: NotRequired[Callable[[ToolCallRequest], bool]]


class _Gated(NamedTuple):
    """A call that waits for a decision."""

    call: Call
    config: InterruptOnConfig
    request: ActionRequest
    review: ReviewConfig

    @property
    def said(self) -> str:
        """What errors call it."""
        return f"call {self.call.get('id')!r} of {self.call['name']!r}"

    @property
    def answer_type(self) -> Any:
        return type_of(self.said, self.config["allowed_decisions"], self.config.get("args_schema"))


class HumanInTheLoopMiddleware(AgentMiddleware[Any, Any]):
    """A human decides on tool calls before they are made.

        HumanInTheLoopMiddleware({"send_mail": True, "pay": {"allowed_decisions": ["approve", "reject"]}})

        agent.invoke({"messages": "..."}, config)["__interrupt__"]
        agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config)

    The run stops with a `HITLRequest` about all calls of the model's message that need a decision. The answer has one
    decision for each, in their order:

        {"type": "approve"}
        {"type": "edit", "edited_action": {"name": "pay", "args": {"amount": 1}}}
        {"type": "reject", "message": "why"}             the model is told that it was not made, and why
        {"type": "respond", "message": "the result"}     a human did it, or answers the question

    What was edited stands in the history as it was made. Calls that nobody has to decide on, and those approved, are
    made whatever becomes of the others. An answer that does not fit (their number, a decision that is not allowed) is
    an `InvalidValueError` that names the call; nothing is made, and the thread waits for a right one.

    An answer counts for these calls with these arguments, and once. When the state is edited meanwhile so that the
    message asks for something else, the human is asked about that.

    Args:
        interrupt_on: by the tool's name: True (ask, all decisions), False (do not), or an `InterruptOnConfig`.
        description_prefix: starts the description of a call that has none of its own.
        interrupt_mode: "batched": one question about all calls. "per_call": a question for each, a
            `ToolApprovalRequest`, that are all open at once; each is answered with one decision, by its id:
            `Command(resume={interrupt.id: {"type": "approve"}})`.

    `when` and functions for descriptions are called again when the run goes on; `when` has to decide the same then.

    Raises:
        InvalidConfigError: an argument is wrong.
    """

    def __init__(
        self,
        interrupt_on: Mapping[str, bool | InterruptOnConfig],
        *,
        description_prefix: str = "Tool execution requires approval",
        interrupt_mode: Literal["batched", "per_call"] = "batched",
    ) -> None:
        if interrupt_mode not in ("batched", "per_call"):
            what = f"interrupt_mode is {interrupt_mode!r}, expected 'batched' or 'per_call'"
            raise InvalidConfigError(what)
        configs = {name: _checked(name, given) for name, given in interrupt_on.items()}
        self.interrupt_on = {name: config for name, config in configs.items() if config is not None}
        self.description_prefix = description_prefix
        self.interrupt_mode = interrupt_mode

    @override
    def after_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Ask, and do what was decided."""
        if not any(call["name"] in self.interrupt_on for call in pending_calls(peek(state, "messages"))):
            return None
        messages = state["messages"]
        gated = [self._gated(call, state, runtime) for call in pending_calls(messages) if self._asks(call, state)]
        if not gated:
            return None
        decisions = _batched(gated) if self.interrupt_mode == "batched" else _per_call(gated)
        return decided(last_ai(messages), list(zip((one.call for one in gated), decisions, strict=True)))

    def _asks(self, call: Call, state: Any) -> bool:
        config = self.interrupt_on.get(call["name"])
        if config is None:
            return False
        when = config.get("when")
        if when is None:
            return True
        runtime = runtime_for(CURRENT.get(), call.get("id"), state=state)
        return bool(when(ToolCallRequest(call, None, state, runtime)))

    def _gated(self, call: Call, state: Any, runtime: Any) -> _Gated:
        config = self.interrupt_on[call["name"]]
        told = config.get("description")
        if told is None:
            told = f"{self.description_prefix}\n\nTool: {call['name']}\nArgs: {call['args']}"
        elif not isinstance(told, str):
            told = told(call, state, runtime)
        review: ReviewConfig = {"action_name": call["name"], "allowed_decisions": list(config["allowed_decisions"])}
        if "args_schema" in config:
            review["args_schema"] = OutputSchema(config["args_schema"]).json_schema
        return _Gated(call, config, {"name": call["name"], "args": call["args"], "description": told}, review)


def _checked(name: str, given: Any) -> InterruptOnConfig | None:
    """What is asked about a tool; None where nothing is."""
    if isinstance(given, bool):
        return {"allowed_decisions": list(DECISIONS)} if given else None
    config: dict[str, Any] = dict(cast("Mapping[str, Any]", given)) if isinstance(given, Mapping) else {}
    allowed: Any = config.get("allowed_decisions")
    several: list[Any] = list(cast("list[Any]", allowed)) if isinstance(allowed, list | tuple) else []
    if not several or not all(one in DECISIONS for one in several):
        what = f"interrupt_on[{name!r}] is {shortened(cast('object', given))}"
        cure = f'Pass True, False, or {{"allowed_decisions": [...]}} with some of {", ".join(DECISIONS)}.'
        raise InvalidConfigError(what, cure=cure)
    if unknown := config.keys() - InterruptOnConfig.__annotations__.keys():
        what = f"interrupt_on[{name!r}] has the unknown keys {', '.join(sorted(unknown))}"
        raise InvalidConfigError(what, cure=f"Known are {', '.join(InterruptOnConfig.__annotations__)}.")
    return cast("InterruptOnConfig", config)


# --- asking ----------------------------------------------------------------------------------------------------------


def _batched(gated: list[_Gated]) -> list[Any]:
    request: HITLRequest = {
        "action_requests": [one.request for one in gated],
        "review_configs": [one.review for one in gated],
    }
    answer_type = several_of([one.said for one in gated], [one.answer_type for one in gated])
    return list(_ask(request, [one.call for one in gated], answer_type)["decisions"])


def _per_call(gated: list[_Gated]) -> list[Any]:
    """All are asked, whatever becomes of the first: so all are open, and every wrong answer is refused."""
    decisions: list[Any] = []
    refused: list[InvalidValueError] = []
    stopped: list[GraphInterrupt] = []
    for one in gated:
        request: ToolApprovalRequest = {
            "type": "tool_approval",
            "tool_call_id": one.call.get("id"),
            "action_request": one.request,
            "review_config": one.review,
        }
        try:
            decisions.append(_ask(request, [one.call], one.answer_type))
        except InvalidValueError as error:
            refused.append(error)
        except GraphInterrupt as stop:
            stopped.append(stop)
    for problem in (*refused, *stopped):
        raise problem
    return decisions


def _ask(request: Any, calls: list[Call], answer_type: Any) -> Any:
    """The answer to a question about these calls, and no others.

    The question is asked in a place named after them. An answer is only ever looked for in the place that asks: so one
    to other calls, which an edit of the state replaced, is not taken for it. (An answer to a question at the top of the
    node would be: there an edit may change the text of a question.)
    """
    told = CODEC.encode([[call.get("id"), call["name"], call["args"]] for call in calls])
    digest = blake2b(told, digest_size=16).hexdigest()
    token = INSIDE.set(take_place(Step(f"approval {digest}", _ASKING), (), {}))
    try:
        return interrupt(request, key=digest, response_schema=answer_type)
    finally:
        INSIDE.reset(token)


_ASKING = Body(interrupt)
