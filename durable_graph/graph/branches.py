"""Routers: what `add_conditional_edges` takes, and which targets are known before anything runs."""

from __future__ import annotations

import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args, get_origin

from durable_graph.types import Command, Send

__all__ = ["Branch", "callee", "command_targets", "literal_targets", "returns_routes"]


@dataclass(slots=True)
class Branch:
    """A router of one node.

    path_map: answer -> node; None when any node may be answered.
    declared: the targets that are known, from the map or a Literal return hint; None when they are not.
    """

    name: str
    path: Any
    path_map: dict[Any, str] | None
    declared: tuple[str, ...] | None

    @classmethod
    def of(cls, name: str, path: Any, path_map: Mapping[Any, str] | Sequence[str] | None) -> Branch:
        """Read what the user gave."""
        if path_map is None:
            return cls(name, path, None, literal_targets(path))
        mapped = dict(path_map) if isinstance(path_map, Mapping) else {target: target for target in path_map}
        return cls(name, path, cast("dict[Any, str]", mapped), tuple(mapped.values()))


def callee(function: Any) -> Any:
    """What carries the annotations: the function itself, or the method that calling an object runs."""
    return function if hasattr(function, "__annotations__") else type(function).__call__


def _return_hint(function: Any) -> Any:
    if hasattr(function, "invoke"):
        return None
    try:
        return typing.get_type_hints(callee(function)).get("return")
    except Exception:  # noqa: BLE001 - a hint that cannot be resolved tells nothing, which is no error
        return None


def literal_targets(function: Any) -> tuple[str, ...] | None:
    """The targets in a router's return hint: Literal["a", "b"], also inside list[...] and unions."""
    found = _literals(_return_hint(function))
    return tuple(found) if found else None


def command_targets(function: Any) -> tuple[str, ...] | None:
    """The targets in a node's return hint: Command[Literal["a", "b"]], also inside unions."""
    found: list[str] = []
    hint = _return_hint(function)
    for part in (hint, *get_args(hint)):
        if get_origin(part) is Command:
            for arg in get_args(part):
                found += _literals(arg)
    return tuple(found) if found else None


def returns_routes(function: Any) -> bool:
    """Whether a node may go anywhere: its return hint names Command or Send without targets, or there is no hint."""
    hint = _return_hint(function)
    return hint is None or _goes_anywhere(hint)


def _goes_anywhere(hint: Any) -> bool:
    kind = get_origin(hint) or hint
    if kind is Command:
        return not _literals(hint)
    if kind in (Literal, dict):  # dict[str, Any] is an update, whatever its values are
        return False
    return kind in (Send, Any) or any(_goes_anywhere(part) for part in get_args(hint))


def _literals(hint: Any) -> list[str]:
    if get_origin(hint) is Literal:
        return [value for value in get_args(hint) if isinstance(value, str)]
    return [value for part in get_args(hint) for value in _literals(part)]
