"""`ModelFallbackMiddleware`: other models, where one fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import override

from durable_graph.agents.middleware.base import AgentMiddleware
from durable_graph.agents.middleware.retries import passes
from durable_graph.prebuilt.model_calls import chat_model

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from durable_graph.agents.middleware.base import ModelRequest, ModelResponse

__all__ = ["ModelFallbackMiddleware"]


class ModelFallbackMiddleware(AgentMiddleware[Any, Any]):
    """Asks other models, one after the other, when the agent's fails.

        ModelFallbackMiddleware("anthropic:claude-haiku-4-5", "openai:gpt-5-mini")

    Each turn starts with the agent's model. When all fail, the last one's exception is raised; its notes tell of the
    others. What always passes: see `durable_graph.agents.middleware.retries`.

    Args:
        first_model, additional_models: "provider:model", or chat models.

    Raises:
        InvalidConfigError: one is no chat model.
    """

    def __init__(self, first_model: Any, *additional_models: Any) -> None:
        self.models = [chat_model(model) for model in (first_model, *additional_models)]

    @override
    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[Any], ModelResponse]) -> Any:
        """Ask, and ask others."""
        failed: list[tuple[Any, Exception]] = []
        for model in (request.model, *self.models):
            try:
                return handler(request.override(model=model))
            except Exception as error:
                if passes(error):
                    raise
                failed.append((model, error))
        raise _last(failed)

    @override
    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[Any], Awaitable[ModelResponse]]
    ) -> Any:
        """Async `wrap_model_call`."""
        failed: list[tuple[Any, Exception]] = []
        for model in (request.model, *self.models):
            try:
                return await handler(request.override(model=model))
            except Exception as error:
                if passes(error):
                    raise
                failed.append((model, error))
        raise _last(failed)


def _last(failed: list[tuple[Any, Exception]]) -> Exception:
    """The last exception, with those before it as notes."""
    *others, (_, last) = failed
    for model, error in others:
        last.add_note(f"Before it, model {_named(model)} failed with {error!r}.")
    return last


def _named(model: Any) -> str:
    return str(getattr(model, "name", None) or getattr(model, "model_name", None) or type(model).__name__)
