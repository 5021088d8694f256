"""`ToolCallLimitMiddleware`: how often tools may be called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NotRequired

from typing_extensions import override

from durable_graph.agents.middleware.base import AgentMiddleware
from durable_graph.agents.middleware.decorators import hook_config
from durable_graph.agents.middleware.limits import LimitExceededError, Limits
from durable_graph.agents.state import AgentState, PrivateStateAttr
from durable_graph.persistence.isolation import peek
from durable_graph.prebuilt.families import message_like, tool_message_like
from durable_graph.prebuilt.results import Answer
from durable_graph.prebuilt.tool_input import last_ai, pending_calls

if TYPE_CHECKING:
    from durable_graph.runtime.context import Runtime

__all__ = ["ToolCallLimitExceededError", "ToolCallLimitMiddleware", "ToolCallLimitState"]


class ToolCallLimitExceededError(LimitExceededError):
    """The model asks for more calls of tools than there may be; those it asks for are not in the counts.

    tool_name: of which tool; None: of all together.
    """

    code = "DG314"
    tool_name: str | None = None


class ToolCallLimitState(AgentState[Any]):
    """The counts of all `ToolCallLimitMiddleware`s, by the tool's name; under "__all__" of all tools together."""

    thread_tool_call_count: NotRequired[Annotated[dict[str, int], PrivateStateAttr]]
    run_tool_call_count: NotRequired[Annotated[dict[str, int], PrivateStateAttr]]


_ALL: Final = "__all__"


class ToolCallLimitMiddleware(AgentMiddleware[Any, Any]):
    """Lets the model make so many calls of tools, and no more.

    Of the calls in one message the first ones count. What is answered already when this middleware looks at the message
    (a human rejected it, say) does not count; hooks of later middleware look first.

    Args:
        tool_name: only calls of this tool count; None: calls of all tools together.
        thread_limit: calls in all runs of the thread.   run_limit: calls in one run.
        exit_behavior: what becomes of calls above the limit. "continue": the model is told that they were not made, and
            all others are made. "end": the run ends with a message that says why, and no call of this message is made.
            "error": it raises.

    Raises:
        InvalidConfigError: an argument is wrong.
        ToolCallLimitExceededError: (the agent) with exit_behavior="error".
    """

    state_schema = ToolCallLimitState

    def __init__(
        self,
        *,
        tool_name: str | None = None,
        thread_limit: int | None = None,
        run_limit: int | None = None,
        exit_behavior: Literal["continue", "end", "error"] = "continue",
    ) -> None:
        self._limits = Limits.of(thread_limit, run_limit, exit_behavior, ("continue", "end", "error"))
        self.tool_name = tool_name
        self.exit_behavior = exit_behavior
        self._key = tool_name or _ALL

    @property
    @override
    def name(self) -> str:
        """With the tool's name, so that each tool may have a limit of its own."""
        own = type(self).__name__
        return own if self.tool_name is None else f"{own}[{self.tool_name}]"

    @override
    def before_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        """A run starts at 0."""
        return {"run_tool_call_count": {**state.get("run_tool_call_count", {}), self._key: 0}}

    @hook_config(can_jump_to=["end"])
    @override
    def after_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any] | None:
        """Count the calls that are going to be made, and answer those above the limit."""
        messages = peek(state, "messages")
        pending = pending_calls(messages)
        asked = [call for call in pending if self.tool_name in (None, call["name"])]
        if not asked:
            return None
        counts = [state.get(f"{span}_tool_call_count", {}) for span in ("thread", "run")]
        thread, run = (count.get(self._key, 0) for count in counts)
        over = asked[self._limits.left(thread, run) :]
        if over and self.exit_behavior != "continue":
            return self._leave(messages, pending, over, runtime, thread, run)
        made = len(asked) - len(over)
        update: dict[str, Any] = {
            "thread_tool_call_count": {**counts[0], self._key: thread + made},
            "run_tool_call_count": {**counts[1], self._key: run + made},
        }
        if over:
            again = "tools" if self.tool_name is None else repr(self.tool_name)
            update["messages"] = _answers(messages, over, f"this call was not made. Do not call {again} again")
        return update

    def _leave(
        self, messages: list[Any], pending: list[Any], over: list[Any], runtime: Any, thread: int, run: int
    ) -> dict[str, Any]:
        what = "tools" if self.tool_name is None else f"tool {self.tool_name!r}"
        told = f"calls of {what}: {self._limits.told(thread, run)}, and {len(over)} above it"
        if self.exit_behavior == "error":
            error = ToolCallLimitExceededError.at(runtime, told, self._limits, thread, run)
            error.tool_name = self.tool_name
            raise error
        answers = _answers(messages, pending, "this call was not made, and the run ends")
        said = message_like(messages[-1], "AIMessage")(content=f"No more {told}.")
        return {"messages": [*answers, said], "jump_to": "end"}


def _answers(messages: list[Any], calls: list[Any], text: str) -> list[Any]:
    family = tool_message_like(last_ai(messages))
    said = f"Error: the limit on calls of tools is reached; {text}."
    return [Answer(call, call["name"], family, key="messages").message(said, error=True) for call in calls]
