"""What a function says about itself: its type hints, and whether it can be a task or an entrypoint at all."""

from __future__ import annotations

import functools
import inspect
import typing
from typing import Any

from durable_graph.errors import InvalidGraphError
from durable_graph.persistence.annotations import register_annotations

__all__ = ["hints_of", "refuse_generators", "register_hints"]


def hints_of(function: Any) -> dict[str, Any] | None:
    """Its type hints, "return" among them; None where one cannot be resolved (yet)."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not hasattr(function, "__annotations__"):
        function = getattr(function, "__call__", function)  # noqa: B004 - its annotations are looked at
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:  # noqa: BLE001 - a hint that cannot be resolved tells nothing, which is no error
        return None


def register_hints(function: Any) -> bool:
    """Have the classes in a function's hints stored without a word. False where they cannot be resolved yet."""
    hints = hints_of(function)
    for hint in (hints or {}).values():
        register_annotations(hint)
    return hints is not None


def refuse_generators(function: Any, kind: str, name: str) -> None:
    """Refuse a function that yields.

    Raises:
        InvalidGraphError: it does.
    """
    called = getattr(function, "__call__", None)  # noqa: B004 - the method is what is asked about
    for one in (function, called):
        if inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one):
            what = f"{kind} {name!r} is a generator function; what it yields could not be recorded"
            raise InvalidGraphError(what, cure="Return the result; show progress with get_stream_writer().")
