"""A compiled graph: flat tables that a run reads and never changes.

The core looks at names, edges and channels. What a node *does* (its body, how its input is built, its routers) is
opaque here: `NodeSpec.work` is handed to the driver with the task.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from durable_graph.channels import BaseChannel
from durable_graph.core.versions import Changes
from durable_graph.types import MISSING, START

if TYPE_CHECKING:
    from collections.abc import Mapping

    from durable_graph.types import RetryPolicy, TimeoutPolicy

__all__ = ["Checks", "Join", "NodeNames", "NodeSpec", "Program", "matches"]

NodeNames: TypeAlias = frozenset[str] | Literal["*"]
"""Some nodes, or all of them."""


@dataclass(slots=True, frozen=True, eq=False)
class NodeSpec:
    """One node.

    edges: targets of its static edges, END left out.   joins: names of the barrier edges it feeds.
    keys: the keys of the state it reads; None for all of them.
    routed: it has routers, so only running it tells where it leads.
    hidden: it appears in no stream and at no breakpoint.
    handler: what runs instead when it failed for good.
    timeout: how long one attempt may take; None: as long as it wants.
    """

    name: str
    work: Any
    edges: tuple[str, ...] = ()
    joins: tuple[str, ...] = ()
    keys: tuple[str, ...] | None = None
    routed: bool = False
    hidden: bool = False
    retry: tuple[RetryPolicy, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    handler: NodeSpec | None = None
    timeout: TimeoutPolicy | None = None


@dataclass(slots=True, frozen=True)
class Join:
    """A barrier edge: `target` runs once every one of `sources` has run."""

    name: str
    sources: tuple[str, ...]
    target: str


class Checks(Protocol):
    """What the core asks of a schema. `result_keys` are the keys whose value is checked after it was reduced."""

    @property
    def checks_state(self) -> bool:
        """Whether the state as a whole has rules."""
        ...

    @property
    def result_keys(self) -> frozenset[str]:
        """The keys to call `validate_result` for."""
        ...

    def validate_write(self, key: str, write: Any, values: Mapping[str, Any]) -> Any:
        """One write, coerced; unchanged where only the result can be checked. Raises when the key cannot hold it."""
        ...

    def validate_result(
        self, key: str, value: Any, values: Mapping[str, Any], *, added: list[Any] | None = None
    ) -> Any:
        """The value, coerced; raises when the key cannot hold it."""
        ...

    def validate_state(self, values: Mapping[str, Any]) -> None:
        """Raises when the values do not go together."""
        ...


@dataclass(slots=True, frozen=True, eq=False)
class Program:
    """What a run needs to know of a graph.

    state_keys: the keys of the state schema; private keys are in `channels` only.
    output_keys: the keys a run returns.   root: the state is one bare value under "__root__".
    transient: keys whose channel changes by a step that does not write it.
    checks: holds values against the schema before they are stored; None when nothing is to be checked.
    deferred: nodes that run once nothing else does.   changes: what became of stored names and values since.
    step_timeout: seconds that a step may take.   cached: nodes whose results are to be kept in a cache.
    keeps_finished: whether new input that abandons a run keeps what its finished tasks wrote.
    initial_keys: keys that may hold something before anything was written.
    """

    name: str
    nodes: Mapping[str, NodeSpec]
    joins: Mapping[str, Join]
    channels: Mapping[str, BaseChannel[Any, Any]]
    state_keys: tuple[str, ...]
    output_keys: tuple[str, ...]
    fingerprint: str
    root: bool = False
    transient: tuple[str, ...] = ()
    unstored: frozenset[str] = frozenset()
    checks: Checks | None = None
    interrupt_before: NodeNames = frozenset()
    interrupt_after: NodeNames = frozenset()
    strict: bool = True
    deferred: frozenset[str] = frozenset()
    changes: Changes = field(default_factory=Changes)
    step_timeout: float | None = None
    cached: tuple[str, ...] = ()
    keeps_finished: bool = False
    initial_keys: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        keys = [key for key, channel in self.channels.items() if type(channel).initial is not BaseChannel.initial]
        object.__setattr__(self, "initial_keys", tuple(keys))  # frozen, but for this moment

    def initial_values(self) -> dict[str, Any]:
        """The state before anything was written."""
        found: dict[str, Any] = {}
        for key in self.initial_keys:
            value = self.channels[key].initial()
            if value is not MISSING:
                found[key] = value
        return found

    @property
    def start(self) -> NodeSpec:
        """The hidden node that copies the input into the state and follows the edges from START."""
        return self.nodes[START]


def matches(names: NodeNames, spec: NodeSpec) -> bool:
    """Whether a node is among `names`; "*" means every visible node."""
    return not spec.hidden if names == "*" else spec.name in names
