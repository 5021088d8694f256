"""A chat model that answers from a script: for tests, demos, and programs that must run without a network."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import uuid4

from typing_extensions import override

from durable_graph.errors import UsageError, shortened
from durable_graph.messages.models import AIMessage, AIMessageChunk
from durable_graph.models.base import ChatModelBase
from durable_graph.models.streaming import is_message

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
    from typing import Self

__all__ = ["ModelCall", "ScriptedChatModel"]

_WHITESPACE: Final = re.compile(r"(\s)")


@dataclass(frozen=True, slots=True)
class ModelCall:
    """What a scripted model was called with. `tools` are those bound then."""

    messages: list[Any]
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    tools: list[Any] = field(default_factory=list[Any])


class ScriptedChatModel(ChatModelBase):
    """Answers with the given responses, one call after the other.

    responses: A list of answers: a str, a message (copied, and given an id where it has none), or an exception, which
        is raised. Or a function that is called with the history (a list of messages) and returns such an answer.
    cycle: Start again when the list is over; by default that is an error.
    by_history: Choose by how many answers the history holds already, instead of counting calls. Use it, or a function,
        wherever a run may be resumed, retried, or share the model with other threads: a new process counts from 0
        again, while a stored history knows where the conversation stands. It is not the default because it needs a
        history that grows: calls without one (`model.invoke("a question")`) would all get the first answer.
    name: Shown as "model_name" in response_metadata and as "ls_model_name" in streams.

    `calls` holds what it was called with, in the order in which calls came; `bound_tools` what tools were bound. Calls
    may come from several OS threads; each takes the next answer of the list exactly once.

    It streams word by word. Every character of whitespace is a piece of its own, and none is lost. The last piece is
    marked, and carries tool calls, usage and metadata; an answer without text is one piece.

    Raises:
        UsageError: when it is called and the script is over.
    """

    _waits: ClassVar[bool] = False

    def __init__(
        self,
        responses: Sequence[Any] | Callable[[list[Any]], Any],
        *,
        cycle: bool = False,
        by_history: bool = False,
        name: str | None = None,
        tags: Sequence[str] = (),
    ) -> None:
        super().__init__(name, provider="scripted", tags=tags)
        if isinstance(responses, str):
            what = f"the responses of a ScriptedChatModel are one str: {shortened(responses)}"
            raise UsageError(what, cure="Pass a list of answers, or a function of the history.")
        self._function = responses if callable(responses) else None
        self._responses: tuple[Any, ...] = () if callable(responses) else tuple(responses)
        self._cycle = cycle
        self._by_history = by_history
        self._lock = threading.Lock()
        self._state = {"next": 0}  # in a dict, since a model with other tags goes on in the same script
        self.calls: list[ModelCall] = []
        self.bound_tools: list[Any] = []
        self.bound_options: dict[str, Any] = {}

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **options: Any) -> Self:
        """Remember the tools in `bound_tools`, and return itself."""
        self.bound_tools[:] = tools
        self.bound_options.clear()
        self.bound_options.update(options if tool_choice is None else {"tool_choice": tool_choice, **options})
        return self

    @override
    async def _answer(self, history: list[Any], options: dict[str, Any]) -> Any:
        return self._next(history, options)

    @override
    async def _pieces(self, history: list[Any], options: dict[str, Any]) -> AsyncGenerator[Any, None]:
        for piece in _split(self._next(history, options)):
            yield piece

    def _next(self, history: list[Any], options: dict[str, Any]) -> Any:
        call = ModelCall(list(history), {**self.bound_options, **options}, list(self.bound_tools))
        if self._function is not None:
            with self._lock:
                self.calls.append(call)
            return self._message(self._function(list(history)), again=False)
        with self._lock:
            self.calls.append(call)
            number = self._state["next"]
            if self._by_history:
                number = sum(1 for one in history if getattr(one, "type", None) in ("ai", "AIMessageChunk"))
            elif number < len(self._responses) or self._cycle:
                self._state["next"] += 1
        length = len(self._responses)
        if not length or (number >= length and not self._cycle):
            raise self._is_over(number)
        return self._message(self._responses[number % length], again=number >= length)

    def _is_over(self, number: int) -> UsageError:
        counted = "answers in the history" if self._by_history else "calls"
        what = (
            f"the script of {self.name or 'a ScriptedChatModel'} is over: it has {len(self._responses)} responses, "
            f"and there were {number} {counted} before this one"
        )
        return UsageError(what, cure="Add a response, or pass cycle=True to start again at the first.")

    def _message(self, given: object, *, again: bool) -> Any:
        """A response as a message nobody else holds. again: it was given before, so that its id is taken."""
        if isinstance(given, BaseException):
            raise given
        response: Any = AIMessage(given) if isinstance(given, str) else given
        if not is_message(response):
            what = f"a ScriptedChatModel is to answer with {shortened(response)}, which is neither a str nor a message"
            raise UsageError(what, cure="Give it strs or AI messages.")
        message = response.model_copy(deep=True)
        changes: dict[str, Any] = {}
        if message.id is None or again:
            changes["id"] = uuid4().hex
        if isinstance(message, AIMessageChunk):
            message = message.to_message()
        if isinstance(message, AIMessage):
            if self.name is not None:
                changes["response_metadata"] = {"model_name": self.name, **message.response_metadata}
            if any(call["id"] is None for call in message.tool_calls):  # a tool message has to refer to it
                named = [
                    call if call["id"] else {**call, "id": f"call_{uuid4().hex[:16]}"} for call in message.tool_calls
                ]
                changes["tool_calls"] = named
        return message.model_copy(update=changes)


def _split(message: Any) -> Iterator[Any]:
    """An answer in pieces. A message of LangChain's is one piece: it stays of its family."""
    if not isinstance(message, AIMessage):
        yield message
        return
    content = message.content
    texts = [part for part in _WHITESPACE.split(content) if part] if isinstance(content, str) else []
    carries = bool(message.tool_calls or message.invalid_tool_calls)
    for text in texts if carries else texts[:-1]:
        yield AIMessageChunk(text, id=message.id)
    rest = "" if carries else texts[-1] if texts else ""
    yield AIMessageChunk(
        rest if isinstance(content, str) else content,
        id=message.id,
        name=message.name,
        additional_kwargs=message.additional_kwargs,
        response_metadata=message.response_metadata,
        usage_metadata=message.usage_metadata,
        tool_calls=message.tool_calls,
        invalid_tool_calls=message.invalid_tool_calls,
        chunk_position="last",
    )
