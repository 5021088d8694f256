"""`ModelCallLimitMiddleware`: how often the model may be called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from typing_extensions import override

from durable_graph.agents.middleware.base import AgentMiddleware
from durable_graph.agents.middleware.decorators import hook_config
from durable_graph.agents.middleware.limits import LimitExceededError, Limits
from durable_graph.agents.state import AgentState, PrivateStateAttr
from durable_graph.persistence.isolation import peek
from durable_graph.prebuilt.families import message_like
from durable_graph.prebuilt.model_calls import mends

if TYPE_CHECKING:
    from durable_graph.runtime.context import Runtime

__all__ = ["ModelCallLimitExceededError", "ModelCallLimitMiddleware", "ModelCallLimitState"]


class ModelCallLimitExceededError(LimitExceededError):
    """The model was called as often as it may be."""

    code = "DG313"


class ModelCallLimitState(AgentState[Any]):
    """The counts of `ModelCallLimitMiddleware`."""

    thread_model_call_count: NotRequired[Annotated[int, PrivateStateAttr]]
    run_model_call_count: NotRequired[Annotated[int, PrivateStateAttr]]


class ModelCallLimitMiddleware(AgentMiddleware[Any, Any]):
    """Ends a run whose model was called too often.

    A turn of the model is counted before it begins; that a wrapper calls it again (`ModelRetryMiddleware`) is not.

    Args:
        thread_limit: calls in all runs of the thread.   run_limit: calls in one run.
        exit_behavior: "end": the run ends with a message that says why. "error": it raises.

    Raises:
        InvalidConfigError: an argument is wrong.
        ModelCallLimitExceededError: (the agent) with exit_behavior="error".
    """

    state_schema = ModelCallLimitState

    def __init__(
        self,
        *,
        thread_limit: int | None = None,
        run_limit: int | None = None,
        exit_behavior: Literal["end", "error"] = "end",
    ) -> None:
        self._limits = Limits.of(thread_limit, run_limit, exit_behavior, ("end", "error"))
        self.exit_behavior = exit_behavior

    @override
    def before_agent(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        """A run starts at 0."""
        return {"run_model_call_count": 0}

    @hook_config(can_jump_to=["end"])
    @override
    def before_model(self, state: Any, runtime: Runtime[Any]) -> dict[str, Any]:
        """Count, or end."""
        thread, run = state.get("thread_model_call_count", 0), state.get("run_model_call_count", 0)
        if self._limits.left(thread, run) != 0:
            return {"thread_model_call_count": thread + 1, "run_model_call_count": run + 1}
        told = f"calls of the model: {self._limits.told(thread, run)}"
        if self.exit_behavior == "error":
            raise ModelCallLimitExceededError.at(runtime, told, self._limits, thread, run)
        messages = peek(state, "messages")
        said = message_like(messages[-1] if messages else None, "AIMessage")(content=f"No more {told}.")
        return {"messages": [*mends(messages), said], "jump_to": "end"}
