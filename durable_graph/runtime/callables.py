"""A body: something a user gave us to call, on either face.

A function, or any object with `invoke` and/or `ainvoke` (a chat model, a chain, a compiled graph), found by duck
typing. A body may have a sync and an async form; each face takes the one that suits it.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

from durable_graph.errors import InvalidGraphError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["INJECTABLE", "Body", "name_of"]

INJECTABLE = ("config", "writer", "store", "runtime")
"""Parameters by these names are given by the engine; they are never the input."""

_KEYWORDS = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Body:
    """What to call. `sync` or `asyn` may be None, not both; `wants` are the names of the injected parameters.

    light: a plain function that may run on the event loop when it serves as a router.
    takes_input: False for a function without a positional parameter.
    """

    __slots__ = ("asyn", "light", "sync", "takes_input", "target", "wants")

    def __init__(self, target: Any, afunc: Callable[..., Any] | None = None, *, more: tuple[str, ...] = ()) -> None:
        """`more`: names of parameters that are injected here only."""
        self.target = target
        self.sync: Callable[..., Any] | None = None
        self.asyn: Callable[..., Any] | None = afunc
        self.light = False
        self.takes_input = True
        if hasattr(target, "invoke") or hasattr(target, "ainvoke"):
            self.sync = None if _only_async(target) else getattr(target, "invoke", None)
            self.asyn = afunc or getattr(target, "ainvoke", None)
            self.wants = _wants(self.sync or self.asyn, only=("config",))
        elif callable(target):
            if _is_async(target):
                self.asyn = target
            else:
                self.sync = target
                self.light = inspect.isfunction(target)
            self.wants = _wants(target, (*INJECTABLE, *more))
            self.takes_input = _takes_input(target, (*INJECTABLE, *more))
        else:
            what = f"{target!r} cannot be called: a node, router or hook is a function or an object with invoke()"
            raise InvalidGraphError(what)

    def keywords(self, context: Any) -> Mapping[str, Any]:
        """The injected arguments of one call."""
        return {name: _inject(name, context) for name in self.wants}


def name_of(target: Any) -> str:
    """The name a body goes by: a function's name, an object's get_name() or class name."""
    if isinstance(target, functools.partial):
        return name_of(target.func)
    named = getattr(target, "get_name", None)
    if callable(named):
        return str(named())
    return str(getattr(target, "__name__", None) or type(target).__name__)


def _inject(name: str, context: Any) -> Any:
    if name == "config":
        return context.config
    if name == "runtime":
        return context.runtime
    if name == "writer":
        return context.write
    if name == "error":
        return context.task.cause
    if name == "previous":
        return context.previous
    return context.shared.store


def _is_async(target: Any) -> bool:
    while isinstance(target, functools.partial):
        target = target.func
    return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(getattr(target, "__call__", None))  # noqa: B004 - the method is what is asked about


def _only_async(target: Any) -> bool:
    """A LangChain lambda over an async function: it has an `invoke`, which only raises."""
    return getattr(target, "afunc", None) is not None and not hasattr(target, "func") and hasattr(target, "ainvoke")


def _signature(target: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(target)
    except (TypeError, ValueError):
        return None  # a builtin: takes its input and nothing else


def _wants(target: Any, only: tuple[str, ...] = INJECTABLE) -> tuple[str, ...]:
    signature = _signature(target)
    if signature is None:
        return ()
    found = signature.parameters
    return tuple(name for name in only if name in found and found[name].kind in _KEYWORDS)


def _takes_input(target: Any, injected: tuple[str, ...]) -> bool:
    signature = _signature(target)
    if signature is None:
        return True
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return True
        if parameter.kind in positional and name not in injected:
            return True
    return False
