"""Tools that others made, LangChain's above all: objects with a `name` and `invoke`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, cast

from durable_graph.errors import InvalidGraphError, shortened
from durable_graph.prebuilt.injection import parameters_of
from durable_graph.prebuilt.results import Answer
from durable_graph.prebuilt.signatures import without_fields
from durable_graph.prebuilt.tool_errors import ToolInvocationError
from durable_graph.prebuilt.tools import Due, Tool, inject, tool
from durable_graph.schema.adapters import is_validation_error
from durable_graph.types import Command

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from durable_graph.prebuilt.injection import ToolRuntime

__all__ = ["ForeignTool", "as_tool", "for_model"]


class ForeignTool:
    """An object with `name` and `invoke` behind the methods that a `ToolNode` calls. `tool` is the object."""

    retry = None
    timeout = None
    on_unknown = None

    def __init__(self, tool: Any) -> None:
        self.tool = tool
        self.name: str = tool.name
        function: Any = getattr(tool, "func", None) or getattr(tool, "coroutine", None)
        parameters = () if function is None else parameters_of(function, self.name)
        self._injected = tuple(one for one in parameters if one.injected in ("state", "store", "runtime"))
        # What LangChain gives itself is not ours to fill in, and all the same nothing that a model may give.
        self.hidden = frozenset(one.name for one in parameters if one.injected is not None)

    def stripped(self, call: Mapping[str, Any]) -> dict[str, Any]:
        """A call without what a model may not give."""
        return {**call, "args": {name: value for name, value in call["args"].items() if name not in self.hidden}}

    def start(self, call: Mapping[str, Any], runtime: ToolRuntime[Any, Any], messages_key: str) -> Due:
        """The call, with what the engine gives. *Raises* as `Tool.start`; arguments are validated when it is made."""
        added = inject(self._injected, call["args"], runtime, self.name, messages_key)
        made = {**call, "args": {**call["args"], **added}, "type": "tool_call"}
        caught: list[Any] = []
        target, config = _catching(self.tool, caught), runtime.config
        sync = None if _only_async(target) else lambda: self._checked(call, target.invoke, made, config, caught)
        has_async = hasattr(target, "ainvoke") and not (sync is not None and _only_sync(target))
        return Due(sync, (lambda: self._achecked(call, target.ainvoke, made, config, caught)) if has_async else None)

    def _checked(self, call: Any, invoke: Any, made: Any, config: Any, caught: list[Any]) -> Any:
        try:
            found = invoke(made, config)
        except Exception as error:
            raise self._explained(error, call) from error
        return caught[0] if caught else found

    async def _achecked(self, call: Any, ainvoke: Any, made: Any, config: Any, caught: list[Any]) -> Any:
        try:
            found = await ainvoke(made, config)
        except Exception as error:
            raise self._explained(error, call) from error
        return caught[0] if caught else found

    def _explained(self, error: Exception, call: Mapping[str, Any]) -> Exception:
        schema = getattr(self.tool, "args_schema", None)
        if is_validation_error(error) and error.title == getattr(schema, "__name__", self.name):
            return ToolInvocationError.of(error, self.name, call["args"], self.hidden)
        return error

    def answer(self, call: Mapping[str, Any], family: Any, *, root: bool = False, key: str = "messages") -> Answer:
        """What makes the answer to a call."""
        return Answer(call, self.name, family, root=root, key=key)


def for_model(given: Any) -> Any:
    """A tool as a model is to be told of it: functions as tools; a LangChain tool that wants something of this engine
    as a dict in OpenAI's form without it, because LangChain would show it to the model.
    """
    made = as_tool(given)
    if not isinstance(made, ForeignTool):
        return made
    if not made.hidden:
        return made.tool
    from durable_graph.models.schema import tool_schema

    schema = tool_schema(made.tool)
    function = schema["function"]
    parameters = without_fields(function["parameters"], tuple(made.hidden))
    return {**schema, "function": {**function, "parameters": parameters}}


def _only_async(target: Any) -> bool:
    return getattr(target, "coroutine", None) is not None and getattr(target, "func", None) is None


def _only_sync(target: Any) -> bool:
    """A LangChain tool of a sync function: its `ainvoke` would take an OS thread of another pool."""
    return getattr(target, "func", None) is not None and getattr(target, "coroutine", None) is None


def _catching(target: Any, caught: list[Any]) -> Any:
    """A LangChain tool that hands our Commands over: it knows only its own, and would make text of ours."""
    functions = {name: getattr(target, name, None) for name in ("func", "coroutine")}
    changes = {name: _keeping(function, caught) for name, function in functions.items() if function is not None}
    return target.model_copy(update=changes) if changes and hasattr(target, "model_copy") else target


def _keeping(function: Callable[..., Any], caught: list[Any]) -> Any:
    from durable_graph.runtime.callables import Body

    def keep(returned: Any) -> Any:
        several: list[Any] = cast("list[Any]", returned) if isinstance(returned, list) else [returned]
        if any(isinstance(one, Command) for one in several):
            caught.append(returned)
            return ""
        return cast("Any", returned)

    if Body(function).asyn is not None:

        @functools.wraps(function)
        async def afunction(*args: Any, **kwargs: Any) -> Any:
            return keep(await function(*args, **kwargs))

        return afunction

    @functools.wraps(function)
    def sync_function(*args: Any, **kwargs: Any) -> Any:
        return keep(function(*args, **kwargs))

    return sync_function


def as_tool(given: Any) -> Tool | ForeignTool | dict[str, Any]:
    """What was given as a tool: a tool, an object with `name` and `invoke`, a function; or a dict, as it is.

    Raises:
        InvalidGraphError: it is none of these.
    """
    if isinstance(given, Tool | ForeignTool):
        return given
    if isinstance(given, dict):
        return cast("dict[str, Any]", given)
    if isinstance(getattr(given, "name", None), str) and hasattr(given, "invoke"):
        return ForeignTool(given)
    if callable(given):
        return tool(given)
    what = f"{shortened(given)} is no tool"
    raise InvalidGraphError(what, cure="Pass functions, tools, or dicts in a provider's form.")
