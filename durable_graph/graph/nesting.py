"""A graph that is called inside a node of another one: it runs as part of that run.

It shares the thread, the claim and the store; its questions become the node's; what it shows can be seen from outside;
it stops when the outer run stops. A call with a thread_id of its own is a run of its own.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from durable_graph.core.mail import Relayed
from durable_graph.errors import AttemptOver, GraphInterrupt, ParentCommand, UnserializableValueError
from durable_graph.graph.passing import passing
from durable_graph.graph.subgraph import GraphNode
from durable_graph.runtime.context import CURRENT
from durable_graph.runtime.nested import LEVEL, NestedSession, calls_of, path_below

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Mapping, Sequence

    from durable_graph.core.ending import Outcome
    from durable_graph.core.request import Request
    from durable_graph.core.streaming import Event
    from durable_graph.graph.calls import Call
    from durable_graph.graph.compiled import CompiledStateGraph
    from durable_graph.runtime.context import RunContext, TaskContext
    from durable_graph.types import Durability

__all__ = ["ALWAYS_SEEN", "Nest", "inherited", "nest_of", "own_events"]

_OURS: Final = "langgraph_"
"""What begins so in a node's metadata says where the node is, and is not true of the nodes inside."""
_PLACE: Final = ("checkpoint_id", "checkpoint_ns")

ALWAYS_SEEN: Final = frozenset({"custom", "messages"})
"""Stream modes that show graphs inside nodes too, whether `subgraphs` was asked for or not."""

_leaving = threading.Lock()

_INHERITED = ("configurable", "metadata", "tags", "recursion_limit", "max_concurrency")


class Nest:
    """One call of a graph inside a task.

    durable: it stores its checkpoints.   below: the stream modes that somebody outside listens to.
    calls: those of its task, where that may make several.
    """

    def __init__(self, context: TaskContext, graph: CompiledStateGraph[Any, Any, Any, Any]) -> None:
        body = context.task.spec.work.body
        self.context = context
        self.stateful = graph.memory is True
        self.durable = graph.memory is not False and context.shared.encode is not None
        self.below = context.shared.below
        self.calls = None if body is not None and type(body.target) is GraphNode else calls_of(context)
        session = context.shared.session
        self.durability: Durability = session.durability if session is not None else "sync"
        self._fingerprint = graph.program.fingerprint
        self._ns = "" if self.durable else path_below(context) if self.calls is None else self.calls.next()
        self._session: NestedSession | None = None
        self._inner: RunContext | None = None

    @property
    def run_id(self) -> str:
        """It is part of the outer run."""
        run = self.context.shared.run
        return "" if run is None else run.request.run_id

    @property
    def ns(self) -> str:
        """Its namespace, once it has begun."""
        return self._ns if self._session is None else self._session.ns

    def session(self, call: Call) -> NestedSession | None:
        """The run's way to the store; None when it stores nothing."""
        request, digest = call.request, b""
        if self.calls is not None and self.context.shared.asking is not None:
            digest = self._digest(request)
        if self.durable:
            self._session = NestedSession(
                self.context,
                request,
                stateful=self.stateful,
                calls=self.calls,
                digest=digest,
            )
            return self._session
        # What ids are made of where nothing is stored: it is the same whenever the task runs.
        number = 0 if self.calls is None else self.calls.occurrence(digest)
        request.thread = f"{self.context.task.id}\0{digest.hex()}\0{number}"
        request.ns = self._ns
        return None

    def _digest(self, request: Request) -> bytes:
        """What tells a call from the others of its task: the graph and the input."""
        encode = self.context.shared.asking
        digest = blake2b(self._fingerprint.encode(), digest_size=8)
        for write in request.writes:
            data = write.data
            if data is None and encode is not None:
                with suppress(UnserializableValueError):  # nothing of it is stored
                    data = encode(write.value)
            digest.update(f"\0{write.key}\0".encode("utf-8", "surrogatepass"))
            digest.update(data or b"")
        return digest.digest()

    def prepare(self, call: Call, shared: RunContext) -> None:
        """Give the inner run what it has from the outer one."""
        outer = self.context.shared
        self._inner = shared
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
        request.joined = self.calls is None

    def relay(self, events: Sequence[Event]) -> None:
        """Show outside what somebody there wants to see."""
        context = self.context
        if context.shared.post is None or not self.below:
            return
        here = tuple(self.ns.split(LEVEL))
        for mode, payload, *ns in events:
            if mode in self.below:
                _ = context.post(Relayed(context.task, ns[0] if ns else here, mode, payload))

    def leave(self) -> None:
        """The inner run ended, however it did: its place is the task's to remember."""
        at = self._session.at if self._session is not None else None
        if at is None:
            return
        with suppress(AttemptOver):  # what an attempt that was given up still does is not the task's
            self.context.fenced(lambda: self._note(at))

    def _note(self, at: tuple[int, int]) -> None:
        task, run = self.context.task, self.context.shared.run
        with _leaving:  # graphs may leave in several OS threads at once
            task.children = {**task.children, self.ns: at}
            if self.stateful and run is not None:
                run.stateful.add(self.ns)

    def _stopped(self, outcome: Outcome) -> bool:
        """Whether it stands at a static breakpoint."""
        run = self._inner.run if self._inner is not None else None
        if run is None or outcome.interrupts or outcome.left:
            return False
        return bool(run.frontier.nodes or run.frontier.sends)

    def ends_node(self, outcome: Outcome) -> bool:
        """Whether the node cannot go on after it."""
        return bool(outcome.interrupts or outcome.left) or self._stopped(outcome)

    def settle(self, outcome: Outcome) -> None:
        """What the inner run means for the node.

        Raises:
            GraphInterrupt: it waits for a human or at a breakpoint, and so does the node.
            ParentCommand: it says something to the node's graph.
        """
        if outcome.used or outcome.interrupts:
            questions = self.context.questions
            earlier = self.context.task.answered  # in earlier runs; the graph may not ask them any more
            questions.answered += [used for used in (*earlier, *outcome.used) if used not in questions.answered]
            questions.open += outcome.interrupts
        if self._stopped(outcome):
            self.context.questions.stopped = True
            raise GraphInterrupt
        if outcome.interrupts:
            raise GraphInterrupt(outcome.interrupts)
        if outcome.left:
            raise ParentCommand(*outcome.left)


def nest_of(graph: CompiledStateGraph[Any, Any, Any, Any], config: Mapping[str, Any]) -> Nest | None:
    """The nest of a call made here; None when it is a run of its own. `config` is what was passed, normalised."""
    context = CURRENT.get()
    if context is None or context.shared.run is None:
        return None
    chosen = config["configurable"].get("thread_id")
    if chosen is None or config.get("metadata", {}).get("langgraph_checkpoint_ns") == context.namespace:
        return Nest(context, graph)
    # The caller chose it, since this is not the node's own config. It may be the thread that runs already: no other
    # conversation is meant then; a graph that has a checkpointer is told so.
    same = graph.checkpointer is None and chosen == context.shared.config["configurable"].get("thread_id")
    return Nest(context, graph) if same else None


def inherited(nest: Nest, passed: Mapping[str, Any]) -> dict[str, Any]:
    """What was passed, on top of the outer run's config."""
    context = nest.context
    outer = context.shared.config
    merged: dict[str, Any] = {key: outer[key] for key in _INHERITED if key in outer}
    merged.update(passed)
    merged["configurable"] = configurable = {**outer["configurable"], **passed["configurable"]}
    more = context.task.spec.metadata
    if more or "metadata" in merged:
        metadata = {**outer.get("metadata", {}), **more, **passed.get("metadata", {})}
        merged["metadata"] = {key: value for key, value in metadata.items() if not key.startswith(_OURS)}
    if outer.get("tags") and passed.get("tags"):
        merged["tags"] = [*dict.fromkeys([*outer["tags"], *passed["tags"]])]
    for key in _PLACE:
        _ = configurable.pop(key, None)
    return merged


def inside(
    nest: Nest, call: Call, running: Generator[Sequence[Event], None, Outcome]
) -> Generator[Sequence[Event], None, Outcome]:
    """A run inside a node: what it shows goes outside too, and what becomes of it is the node's matter."""
    try:
        outcome = yield from passing(running, partial(_relayed, nest, call))
    finally:
        nest.leave()
    nest.settle(outcome)
    return outcome


async def ainside(
    nest: Nest, call: Call, running: AsyncGenerator[Sequence[Event], None], outcome: Sequence[Outcome]
) -> AsyncGenerator[Sequence[Event], None]:
    """Async `inside`; the outcome is in the list when the run is over."""
    calls = None if call.own else nest.calls  # a stream may stand still for as long as its reader likes
    if calls is not None:
        calls.begin()
        await asyncio.sleep(0)  # those that are called with it begin too, before this one can end the node
    try:  # not `apassing`: an async generator more costs each level 20 calls
        async for events in running:
            if shown := _relayed(nest, call, events):
                yield shown
    finally:
        await running.aclose()
        nest.leave()
        if calls is not None:
            calls.end()
    if calls is not None and nest.ends_node(outcome[0]):
        # Others that the node runs at the same time shall be heard too, and what they do shall count.
        while (others := calls.others()) is not None:
            await asyncio.wrap_future(others)
    nest.settle(outcome[0])


def _relayed(nest: Nest, call: Call, events: Sequence[Event]) -> list[Event]:
    nest.relay(events)
    return own_events(call, events)


def own_events(call: Call, events: Sequence[Event]) -> list[Event]:
    """What the caller himself listens to."""
    if not call.own:
        return []
    seen = call.own if call.subgraphs else call.own & ALWAYS_SEEN
    return [event for event in events if event[0] in (seen if event[2:] else call.own)]
