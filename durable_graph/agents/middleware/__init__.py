"""Middleware: hooks around an agent, its model and its tools; some are ready-made.

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from durable_graph.lazy_names import lazy

if TYPE_CHECKING:
    from durable_graph.agents.middleware.approval import HumanInTheLoopMiddleware, InterruptOnConfig
    from durable_graph.agents.middleware.base import (
        AgentMiddleware,
        ExtendedModelResponse,
        JumpTo,
        ModelCallResult,
        ModelRequest,
        ModelResponse,
    )
    from durable_graph.agents.middleware.decisions import DecisionType, HITLRequest, HITLResponse, ToolApprovalRequest
    from durable_graph.agents.middleware.decorators import (
        after_agent,
        after_model,
        before_agent,
        before_model,
        dynamic_prompt,
        hook_config,
        wrap_model_call,
        wrap_tool_call,
    )
    from durable_graph.agents.middleware.fallback import ModelFallbackMiddleware
    from durable_graph.agents.middleware.model_call_limit import ModelCallLimitExceededError, ModelCallLimitMiddleware
    from durable_graph.agents.middleware.retries import ModelRetryMiddleware, ToolRetryMiddleware
    from durable_graph.agents.middleware.summarization import SummarizationMiddleware
    from durable_graph.agents.middleware.tool_call_limit import ToolCallLimitExceededError, ToolCallLimitMiddleware
    from durable_graph.agents.state import (
        AgentState,
        InputAgentState,
        OmitFromInput,
        OmitFromOutput,
        OmitFromSchema,
        OutputAgentState,
        PrivateStateAttr,
    )
    from durable_graph.prebuilt.tool_calls import ToolCallRequest

__all__ = [
    "AgentMiddleware",
    "AgentState",
    "DecisionType",
    "ExtendedModelResponse",
    "HITLRequest",
    "HITLResponse",
    "HumanInTheLoopMiddleware",
    "InputAgentState",
    "InterruptOnConfig",
    "JumpTo",
    "ModelCallLimitExceededError",
    "ModelCallLimitMiddleware",
    "ModelCallResult",
    "ModelFallbackMiddleware",
    "ModelRequest",
    "ModelResponse",
    "ModelRetryMiddleware",
    "OmitFromInput",
    "OmitFromOutput",
    "OmitFromSchema",
    "OutputAgentState",
    "PrivateStateAttr",
    "SummarizationMiddleware",
    "ToolApprovalRequest",
    "ToolCallLimitExceededError",
    "ToolCallLimitMiddleware",
    "ToolCallRequest",
    "ToolRetryMiddleware",
    "after_agent",
    "after_model",
    "before_agent",
    "before_model",
    "dynamic_prompt",
    "hook_config",
    "wrap_model_call",
    "wrap_tool_call",
]

_HOMES: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("AgentMiddleware", "ExtendedModelResponse", "JumpTo", "ModelCallResult", "ModelRequest", "ModelResponse"),
        ".base",
    ),
    **dict.fromkeys(
        (
            "AgentState",
            "InputAgentState",
            "OmitFromInput",
            "OmitFromOutput",
            "OmitFromSchema",
            "OutputAgentState",
            "PrivateStateAttr",
        ),
        "..state",
    ),
    **dict.fromkeys(("HumanInTheLoopMiddleware", "InterruptOnConfig"), ".approval"),
    **dict.fromkeys(("DecisionType", "HITLRequest", "HITLResponse", "ToolApprovalRequest"), ".decisions"),
    "ModelFallbackMiddleware": ".fallback",
    **dict.fromkeys(("ModelCallLimitExceededError", "ModelCallLimitMiddleware"), ".model_call_limit"),
    **dict.fromkeys(("ModelRetryMiddleware", "ToolRetryMiddleware"), ".retries"),
    "SummarizationMiddleware": ".summarization",
    **dict.fromkeys(("ToolCallLimitExceededError", "ToolCallLimitMiddleware"), ".tool_call_limit"),
    "ToolCallRequest": "durable_graph.prebuilt.tool_calls",
    **dict.fromkeys(
        (
            "after_agent",
            "after_model",
            "before_agent",
            "before_model",
            "dynamic_prompt",
            "hook_config",
            "wrap_model_call",
            "wrap_tool_call",
        ),
        ".decorators",
    ),
}

__getattr__, __dir__ = lazy(globals(), _HOMES)
