"""How a compiled graph performs a call: anew while others change the thread, and telling LangChain of the run."""

from __future__ import annotations

import sys
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from durable_graph.core.control import ANY_EPOCH, CarryControl
from durable_graph.core.editing import COPY, edit_thread
from durable_graph.core.scripts import run_graph
from durable_graph.errors import InternalError
from durable_graph.graph.caching import CacheCalls
from durable_graph.graph.nesting import ALWAYS_SEEN, ainside, inside
from durable_graph.graph.outputs import result_of
from durable_graph.graph.passing import apassing, passing
from durable_graph.graph.printing import PRINTED, printed
from durable_graph.persistence.codec import CODEC
from durable_graph.runtime.aio import AsyncDriver
from durable_graph.runtime.blocking import BlockingDriver
from durable_graph.runtime.committer import committer_for
from durable_graph.runtime.context import RunContext
from durable_graph.runtime.hold import Raced
from durable_graph.runtime.session import Session

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence

    from durable_graph.core.effects import Script
    from durable_graph.core.ending import Outcome
    from durable_graph.core.program import NodeSpec
    from durable_graph.core.streaming import Event
    from durable_graph.graph.calls import Call
    from durable_graph.graph.outputs import Selection
    from durable_graph.langchain.callbacks import Bridge
    from durable_graph.records import Address
    from durable_graph.runtime.nested import NestedSession

__all__ = ["LANGCHAIN", "Performs"]

LANGCHAIN = "langchain_core.callbacks"
"""Loaded as soon as anybody has a callback handler or a Runnable; until then a run need not be told to LangChain."""

_TRIES = 16
"""How often a run begins anew when others keep changing its thread between its look and its claim; one that waits for
its thread does so as often as it must."""


class Performs(CacheCalls):
    """The part of a compiled graph that performs calls."""

    name: str
    store: Any
    debug: bool
    _taking: Callable[[NodeSpec], NodeSpec]

    def _result(self, outcome: Outcome, version: str = "v1", selection: Selection = None) -> Any:
        return result_of(self.program, self.schemas.output, outcome, version, selection)

    def _begin(self, call: Call, bridge: Bridge | None) -> tuple[RunContext, Session | NestedSession | None]:
        shared = RunContext(
            call.program or self.program,
            call.config,
            CODEC.encode if call.request.durable else None,
            call.context,
            self.store,
        )
        shared.bridge = bridge
        shared.cache = self.cache
        call.request.modes = call.own | PRINTED if self.debug else call.own
        shared.below = call.own if call.subgraphs else call.own & ALWAYS_SEEN
        if call.nest is not None:
            session = shared.session = call.nest.session(call)
            call.nest.prepare(call, shared)
            _listen(call, shared)
            return shared, session
        _listen(call, shared)
        if self.checkpointer is None:
            return shared, None
        self._committer = committer_for(self.checkpointer)  # kept, or each call would make another one
        shared.session = Session(
            self.checkpointer,
            self._committer,
            call.request.thread,
            call.checkpoint_id,
            call.durability,
            editing=bool(call.edits),
            copying=bool(call.edits) and call.edits[0][0].as_node == COPY,
            ns=call.ns,
            on_busy=call.on_busy,
            since=control.since if isinstance(control := call.request.control, CarryControl) else ANY_EPOCH,
        )
        return shared, shared.session

    def _bridge(self, call: Call) -> Bridge:
        from durable_graph.langchain.callbacks import Bridge

        return Bridge(self.name, call.given, call.config, self._result)

    def _apply(self, call: Call) -> Address:
        """Perform an edit."""
        for _ in _tries(call):
            shared, session = self._begin(call, None)
            running = BlockingDriver(shared, session, live=False, limit=None).drive(self._edit(call, shared))
            try:
                while True:
                    _ = next(running)
            except StopIteration as end:
                return end.value
            except Raced:
                continue
        raise _never_ours(call)

    async def _aapply(self, call: Call) -> Address:
        """Async `_apply`."""
        for _ in _tries(call):
            shared, session = self._begin(call, None)
            driver = AsyncDriver(shared, session, live=False, limit=None)
            try:
                async for _ in driver.drive(self._edit(call, shared)):
                    pass
            except Raced:
                continue
            address: Any = driver.outcome
            return address
        raise _never_ours(call)

    def _edit(self, call: Call, shared: RunContext) -> Script[Any]:
        return edit_thread(call.program or self.program, call.request, call.edits, self._taking, shared.watch)

    def _events(self, call: Call) -> Generator[Sequence[Event], None, Outcome]:
        if LANGCHAIN not in sys.modules:
            running = self._tries(call, None)
        else:
            bridge = self._bridge(call)
            running = bridge.watch(self._tries(call, bridge))
        if self.debug:
            running = passing(running, partial(printed, call))
        return running if call.nest is None else inside(call.nest, call, running)

    def _tries(self, call: Call, bridge: Bridge | None) -> Generator[Sequence[Event], None, Outcome]:
        for _ in _tries(call):
            shared, session = self._begin(call, bridge)
            live, limit = bool(shared.below or call.own & ALWAYS_SEEN), call.config.get("max_concurrency")
            driver = BlockingDriver(shared, session, live=live, limit=limit)
            try:
                return (yield from driver.drive(run_graph(self.program, call.request, shared.watch)))
            except Raced:
                continue
        raise _never_ours(call)

    def _aevents(self, call: Call, outcome: list[Outcome] | None = None) -> AsyncGenerator[Sequence[Event], None]:
        outcome = [] if outcome is None else outcome
        if LANGCHAIN not in sys.modules:
            running = self._atries(call, None, outcome)
        else:
            bridge = self._bridge(call)
            running = bridge.awatch(self._atries(call, bridge, outcome), outcome)
        if self.debug:
            running = apassing(running, partial(printed, call))
        return running if call.nest is None else ainside(call.nest, call, running, outcome)

    async def _atries(
        self, call: Call, bridge: Bridge | None, outcome: list[Outcome]
    ) -> AsyncGenerator[Sequence[Event], None]:
        for _ in _tries(call):
            shared, session = self._begin(call, bridge)
            live, limit = bool(shared.below or call.own & ALWAYS_SEEN), call.config.get("max_concurrency")
            driver = AsyncDriver(shared, session, live=live, limit=limit)
            running = driver.drive(run_graph(self.program, call.request, shared.watch))
            try:
                async for events in running:
                    yield events
            except Raced:
                continue
            finally:
                await running.aclose()
            if driver.outcome is not None:
                outcome.append(driver.outcome)
            return
        raise _never_ours(call)


def _listen(call: Call, shared: RunContext) -> None:
    """Somebody listens to messages, here or outside: remember which were shown."""
    if "messages" in call.request.modes:
        from durable_graph.models.streaming import Heard

        call.request.heard = Heard(shared)


def _tries(call: Call) -> Iterable[int]:
    return range(_TRIES) if call.on_busy == "reject" else count()


def _never_ours(call: Call) -> InternalError:
    return InternalError(f"thread {call.request.thread!r} changed {_TRIES} times between a look at it and its claim")
