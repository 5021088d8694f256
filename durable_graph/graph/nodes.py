"""What the builder knows of a node before anything is compiled."""

from __future__ import annotations

import typing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, get_origin

from durable_graph.graph.branches import callee, command_targets
from durable_graph.runtime.callables import INJECTABLE, Body, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from durable_graph.caches import CachePolicy
    from durable_graph.types import RetryPolicy, TimeoutPolicy

__all__ = ["Action", "Node", "NodeDefaults", "input_hint"]


class _Invokes(Protocol):
    @property
    def invoke(self) -> Callable[..., Any]: ...


class _AInvokes(Protocol):
    @property
    def ainvoke(self) -> Callable[..., Any]: ...


Action: TypeAlias = "Callable[..., Any] | _Invokes | _AInvokes"
"""What a node or router can be."""


@dataclass(slots=True)
class Node:
    """One node as it was added.

    destinations: where its Commands may lead, as far as they are declared; labels: what is written at these edges.
    error_handler: what runs when it failed for good.   defer: it runs once nothing else would.
    own_retry: it says itself when it is tried again, be it never.
    """

    name: str
    body: Body
    input_schema: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    retry: tuple[RetryPolicy, ...] = ()
    own_retry: bool = False
    destinations: tuple[str, ...] | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    error_handler: Body | None = None
    timeout: TimeoutPolicy | None = None
    cache: CachePolicy | None = None
    defer: bool = False

    @classmethod
    def of(cls, name: str | None, action: Any, afunc: Any) -> Node:
        """Read what the user gave."""
        body = Body(action, afunc)
        return cls(name or name_of(action), body, destinations=command_targets(action))


@dataclass(slots=True)
class NodeDefaults:
    """What `set_node_defaults` said: for every node that says nothing itself."""

    retry: tuple[RetryPolicy, ...] = ()
    timeout: TimeoutPolicy | None = None
    cache: CachePolicy | None = None
    error_handler: Body | None = None


def input_hint(function: Any) -> Any:
    """The hint of a function's first parameter when it is a class with annotations of its own, else None."""
    if hasattr(function, "invoke") or hasattr(function, "ainvoke"):
        return None
    call = callee(function)
    try:
        hints = typing.get_type_hints(call, include_extras=True)
    except Exception:  # noqa: BLE001 - a hint that cannot be resolved tells nothing, which is no error
        return None
    names = [name for name in hints if name != "return" and name not in INJECTABLE]
    code = getattr(getattr(call, "__func__", call), "__code__", None)
    arguments = code.co_varnames[: code.co_argcount] if code is not None else ()
    first = next((name for name in arguments if name != "self" and name not in INJECTABLE), names[0] if names else None)
    hint = hints.get(first) if first else None
    plain = get_origin(hint) or hint
    return hint if isinstance(plain, type) and bool(getattr(plain, "__annotations__", None)) else None
