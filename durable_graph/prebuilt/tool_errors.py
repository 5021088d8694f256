"""What becomes of a tool that fails: a message to the model, or the end of the run."""

from __future__ import annotations

import logging
import types
import typing
from typing import TYPE_CHECKING, Any, TypeAlias, Union, cast, get_args, get_origin

from durable_graph.errors import DurableGraphError, InvalidConfigError, InvalidValueError
from durable_graph.graph.branches import callee
from durable_graph.prebuilt.injection import InjectionError
from durable_graph.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pydantic import ValidationError

    from durable_graph.types import Missing

__all__ = ["ErrorPolicy", "HandleToolErrors", "ToolInvocationError", "described", "failures_in_a_row", "unknown_tool"]

HandleToolErrors: TypeAlias = (
    "bool | str | type[Exception] | tuple[type[Exception], ...] | Callable[[Any], str] | Missing"
)
"""What `handle_tool_errors` can be."""

DEFAULT_LIMIT = 3
"""How often in a row a tool may fail under the policy that nobody chose."""

_log = logging.getLogger("durable_graph.tools")


class ToolInvocationError(InvalidValueError):
    """The arguments that a model gave do not fit the tool.

    tool_name: which tool.   arguments: what the model gave.   `what` says what is wrong, without a word of what the
    engine adds to the arguments.
    """

    cure = "Correct the arguments and call the tool again."

    def __init__(self, what: str, *, tool_name: str = "", arguments: Mapping[str, Any] | None = None) -> None:
        super().__init__(what)
        self.tool_name = tool_name
        self.arguments: dict[str, Any] = dict(arguments or {})

    @classmethod
    def of(
        cls, error: ValidationError, tool: str, arguments: Mapping[str, Any], hidden: Collection[str]
    ) -> ToolInvocationError:
        """What pydantic said, for the model. `hidden`: the arguments that it does not know of."""
        lines: list[str] = []
        for problem in error.errors(include_url=False, include_context=False):
            place = problem["loc"]
            if place and place[0] in hidden:
                continue
            given = "" if problem["type"] == "missing" else f" (got {_short(problem.get('input'))})"
            lines.append(f"- {'.'.join(map(str, place))}: {problem['msg']}{given}" if place else f"- {problem['msg']}")
        listed = "\n".join(lines)
        return cls(f"the arguments of tool {tool!r} are not valid:\n{listed}", tool_name=tool, arguments=arguments)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."  # noqa: PLR2004 - as much as a model needs to see it


def described(error: Exception) -> str:
    """An error, in the words for a model. Cures in our errors are for people who write code."""
    if isinstance(error, ToolInvocationError):
        return f"Error: {error.what}\n{error.cure}"
    told = error.what if isinstance(error, DurableGraphError) else repr(error)
    return f"Error: {told}\n Please fix your mistakes."


def unknown_tool(name: str, known: Iterable[str]) -> str:
    """What a model is told that calls a tool which is not there."""
    return f"Error: {name} is not a valid tool, try one of [{', '.join(known)}]."


class ErrorPolicy:
    """`handle_tool_errors` and `max_tool_errors`, as `ToolNode` documents them."""

    def __init__(self, given: HandleToolErrors, limit: int | Missing | None) -> None:
        self.given = given
        self.chosen = given is not MISSING
        if limit is not None and limit is not MISSING and (isinstance(limit, bool) or not isinstance(limit, int)):
            what = f"max_tool_errors is {limit!r}, expected a number or None"
            raise InvalidConfigError(what)
        default = None if self.chosen else DEFAULT_LIMIT
        self.limit = default if limit is MISSING else cast("int | None", limit)
        self.types = _handled(given)

    def answer(self, error: Exception, tool: str, failures: int, key: str | None) -> str:
        """What the model is told. `failures`: how often in a row this tool failed before; `key`: the call's id.

        Raises:
            Exception: the error, when it is not to be handled.
        """
        if isinstance(error, InjectionError) or not isinstance(error, self.types):
            raise error
        if self.limit is not None and failures >= self.limit:
            error.add_note(f"Tool {tool!r} failed {failures} times in a row before (max_tool_errors={self.limit}).")
            raise error
        if not isinstance(error, ToolInvocationError):
            _log.error("tool %r failed (call %s); the model is told", tool, key, exc_info=error)
        given: Any = self.given
        if isinstance(given, str):
            return given
        if callable(given) and not isinstance(given, type):
            return cast("Callable[[Exception], str]", given)(error)
        return described(error)


def _handled(given: Any) -> tuple[type[Exception], ...]:
    if given is MISSING or given is True or isinstance(given, str):
        return (Exception,)
    if given is False:
        return ()
    several: Any = cast("Any", given if isinstance(given, tuple) else (given,))
    if all(isinstance(one, type) and issubclass(one, Exception) for one in several):
        return several
    if callable(cast("object", given)):
        return _annotated(cast("Any", given))
    what = f"handle_tool_errors is {given!r}, expected a bool, a text, exception types, or a function of the exception"
    raise InvalidConfigError(what)


def _annotated(function: Callable[..., Any]) -> tuple[type[Exception], ...]:
    """The exceptions in the annotation of a function's first parameter; all of them when it has none."""
    try:
        hints = typing.get_type_hints(callee(function))
    except (NameError, TypeError) as error:
        what = f"handle_tool_errors: the annotations of {function!r} cannot be resolved: {error}"
        raise InvalidConfigError(what, cure="Import the exceptions where the function is defined.") from error
    _ = hints.pop("return", None)
    hint = next(iter(hints.values()), Exception)
    if hint is Any:
        return (Exception,)
    parts: tuple[Any, ...] = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for part in parts:
        if not (isinstance(part, type) and issubclass(part, Exception)):
            what = f"handle_tool_errors: {function!r} takes {part!r}, which is no exception type"
            raise InvalidConfigError(what, cure="Annotate its first parameter with exception types, or a union.")
    return parts


def failures_in_a_row(messages: Sequence[Any], tool: str) -> int:
    """In how many of the model's last answers that called this tool every call of it failed. A message of a human
    starts the count anew.
    """
    count, failed, succeeded = 0, False, False
    for message in reversed(messages):
        kind = getattr(message, "type", None)
        if kind == "tool" and message.name == tool:
            failed, succeeded = failed or message.status == "error", succeeded or message.status != "error"
        elif kind in ("ai", "AIMessageChunk"):
            if succeeded:
                return count
            count, failed = count + failed, False
        elif kind == "human":
            break
    return count
