"""`CompiledStateGraph`: what users call.

Each async method is the twin of a sync one; the work is in `calls` (what a call means), `core` (what happens) and the
two drivers.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy as copying
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache as cache_calls
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias

from typing_extensions import TypeVar

from durable_graph.errors import InvalidConfigError, NoCheckpointerError
from durable_graph.graph.calls import Call, make_call, taking
from durable_graph.graph.inner import namespace_of
from durable_graph.graph.nesting import inherited, nest_of
from durable_graph.graph.outputs import read_listening
from durable_graph.graph.performing import LANGCHAIN
from durable_graph.graph.threads import resolved
from durable_graph.graph.working import WorkCalls
from durable_graph.persistence.codec import CODEC
from durable_graph.runtime import config as configs

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from durable_graph.caches import BaseCache
    from durable_graph.channels import BaseChannel
    from durable_graph.core.control import RunControl
    from durable_graph.core.ending import Outcome
    from durable_graph.core.program import NodeNames, NodeSpec, Program
    from durable_graph.graph.builder import StateGraph
    from durable_graph.graph.lowering import Context
    from durable_graph.graph.outputs import Listening
    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.types import Command, Durability, OnBusy, OnUnfinished, StreamMode

__all__ = ["CheckpointerLike", "CompiledStateGraph"]

StateT = TypeVar("StateT", default=Any)
ContextT = TypeVar("ContextT", default=None)
InputT = TypeVar("InputT", default=StateT)
OutputT = TypeVar("OutputT", default=StateT)

CheckpointerLike: TypeAlias = "Checkpointer | str | os.PathLike[str] | bool | None"
"""A checkpointer, a URL such as "sqlite:///runs.db", or the path of a SQLite file. For a graph inside a node: None (it
starts anew for every task), True (it has a memory of its own in the thread), False (it stores nothing)."""

ConfigLike: TypeAlias = "Mapping[str, Any] | None"
Nodes: TypeAlias = "Sequence[str] | Literal['*'] | None"

_NOBODY: Final[frozenset[str]] = frozenset()


class CompiledStateGraph(WorkCalls, Generic[StateT, ContextT, InputT, OutputT]):
    """A graph that runs.

    Common arguments of the calls:

    input: a dict with keys of the input schema (or an instance of it) starts a run; None goes on with a run that
        stopped or was cut short; `Command(resume=...)` answers an interrupt.
    config: see `durable_graph.Config`; with a checkpointer it needs a thread_id.
    context: what nodes see as `runtime.context`.
    interrupt_before, interrupt_after: breakpoints of this call, instead of the compiled ones.
    durability: "sync" (default), "async" or "exit".
    on_unfinished: what new input does to a run of this thread that waits or was cut short: "reject" it (default),
        "finish" that run first, or "abandon" it.
    on_busy: what the call does while another run holds the thread: "reject" raises `ThreadBusy` (default), "wait" waits
        until it is free, "takeover" waits until its owner turns out to be dead. What a dead one left is always taken.
    version: "v1" gives payloads as LangGraph's first version did, "v2" gives typed parts.

    Errors all calls may raise: `UsageError` (the call is wrong, nothing changed), `StorageError` (the backend), and
    what nodes raise; a group of exceptions when several nodes of one step failed.
    """

    def __init__(
        self,
        builder: StateGraph[StateT, ContextT, InputT, OutputT],
        program: Program,
        schemas: Context,
        checkpointer: CheckpointerLike,
        *,
        store: Any = None,
        cache: BaseCache | None = None,
        debug: bool = False,
    ) -> None:
        self.builder = builder
        self.program = program
        self.name = program.name
        self.store = store
        self.cache = cache
        self.debug = debug
        self.memory = checkpointer if isinstance(checkpointer, bool) else None
        self.checkpointer = resolved(checkpointer)
        self.config: dict[str, Any] = {"configurable": {}}
        self.schemas = schemas
        self._taking = cache_calls(taking)
        self._usual = read_listening(program, "values", "v1", None, schemas.output)

    def __repr__(self) -> str:
        nodes = ", ".join(name for name, spec in self.program.nodes.items() if not spec.hidden)
        return f"CompiledStateGraph({self.name!r}: {nodes})"

    @property
    def nodes(self) -> Mapping[str, NodeSpec]:
        """The nodes by name, with the hidden one that takes the input in ("__start__")."""
        return self.program.nodes

    @property
    def channels(self) -> Mapping[str, BaseChannel[Any, Any]]:
        """How each key of the state accumulates, private keys too."""
        return self.program.channels

    def get_name(self) -> str:
        """The graph's name."""
        return self.name

    def with_config(
        self, config: ConfigLike = None, **more: Any
    ) -> CompiledStateGraph[StateT, ContextT, InputT, OutputT]:
        """The same graph with a config of its own, which the config of each call is merged into."""
        changed = copying.copy(self)
        changed.config = configs.merge(self.config, self._normalise({**(config or {}), **more}))
        return changed

    # --- running ----------------------------------------------------------------------------------------------------

    def invoke(
        self,
        input: InputT | Command[Any] | Mapping[str, Any] | Any | None,
        config: ConfigLike = None,
        *,
        context: ContextT | Mapping[str, Any] | None = None,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: Nodes = None,
        interrupt_after: Nodes = None,
        durability: Durability | None = None,
        on_unfinished: OnUnfinished = "reject",
        on_busy: OnBusy = "reject",
        control: RunControl | None = None,
        subgraphs: bool = False,
        version: Literal["v1", "v2"] = "v1",
    ) -> Any:
        """Run to the end, or to where the run stops, and return the output.

        Returns:
            The output keys. Where a node asked, "__interrupt__" holds the open interrupts. version "v2": a
            `GraphOutput`. With another `stream_mode`: the list of its events.
        """
        shown = (stream_mode, version, output_keys, subgraphs)
        rules = (interrupt_before, interrupt_after, durability, on_unfinished, on_busy, control)
        listening, call = self._call(input, config, shown, context, rules)
        if stream_mode != "values":
            return list(self._parts(call, listening))
        running = self._events(_quiet(call))
        try:
            while True:
                _ = next(running)
        except StopIteration as end:
            return self._result(end.value, version, listening.selection)

    async def ainvoke(
        self,
        input: InputT | Command[Any] | Mapping[str, Any] | Any | None,
        config: ConfigLike = None,
        *,
        context: ContextT | Mapping[str, Any] | None = None,
        stream_mode: StreamMode | Sequence[StreamMode] = "values",
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: Nodes = None,
        interrupt_after: Nodes = None,
        durability: Durability | None = None,
        on_unfinished: OnUnfinished = "reject",
        on_busy: OnBusy = "reject",
        control: RunControl | None = None,
        subgraphs: bool = False,
        version: Literal["v1", "v2"] = "v1",
    ) -> Any:
        """Async `invoke`."""
        shown = (stream_mode, version, output_keys, subgraphs)
        rules = (interrupt_before, interrupt_after, durability, on_unfinished, on_busy, control)
        listening, call = self._call(input, config, shown, context, rules)
        if stream_mode != "values":
            return [listening.part(event) async for events in self._aevents(call) for event in events]
        outcome: list[Outcome] = []
        async for _ in self._aevents(_quiet(call), outcome):
            pass
        return self._result(outcome[0], version, listening.selection)

    def stream(
        self,
        input: InputT | Command[Any] | Mapping[str, Any] | Any | None,
        config: ConfigLike = None,
        *,
        context: ContextT | Mapping[str, Any] | None = None,
        stream_mode: StreamMode | Sequence[StreamMode] = "updates",
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: Nodes = None,
        interrupt_after: Nodes = None,
        durability: Durability | None = None,
        on_unfinished: OnUnfinished = "reject",
        on_busy: OnBusy = "reject",
        control: RunControl | None = None,
        subgraphs: bool = False,
        version: Literal["v1", "v2"] = "v1",
    ) -> Iterator[Any]:
        """Run and yield events as they happen.

        One mode yields payloads; a list of modes yields (mode, payload). version "v2" yields `StreamPart`s. Closing
        the stream early stops the run after what was yielded; the thread can be resumed.
        """
        shown = (stream_mode, version, output_keys, subgraphs)
        rules = (interrupt_before, interrupt_after, durability, on_unfinished, on_busy, control)
        listening, call = self._call(input, config, shown, context, rules)
        return self._parts(call, listening)

    def _parts(self, call: Call, listening: Listening) -> Iterator[Any]:
        for events in self._events(call):
            for event in events:
                yield listening.part(event)

    async def astream(
        self,
        input: InputT | Command[Any] | Mapping[str, Any] | Any | None,
        config: ConfigLike = None,
        *,
        context: ContextT | Mapping[str, Any] | None = None,
        stream_mode: StreamMode | Sequence[StreamMode] = "updates",
        output_keys: str | Sequence[str] | None = None,
        interrupt_before: Nodes = None,
        interrupt_after: Nodes = None,
        durability: Durability | None = None,
        on_unfinished: OnUnfinished = "reject",
        on_busy: OnBusy = "reject",
        control: RunControl | None = None,
        subgraphs: bool = False,
        version: Literal["v1", "v2"] = "v1",
    ) -> AsyncIterator[Any]:
        """Async `stream`."""
        shown = (stream_mode, version, output_keys, subgraphs)
        rules = (interrupt_before, interrupt_after, durability, on_unfinished, on_busy, control)
        listening, call = self._call(input, config, shown, context, rules)
        running = self._aevents(call)
        try:
            async for events in running:
                for event in events:
                    yield listening.part(event)
        finally:
            await running.aclose()  # a break closes this generator; the run inside has to be told

    def batch(
        self,
        inputs: Sequence[Any],
        config: ConfigLike | Sequence[Mapping[str, Any]] = None,
        *,
        return_exceptions: bool = False,
        **keywords: Any,
    ) -> list[Any]:
        """`invoke` for several inputs at once, results in their order.

        Args:
            inputs: one run each.
            config: one for all, or one for each; with a checkpointer each needs a thread of its own.
            return_exceptions: an exception takes the place of its result instead of being raised.
            keywords: as of `invoke`.
        """
        given = _configs(config, len(inputs))
        if not inputs:
            return []
        limit = self._normalise(given[0]).get("max_concurrency")

        def one(index: int) -> Any:
            try:
                return self.invoke(inputs[index], given[index], **keywords)
            except Exception as error:
                if not return_exceptions:
                    raise
                return error

        contexts = [contextvars.copy_context() for _ in inputs]
        with ThreadPoolExecutor(max_workers=limit or min(32, len(inputs))) as executor:
            return list(executor.map(contextvars.Context.run, contexts, repeat(one), range(len(inputs))))

    async def abatch(
        self,
        inputs: Sequence[Any],
        config: ConfigLike | Sequence[Mapping[str, Any]] = None,
        *,
        return_exceptions: bool = False,
        **keywords: Any,
    ) -> list[Any]:
        """Async `batch`."""
        given = _configs(config, len(inputs))
        if not inputs:
            return []
        limit = asyncio.Semaphore(self._normalise(given[0]).get("max_concurrency") or len(inputs))

        async def one(index: int) -> Any:
            async with limit:
                return await self.ainvoke(inputs[index], given[index], **keywords)

        jobs = (one(index) for index in range(len(inputs)))
        return list(await asyncio.gather(*jobs, return_exceptions=return_exceptions))

    def __call__(self, input: Any, config: ConfigLike = None) -> Any:
        """The same as `invoke`: a graph is a function, so it can stand where one is expected (`chain | graph`).

        There LangChain takes it for a sync function: `chain.ainvoke` runs it in an OS thread, its async nodes on the
        private loop. `RunnableLambda(graph.invoke, graph.ainvoke)` keeps everything on the caller's loop.
        """
        return self.invoke(input, config)

    # --- inside -------------------------------------------------------------------------------------------------------

    def _normalise(self, config: ConfigLike) -> dict[str, Any]:
        return configs.normalise(config, strict=self.program.strict)

    def _call(
        self,
        given: Any,
        config: ConfigLike,
        shown: tuple[Any, str, str | Sequence[str] | None, bool],
        context: Any,
        rules: tuple[Nodes, Nodes, Durability | None, OnUnfinished, OnBusy, RunControl | None],
    ) -> tuple[Listening, Call]:
        before, after, durability, on_unfinished, on_busy, control = rules
        mode, version, output_keys, subgraphs = shown
        listening = self._usual
        if mode != "values" or version != "v1" or output_keys is not None or subgraphs:
            listening = read_listening(
                self.program, mode, version, output_keys, self.schemas.output, subgraphs=subgraphs
            )
        passed = self._normalise(config)
        if LANGCHAIN in sys.modules:
            from durable_graph.langchain.callbacks import without_default_limit

            without_default_limit(passed)
        passed = configs.merge(self.config, passed)
        nest = nest_of(self, passed)
        if nest is None and self.memory:
            what = f"graph {self.name!r} was compiled with checkpointer=True and is not called inside a node"
            raise NoCheckpointerError(what, cure="Compile the outermost graph with a checkpointer of its own.")
        durable = self.checkpointer is not None if nest is None else nest.durable
        call = make_call(
            self.program,
            self.schemas,
            given,
            passed if nest is None else inherited(nest, passed),
            modes=listening.modes,
            context=context,
            interrupt_before=_names(before) if before else _NOBODY,
            interrupt_after=_names(after) if after else _NOBODY,
            durability=durability,
            on_unfinished=on_unfinished,
            on_busy=on_busy,
            encode=CODEC.encode if durable else None,
            nest=nest,
            control=control,
        )
        call.subgraphs = subgraphs
        if nest is None:
            call.ns = namespace_of(call.config)
            if call.ns:
                _ = self._graph_at(call.ns)
        return listening, call


def _names(given: Sequence[str] | Literal["*"]) -> NodeNames:
    if given == "*":
        return "*"
    return frozenset((given,) if isinstance(given, str) else given)


def _quiet(call: Call) -> Call:
    """The same call without listeners: nothing is made that nobody sees."""
    call.request.modes = call.own = frozenset()
    return call


def _configs(config: Any, count: int) -> list[Any]:
    if config is None or hasattr(config, "items"):
        return [config] * count
    found: list[Any] = list(config)
    if len(found) != count:
        what = f"{len(found)} configs were passed for {count} inputs"
        raise InvalidConfigError(what, cure="Pass one config for all inputs, or one for each.")
    return found
