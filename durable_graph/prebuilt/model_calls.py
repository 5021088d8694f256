"""What every agent does around one call of its model: which model it is, what it is told, and what becomes of its
answer.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Protocol

from durable_graph.errors import InvalidConfigError, InvalidValueError, shortened
from durable_graph.models.schema import tool_name
from durable_graph.prebuilt.families import is_ai, tool_message_like
from durable_graph.prebuilt.orphans import answer_orphans, distinct_calls, is_in_order, unreadable
from durable_graph.runtime import private_loop
from durable_graph.runtime.aio import in_thread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durable_graph.graph import StateGraph

__all__ = [
    "add_asking",
    "ainvoke",
    "bind",
    "chat_model",
    "invoke",
    "is_bound",
    "is_langchain",
    "mends",
    "sent",
    "signed",
    "taken",
]


class Asking(Protocol):
    """What asks a model as a node. only_async: it has no sync form."""

    @property
    def only_async(self) -> bool: ...
    def ask(self, state: Any, runtime: Any) -> Any: ...
    async def aask(self, state: Any, runtime: Any) -> Any: ...


def add_asking(graph: StateGraph[Any, Any, Any, Any], name: str, node: Asking, input_schema: Any = None) -> None:
    """Add a node that asks a model, with the forms that it has."""
    if node.only_async:
        graph.add_node(name, node.aask, input_schema=input_schema)
    else:
        graph.add_node(name, node.ask, afunc=node.aask, input_schema=input_schema)


def chat_model(model: Any) -> Any:
    """The model that was meant: an object as it is, "provider:model" through `init_chat_model`.

    Raises:
        InvalidConfigError: it is none, or the name cannot be used.
    """
    if isinstance(model, str):
        from durable_graph.models import init_chat_model

        return init_chat_model(model)
    if not hasattr(model, "invoke") and not hasattr(model, "ainvoke"):
        raise InvalidConfigError(
            f"model is {shortened(model)}, which is no chat model",
            cure='Pass "provider:model", or an object with invoke() and bind_tools().',
        )
    return model


def is_bound(model: Any, tools: Sequence[Any]) -> bool:
    """Whether a model comes with its tools, which are then just these.

    Raises:
        InvalidConfigError: it comes with others.
    """
    kept: Any = getattr(model, "tools", None) if _is_ours(model) else getattr(model, "kwargs", {}).get("tools")
    if not kept:
        return False
    found, wanted = _names(kept), _names(tools)
    if found != wanted:
        raise InvalidConfigError(
            f"the model was bound to the tools {found}, and the agent has {wanted}",
            cure="Bind the same tools, or pass the model unbound: the agent binds them itself.",
        )
    return True


def bind(model: Any, tools: Sequence[Any], **options: Any) -> Any:
    """The model with these tools.

    Raises:
        InvalidConfigError: it can have none.
    """
    if not tools:
        return model
    if not hasattr(model, "bind_tools"):
        raise InvalidConfigError(
            f"model {shortened(model)} has no bind_tools(), and the agent has the tools {_names(tools)}",
            cure="Use a chat model that can call tools, or pass no tools.",
        )
    return model.bind_tools(list(tools), **options)


def _names(tools: Sequence[Any]) -> list[str]:
    return sorted(str(tool_name(tool) or tool) for tool in tools)


def _is_ours(model: Any) -> bool:
    return type(model).__module__.startswith("durable_graph.")


def is_langchain(model: Any) -> bool:
    """Whether a model is one of LangChain's, or made of one."""
    runnables = sys.modules.get("langchain_core.runnables")
    return runnables is not None and isinstance(model, runnables.Runnable)


def sent(model: Any, system: Any, messages: Sequence[Any]) -> list[Any]:
    """What is sent to a model: the system message, if there is one, and a history without orphans; LangChain's models
    get LangChain's messages.
    """
    told = answer_orphans(messages)
    if system is not None:
        told.insert(0, system)
    if is_langchain(model):
        from durable_graph.messages.coercion import as_langchain

        return [as_langchain(message) for message in told]
    return told


def mends(messages: Sequence[Any]) -> list[Any]:
    """The update that brings a stored history into the order in which models want it: every tool call has exactly one
    result, right behind it. Empty for a history that is in order, which is nearly always.
    """
    if is_in_order(messages):
        return []
    from durable_graph.messages import REMOVE_ALL_MESSAGES, RemoveMessage

    return [RemoveMessage(REMOVE_ALL_MESSAGES), *answer_orphans(messages)]


def signed(message: Any, name: str | None = None) -> Any:
    """A model's answer as it is stored: signed with the agent's `name`, and each call with an id of its own.

    Raises:
        InvalidValueError: it is no message of a model.
    """
    if not is_ai(message):
        raise InvalidValueError(
            f"the model answered with {shortened(message)}, which is no AI message",
            cure="Use a chat model; the last step of a chain must not turn its answer into text.",
        )
    message = distinct_calls(message)
    if name is not None and message.name != name:
        message = message.model_copy(update={"name": name})
    return message


def taken(message: Any, name: str | None = None) -> list[Any]:
    """A model's answer, `signed`; and, for each call in it that cannot be read, what says so.

    Raises:
        InvalidValueError: it is no message of a model.
    """
    message = signed(message, name)
    family = tool_message_like(message)
    return [message, *(unreadable(call, family) for call in getattr(message, "invalid_tool_calls", None) or ())]


def invoke(model: Any, told: Any, **options: Any) -> Any:
    """Ask a model that may have no sync form."""
    if hasattr(model, "invoke"):
        return model.invoke(told, **options)
    private_loop.check_no_loop_here("model")
    return private_loop.run(model.ainvoke(told, **options))


async def ainvoke(model: Any, told: Any, **options: Any) -> Any:
    """Ask a model that may have no async form."""
    if hasattr(model, "ainvoke"):
        return await model.ainvoke(told, **options)
    return await in_thread(lambda: model.invoke(told, **options))
