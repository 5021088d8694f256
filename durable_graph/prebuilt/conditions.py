"""`tools_condition`: the router between a model and its tools."""

from __future__ import annotations

from typing import Any, Literal

from durable_graph.errors import InvalidValueError, shortened
from durable_graph.prebuilt.families import calls_of
from durable_graph.prebuilt.tool_input import messages_in

__all__ = ["tools_condition"]


def tools_condition(state: Any, messages_key: str = "messages") -> Literal["tools", "__end__"]:
    """Where to go after a model: to "tools" when its message, the last one, calls any; else to the end.

    state: a dict or object with messages under `messages_key`, or a list of messages.

    Raises:
        InvalidValueError: there are no messages.
    """
    messages = messages_in(state, messages_key)
    if not messages:
        what = f"tools_condition found no messages in {shortened(state)}"
        raise InvalidValueError(what, cure="Run a model before, or name the key with messages_key=.")
    return "tools" if calls_of(messages[-1]) else "__end__"
