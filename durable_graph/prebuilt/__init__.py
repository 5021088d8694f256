"""Tools, the node that calls them, what stands around a model's tool calls, and `create_react_agent`.

Names are loaded when they are first used: messages and schemas need pydantic, which costs more than the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from durable_graph.lazy_names import lazy

if TYPE_CHECKING:
    from durable_graph.prebuilt.conditions import tools_condition
    from durable_graph.prebuilt.injection import (
        InjectedState,
        InjectedStore,
        InjectedToolArg,
        InjectedToolCallId,
        InjectionError,
        ToolRuntime,
    )
    from durable_graph.prebuilt.orphans import answer_orphans, distinct_calls
    from durable_graph.prebuilt.react import create_react_agent
    from durable_graph.prebuilt.react_state import (
        AgentState,
        AgentStatePydantic,
        AgentStateWithStructuredResponse,
        AgentStateWithStructuredResponsePydantic,
    )
    from durable_graph.prebuilt.tool_calls import ToolCallRequest
    from durable_graph.prebuilt.tool_errors import ToolInvocationError
    from durable_graph.prebuilt.tool_input import pending_calls
    from durable_graph.prebuilt.tool_node import ToolNode
    from durable_graph.prebuilt.tools import Tool, tool
    from durable_graph.prebuilt.validation_node import ValidationNode

__all__ = [
    "AgentState",
    "AgentStatePydantic",
    "AgentStateWithStructuredResponse",
    "AgentStateWithStructuredResponsePydantic",
    "InjectedState",
    "InjectedStore",
    "InjectedToolArg",
    "InjectedToolCallId",
    "InjectionError",
    "Tool",
    "ToolCallRequest",
    "ToolInvocationError",
    "ToolNode",
    "ToolRuntime",
    "ValidationNode",
    "answer_orphans",
    "create_react_agent",
    "distinct_calls",
    "pending_calls",
    "tool",
    "tools_condition",
]

_HOMES: Final[dict[str, str]] = {
    "AgentState": ".react_state",
    "AgentStatePydantic": ".react_state",
    "AgentStateWithStructuredResponse": ".react_state",
    "AgentStateWithStructuredResponsePydantic": ".react_state",
    "InjectedState": ".injection",
    "InjectedStore": ".injection",
    "InjectedToolArg": ".injection",
    "InjectedToolCallId": ".injection",
    "InjectionError": ".injection",
    "Tool": ".tools",
    "ToolCallRequest": ".tool_calls",
    "ToolInvocationError": ".tool_errors",
    "ToolNode": ".tool_node",
    "ToolRuntime": ".injection",
    "ValidationNode": ".validation_node",
    "answer_orphans": ".orphans",
    "create_react_agent": ".react",
    "distinct_calls": ".orphans",
    "pending_calls": ".tool_input",
    "tool": ".tools",
    "tools_condition": ".conditions",
}

__getattr__, __dir__ = lazy(globals(), _HOMES)
