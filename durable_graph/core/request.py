"""What a caller wants of a run, already checked and normalised."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from durable_graph.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from durable_graph.core.control import RunControl
    from durable_graph.core.planning import Task
    from durable_graph.core.program import NodeNames
    from durable_graph.records import Write
    from durable_graph.types import Command, OnUnfinished, Send

__all__ = ["Heard", "Request"]


class Heard(Protocol):
    """Knows which messages were streamed already."""

    def __call__(self, task: Task, values: Mapping[str, Any], /) -> Iterable[Any]:
        """The payloads of the messages a task wrote that were not; values: the state it ran on."""
        ...

    def known(self, task: Task, /) -> None:
        """The result of a task was stored by an earlier call."""
        ...


@dataclass(slots=True)
class Request:
    """One call.

    kind: "input" starts a run, "continue" goes on with a stored one, "command" goes on with answers, writes or routes,
        "edit" changes the stored state.
    writes: of the input or of Command.update.   routes: of Command.goto.   resume: of Command.resume.
    durable: there is a checkpointer.   flush: every superstep is durable before the next one starts.
    partial: results are stored as they arrive, while siblings still run.
    limit: how many supersteps may run.   modes: stream modes somebody listens to.
    copy: makes an independent copy of a value.
    nested: the graph runs inside a task of another one, under the namespace `ns`.
    joined: the graph is the whole node, so that nothing comes between its end and the node's.
    owner: (lane, seq) of the checkpoint of that task, and a digest where the task may call several graphs.
    answers: those the graphs above were given.
    heard: gives the messages of a task that ended which nobody has seen yet, and is told of tasks that are `known`;
        None when nobody listens to "messages".
    called: when the call was made, seconds since 1970: questions whose deadline passed before it have their answer.
    control: asked before each step whether the run shall stop there; None when nobody may ask for it.
    """

    thread: str
    kind: Literal["input", "continue", "command", "edit"]
    limit: int
    copy: Callable[[Any], Any]
    writes: Sequence[Write] = ()
    routes: Sequence[str | Send | Command[Any]] = ()
    resume: Any = MISSING
    durable: bool = False
    flush: bool = False
    partial: bool = True
    before: NodeNames = frozenset()
    after: NodeNames = frozenset()
    modes: frozenset[str] = frozenset()
    on_unfinished: OnUnfinished = "reject"
    run_id: str = ""
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    nested: bool = False
    joined: bool = False
    ns: str = ""
    owner: tuple[Any, ...] | None = None
    answers: Mapping[str, Any] = field(default_factory=dict[str, Any])
    called: float = 0.0
    control: RunControl | None = None
    heard: Heard | None = None

    def continuing(self) -> Request:
        """The same call without its input: go on with what is stored."""
        return replace(self, kind="continue", writes=(), routes=(), resume=MISSING)
