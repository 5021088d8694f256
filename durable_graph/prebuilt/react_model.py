"""The nodes of `create_react_agent` that ask a model: for the next turn, and for the structured answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from durable_graph.prebuilt.families import calls_of, message_like
from durable_graph.prebuilt.model_calls import ainvoke, bind, chat_model, is_langchain, mends, sent, taken
from durable_graph.prebuilt.react_state import MODEL_INPUT
from durable_graph.prebuilt.structured_answers import read_answer
from durable_graph.prebuilt.structured_output import ToolStrategy, as_strategy, response_type, settled
from durable_graph.prebuilt.tool_input import messages_in
from durable_graph.runtime.aio import acall
from durable_graph.runtime.callables import Body
from durable_graph.runtime.context import CURRENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durable_graph.runtime.context import Runtime

__all__ = ["Prompt", "ReactModel", "StructuredAnswerNode", "read"]

TOO_FEW_STEPS: Final = "Sorry, need more steps to process this request."
"""How a run ends that has no steps left for the calls that the model asks for; LangGraph's users look for it."""

_NEEDED = 2
"""Steps that calls and the answer to their results take."""


def read(state: Any, key: str) -> Any:
    """A key of a state of any kind; None where it has none."""
    if isinstance(state, Mapping):
        return cast("Mapping[str, Any]", state).get(key)
    return getattr(state, key, None)


class Prompt:
    """What a model is sent for a state: the history behind a system message, or what a function makes of the state."""

    def __init__(self, given: Any) -> None:
        self.system: Any = None
        self.body: Body | None = None
        if isinstance(given, str):
            from durable_graph.messages import SystemMessage

            self.system = SystemMessage(given)
        elif getattr(given, "type", None) == "system":
            self.system = given
        elif given is not None:
            self.body = Body(given)

    def messages(self, state: Any) -> Any:
        """What is sent, before orphans are answered."""
        if self.body is None:
            return _history(state)
        assert self.body.sync is not None  # noqa: S101 - else the node is async; this tells the type checker
        return _listed(self.body.sync(state, **self.body.keywords(CURRENT.get())))

    async def amessages(self, state: Any) -> Any:
        """Async `messages`."""
        if self.body is None:
            return _history(state)
        return _listed(await acall(self.body, (state,), self.body.keywords(CURRENT.get())))

    @property
    def only_async(self) -> bool:
        """Whether the function has no sync form."""
        return self.body is not None and self.body.sync is None


def _history(state: Any) -> Any:
    given = read(state, MODEL_INPUT)
    return read(state, "messages") if given is None else given


def _listed(found: Any) -> Any:
    """What a prompt gave, as messages: a prompt template of LangChain's gives an object that has them."""
    from durable_graph.messages.coercion import as_list, to_message

    if hasattr(found, "to_messages"):
        return found.to_messages()
    return [to_message(one) for one in as_list(found)]


class ReactModel:
    """Asks for the next turn.

    model: a chat model, or (dynamic) what gives one for a state.   direct: the tools with `return_direct`.
    prebound: it comes with its tools.
    """

    def __init__(
        self,
        model: Any,
        tools: Sequence[Any],
        prompt: Prompt,
        *,
        direct: frozenset[str],
        name: str | None,
        dynamic: bool,
        prebound: bool,
    ) -> None:
        self.prompt = prompt
        self.name = name
        self._tools = list(tools)
        self._model = model
        self._choosing = Body(model) if dynamic else None
        self._bare = dynamic or prebound
        self._direct = direct

    @property
    def only_async(self) -> bool:
        """Whether the model, what chooses it, or the prompt has no sync form."""
        chosen = self._choosing.sync is None if self._choosing is not None else not hasattr(self._model, "invoke")
        return chosen or self.prompt.only_async

    def ask(self, state: Any, runtime: Runtime[Any]) -> Any:
        """One turn: an update of the state."""
        model = self.model(state, runtime)
        answer = self._ready(model).invoke(sent(model, self.prompt.system, self.prompt.messages(state)))
        return self._update(state, answer)

    async def aask(self, state: Any, runtime: Runtime[Any]) -> Any:
        """Async `ask`."""
        model = await self.amodel(state, runtime)
        told = sent(model, self.prompt.system, await self.prompt.amessages(state))
        return self._update(state, await ainvoke(self._ready(model), told))

    def model(self, state: Any, runtime: Runtime[Any]) -> Any:
        """The model for a state."""
        if self._choosing is None:
            return self._model
        assert self._choosing.sync is not None  # noqa: S101 - else the node is async; this tells the type checker
        return chat_model(self._choosing.sync(state, runtime))

    async def amodel(self, state: Any, runtime: Runtime[Any]) -> Any:
        """Async `model`."""
        if self._choosing is None:
            return self._model
        return chat_model(await acall(self._choosing, (state, runtime), None))

    def _ready(self, model: Any) -> Any:
        return model if self._bare else bind(model, self._tools)

    def _update(self, state: Any, answer: Any) -> dict[str, Any]:
        new = taken(answer, self.name)
        if self._lacks_steps(state, new[0]):
            family = message_like(new[0], "AIMessage")
            new = [family(content=TOO_FEW_STEPS, id=new[0].id, name=new[0].name)]
        return {"messages": [*mends(messages_in(state, "messages")), *new]}

    def _lacks_steps(self, state: Any, message: Any) -> bool:
        left = read(state, "remaining_steps")
        names = {call["name"] for call in calls_of(message)}
        if left is None or not names:
            return False
        return left < (1 if names <= self._direct else _NEEDED)


class StructuredAnswerNode:
    """Asks once more, for the structured answer; several times, when it does not fit."""

    def __init__(self, asking: ReactModel, response_format: Any) -> None:
        """response_format: a schema, a strategy, or a pair of a prompt and one of these."""
        pair = isinstance(response_format, tuple)
        prompt, wanted = cast("tuple[Any, Any]", response_format) if pair else (None, response_format)
        self._asking = asking
        self._prompt = Prompt(prompt) if prompt is not None else asking.prompt
        self._strategy = as_strategy(wanted)

    @property
    def schema(self) -> Any:
        """The type of the value, which tells the state how to store it."""
        return response_type(self._strategy)

    @property
    def only_async(self) -> bool:
        """Whether the model has no sync form."""
        return self._asking.only_async

    def ask(self, state: Any, runtime: Runtime[Any]) -> Any:
        """The value, under "structured_response"."""
        model, history = self._asking.model(state, runtime), list(read(state, "messages"))
        own = self._their_own(model)
        if own is not None:
            return {"structured_response": own.invoke(sent(model, self._prompt.system, history))}
        strategy, bound, options = self._bound(model)
        value: Any = None
        while value is None:
            told = sent(model, self._prompt.system, history)
            value, more = _one_try(strategy, bound.invoke(told, **options), history)
            history += more
        return {"structured_response": value}

    async def aask(self, state: Any, runtime: Runtime[Any]) -> Any:
        """Async `ask`."""
        model, history = await self._asking.amodel(state, runtime), list(read(state, "messages"))
        own = self._their_own(model)
        if own is not None:
            return {"structured_response": await ainvoke(own, sent(model, self._prompt.system, history))}
        strategy, bound, options = self._bound(model)
        value: Any = None
        while value is None:
            told = sent(model, self._prompt.system, history)
            value, more = _one_try(strategy, await ainvoke(bound, told, **options), history)
            history += more
        return {"structured_response": value}

    def _their_own(self, model: Any) -> Any:
        """LangChain's models bring a way of their own."""
        if not (is_langchain(model) and hasattr(model, "with_structured_output")):
            return None
        return model.with_structured_output(self._strategy.schema)

    def _bound(self, model: Any) -> tuple[Any, Any, dict[str, Any]]:
        strategy: Any = settled(self._strategy, model)
        if isinstance(strategy, ToolStrategy):
            tools = [schema.tool for schema in cast("ToolStrategy[Any]", strategy).schemas]
            return cast("Any", strategy), bind(model, tools, tool_choice="any"), {}
        return strategy, model, {"response_format": strategy.response_format}


def _one_try(strategy: Any, answer: Any, history: list[Any]) -> tuple[Any, list[Any]]:
    """The value that an answer gives, and what it adds to the history when there is none."""
    new = taken(answer)
    if len(new) > 1:
        return None, new
    value, more = read_answer(strategy, new[0], history)
    return value, [*new, *more]
