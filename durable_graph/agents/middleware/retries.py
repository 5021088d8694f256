"""Another try where a model or a tool fails: `ModelRetryMiddleware`, `ToolRetryMiddleware`.

Interrupts and other control flow always pass. So do errors of this library that are not about the call, such as a store
that cannot be written: to make the call again would not help, and it may have been made.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import time
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from typing_extensions import override

from durable_graph.agents.middleware.base import AgentMiddleware
from durable_graph.core.retrying import delay_before_retry
from durable_graph.errors import DurableGraphError, InvalidConfigError, NodeTimeoutError
from durable_graph.models.schema import tool_name
from durable_graph.prebuilt.families import message_like, tool_message_like
from durable_graph.prebuilt.results import Answer
from durable_graph.prebuilt.structured_output import StructuredOutputError
from durable_graph.prebuilt.tool_input import last_ai, messages_in
from durable_graph.types import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from durable_graph.agents.middleware.base import ModelRequest, ModelResponse
    from durable_graph.prebuilt.tool_calls import ToolCallRequest

__all__ = ["ModelRetryMiddleware", "ToolRetryMiddleware", "passes"]

RetryOn: TypeAlias = "type[Exception] | tuple[type[Exception], ...] | Callable[[BaseException], bool]"
"""Which exceptions are worth another try."""

OnFailure: TypeAlias = 'Literal["continue", "error"] | Callable[[Exception], str]'
"""What becomes of the last exception."""

_log = logging.getLogger("durable_graph.agents")


def passes(error: Exception) -> bool:
    """Whether an error is not about the call that was made, so that another try is none of its cures."""
    return isinstance(error, DurableGraphError) and not isinstance(error, NodeTimeoutError | StructuredOutputError)


class _Retrying(AgentMiddleware[Any, Any]):
    """What retries of models and tools have in common."""

    def __init__(
        self,
        *,
        max_retries: int = 2,
        retry_on: RetryOn = (Exception,),
        on_failure: OnFailure = "continue",
        backoff_factor: float = 2.0,
        initial_delay: float = 1.0,
        max_delay: float = 60.0,
        jitter: bool = True,
    ) -> None:
        given = {"max_retries": max_retries, "backoff_factor": backoff_factor}
        given |= {"initial_delay": initial_delay, "max_delay": max_delay}
        for name, number in given.items():
            if number < 0:
                raise InvalidConfigError(f"{name} is {number!r}, expected 0 or more")
        if not callable(on_failure) and on_failure not in ("continue", "error"):
            raise InvalidConfigError(f"on_failure is {on_failure!r}, expected 'continue', 'error', or a function")
        self.max_retries = max_retries
        self.on_failure = on_failure
        self._policy = RetryPolicy(initial_delay, backoff_factor, max_delay, sys.maxsize, jitter, retry_on)

    def _run(self, make: Callable[[], Any], beat: Callable[[], None], failed: Callable[[str], Any], what: str) -> Any:
        """Make a call until it does not fail. beat: tells that the node is alive, and ends one that was given up.
        failed: makes an answer of a text.   what: is called.
        """
        tries = 0
        while True:
            tries += 1
            try:
                return make()
            except Exception as error:  # noqa: BLE001 - `_wait` raises those that are not to be tried again
                seconds = self._wait(error, tries)
                if seconds is None:
                    return failed(self._text(error, tries, what))
            time.sleep(seconds)
            beat()

    async def _arun(
        self, make: Callable[[], Awaitable[Any]], beat: Callable[[], None], failed: Callable[[str], Any], what: str
    ) -> Any:
        """Async `_run`."""
        tries = 0
        while True:
            tries += 1
            try:
                return await make()
            except Exception as error:  # noqa: BLE001 - as above
                seconds = self._wait(error, tries)
                if seconds is None:
                    return failed(self._text(error, tries, what))
            await asyncio.sleep(seconds)
            beat()

    def _wait(self, error: Exception, tries: int) -> float | None:
        """Seconds before the next try; None when there is none left.

        Raises:
            Exception: the error, when it is to be raised.
        """
        found = None if passes(error) else delay_before_retry((self._policy,), error, tries)
        if found is None or (tries > self.max_retries and self.on_failure == "error"):
            raise error
        if tries > self.max_retries:
            return None
        seconds, jitter = found
        return seconds * random.uniform(0.75, 1.25) if jitter else seconds  # noqa: S311 - jitter, no secret

    def _text(self, error: Exception, tries: int, what: str) -> str:
        if callable(self.on_failure):
            return self.on_failure(error)
        _log.error("%s failed %d times; it is told, and the agent goes on", what, tries, exc_info=error)
        told = error.what if isinstance(error, DurableGraphError) else repr(error)
        return f"Error: {what} failed {tries} {'times' if tries > 1 else 'time'}, the last time with {told}"


class ModelRetryMiddleware(_Retrying):
    """Asks the model again when it fails.

    Args:
        max_retries: how often it is asked again.
        retry_on: for which exceptions: classes, or a function of the exception. Others are raised at once.
        on_failure: "continue": the last exception's text becomes an answer of the model, which ends the agent's run.
            "error": it is raised. A function of the exception: gives the text.
        backoff_factor, initial_delay, max_delay: how long to wait: the first time, how it grows, and up to where (s).
        jitter: to wait up to a quarter more or less.

    Raises:
        InvalidConfigError: an argument is wrong.
    """

    @override
    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[Any], ModelResponse]) -> Any:
        """Ask, up to `max_retries` times more."""
        return self._run(lambda: handler(request), request.runtime.heartbeat, _as_answer_to(request), "the model")

    @override
    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[Any], Awaitable[ModelResponse]]
    ) -> Any:
        """Async `wrap_model_call`."""
        beat = request.runtime.heartbeat
        return await self._arun(lambda: handler(request), beat, _as_answer_to(request), "the model")


def _as_answer_to(request: ModelRequest[Any]) -> Callable[[str], Any]:
    last = request.messages[-1] if request.messages else None
    return lambda text: message_like(last, "AIMessage")(content=text)


class ToolRetryMiddleware(_Retrying):
    """Makes the call of a tool again when it fails. All tries have one idempotency key, and each is recorded: after a
    crash they are counted on. Arguments that do not fit are the model's matter, and not tried again.

    Args:
        max_retries: how often it is made again.
        tools: of which tools: names, or tools. None: of all.
        retry_on: for which exceptions: classes, or a function of the exception. Others are raised at once.
        on_failure: "continue": the model is told of the last exception. "error": it is raised, as if there had been no
            other try; the node of the tools then decides. A function of the exception: gives what the model is told.
        backoff_factor, initial_delay, max_delay: how long to wait: the first time, how it grows, and up to where (s).
        jitter: to wait up to a quarter more or less.

    Raises:
        InvalidConfigError: an argument is wrong.
    """

    def __init__(
        self,
        *,
        max_retries: int = 2,
        tools: Iterable[Any] | None = None,
        retry_on: RetryOn = (Exception,),
        on_failure: OnFailure = "continue",
        backoff_factor: float = 2.0,
        initial_delay: float = 1.0,
        max_delay: float = 60.0,
        jitter: bool = True,
    ) -> None:
        super().__init__(
            max_retries=max_retries,
            retry_on=retry_on,
            on_failure=on_failure,
            backoff_factor=backoff_factor,
            initial_delay=initial_delay,
            max_delay=max_delay,
            jitter=jitter,
        )
        self._names = None if tools is None else {one if isinstance(one, str) else tool_name(one) for one in tools}

    @override
    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[Any], Any]) -> Any:
        """Make the call, up to `max_retries` times more."""
        name = request.tool_call["name"]
        if self._names is not None and name not in self._names:
            return handler(request)
        beat = request.runtime.heartbeat
        return self._run(lambda: handler(request), beat, _as_result_of(request), f"tool {name!r}")

    @override
    async def awrap_tool_call(self, request: ToolCallRequest, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """Async `wrap_tool_call`."""
        name = request.tool_call["name"]
        if self._names is not None and name not in self._names:
            return await handler(request)
        beat = request.runtime.heartbeat
        return await self._arun(lambda: handler(request), beat, _as_result_of(request), f"tool {name!r}")


def _as_result_of(request: ToolCallRequest) -> Callable[[str], Any]:
    call = request.tool_call
    family = tool_message_like(last_ai(messages_in(request.state, "messages")))
    return lambda text: Answer(call, call["name"], family, key="messages").message(text, error=True)
