"""The node that asks the model: what it is asked, through which wrappers, and what becomes of the answer."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from durable_graph.agents.middleware.base import ExtendedModelResponse, ModelRequest, ModelResponse, as_system
from durable_graph.agents.routing import JUMPS, check_jump, written
from durable_graph.agents.wrapping import wrapper_of
from durable_graph.errors import InvalidConfigError, InvalidUpdateError, shortened
from durable_graph.messages.content import text_of
from durable_graph.models.schema import tool_name
from durable_graph.persistence.isolation import peek
from durable_graph.prebuilt.families import calls_of, is_ai, is_message, tool_message_like
from durable_graph.prebuilt.model_calls import (
    ainvoke,
    bind,
    chat_model,
    invoke,
    is_bound,
    mends,
    sent,
    signed,
    taken,
)
from durable_graph.prebuilt.structured_answers import read_answer
from durable_graph.prebuilt.structured_output import ProviderStrategy, ToolStrategy, as_strategy, settled
from durable_graph.prebuilt.tool_errors import unknown_tool
from durable_graph.types import MISSING, Command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durable_graph.agents.middleware.base import AgentMiddleware
    from durable_graph.runtime.context import Runtime

__all__ = ["ModelNode"]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A model that is ready to be asked. told: the messages.   options: of the call.   strategy: for its answer."""

    model: Any
    told: list[Any]
    options: dict[str, Any]
    strategy: ToolStrategy[Any] | ProviderStrategy[Any] | None


class ModelNode:
    """Asks the model.

    tools: those it may call.   known: names of those that the agent's ToolNode runs; None when wrappers may run any.
    """

    def __init__(
        self,
        model: Any,
        tools: list[Any],
        *,
        known: frozenset[str] | None,
        system: Any,
        response_format: Any,
        middleware: Sequence[AgentMiddleware[Any, Any]],
        name: str | None,
    ) -> None:
        self._model = chat_model(model)
        self._tools = tools
        self._known = known
        self._system = as_system(system)
        self._strategy = as_strategy(response_format)
        self._name = name
        self._prebound = is_bound(self._model, tools)
        self._wrapper = wrapper_of(middleware, "wrap_model_call", self._read)

    @property
    def only_async(self) -> bool:
        """Whether the model, or a wrapper around it, has no sync form."""
        return not hasattr(self._model, "invoke") or (self._wrapper is not None and self._wrapper.sync is None)

    def ask(self, state: Any, runtime: Runtime[Any]) -> Any:
        """One turn of the model: an update of the state."""
        request = self._request(state, runtime)
        if self._wrapper is None:
            return self._update(state, self._call(request))
        assert self._wrapper.sync is not None  # noqa: S101 - else `aask` is the node; this tells the type checker
        return self._update(state, self._wrapper.sync(request, self._call))

    async def aask(self, state: Any, runtime: Runtime[Any]) -> Any:
        """Async `ask`."""
        request = self._request(state, runtime)
        if self._wrapper is None:
            return self._update(state, await self._acall(request))
        return self._update(state, await self._wrapper.asyn(request, self._acall))

    # --- one call ----------------------------------------------------------------------------------------------------

    def _call(self, request: ModelRequest[Any]) -> ModelResponse:
        asked = self._asked(request)
        return self._response(asked.strategy, invoke(asked.model, asked.told, **asked.options), request)

    async def _acall(self, request: ModelRequest[Any]) -> ModelResponse:
        asked = self._asked(request)
        return self._response(asked.strategy, await ainvoke(asked.model, asked.told, **asked.options), request)

    def _request(self, state: Any, runtime: Runtime[Any]) -> ModelRequest[Any]:
        return ModelRequest(
            model=self._model,
            messages=list(state["messages"]),
            system_message=self._system,
            tools=list(self._tools),
            response_format=self._strategy,
            state=state,
            runtime=runtime,
        )

    def _asked(self, request: ModelRequest[Any]) -> _Asked:
        self._check_tools(request.tools)
        model = chat_model(request.model)
        strategy: Any = settled(as_strategy(request.response_format), model)
        options = dict(request.model_settings)
        tools, choice = [*request.tools], request.tool_choice
        if isinstance(strategy, ToolStrategy):
            tools += [schema.tool for schema in cast("ToolStrategy[Any]", strategy).schemas]
            choice = choice or "any"
        elif strategy is not None:
            options["response_format"] = strategy.response_format
        if not (self._prebound and model is self._model and tools == self._tools and choice is None):
            model = bind(model, tools, **({} if choice is None else {"tool_choice": choice}))
        told = sent(model, request.system_message, request.messages)
        return _Asked(model, told, options, cast("Any", strategy))

    def _check_tools(self, tools: Sequence[Any]) -> None:
        if self._known is None:
            return
        for tool in tools:
            name = tool_name(tool)
            if not isinstance(tool, dict) and name not in self._known:
                raise InvalidConfigError(
                    f"a wrap_model_call offers the model the tool {name!r}, which the agent does not have",
                    cure="Give it to create_agent(tools=...) or to the middleware's `tools`, or run it in a "
                    "wrap_tool_call.",
                )

    def _response(self, strategy: Any, answer: Any, request: ModelRequest[Any]) -> ModelResponse:
        message, *unread = taken(answer, self._name)
        value, follow = None, list[Any]()
        if strategy is not None and (calls_of(message) or not unread):
            # Failures are counted in the history that is stored: a wrapper may show the model less of it.
            before = request.messages if request.state is None else peek(request.state, "messages")
            value, follow = read_answer(strategy, message, before)
        return ModelResponse([message, *follow, *self._refused(strategy, message, follow), *unread], value)

    def _refused(self, strategy: Any, message: Any, answered: Sequence[Any]) -> list[Any]:
        """Results of calls of tools where there is none: no node would answer them."""
        if self._known is None or self._known:
            return []
        schemas = cast("ToolStrategy[Any]", strategy).schemas if isinstance(strategy, ToolStrategy) else ()
        names = [one.name for one in schemas]
        done = {getattr(one, "tool_call_id", None) for one in answered}
        family = tool_message_like(message)
        return [
            family(content=unknown_tool(one["name"], names), name=one["name"], tool_call_id=one["id"], status="error")
            for one in calls_of(message)
            if one["id"] not in done
        ]

    # --- what wrappers return ----------------------------------------------------------------------------------------

    def _read(self, answer: Any, given: Sequence[ModelResponse | None], request: ModelRequest[Any]) -> ModelResponse:
        """A wrapper's answer as a response. given: what its handler gave it.

        With it go the Commands of wrappers further inside: those of the response it is, or of the last attempt where
        the wrapper made it itself.

        Raises:
            InvalidUpdateError: it is none, or its Command says where to go.
        """
        said: tuple[Command[Any], ...] = ()
        if isinstance(answer, ExtendedModelResponse):
            said = _checked(answer.command)
            answer = answer.model_response
        for one in given:
            if one is not None and one.result and answer is one.result[0]:
                answer = one  # the model's message alone: all of its response is meant
        if isinstance(answer, ModelResponse) and any(answer is one for one in given):
            return replace(answer, commands=(*answer.commands, *said)) if said else answer
        inner = given[-1].commands if given and given[-1] is not None else ()
        if isinstance(answer, ModelResponse):
            return replace(answer, result=self._made(answer.result), commands=(*(answer.commands or inner), *said))
        if is_ai(answer):
            return replace(self._own(answer, request), commands=(*inner, *said))
        what = f"a wrap_model_call returned {shortened(answer)}, expected a ModelResponse or an AI message"
        raise InvalidUpdateError(what, cure="Return what handler(request) gave, or a message of your own.")

    def _own(self, message: Any, request: ModelRequest[Any]) -> ModelResponse:
        """The response of a message that a wrapper made, or kept: calls in it are read as those of the model; a text
        that does not fit is what the wrapper has to say.
        """
        strategy: Any = settled(as_strategy(request.response_format), chat_model(request.model))
        if calls_of(message):
            return self._response(strategy, message, request)
        value = None
        if isinstance(strategy, ProviderStrategy):
            with suppress(ValueError):
                value = cast("ProviderStrategy[Any]", strategy).read(text_of(message.content))
        return ModelResponse(taken(message, self._name), value)

    def _made(self, result: Any) -> list[Any]:
        """The messages of a response that a wrapper made."""
        messages = cast("list[Any]", result) if isinstance(result, list) else [None]
        if not all(is_message(one) for one in messages):
            found = shortened(cast("object", result))
            what = f"a wrap_model_call returned a ModelResponse of {found}, expected a list of messages"
            raise InvalidUpdateError(what, cure="Write ModelResponse([message]).")
        return [signed(one, self._name) if is_ai(one) else one for one in messages]

    def _update(self, state: Any, response: ModelResponse) -> Any:
        update: dict[str, Any] = {"messages": [*mends(peek(state, "messages")), *response.result]}
        if (
            self._strategy is not None
            or response.structured_response is not None
            or peek(state, "structured_response") is not None
        ):
            update["structured_response"] = response.structured_response
        if peek(state, "jump_to") and not written(list(response.commands), "jump_to"):
            update["jump_to"] = None
        return [Command(update=update), *response.commands] if response.commands else update


def _checked(command: Command[Any] | None) -> tuple[Command[Any], ...]:
    if command is None:
        return ()
    if command.goto or command.resume is not MISSING or command.graph is not None:
        raise InvalidUpdateError(
            "a Command from wrap_model_call says where to go; it may only update the state",
            cure='Put "jump_to" into its update: "model", "tools" or "end".',
        )
    return (check_jump(command, "wrap_model_call", JUMPS),)
