"""Tools: functions that a model can ask to have called.

    @tool
    def search_weather(city: str, days: Annotated[int, "how many days ahead"] = 1) -> str:
        "Look up the weather."

The signature and the docstring become the schema that the model sees; what it gives is validated before the function
is called. Parameters that the engine fills in (`durable_graph.prebuilt.injection`) are in neither.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast, overload

from durable_graph.core.retrying import as_policies
from durable_graph.errors import InvalidConfigError, InvalidGraphError, shortened
from durable_graph.prebuilt.families import tool_message_like
from durable_graph.prebuilt.injection import injected, parameters_of, runtime_for, value_for
from durable_graph.prebuilt.results import Answer
from durable_graph.prebuilt.signatures import model_of, read_docstring, without_fields
from durable_graph.prebuilt.tool_errors import ToolInvocationError
from durable_graph.recording.once import check_on_unknown
from durable_graph.runtime import private_loop
from durable_graph.runtime.aio import in_thread
from durable_graph.runtime.callables import Body, name_of
from durable_graph.runtime.context import CURRENT
from durable_graph.types import MISSING, TimeoutPolicy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import timedelta

    from durable_graph.prebuilt.injection import Parameter, ToolRuntime
    from durable_graph.recording.step import OnUnknown
    from durable_graph.types import RetryPolicy

__all__ = ["Due", "ResponseFormat", "Tool", "acall", "call", "tool"]

ResponseFormat: TypeAlias = Literal["content", "content_and_artifact"]
"""What a tool returns: what the model reads, or a pair of it and of what is kept beside it (`ToolMessage.artifact`)."""


class Due(NamedTuple):
    """One call that is ready to be made, in a sync and an async form; one may be None."""

    sync: Callable[[], Any] | None
    asyn: Callable[[], Awaitable[Any]] | None


def call(due: Due) -> Any:
    """Make a call in this OS thread; an async one on the private loop."""
    if due.sync is not None:
        return due.sync()
    assert due.asyn is not None  # noqa: S101 - one or the other; this tells the type checker
    return private_loop.run(cast("Any", due.asyn()))


async def acall(due: Due) -> Any:
    """Make a call on the running loop; a sync one in an OS thread."""
    if due.asyn is not None:
        return await due.asyn()
    assert due.sync is not None  # noqa: S101 - one or the other; this tells the type checker
    return await in_thread(due.sync)


class Tool:
    """A function as a tool; `tool` makes it.

    name, description: what the model sees.   args_schema: a pydantic model of the arguments, or a JSON schema (a
    dict), by which nothing is validated.   return_direct: an agent ends with its result.   response_format: see
    `ResponseFormat`.   func: the function, sync or async.   retry, timeout, on_unknown: of each call, as for `@task`;
    None where the `ToolNode` says it.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        description: str,
        args_schema: Any,
        *,
        parameters: Sequence[Parameter] = (),
        aliased: bool = False,
        return_direct: bool = False,
        response_format: ResponseFormat = "content",
        retry: tuple[RetryPolicy, ...] | None = None,
        timeout: TimeoutPolicy | None = None,
        on_unknown: OnUnknown | None = None,
    ) -> None:
        self.name = name
        self.description = description
        self.args_schema = args_schema
        self.return_direct = return_direct
        self.response_format: ResponseFormat = response_format
        self.func = function
        self.retry = retry
        self.timeout = timeout
        self.on_unknown = on_unknown
        self._body = Body(function)
        self._injected = tuple(one for one in parameters if one.injected is not None)
        self._validated = isinstance(args_schema, type)
        marked = _marked(args_schema) if self._validated else ()
        self.hidden = frozenset((*(one.name for one in self._injected), *marked))
        self._fields = _fields(args_schema, aliased=aliased) if self._validated else {}

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as it is."""
        return self.func(*args, **kwargs)

    @functools.cached_property
    def tool_call_schema(self) -> dict[str, Any]:
        """The JSON schema of what the model gives."""
        schema = self.args_schema.model_json_schema() if self._validated else self.args_schema
        return without_fields(schema, tuple(self.hidden)) if self.hidden else schema

    @property
    def args(self) -> dict[str, Any]:
        """The arguments that the model gives, each with its JSON schema."""
        return cast("dict[str, Any]", self.tool_call_schema.get("properties", {}))

    def invoke(self, input: Any, config: Any = None) -> Any:
        """Call it with arguments: what it returns; or with a tool call: the message that answers it.

        Raises:
            ToolInvocationError: the arguments do not fit.
            InjectionError: it wants something of the engine that is not there.
        """
        due, answer = self._begin(input, config)
        return _answered(answer, call(due))

    async def ainvoke(self, input: Any, config: Any = None) -> Any:
        """Async `invoke`."""
        due, answer = self._begin(input, config)
        return _answered(answer, await acall(due))

    def _begin(self, given: Any, config: Any) -> tuple[Due, Answer | None]:
        if isinstance(given, str):
            given = {next(iter(self.args), "input"): given}
        asked = cast("dict[str, Any]", given)
        is_call = asked.get("type") == "tool_call" and isinstance(asked.get("args"), dict)
        made: dict[str, Any] = asked if is_call else {"name": self.name, "args": asked, "id": None}
        runtime = runtime_for(CURRENT.get(), made.get("id"), config)
        due = self.start(self.stripped(made), runtime, "messages")
        return due, self.answer(made, tool_message_like(None)) if is_call else None

    # --- what a ToolNode uses ----------------------------------------------------------------------------------------

    def stripped(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """A call without what a model may not give."""
        if self.hidden.isdisjoint(call["args"]):
            return dict(call)
        return {**call, "args": {name: value for name, value in call["args"].items() if name not in self.hidden}}

    def start(self, call: Mapping[str, Any], runtime: ToolRuntime[Any, Any], messages_key: str) -> Due:
        """Validate the arguments, and add what the engine gives.

        Raises:
            ToolInvocationError: the arguments do not fit.
            InjectionError: the tool wants something of the engine that is not there.
        """
        given = call["args"]
        added = inject(self._injected, given, runtime, self.name, messages_key)
        keywords = {**self._read(given, added, call), **added} if self._validated else {**given, **added}
        sync, asyn = self._body.sync, self._body.asyn
        return Due(
            None if sync is None else lambda: sync(**keywords), None if asyn is None else lambda: asyn(**keywords)
        )

    def _read(self, given: Mapping[str, Any], added: Mapping[str, Any], call: Mapping[str, Any]) -> dict[str, Any]:
        from pydantic import ValidationError

        try:
            read = self.args_schema.model_validate({**given, **added})
        except ValidationError as error:
            shown = {name: value for name, value in given.items() if name not in self.hidden}
            raise ToolInvocationError.of(error, call["name"], shown, self.hidden) from error
        found = {name: getattr(read, own) for own, name in self._fields.items() if name not in self.hidden}
        return {**found, **(read.model_extra or {})}

    def answer(self, call: Mapping[str, Any], family: Any, *, root: bool = False, key: str = "messages") -> Answer:
        """What makes the answer to a call."""
        pairs = self.response_format == "content_and_artifact"
        return Answer(call, self.name, family, with_artifact=pairs, root=root, key=key)


def _answered(answer: Answer | None, returned: Any) -> Any:
    if answer is None:
        return returned
    found = answer.of(returned)
    return found[0] if len(found) == 1 else found


def inject(
    parameters: Sequence[Parameter],
    given: Mapping[str, Any],
    runtime: ToolRuntime[Any, Any],
    name: str,
    messages_key: str,
) -> dict[str, Any]:
    """What the engine adds to the arguments of a call.

    Raises:
        InjectionError: something is not there.
    """
    added: dict[str, Any] = {}
    for one in parameters:
        if one.injected == "arg" and one.name in given:  # a wrapper's: the model's are stripped
            added[one.name] = given[one.name]
            continue
        value = value_for(one, runtime, name, messages_key)
        if value is not MISSING:
            added[one.name] = value
    return added


def _marked(schema: Any) -> tuple[str, ...]:
    """The fields of a user's own pydantic model that the model does not give."""
    return tuple(
        name
        for name, field in schema.model_fields.items()
        if any(injected("", _annotated(field.annotation, mark))[0] for mark in field.metadata)
        or injected("", field.annotation)[0]
    )


def _annotated(hint: Any, mark: Any) -> Any:
    from typing import Annotated

    return Annotated[hint if hint is not None else Any, mark]


def _fields(schema: Any, *, aliased: bool) -> dict[str, str]:
    """The attributes of a schema's instance, and the parameters they are for."""
    return {name: (field.alias or name) if aliased else name for name, field in schema.model_fields.items()}


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    name: str | None = None,
    function: None = None,
    /,
    *,
    description: str | None = None,
    args_schema: Any = None,
    return_direct: bool = False,
    response_format: ResponseFormat = "content",
    parse_docstring: bool = True,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    timeout: TimeoutPolicy | float | timedelta | None = None,
    on_unknown: OnUnknown | None = None,
) -> Callable[[Callable[..., Any]], Tool]: ...


@overload
def tool(
    name: str | Callable[..., Any],
    function: Callable[..., Any] | None = None,
    /,
    *,
    description: str | None = None,
    args_schema: Any = None,
    return_direct: bool = False,
    response_format: ResponseFormat = "content",
    parse_docstring: bool = True,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    timeout: TimeoutPolicy | float | timedelta | None = None,
    on_unknown: OnUnknown | None = None,
) -> Tool: ...


def tool(
    name: Any = None,
    function: Any = None,
    /,
    *,
    description: str | None = None,
    args_schema: Any = None,
    return_direct: bool = False,
    response_format: ResponseFormat = "content",
    parse_docstring: bool = True,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    timeout: TimeoutPolicy | float | timedelta | None = None,
    on_unknown: OnUnknown | None = None,
) -> Any:
    """Make a function a tool: `@tool`, `@tool("name", ...)`, `@tool(...)` or `tool("name", function)`.

    Args:
        name: what the model calls it by; the function's name when left out.
        function: sync or async.
        description: what the model is told; the docstring when left out.
        args_schema: a pydantic model, or a JSON schema, instead of the function's signature.
        return_direct: an agent ends with what this tool returns.
        response_format: "content", or "content_and_artifact": it returns (content, artifact).
        parse_docstring: an "Args:" section (Google style) describes the arguments, and not the tool.
        retry_policy: when a failed call is tried again.
        timeout: seconds that one attempt of a call may take.
        on_unknown: what to do about a call that was started, and whose process died before the result was there:
            "rerun" it (with the same `runtime.idempotency_key`), "ask" a human, or a function of a `Started` (`name`,
            `kwargs`: the arguments, `idempotency_key`) that finds out. With it, a call costs one more commit.

    Raises:
        InvalidGraphError: it cannot be a tool.
        InvalidSchemaError: its annotations have no schema.
        InvalidConfigError: an option is wrong.
    """
    if response_format not in ("content", "content_and_artifact"):
        what = f"response_format is {response_format!r}, expected 'content' or 'content_and_artifact'"
        raise InvalidConfigError(what)

    def make(target: Any) -> Tool:
        named = own_name or name_of(target)
        _refuse(target, named)
        told, arguments = read_docstring(_docstring(target), parse=parse_docstring)
        parameters = parameters_of(target, named)
        schema = args_schema
        if schema is None:
            schema = model_of(named, parameters, arguments, more=_takes_more(target))
        return Tool(
            target,
            named,
            told if description is None else description,
            _checked_schema(schema, named),
            parameters=parameters,
            aliased=args_schema is None,
            return_direct=return_direct,
            response_format=response_format,
            retry=None if retry_policy is None else as_policies(retry_policy),
            timeout=None if timeout is None else TimeoutPolicy.coerce(timeout),
            on_unknown=None if on_unknown is None else check_on_unknown(on_unknown),
        )

    own_name = name if isinstance(name, str) else None
    target = function if function is not None else None if own_name is not None or name is None else name
    return make if target is None else make(target)


def _refuse(target: Any, name: str) -> None:
    if not callable(target) or isinstance(target, type):
        what = f"{shortened(target)} cannot be a tool: expected a function"
        raise InvalidGraphError(what, cure="Write a function with annotated parameters, and @tool above it.")
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        what = f"tool {name!r} is a generator function; a tool returns its result at once"
        raise InvalidGraphError(
            what, cure="Return the result, and write what comes before it to runtime.stream_writer."
        )


def _docstring(target: Any) -> str | None:
    if isinstance(target, functools.partial):
        return _docstring(cast("Any", target).func)
    if inspect.isroutine(target):
        return target.__doc__
    return type(target).__call__.__doc__ or type(target).__doc__


def _takes_more(target: Any) -> bool:
    return any(one.kind is one.VAR_KEYWORD for one in inspect.signature(target).parameters.values())


def _checked_schema(schema: Any, name: str) -> Any:
    if isinstance(schema, dict) or (isinstance(schema, type) and hasattr(schema, "model_validate")):
        return cast("Any", schema)
    what = (
        f"tool {name!r}: args_schema is {shortened(cast('object', schema))}, expected a pydantic model or a JSON schema"
    )
    raise InvalidConfigError(what)
