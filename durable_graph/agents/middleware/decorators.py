"""Middleware made of one function each."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from typing_extensions import TypeVar

from durable_graph.agents.middleware.base import AgentMiddleware, JumpTo, as_system
from durable_graph.agents.routing import JUMPS
from durable_graph.agents.state import AgentState
from durable_graph.errors import InvalidConfigError
from durable_graph.runtime.callables import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = [
    "after_agent",
    "after_model",
    "before_agent",
    "before_model",
    "dynamic_prompt",
    "hook_config",
    "wrap_model_call",
    "wrap_tool_call",
]

FunctionT = TypeVar("FunctionT", bound="Callable[..., Any]")
_Made: TypeAlias = AgentMiddleware[Any, Any]


def hook_config(*, can_jump_to: Sequence[JumpTo] = ()) -> Callable[[FunctionT], FunctionT]:
    """Above a hook of a middleware class: where it may jump. Only then does the graph have an edge there.

    Raises:
        InvalidConfigError: it names something else than "model", "tools" and "end".
    """
    jumps = _checked(can_jump_to)

    def mark(function: FunctionT) -> FunctionT:
        function.__can_jump_to__ = jumps  # type: ignore[attr-defined] # pyright: ignore[reportFunctionMemberAccess] - read by base.can_jump_to
        return function

    return mark


def _checked(can_jump_to: Sequence[JumpTo]) -> tuple[JumpTo, ...]:
    jumps: tuple[JumpTo, ...] = tuple(can_jump_to)
    wrong = [one for one in jumps if one not in JUMPS]
    if isinstance(can_jump_to, str) or wrong:
        what = f"can_jump_to is {can_jump_to!r}, expected a list of 'model', 'tools' and 'end'"
        raise InvalidConfigError(what, cure='Write can_jump_to=["end"], for example.')
    return jumps


def _middleware(
    hook: str, function: Any, *, state_schema: Any, tools: Sequence[Any], name: str | None, jumps: Sequence[JumpTo] = ()
) -> _Made:
    """An object of a class of its own that has this one hook."""
    asynchronous = inspect.iscoroutinefunction(function)

    async def amethod(_self: Any, first: Any, second: Any) -> Any:
        return await function(first, second)

    def method(_self: Any, first: Any, second: Any) -> Any:
        return function(first, second)

    own = hook_config(can_jump_to=jumps)(amethod if asynchronous else method)
    named = name or name_of(function)
    fields: dict[str, Any] = {
        f"a{hook}" if asynchronous else hook: own,
        "state_schema": state_schema or AgentState,
        "tools": list(tools),
        "name": named,
        "__doc__": inspect.getdoc(function),
    }
    return type(named, (AgentMiddleware,), fields)()


def _decorator(hook: str, arguments: str) -> Any:
    def decorate(
        function: Any = None,
        *,
        state_schema: Any = None,
        tools: Sequence[Any] = (),
        can_jump_to: Sequence[JumpTo] = (),
        name: str | None = None,
    ) -> Any:
        def make(given: Any) -> _Made:
            return _middleware(
                hook, given, state_schema=state_schema, tools=tools, name=name, jumps=_checked(can_jump_to)
            )

        return make if function is None else make(function)

    decorate.__name__ = decorate.__qualname__ = hook
    decorate.__doc__ = f"""Make middleware of a function `({arguments})` that is its hook `{hook}`; sync or async.

    state_schema, tools: as those of `AgentMiddleware`.   can_jump_to: see `hook_config`.   name: the function's by
    default.
    """
    return decorate


before_agent = _decorator("before_agent", "state, runtime")
before_model = _decorator("before_model", "state, runtime")
after_model = _decorator("after_model", "state, runtime")
after_agent = _decorator("after_agent", "state, runtime")
wrap_model_call = _decorator("wrap_model_call", "request, handler")
wrap_tool_call = _decorator("wrap_tool_call", "request, handler")


@overload
def dynamic_prompt(function: Callable[..., Any], /) -> _Made: ...
@overload
def dynamic_prompt(*, name: str | None = None) -> Callable[[Callable[..., Any]], _Made]: ...
def dynamic_prompt(function: Any = None, *, name: str | None = None) -> Any:
    """Make middleware of a function of the `ModelRequest` that gives the system prompt: a str or a SystemMessage."""

    def make(given: Any) -> _Made:
        async def aprompted(request: Any, handler: Any) -> Any:
            return await handler(request.override(system_message=as_system(await given(request))))

        def prompted(request: Any, handler: Any) -> Any:
            return handler(request.override(system_message=as_system(given(request))))

        wrapper = aprompted if inspect.iscoroutinefunction(given) else prompted
        return _middleware("wrap_model_call", wrapper, state_schema=None, tools=(), name=name or name_of(given))

    return make if function is None else make(function)
