"""Chat models: what one is, a scripted one, and those of providers.

    from durable_graph.models import ScriptedChatModel, init_chat_model
    model = init_chat_model("openai:gpt-5-mini")                              # pip install durable-graph[models]
    model = init_chat_model("llama3", base_url="http://localhost:8000/v1")    # any server that speaks OpenAI's protocol
    model = ScriptedChatModel(["first answer", "second answer"])

LangChain's chat models are models as they are. Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from durable_graph.lazy_names import lazy

if TYPE_CHECKING:
    from durable_graph.models.base import ChatModelBase
    from durable_graph.models.protocol import ChatModel
    from durable_graph.models.providers import ProviderChatModel, init_chat_model
    from durable_graph.models.schema import tool_choice_of, tool_schema
    from durable_graph.models.scripted import ModelCall, ScriptedChatModel
    from durable_graph.models.streaming import emit_token
    from durable_graph.models.usage import usage_of

__all__ = [
    "ChatModel",
    "ChatModelBase",
    "ModelCall",
    "ProviderChatModel",
    "ScriptedChatModel",
    "emit_token",
    "init_chat_model",
    "tool_choice_of",
    "tool_schema",
    "usage_of",
]

_HOMES: Final[dict[str, str]] = {
    "ChatModel": ".protocol",
    "ChatModelBase": ".base",
    "ModelCall": ".scripted",
    "ProviderChatModel": ".providers",
    "ScriptedChatModel": ".scripted",
    "emit_token": ".streaming",
    "init_chat_model": ".providers",
    "tool_choice_of": ".schema",
    "tool_schema": ".schema",
    "usage_of": ".usage",
}

__getattr__, __dir__ = lazy(globals(), _HOMES)
