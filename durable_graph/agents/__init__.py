"""Agents: a model that answers, tools that do what it asks for, and middleware around both.

    from durable_graph.agents import create_agent
    agent = create_agent("openai:gpt-5-mini", [search], checkpointer="sqlite:///runs.db")

Middleware is in `durable_graph.agents.middleware`, structured output in `durable_graph.agents.structured_output`.
Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from durable_graph.lazy_names import lazy

if TYPE_CHECKING:
    from durable_graph.agents.factory import create_agent
    from durable_graph.agents.state import AgentState

__all__ = ["AgentState", "create_agent"]

_HOMES: Final[dict[str, str]] = {"AgentState": ".state", "create_agent": ".factory"}

__getattr__, __dir__ = lazy(globals(), _HOMES)
