"""What a running node can reach: its config, runtime, stream writer, and `interrupt`.

One `TaskContext` exists per attempt; a context variable leads to it, so that functions which a node calls (also in
OS threads it starts with the same context) find it.
"""

from __future__ import annotations

import threading
import time
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from durable_graph.core import identity
from durable_graph.core.mail import Said
from durable_graph.errors import (
    AttemptOver,
    InvalidConfigError,
    OutsideRunError,
    UnserializableValueError,
)
from durable_graph.persistence.isolation import own
from durable_graph.persistence.reuse import Copies
from durable_graph.runtime.places import PREVIOUS, SAVED
from durable_graph.runtime.questions import Asked
from durable_graph.types import MISSING, StreamWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from durable_graph.caches import BaseCache
    from durable_graph.core.control import RunControl
    from durable_graph.core.mail import Mail
    from durable_graph.core.planning import Task
    from durable_graph.core.program import Program
    from durable_graph.core.run import Run
    from durable_graph.runtime.deadlines import Watch
    from durable_graph.runtime.nested import NestedSession
    from durable_graph.runtime.places import Children
    from durable_graph.runtime.session import Session

__all__ = [
    "CURRENT",
    "ExecutionInfo",
    "RunContext",
    "Runtime",
    "TaskContext",
    "get_config",
    "get_runtime",
    "get_store",
    "get_stream_writer",
]

T = TypeVar("T")
ContextT = TypeVar("ContextT", default=Any)


@dataclass(slots=True, frozen=True)
class ExecutionInfo:
    """Which execution this is. `checkpoint_id` and `thread_id` are None without a checkpointer.

    node_attempt: 1, 2, ...   node_first_attempt_time: when the first of them began, seconds since 1970.
    """

    task_id: str
    checkpoint_id: str | None = None
    checkpoint_ns: str = ""
    thread_id: str | None = None
    run_id: str | None = None
    node_attempt: int = 1
    node_first_attempt_time: float | None = None


@dataclass(slots=True, frozen=True, kw_only=True)
class Runtime(Generic[ContextT]):
    """What a node gets as `runtime`.

    context: what the caller passed as `context=`.   store: the long-term memory, None when the graph has none.
    stream_writer: writes to the "custom" stream.   execution_info: which task, checkpoint and attempt this is.
    idempotency_key: stable over attempts and resumes, for services that do a thing once for each key; in a recorded
        step that step's own.
    heartbeat: to be called now and then by a node with an `idle_timeout`: it is alive. In an attempt that was given up
        it raises `AttemptOver`, so that the node ends.
    previous: what an entrypoint saved in its last run on this thread; None in the first one, and in graphs.
    control: what the caller passed as `control=`, here or to a graph around this one; a node may ask it to stop.
    """

    context: ContextT = field(default=None)  # pyright: ignore[reportAssignmentType] - None where no context is used
    store: Any = None
    stream_writer: StreamWriter = field(default=lambda _: None)
    execution_info: ExecutionInfo = field(default_factory=lambda: ExecutionInfo(""))
    key_source: Callable[[], str] = field(default=lambda: "", repr=False)
    heartbeat: Callable[[], None] = field(default=lambda: None, repr=False)
    previous: Any = None
    control: RunControl | None = None

    @property
    def idempotency_key(self) -> str:
        """Computed when somebody asks; then the task's checkpoint is durable before this returns."""
        return self.key_source()

    @property
    def drain_requested(self) -> bool:
        """Whether the run was asked to stop before its next step: a node that takes long may end early."""
        return self.control is not None and self.control.drain_requested

    @property
    def drain_reason(self) -> str | None:
        """Why; None when nobody asked."""
        return None if self.control is None else self.control.drain_reason

    def override(self, **changes: Any) -> Runtime[ContextT]:
        """A copy with other fields."""
        return replace(self, **changes)


class RunContext:
    """What all tasks of one run share.

    encode: value -> bytes, or None without a checkpointer.   timed: whether attempts are timed, which is only worth it
    where their records are stored.   post: hands mail to the driver while the run goes on; None when nobody
    listens.   run: the run's decisions, once it began.   bridge: its `follow(task, steps)` goes around each
    attempt and tells LangChain of it; None while LangChain is not loaded.
    session: the way to the store, None without one.   asking: encodes questions; None where nobody could answer.
    parent: the attempt this run is inside of, None for a run of its own.   below: the stream modes that are wanted of
    graphs inside.   crew: runs the tasks that its nodes call in OS threads; None until one does.   copies: of values,
    which its tasks read.
    """

    __slots__ = (
        "asking",
        "below",
        "bridge",
        "cache",
        "config",
        "context",
        "copies",
        "crew",
        "encode",
        "parent",
        "post",
        "program",
        "run",
        "session",
        "store",
        "timed",
    )

    def __init__(
        self,
        program: Program,
        config: dict[str, Any],
        encode: Callable[[Any], bytes] | None,
        context: Any = None,
        store: Any = None,
    ) -> None:
        self.program = program
        self.config = config
        self.encode = encode
        self.timed = encode is not None
        self.context = context
        self.store = store
        self.post: Callable[[Mail], None] | None = None
        self.run: Run | None = None
        self.bridge: Any = None
        self.session: Session | NestedSession | None = None
        self.asking = encode
        self.cache: BaseCache | None = None
        self.parent: TaskContext | None = None
        self.below: frozenset[str] = frozenset()
        self.crew: Any = None
        self.copies = Copies()

    def watch(self, run: Run) -> None:
        """The run began.

        Raises:
            InvalidConfigError: results of its nodes are to be kept, and there is no cache.
            UnserializableValueError: `migrate_state` returned what cannot be stored.
        """
        self.run = run
        if self.cache is None and self.program.cached and run.request.kind != "edit":
            names = ", ".join(map(repr, self.program.cached))
            what = f"node {names} of graph {self.program.name!r} has a cache_policy, but there is no cache"
            cure = "Pass one to the outermost graph, compile(cache=InMemoryCache()), or leave the cache_policy out."
            raise InvalidConfigError(what, cure=cure)
        for key, change in run.migrated.items() if self.encode is not None else ():
            if change.value is not MISSING and key not in self.program.unstored:
                change.data = _encoded(key, change.value, self.encode)


def _encoded(key: str, value: Any, encode: Callable[[Any], bytes] | None) -> bytes | None:
    """A value that is new to storage, refused before anything is stored."""
    assert encode is not None  # noqa: S101 - the caller looked; this tells the type checker
    try:
        return encode(value)
    except UnserializableValueError as error:
        error.what = f"the value that migrate_state gave key {key!r} cannot be stored: {error.what}"
        raise


class TaskContext:
    """One attempt of one task. `asked`: its questions; None when it asked none.

    watch: its time limits, None without any.   over: it was given up, and nothing it does counts any more.
    started: when it began, seconds since 1970; 0.0 where nobody needs to know.
    children: the tasks it started; None when it started none.   numbers: how often each recorded step was called.
    graphs: the graphs it called (`nested.GraphCalls`); None when it called none.
    pushed: (key, value) of what it wrote before it returned; None when it wrote nothing.
    """

    __slots__ = (
        "_config",
        "_runtime",
        "asked",
        "children",
        "graphs",
        "numbers",
        "over",
        "pushed",
        "rejected",
        "shared",
        "started",
        "task",
        "watch",
    )

    def __init__(self, task: Task, shared: RunContext) -> None:
        self.task = task
        self.shared = shared
        self.rejected: list[str] = []
        self.asked: Asked | None = None
        self.children: Children | None = None
        self.numbers: dict[Any, Any] = {}
        self.over = False
        self.pushed: list[tuple[str, Any]] | None = None
        self.graphs: Any = None
        self.started = 0.0
        self.watch: Watch | None = None
        self._config: dict[str, Any] | None = None
        self._runtime: Runtime[Any] | None = None

    def check(self) -> None:
        """Refuse to go on when the attempt, or one around it, was given up.

        Raises:
            AttemptOver: it was.
        """
        context: TaskContext | None = self
        while context is not None:
            if context.over:
                raise AttemptOver(context.task.name)
            context = context.shared.parent

    def fenced(self, act: Callable[[], T]) -> T:
        """Do something that counts, unless the attempt, or one around it, was given up; and none is meanwhile. It must
        be quick: who gives an attempt up waits for it.

        Raises:
            AttemptOver: one was; nothing was done.
        """
        watches: list[Watch] = []
        context: TaskContext | None = self
        while context is not None:
            if context.watch is not None:
                watches.append(context.watch)
            context = context.shared.parent
        for watch in reversed(watches):
            act = partial(watch.fenced, act)
        return act()

    @property
    def idempotency_key(self) -> str:
        """The same in every attempt of this task and after every resume; different on another branch."""
        run, task = self.shared.run, self.task
        thread, origin = task.origin
        if run is None or self.shared.encode is None:
            # Nothing is stored here. Inside of a task whose graph is, `thread` comes from that task, and is as stable.
            name = thread if self.shared.asking is not None or run is None else f"{run.request.run_id}\0{thread}"
            return identity.idempotency_key(name, origin, 0, task.path)
        return identity.idempotency_key(thread, origin, run.address.lane, task.known_as or task.path)

    def durable_key(self) -> str:
        """The key, once the checkpoint it is made of is durable: one that vanishes in a crash would give another."""
        session = self.shared.session
        if session is not None and session.durability == "async":
            session.outbox.hold.flush()
        return self.idempotency_key

    def write(self, data: Any) -> None:
        """The stream writer."""
        if self.shared.post is not None:
            _ = self.post(Said(self.task, own(data)))
        else:
            self.alive()

    def post(self, mail: Mail) -> bool:
        """Hand mail to the driver. False when nobody listens, or when the attempt was given up."""
        post = self.shared.post
        self.alive()
        if post is None:
            return False
        try:
            self.fenced(lambda: post(mail))
        except AttemptOver:
            return False
        return True

    def alive(self, *, heartbeat: bool = False) -> None:
        """A sign of life, for the idle_timeout of this node and of those around it."""
        context: TaskContext | None = self
        while context is not None:
            if context.watch is not None:
                context.watch.alive(heartbeat=heartbeat)
            context = context.shared.parent

    def heartbeat(self) -> None:
        """A sign of life that the node gives on purpose.

        Raises:
            AttemptOver: the attempt was given up.
        """
        self.check()
        self.alive(heartbeat=True)

    @property
    def namespace(self) -> str:
        """Where this task is among graphs inside graphs: a config that says so comes from here."""
        above = self.shared.run.request.ns if self.shared.run is not None else ""
        here = f"{self.task.name}:{self.task.id}"
        return f"{above}|{here}" if above else here

    @property
    def questions(self) -> Asked:
        """`asked`, made when the first question comes."""
        if self.asked is None:
            run = self.shared.run
            task = self.task
            known = [*task.answered, *(one.id for one in task.interrupts)]
            if not known and run is not None and run.asked:
                known = [*run.asked.get(task.path, ())]
            edited = run is not None and run.edited
            asked = Asked(task.id, run.answers if run is not None else {}, known, edited=edited)
            with _first_question:  # tasks of one node may ask at the same time
                self.asked = self.asked or asked
        return self.asked

    @property
    def config(self) -> dict[str, Any]:
        """The run's config with what concerns this task: its own dict, made when somebody asks."""
        if self._config is None:
            task, base = self.task, self.shared.config
            run = self.shared.run
            metadata = {
                **base.get("metadata", {}),
                **task.spec.metadata,
                "langgraph_step": run.step + 1 if run is not None else 0,
                "langgraph_node": task.name,
                "langgraph_path": (task.path,),
                "langgraph_checkpoint_ns": self.namespace,
            }
            self._config = {**base, "metadata": metadata, "configurable": dict(base.get("configurable", {}))}
            for key in ("run_id", "run_name"):  # they name the graph's run, not what a node calls with this config
                _ = self._config.pop(key, None)
            for key in ("tags", "callbacks"):
                if isinstance(base.get(key), list):
                    self._config[key] = [*base[key]]
        return self._config

    @property
    def previous(self) -> Any:
        """What the entrypoint that runs here saved in its last run."""
        values = self.shared.run.values if self.shared.run is not None else {}
        return own(values.get(PREVIOUS, values.get(SAVED)))

    @property
    def runtime(self) -> Runtime[Any]:
        """The node's runtime."""
        if self._runtime is None:
            task, shared = self.task, self.shared
            thread, address = task.origin
            durable = shared.encode is not None
            if shared.run is not None:
                address = shared.run.address
            info = ExecutionInfo(
                task_id=task.id,
                checkpoint_id=identity.checkpoint_id(address) if durable else None,
                thread_id=thread if durable else None,
                run_id=str(shared.config["run_id"]) if shared.config.get("run_id") else None,
                node_attempt=task.attempt if self.watch is None else self.watch.attempt,
                node_first_attempt_time=task.began or self.started or time.time(),
            )
            self._runtime = Runtime(
                context=shared.context,
                store=shared.store,
                stream_writer=self.write,
                execution_info=info,
                key_source=self.durable_key,
                heartbeat=self.heartbeat,
                previous=self.previous,
                control=shared.run.request.control if shared.run is not None else None,
            )
        return self._runtime


CURRENT: ContextVar[TaskContext | None] = ContextVar("durable_graph_task", default=None)

_first_question = threading.Lock()


def current(what: str) -> TaskContext:
    """The attempt that runs here.

    Raises:
        OutsideRunError: none does.
    """
    found = CURRENT.get()
    if found is None:
        raise OutsideRunError(f"{what} was called outside of a running node")
    return found


def get_config() -> dict[str, Any]:
    """The config of the run, inside a node.

    Raises:
        OutsideRunError: no node runs here.
    """
    return current("get_config()").config


def get_runtime(context_schema: type[ContextT] | None = None) -> Runtime[ContextT]:
    """The runtime of the node that runs. `context_schema` is for type checkers only.

    Raises:
        OutsideRunError: no node runs here.
    """
    del context_schema
    return current("get_runtime()").runtime


def get_stream_writer() -> StreamWriter:
    """A function that writes to the "custom" stream; usable from any OS thread.

    Raises:
        OutsideRunError: no node runs here.
    """
    return current("get_stream_writer()").write


def get_store() -> Any:
    """The long-term memory that the graph was compiled with, inside a node; None when there is none.

    Raises:
        OutsideRunError: no node runs here.
    """
    return current("get_store()").shared.store
