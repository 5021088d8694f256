"""Models of providers, through pydantic-ai-slim (extra `models`), and any server that speaks OpenAI's protocol.

Why pydantic-ai-slim: MIT, maintained by the authors of pydantic with a release nearly every week, one small interface
(`Model.request`, `request_stream`) with tool calls, thinking and usage over all large providers and some thirty
OpenAI-compatible ones, async and cancellable. It takes some 60 MB, half of it the SDK of OpenAI; other providers'
SDKs are installed by its own extras (`pydantic-ai-slim[anthropic]`). The SDK of OpenAI alone would serve one protocol.
Only its models are used, not its agents.

Errors are the provider's own: what pydantic-ai wraps is unwrapped, so that `retry_on=openai.RateLimitError` and the
default of a node's `RetryPolicy` work. Before that, the SDKs try 429 and 5xx answers again themselves (twice, or
`max_retries=`), and wait as long as Retry-After says. A stream that breaks off is a ConnectionError, never a short
answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import threading
import weakref
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import uuid4

from typing_extensions import override

from durable_graph.errors import InvalidConfigError, UsageError, shortened
from durable_graph.models.base import ChatModelBase
from durable_graph.models.schema import tool_choice_of, tool_schema

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Sequence
    from typing import Self

__all__ = ["ProviderChatModel", "init_chat_model"]

_OPENAI: Final = ("openai", "openai-chat")
_AT_URL: Final = "openai-compatible"
_KEYLESS: Final = "none"
"""What a server of one's own is told where it needs no key; the SDK refuses to go without."""


def init_chat_model(model: Any, *, base_url: str | None = None, api_key: str | None = None, **options: Any) -> Any:
    """A chat model by its name. Anything that is no str is a model already, and returned as it is.

    model: "provider:model", such as "openai:gpt-5-mini" or "anthropic:claude-sonnet-4-5"; keys come from the
        environment (OPENAI_API_KEY, ...). With `base_url`, the name the server knows it by.
    base_url: of a server that speaks OpenAI's chat protocol, such as "http://localhost:8000/v1".
    api_key: for that server.
    options: for every call: temperature, max_tokens, top_p, timeout (seconds), seed, max_retries, ...

    Raises:
        InvalidConfigError: the extra `models` is not installed, the provider is unknown, or its key is missing.
    """
    if not isinstance(model, str):
        return model
    if find_spec("pydantic_ai") is None or find_spec("openai") is None:
        what = f"chat model {model!r} needs a library that is not installed"
        raise InvalidConfigError(what, cure="pip install durable-graph[models]")
    if api_key is not None and base_url is None:
        what = f"api_key was given for {model!r} without a base_url"
        raise InvalidConfigError(what, cure="Set the provider's environment variable, such as OPENAI_API_KEY.")
    provider, colon, name = model.partition(":")
    if base_url is not None:
        name = name if provider in _OPENAI and colon else model
        return ProviderChatModel(name, _AT_URL, lambda: _at_url(name, base_url, api_key), options)
    if not (provider and name):
        what = f"{model!r} is no name of a chat model"
        raise InvalidConfigError(what, cure='Pass "provider:model", such as "openai:gpt-5-mini", or a base_url.')
    return ProviderChatModel(name, provider, lambda: _by_name(model), options)


def _at_url(name: str, base_url: str, api_key: str | None) -> Any:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    return OpenAIChatModel(
        name, provider=OpenAICompatibleProvider(_AT_URL, base_url=base_url, api_key=api_key or _KEYLESS)
    )


def _by_name(model: str) -> Any:
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model

    try:
        return infer_model(model)
    except (UserError, ImportError) as error:
        what = f"chat model {model!r} cannot be used: {error}"
        raise InvalidConfigError(what, cure="Correct the name, or install or set what the message names.") from error


class ProviderChatModel(ChatModelBase):
    """A provider's model; made by `init_chat_model`.

    Clients belong to an event loop, so each loop has its own, which is closed with the loop.

    profile: {"structured_output": whether the provider holds it to a JSON schema, given as the option
    `response_format`}; what a server of one's own can do is not known.
    """

    def __init__(self, name: str, provider: str, make: Callable[[], Any], options: dict[str, Any]) -> None:
        super().__init__(name, provider=provider)
        self.options = options
        self.tools: tuple[dict[str, Any], ...] = ()
        self.tool_choice: Any = None
        self._chat = provider in ("openai-chat", _AT_URL)  # a protocol whose last piece always says how it ended
        self._clients = _Clients(make)
        self.profile: dict[str, Any] = {"structured_output": provider != _AT_URL and self._clients.knows_schemas()}

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **options: Any) -> Self:
        """The same model, which may ask for calls of these tools.

        tools: see `tool_schema`.   tool_choice: "auto", "none", "any" (some tool), or a tool's name.

        Raises:
            UsageError: something is no tool, or a provider's built-in tool that cannot be passed on.
        """
        other = copy.copy(self)
        other.tools = tuple(tool_schema(tool) for tool in tools)
        if self.provider not in (*_OPENAI, _AT_URL) and (
            foreign := [tool for tool in other.tools if "function" not in tool]
        ):
            what = f"tool {shortened(foreign[0])} is a provider's own, which only OpenAI's protocol passes on"
            raise UsageError(what, cure="Leave it out, or use a LangChain chat model for this provider.")
        other.tool_choice = tool_choice_of(tool_choice)
        other.options = {**self.options, **options}
        return other

    @override
    async def _answer(self, history: list[Any], options: dict[str, Any]) -> Any:
        from durable_graph.messages.models import join_chunks
        from durable_graph.models.provider_messages import to_requests, whole_chunk

        model = await self._clients.here()
        with _own_errors():
            response = await model.request(to_requests(history), *self._asked(options))
        return join_chunks(whole_chunk(response, uuid4().hex, self.name or "")).to_message()

    @override
    async def _pieces(self, history: list[Any], options: dict[str, Any]) -> AsyncGenerator[Any, None]:
        from durable_graph.models.provider_messages import chunk_of, last_chunk, to_requests

        key = uuid4().hex
        model = await self._clients.here()
        with _own_errors():
            async with model.request_stream(to_requests(history), *self._asked(options)) as answer:
                over = False
                try:
                    async for event in answer:
                        if (piece := chunk_of(event, key)) is not None:
                            yield piece
                    over = True
                finally:
                    if not over:
                        await answer.close_stream()
                response = answer.get()
                if self._chat and "finish_reason" not in (response.provider_details or {}):
                    raise ConnectionError(f"the server of {self.name!r} hung up in the middle of an answer")
                yield last_chunk(response, key, self.name or "")

    def _asked(self, options: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """Settings and tools of a request."""
        from pydantic_ai.models import ModelRequestParameters
        from pydantic_ai.tools import ToolDefinition

        settings: dict[str, Any] = {**self.options, **options}
        choice = tool_choice_of(settings.pop("tool_choice", None)) or self.tool_choice
        if choice is not None and self.tools:
            settings["tool_choice"] = [choice["name"]] if isinstance(choice, dict) else choice
        if "stop" in settings:
            settings["stop_sequences"] = settings.pop("stop")
        if any("function" not in tool for tool in self.tools):  # as they are, beside the others
            settings["extra_body"] = {**(settings.get("extra_body") or {}), "tools": [*self.tools]}
        output = _output_of(settings.pop("response_format", None))
        functions = [cast("dict[str, Any]", tool["function"]) for tool in self.tools if "function" in tool]
        tools = [
            ToolDefinition(
                name=told["name"],
                parameters_json_schema=told.get("parameters") or {"type": "object", "properties": {}},
                description=told.get("description"),
                strict=told.get("strict"),
            )
            for told in functions
        ]
        return settings, ModelRequestParameters(function_tools=tools, **output)


def _output_of(response_format: Any) -> dict[str, Any]:
    """A JSON schema for the answer, in OpenAI's form, as pydantic-ai wants it.

    Raises:
        UsageError: it has another form.
    """
    if response_format is None:
        return {}
    from pydantic_ai.output import OutputObjectDefinition

    given = cast("dict[str, Any]", response_format) if isinstance(response_format, dict) else {}
    told: Any = given.get("json_schema")
    if not isinstance(told, dict) or "schema" not in told:
        what = f"response_format={shortened(cast('object', response_format))} cannot be read"
        raise UsageError(what, cure='Pass {"type": "json_schema", "json_schema": {"name": ..., "schema": {...}}}.')
    known = cast("dict[str, Any]", told)
    wanted = OutputObjectDefinition(
        json_schema=known["schema"],
        name=known.get("name"),
        description=known.get("description"),
        strict=known.get("strict"),
    )
    return {"output_mode": "native", "output_object": wanted}


@contextlib.contextmanager
def _own_errors() -> Generator[None]:
    """Let the provider's own errors through, out of what pydantic-ai makes of them."""
    from pydantic_ai.exceptions import ModelAPIError

    try:
        yield
    except ModelAPIError as error:
        cause = error.__cause__
        if not isinstance(cause, Exception):
            raise
    else:
        return
    raise cause


class _Clients:
    """The clients of one model, one for each event loop, made when it first asks there.

    A loop that ends by `asyncio.run` closes its async generators; one that holds the client open closes it then.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._spare: Any = make()  # so that a wrong name or a missing key is found when the model is made
        self._lock = threading.Lock()
        self._open: weakref.WeakKeyDictionary[Any, tuple[Any, Any]] = weakref.WeakKeyDictionary()

    def knows_schemas(self) -> bool:
        """Whether the provider holds this model to a JSON schema; only before it is asked for the first time."""
        return bool(self._spare.profile.get("supports_json_schema_output"))

    async def here(self) -> Any:
        """The model with the client of the loop that runs."""
        loop = asyncio.get_running_loop()
        with self._lock:
            found = self._open.get(loop)
            if found is None:
                model = self._make() if self._spare is None else self._spare
                self._spare = None
                found = self._open[loop] = (model, _held(model))
                keeper = found[1]
            else:
                return found[0]
        await keeper.__anext__()
        return found[0]


async def _held(model: Any) -> AsyncGenerator[None, None]:
    async with model:
        yield
