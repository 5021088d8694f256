"""What middleware is: hooks around an agent, its model and its tools."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeAlias

from typing_extensions import TypeVar

from durable_graph.agents.state import AgentState
from durable_graph.errors import InvalidConfigError
from durable_graph.messages.content import text_of
from durable_graph.messages.models import SystemMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from durable_graph.prebuilt.tool_calls import ToolCallRequest
    from durable_graph.runtime.context import Runtime
    from durable_graph.types import Command

__all__ = [
    "AgentMiddleware",
    "ExtendedModelResponse",
    "JumpTo",
    "ModelCallResult",
    "ModelRequest",
    "ModelResponse",
]

StateT = TypeVar("StateT", default=AgentState)
ContextT = TypeVar("ContextT", default=Any)

JumpTo: TypeAlias = Literal["model", "tools", "end"]
"""Where a hook can send the run, with `jump_to` in its update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest(Generic[ContextT]):
    """A call of the model that is about to be made, as `wrap_model_call` sees it. Change it with `override`.

    model: the chat model.   messages: the history, without the system message.   system_message: None for none.
    tools: those the model may call: the agent's, and dicts for what a provider runs itself.   tool_choice: None,
    "auto", "any", "none", or a tool's name.   response_format: the strategy for structured output.   state: the
    agent's.   runtime: the node's.   model_settings: options of the call, such as temperature.
    """

    model: Any
    messages: list[Any]
    system_message: Any = None
    tools: list[Any] = field(default_factory=list[Any])
    tool_choice: Any = None
    response_format: Any = None
    state: Any = None
    runtime: Runtime[ContextT] = field(default=None)  # type: ignore[assignment] # pyright: ignore[reportAssignmentType] - set by the agent
    model_settings: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def system_prompt(self) -> str | None:
        """The text of the system message."""
        return None if self.system_message is None else text_of(self.system_message.content)

    def override(self, **changes: Any) -> ModelRequest[ContextT]:
        """A copy with other fields. `system_prompt=` is short for a system message of that text.

        Raises:
            InvalidConfigError: both `system_prompt` and `system_message` are given.
            TypeError: there is no such field.
        """
        if "system_prompt" in changes:
            if "system_message" in changes:
                what = "a ModelRequest was to have both a system_prompt and a system_message"
                raise InvalidConfigError(what, cure="Pass one of them.")
            changes["system_message"] = as_system(changes.pop("system_prompt"))
        return replace(self, **changes)


def as_system(prompt: Any) -> Any:
    """A system message of a text; a message, or None, as it is.

    Raises:
        InvalidConfigError: it is something else.
    """
    if isinstance(prompt, str):
        return SystemMessage(prompt)
    if prompt is None or getattr(prompt, "type", None) == "system":
        return prompt
    what = f"system_prompt is a {type(prompt).__name__}, expected a str or a SystemMessage"
    raise InvalidConfigError(what, cure="For a prompt that depends on the state use @dynamic_prompt.")


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """What came of a call of the model.

    result: the model's message, and what answers calls in it that no tool runs (those of structured output, and those
    that cannot be read).   structured_response: the value of structured output, if it came.   commands: what wrappers
    further inside return beside it.
    """

    result: list[Any]
    structured_response: Any = None
    commands: tuple[Command[Any], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class ExtendedModelResponse:
    """A response with a Command beside it. The Command may update the state; it cannot say where to go."""

    model_response: ModelResponse
    command: Command[Any] | None = None


ModelCallResult: TypeAlias = "ModelResponse | ExtendedModelResponse | Any"
"""What `wrap_model_call` may return: a response, or the model's message."""


class AgentMiddleware(Generic[StateT, ContextT]):
    """Hooks around an agent. Override those you need; each has an async twin with an `a` before its name.

        class Log(AgentMiddleware):
            def before_model(self, state, runtime):
                print(len(state["messages"]))

    `before_*` and `after_*` are nodes of the graph: what they return is an update of the state, or None. They see the
    state and the runtime. To leave the usual way they put "jump_to" ("model", "tools" or "end") into the update, and
    `hook_config(can_jump_to=[...])` above the hook. `wrap_*` are called around each call of the model or of a tool, and
    may change it, repeat it, or answer themselves. The first middleware of an agent is the outermost.

    A hook with one of its two forms serves both faces: a sync one runs in an OS thread under asyncio, an async one on a
    loop of the library's own under `invoke`.

    state_schema: keys the state is to have, a TypedDict derived from AgentState.   tools: more tools for the agent.
    """

    state_schema: ClassVar[Any] = AgentState
    tools: Sequence[Any] = ()

    @property
    def name(self) -> str:
        """Comes before the names of its nodes; the class's by default."""
        return type(self).__name__

    def before_agent(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | Command[Any] | None:
        """Once, before all else."""

    async def abefore_agent(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | Command[Any] | None:
        """Async `before_agent`."""

    def before_model(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | Command[Any] | None:
        """Before each call of the model."""

    async def abefore_model(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | Command[Any] | None:
        """Async `before_model`."""

    def after_model(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | Command[Any] | None:
        """After each call of the model, before its tools. The last middleware's comes first."""

    async def aafter_model(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | Command[Any] | None:
        """Async `after_model`."""

    def after_agent(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | Command[Any] | None:
        """Once, when all else is over. The last middleware's comes first."""

    async def aafter_agent(self, state: StateT, runtime: Runtime[ContextT]) -> dict[str, Any] | Command[Any] | None:
        """Async `after_agent`."""

    def wrap_model_call(
        self, request: ModelRequest[ContextT], handler: Callable[[ModelRequest[ContextT]], ModelResponse]
    ) -> ModelCallResult:
        """Around each call of the model: `handler(request)` makes it."""
        raise NotImplementedError

    async def awrap_model_call(
        self, request: ModelRequest[ContextT], handler: Callable[[ModelRequest[ContextT]], Awaitable[ModelResponse]]
    ) -> ModelCallResult:
        """Async `wrap_model_call`."""
        raise NotImplementedError

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Around each call of a tool: `handler(request)` makes it, and gives a ToolMessage or a Command."""
        raise NotImplementedError

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Async `wrap_tool_call`."""
        raise NotImplementedError


def own(middleware: AgentMiddleware[Any, Any], hook: str) -> Any:
    """A hook that the middleware itself brings; None where it is the base's, which does nothing."""
    found = getattr(middleware, hook)
    return None if getattr(type(middleware), hook) is getattr(AgentMiddleware, hook) else found


def can_jump_to(middleware: AgentMiddleware[Any, Any], hook: str) -> tuple[JumpTo, ...]:
    """Where a hook, in either form, says that it may jump."""
    found: list[JumpTo] = []
    for name in (hook, f"a{hook}"):
        found += getattr(getattr(type(middleware), name), "__can_jump_to__", ())
    return tuple(dict.fromkeys(found))
