"""A graph that is called inside a node of another one: it runs as part of that run.

It shares the thread, the claim and the store; its questions become the node's; what it shows can be seen from outside;
it stops when the outer run stops. A call with a thread_id of its own is a run of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from durable_graph.core.mail import Relayed
from durable_graph.errors import GraphInterrupt, ParentCommand
from durable_graph.runtime import config as configs
from durable_graph.runtime.context import CURRENT
from durable_graph.runtime.nested import LEVEL, NestedSession, namespace_below

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Mapping, Sequence

    from durable_graph.core.ending import Outcome
    from durable_graph.core.streaming import Event
    from durable_graph.graph.calls import Call
    from durable_graph.runtime.context import RunContext, TaskContext
    from durable_graph.types import Durability

__all__ = ["Nest", "inherited", "nest_of", "own_events"]

_INHERITED = ("configurable", "metadata", "tags", "recursion_limit", "max_concurrency")


class Nest:
    """One call of a graph inside a task.

    durable: it stores its checkpoints.   ns: its namespace.   below: the stream modes that somebody outside listens to.
    """

    def __init__(self, context: TaskContext, *, memory: bool | None) -> None:
        self.context = context
        self.stateful = memory is True
        self.ns = namespace_below(context)
        self.durable = memory is not False and context.shared.encode is not None
        self.below = context.shared.below
        session = context.shared.session
        self.durability: Durability = session.durability if session is not None else "sync"
        self._session: NestedSession | None = None

    @property
    def anonymous_thread(self) -> str:
        """What ids are made of where nothing is stored: they are the same whenever the task runs."""
        return f"{self.context.task.id}\0{self.ns}"

    def session(self) -> NestedSession | None:
        """The run's way to the store; None when it stores nothing."""
        self._session = NestedSession(self.context, self.ns, stateful=self.stateful) if self.durable else None
        return self._session

    def prepare(self, call: Call, shared: RunContext) -> None:
        """Give the inner run what it has from the outer one."""
        outer = self.context.shared
        shared.parent = self.context
        shared.below |= self.below
        shared.asking = outer.asking
        shared.store = shared.store if shared.store is not None else outer.store
        shared.cache = shared.cache if shared.cache is not None else outer.cache
        if shared.context is None:
            shared.context = outer.context
        request = call.request
        run = outer.run
        assert run is not None  # noqa: S101 - tasks exist only in a run; this tells the type checker
        request.answers = run.answers
        request.control = request.control or run.request.control
        request.modes |= self.below
        if self._session is not None:
            request.owner = self._session.owner

    def relay(self, events: Sequence[Event]) -> None:
        """Show outside what somebody there wants to see."""
        post = self.context.shared.post
        if post is None or not self.below:
            return
        here = tuple(self.ns.split(LEVEL))
        for mode, payload, *ns in events:
            if mode in self.below:
                post(Relayed(self.context.task, ns[0] if ns else here, mode, payload))
        self.context.alive()

    def leave(self) -> None:
        """The inner run ended, however it did: its place is the task's to remember."""
        at = self._session.at if self._session is not None else None
        if at is None:
            return
        task, run = self.context.task, self.context.shared.run
        task.children = {**task.children, self.ns: at}
        if self.stateful and run is not None:
            run.stateful.add(self.ns)

    def settle(self, outcome: Outcome) -> None:
        """What the inner run means for the node.

        Raises:
            GraphInterrupt: it waits for a human, and so does the node.
            ParentCommand: it says something to the node's graph.
        """
        if outcome.used or outcome.interrupts:
            questions = self.context.questions
            questions.answered += [used for used in outcome.used if used not in questions.answered]
            questions.open += outcome.interrupts
        if outcome.interrupts:
            raise GraphInterrupt(outcome.interrupts)
        if outcome.left:
            raise ParentCommand(*outcome.left)


def nest_of(config: Mapping[str, Any], *, memory: bool | None) -> Nest | None:
    """The nest of a call made here; None when it is a run of its own. `config` is what was passed, normalised."""
    context = CURRENT.get()
    if context is None or context.shared.run is None:
        return None
    chosen = config["configurable"].get("thread_id") is not None  # by the caller, if it is not the node's own config
    if chosen and config.get("metadata", {}).get("langgraph_checkpoint_ns") != context.namespace:
        return None
    return Nest(context, memory=memory)


def inherited(nest: Nest, passed: Mapping[str, Any]) -> dict[str, Any]:
    """What was passed, on top of the outer run's config."""
    outer = {key: value for key, value in nest.context.config.items() if key in _INHERITED}
    merged = configs.merge(outer, {key: value for key, value in passed.items() if key != "tags"})
    if passed.get("tags"):
        merged["tags"] = [*dict.fromkeys([*(outer.get("tags") or ()), *passed["tags"]])]
    for key in ("checkpoint_id", "checkpoint_ns"):
        _ = merged["configurable"].pop(key, None)
    return merged


def inside(
    nest: Nest, call: Call, running: Generator[Sequence[Event], None, Outcome]
) -> Generator[Sequence[Event], None, Outcome]:
    """A run inside a node: what it shows goes outside too, and what becomes of it is the node's matter."""
    try:
        while True:
            try:
                events = next(running)
            except StopIteration as end:
                outcome: Outcome = end.value
                break
            nest.relay(events)
            if shown := own_events(call, events):
                yield shown
    finally:
        running.close()
        nest.leave()
    nest.settle(outcome)
    return outcome


async def ainside(
    nest: Nest, call: Call, running: AsyncGenerator[Sequence[Event], None], outcome: Sequence[Outcome]
) -> AsyncGenerator[Sequence[Event], None]:
    """Async `inside`; the outcome is in the list when the run is over."""
    try:
        async for events in running:
            nest.relay(events)
            if shown := own_events(call, events):
                yield shown
    finally:
        await running.aclose()
        nest.leave()
    nest.settle(outcome[0])


def own_events(call: Call, events: Sequence[Event]) -> list[Event]:
    """What the caller himself listens to."""
    if not call.own:
        return []
    seen = call.own if call.subgraphs else call.own & {"custom"}
    return [event for event in events if event[0] in (seen if event[2:] else call.own)]
