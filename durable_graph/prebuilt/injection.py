"""What a tool gets from the engine and not from the model: parameters that are marked as such.

    @tool
    def buy(item: str, basket: Annotated[list, InjectedState("basket")], runtime: ToolRuntime) -> str: ...

The model sees `item` only, and nothing that it says about the others counts.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NamedTuple, cast, get_args, get_origin

from typing_extensions import TypeVar

from durable_graph.errors import DurableGraphError, InvalidGraphError, UsageError
from durable_graph.graph.branches import callee
from durable_graph.runtime.context import ExecutionInfo, Runtime
from durable_graph.types import MISSING, Config

if TYPE_CHECKING:
    from collections.abc import Callable

    from durable_graph.runtime.context import TaskContext
    from durable_graph.types import StreamWriter

__all__ = [
    "InjectedState",
    "InjectedStore",
    "InjectedToolArg",
    "InjectedToolCallId",
    "InjectionError",
    "Parameter",
    "ToolRuntime",
    "injected",
    "parameters_of",
    "runtime_for",
    "value_for",
]

ContextT = TypeVar("ContextT", default=Any)
StateT = TypeVar("StateT", default=Any)


class InjectionError(UsageError, KeyError, ValueError):
    """A tool wants something of the engine that is not there. No model could mend it, so it is always raised."""

    code = "DG211"
    cure = "Give the parameter a default, or provide what it asks for."

    __str__ = DurableGraphError.__str__


class InjectedToolArg:
    """Marks a parameter that the model neither sees nor gives: `Annotated[T, InjectedToolArg]`. It needs a default, or
    a `wrap_tool_call` that adds it to the arguments of the call.
    """


class InjectedState(InjectedToolArg):
    """Marks a parameter that gets the state, or one key of it: `Annotated[list, InjectedState("messages")]`."""

    def __init__(self, field: str | None = None) -> None:
        self.field = field


class InjectedStore(InjectedToolArg):
    """Marks a parameter that gets the graph's store: `Annotated[BaseStore, InjectedStore()]`."""


class InjectedToolCallId(InjectedToolArg):
    """Marks a parameter that gets the id of the call: `Annotated[str, InjectedToolCallId]`."""


@dataclass(slots=True, frozen=True, kw_only=True)
class ToolRuntime(Generic[ContextT, StateT]):
    """What a tool gets as `runtime`.

    state: what the node that runs the tool got.   context: what the caller passed as `context=`.   config: the run's.
    stream_writer: writes to the "custom" stream.   tool_call_id: the id of the call.   store: the long-term memory.
    execution_info: which task and attempt this is.   heartbeat: a sign of life, where the node has an `idle_timeout`.
    tools: the tools that the node has.
    """

    state: StateT = field(default=None)  # pyright: ignore[reportAssignmentType] - None outside of a graph
    context: ContextT = field(default=None)  # pyright: ignore[reportAssignmentType] - None where no context is used
    config: Config = field(default_factory=Config)
    stream_writer: StreamWriter = field(default=lambda _: None)
    tool_call_id: str | None = None
    store: Any = None
    execution_info: ExecutionInfo = field(default_factory=lambda: ExecutionInfo(""))
    key_source: Callable[[], str] = field(default=lambda: "", repr=False)
    heartbeat: Callable[[], None] = field(default=lambda: None, repr=False)
    tools: tuple[Any, ...] = field(default=(), repr=False)

    @property
    def idempotency_key(self) -> str:
        """The same for this call in every attempt, after every crash and resume. A wrapper that changes the arguments
        makes it another call with another key. Empty outside of a run.
        """
        return self.key_source()

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """In a schema of LangChain's, which has all parameters of a function: passed on as it is."""
        from pydantic_core import core_schema

        return core_schema.any_schema()

    def override(self, **changes: Any) -> ToolRuntime[ContextT, StateT]:
        """A copy with other fields."""
        return replace(self, **changes)


def runtime_for(
    context: TaskContext | None, call_id: str | None, config: Any = None, **fields: Any
) -> ToolRuntime[Any, Any]:
    """What a tool gets that is called in an attempt of a node, or (None) outside of any run."""
    if context is None:
        return ToolRuntime(config=config or {}, tool_call_id=call_id, **fields)
    runtime = context.runtime
    known: dict[str, Any] = {
        "context": runtime.context,
        "config": context.config if config is None else config,
        "stream_writer": runtime.stream_writer,
        "store": runtime.store,
        "execution_info": runtime.execution_info,
        "key_source": runtime.key_source,
        "heartbeat": runtime.heartbeat,
    }
    return ToolRuntime(tool_call_id=call_id, **{**known, **fields})


Kind = Literal["state", "store", "tool_call_id", "runtime", "node_runtime", "config", "arg"]

_MARKERS: dict[str, Kind] = {
    "InjectedState": "state",
    "InjectedStore": "store",
    "InjectedToolCallId": "tool_call_id",
    "InjectedToolArg": "arg",
}
"""By name, so that LangChain's markers, which are not imported here, mean the same."""


class Parameter(NamedTuple):
    """One parameter of a tool.

    name, hint, default: as it was written; `default` is MISSING where there is none.
    injected: what it gets from the engine; None when the model gives it.   field: the key of the state it gets.
    """

    name: str
    hint: Any
    default: Any
    injected: Kind | None = None
    field: str | None = None


def parameters_of(function: Any, name: str) -> list[Parameter]:
    """The parameters of a tool's function.

    Raises:
        InvalidGraphError: it cannot serve as a tool: it has positional-only parameters, or annotations that cannot be
            resolved.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        what = f"tool {name!r}: the parameters of {function!r} cannot be read"
        raise InvalidGraphError(what, cure="Write a function around it.") from None
    bound: Mapping[str, Any] = getattr(function, "keywords", {}) or {}  # of a functools.partial
    hints = _hints(function, name)
    found: list[Parameter] = []
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY or parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            what = f"tool {name!r} has the positional parameter {parameter.name!r}; models give arguments by name"
            raise InvalidGraphError(what, cure="Write a function whose parameters can be given by name.")
        if parameter.kind is inspect.Parameter.VAR_KEYWORD or parameter.name in bound:
            continue
        default = MISSING if parameter.default is inspect.Parameter.empty else parameter.default
        hint = hints.get(parameter.name, Any)
        kind, key = injected(parameter.name, hint)
        found.append(Parameter(parameter.name, hint, default, kind, key))
    return found


def _hints(function: Any, name: str) -> dict[str, Any]:
    target = callee(getattr(function, "func", function) if hasattr(function, "keywords") else function)
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError as error:
        what = f"tool {name!r}: an annotation cannot be resolved: {error}"
        cure = "Import the name where the tool is defined, outside of `if TYPE_CHECKING`."
        raise InvalidGraphError(what, cure=cure) from error
    except TypeError:
        return {}


def injected(name: str, hint: Any) -> tuple[Kind | None, str | None]:
    """What a parameter gets from the engine, and which key of the state; (None, None) when the model gives it."""
    plain = hint
    if get_origin(hint) is Annotated:
        plain, *marks = get_args(hint)
        for mark in marks:
            cls: type[Any] = mark if isinstance(mark, type) else type(mark)
            for base in cls.__mro__:
                if kind := _MARKERS.get(base.__name__):
                    return kind, getattr(mark, "field", None) if kind == "state" else None
    for one in (plain, *get_args(plain)) if _is_union(plain) else (plain,):
        if kind := _by_type(one):
            return kind, None
    return ("runtime", None) if name == "runtime" else (None, None)


def _is_union(hint: Any) -> bool:
    origin = get_origin(hint)
    return origin is typing.Union or getattr(origin, "__name__", "") == "UnionType"


def _by_type(hint: Any) -> Kind | None:
    cls = get_origin(hint) or hint
    if cls is ToolRuntime or (isinstance(cls, type) and cls.__name__ == "ToolRuntime"):
        return "runtime"
    if cls is Runtime:
        return "node_runtime"
    if cls is Config or getattr(cls, "__name__", "") == "RunnableConfig":
        return "config"
    return None


def value_for(parameter: Parameter, runtime: ToolRuntime[Any, Any], tool: str, messages_key: str) -> Any:
    """What an injected parameter gets; MISSING where its default is to be used.

    Raises:
        InjectionError: it is not there, and the parameter has no default.
    """
    kind = parameter.injected
    if kind == "state":
        found = _state(runtime.state, parameter.field, messages_key)
    elif kind == "store":
        found = MISSING if runtime.store is None else runtime.store
    elif kind == "tool_call_id":
        found = runtime.tool_call_id
    elif kind == "runtime":
        found = runtime
    elif kind == "node_runtime":
        found = _node_runtime(runtime)
    elif kind == "config":
        found = runtime.config
    else:
        found = MISSING
    if found is not MISSING or parameter.default is not MISSING:
        return cast("Any", found)
    raise InjectionError(_nothing_for(parameter, runtime, tool))


def _nothing_for(parameter: Parameter, runtime: ToolRuntime[Any, Any], tool: str) -> str:
    start = f"tool {tool!r} wants {parameter.name!r}, "
    if parameter.injected == "store":
        return f"{start}the store, but the graph has none (compile it with store=...)"
    if parameter.injected == "state":
        what = "the state" if parameter.field is None else f"key {parameter.field!r} of the state"
        return f"{start}{what}, but what the node got ({type(runtime.state).__name__}) does not have it"
    return f"{start}which models may not give, and nothing gave it"


def _state(state: Any, key: str | None, messages_key: str) -> Any:
    if key is None:
        return MISSING if state is None else state
    if isinstance(state, Mapping):
        return cast("Mapping[str, Any]", state).get(key, MISSING)
    if isinstance(state, list):
        return cast("Any", state if key == messages_key else MISSING)
    return getattr(state, key, MISSING)


def _node_runtime(runtime: ToolRuntime[Any, Any]) -> Runtime[Any]:
    return Runtime(
        context=runtime.context,
        store=runtime.store,
        stream_writer=runtime.stream_writer,
        execution_info=runtime.execution_info,
        key_source=runtime.key_source,
        heartbeat=runtime.heartbeat,
    )
