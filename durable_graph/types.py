"""The vocabulary that users and every floor share: constants, small values, and what a run returns.

Names are LangGraph's. Everything here is plain data without behaviour; nothing is imported beyond the standard
library, so that importing it costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, ClassVar, Final, Generic, Literal, NamedTuple, TypeAlias, TypedDict, final

from typing_extensions import TypeVar

__all__ = [
    "END",
    "MISSING",
    "ROOT",
    "START",
    "TAG_HIDDEN",
    "TAG_NOSTREAM",
    "Command",
    "Config",
    "Durability",
    "Expired",
    "GraphOutput",
    "Interrupt",
    "Missing",
    "OnBusy",
    "OnUnfinished",
    "Overwrite",
    "RetryPolicy",
    "RunnableConfig",
    "Send",
    "StateSnapshot",
    "StateTask",
    "StateUpdate",
    "StreamMode",
    "StreamPart",
    "StreamWriter",
    "TimeoutPolicy",
    "Wait",
]

START: Final = "__start__"
END: Final = "__end__"
ROOT: Final = "__root__"
"""The key of a state that is one bare value."""
TAG_HIDDEN: Final = "langsmith:hidden"
TAG_NOSTREAM: Final = "nostream"
"""A model with this tag keeps out of the stream."""

Durability: TypeAlias = Literal["sync", "async", "exit"]
"""When a superstep becomes durable: before the next one starts, in the background, or when the run stops."""

OnBusy: TypeAlias = Literal["reject", "wait", "takeover"]
"""What a call does when another run holds its thread: raise `ThreadBusy`, wait until it is free, or wait until its
owner turns out to be dead (its lease ends without a sign of life). A dead owner's thread is taken over in any case."""

OnUnfinished: TypeAlias = Literal["reject", "finish", "abandon"]
"""What new input does to a run of the same thread that waits or was cut short."""

StreamMode: TypeAlias = Literal["values", "updates", "custom", "messages", "tasks", "checkpoints", "debug"]

StreamWriter: TypeAlias = Callable[[Any], None]


class Missing:
    """The type of `MISSING`: no value, where None would be a value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "MISSING"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "MISSING"


MISSING: Final = Missing()


class Config(TypedDict, total=False):
    """How a run is addressed and watched: LangGraph's config dict.

    `configurable` holds `thread_id` (str, int or UUID), `checkpoint_id`, `checkpoint_ns` and any keys of your own.
    `thread_id` and `checkpoint_id` may also stand at the top level.
    """

    configurable: dict[str, Any]
    thread_id: Any
    checkpoint_id: str
    tags: list[str]
    metadata: dict[str, Any]
    callbacks: Any
    run_name: str
    run_id: Any
    recursion_limit: int
    max_concurrency: int | None


RunnableConfig = Config


@final
class Send:
    """A task for `node` in the next superstep, with an input of its own.

    `arg` is handed to the node as it is; it need not have the shape of the state. `timeout` (seconds, a timedelta or a
    `TimeoutPolicy`) takes the place of the node's own.
    """

    __slots__ = ("arg", "node", "timeout")

    def __init__(self, node: str, arg: Any, *, timeout: TimeoutPolicy | float | timedelta | None = None) -> None:
        self.node = node
        self.arg = arg
        self.timeout = None if timeout is None else TimeoutPolicy.coerce(timeout)

    def __repr__(self) -> str:
        timeout = f", timeout={self.timeout!r}" if self.timeout is not None else ""
        return f"Send(node={self.node!r}, arg={self.arg!r}{timeout})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Send):
            return False
        return self.node == other.node and self.timeout == other.timeout and bool(self.arg == other.arg)

    def __hash__(self) -> int:
        return hash((self.node, self.arg))


Goto = TypeVar("Goto", default=str)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Command(Generic[Goto]):
    """What a node may return, or a caller may pass as input, to say more than a plain update.

    update: a dict, a list of (key, value) pairs, or an instance of an annotated class.
    goto: where to go besides the static edges: a node's name, a Send, or a sequence of both.
    resume: the answer to the open interrupt, or a dict {interrupt id: answer}. None is an answer too.
    graph: None for this graph, `Command.PARENT` for the one above.
    """

    graph: str | None = None
    update: Any = None
    resume: Any = MISSING
    goto: Send | Sequence[Send | Hashable] | Hashable = ()

    PARENT: ClassVar[Literal["__parent__"]] = "__parent__"

    def __repr__(self) -> str:
        given = [
            f"{name}={value!r}"
            for name in ("graph", "update", "resume", "goto")
            if (value := getattr(self, name)) is not MISSING and value is not None and value != ()
        ]
        return f"Command({', '.join(given)})"


class Wait(NamedTuple):
    """What an interrupt waits for, besides an answer.

    kind: "question": somebody is asked; "sleep": a time; "event": something that happens outside.
    deadline: when the wait is over, seconds since 1970; None: never.
    default: the answer then; MISSING: there is none.
    """

    kind: Literal["question", "sleep", "event"] = "question"
    deadline: float | None = None
    default: Any = MISSING


_ANSWER: Final = Wait()


@dataclass(frozen=True, slots=True, repr=False)
class Interrupt:
    """A question a node asked, or a wait. `id` is what an answer refers to; `value` is what was asked.

    response_schema: the JSON schema of the answer, when the node gave one.
    wait: what besides an answer ends it; None: nothing does.
    """

    value: Any
    id: str = ""
    response_schema: Mapping[str, Any] | None = None
    wait: Wait | None = None

    @property
    def kind(self) -> Literal["question", "sleep", "event"]:
        """Whether somebody is asked ("question"), or the node waits for a time ("sleep") or an event ("event")."""
        return (self.wait or _ANSWER).kind

    @property
    def deadline(self) -> float | None:
        """When the wait is over, seconds since 1970; None: never. The next run after it goes on with the default as the
        answer; where there is none, `interrupt` raises TimeoutError in the node.
        """
        return (self.wait or _ANSWER).deadline

    @property
    def default(self) -> Any:
        """The answer when nobody gives one in time; MISSING: there is none."""
        return (self.wait or _ANSWER).default

    def __repr__(self) -> str:
        schema = f", response_schema={self.response_schema!r}" if self.response_schema is not None else ""
        wait = f", wait={self.wait!r}" if self.wait is not None else ""
        return f"Interrupt(value={self.value!r}, id={self.id!r}{schema}{wait})"


@final
class Expired:
    """The answer to a question whose deadline passed and that has no default. `deadline`: seconds since 1970."""

    __slots__ = ("deadline",)

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Replaces the value of a key that has a reducer, instead of being reduced into it."""

    value: Any


class RetryPolicy(NamedTuple):
    """When and how often a failed node is tried again. Intervals are seconds.

    `retry_on` is an exception class, several of them, or a function of the exception.
    """

    initial_interval: float = 0.5
    backoff_factor: float = 2.0
    max_interval: float = 128.0
    max_attempts: int = 3
    jitter: bool = True
    retry_on: type[BaseException] | Sequence[type[BaseException]] | Callable[[BaseException], bool] | None = None


@dataclass(frozen=True, slots=True, init=False)
class TimeoutPolicy:
    """How long one attempt of a node or task may take. Seconds, or a timedelta; None: as long as it wants.

    run_timeout: in all.   idle_timeout: without a sign of life. A sign of life is anything the node writes to a stream,
    a recorded step that ends, or `runtime.heartbeat()`; with refresh_on="heartbeat" only the latter.

    Raises:
        ValueError: a time is not above 0, or `refresh_on` is unknown.
    """

    run_timeout: float | None
    idle_timeout: float | None
    refresh_on: Literal["auto", "heartbeat"]

    def __init__(
        self,
        run_timeout: float | timedelta | None = None,
        idle_timeout: float | timedelta | None = None,
        refresh_on: Literal["auto", "heartbeat"] = "auto",
    ) -> None:
        if refresh_on not in ("auto", "heartbeat"):
            message = f"refresh_on is {refresh_on!r}, expected 'auto' or 'heartbeat'"
            raise ValueError(message)
        object.__setattr__(self, "run_timeout", _seconds("run_timeout", run_timeout))
        object.__setattr__(self, "idle_timeout", _seconds("idle_timeout", idle_timeout))
        object.__setattr__(self, "refresh_on", refresh_on)

    @classmethod
    def coerce(cls, given: TimeoutPolicy | float | timedelta | None) -> TimeoutPolicy | None:
        """A policy of what was given; a number or timedelta is a run_timeout. None where nothing is limited."""
        policy = given if isinstance(given, TimeoutPolicy) else cls(given)
        return None if policy.run_timeout is None and policy.idle_timeout is None else policy


def _seconds(name: str, given: float | timedelta | None) -> float | None:
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if seconds is not None and (isinstance(seconds, bool) or not seconds > 0):
        message = f"{name} is {given!r}, expected more than 0 seconds"
        raise ValueError(message)
    return seconds


class StateUpdate(NamedTuple):
    """One update of `bulk_update_state`: what `update_state` takes, as a value."""

    values: Any
    as_node: str | None = None
    task_id: str | None = None


class StateTask(NamedTuple):
    """One task of a checkpoint: what will run, or ran, or waits.

    `state` is the snapshot (or the config) of the graph that runs inside it. Where it came from: which `attempt` it
    was, when it began (`started`, seconds since 1970) and how long it took (`duration`, seconds), `answered`: the ids
    of the interrupts whose answers it used, `calls`: the names of the recorded steps inside it, and the `version` of
    the graph.
    """

    id: str
    name: str
    path: tuple[Any, ...]
    error: str | None = None
    interrupts: tuple[Interrupt, ...] = ()
    state: Any = None
    result: Any = None
    attempt: int = 1
    started: float | None = None
    duration: float | None = None
    answered: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    version: str | None = None

    def __repr__(self) -> str:
        told = [
            f"{name}={value!r}"
            for name, value in zip(self._fields, self, strict=True)
            if not (value is None or (isinstance(value, tuple) and not value))
        ]
        return f"StateTask({', '.join(told)})"


class StateSnapshot(NamedTuple):
    """The state of a thread at one checkpoint.

    `next` are the nodes that run next; () when the run is over. `config` addresses this checkpoint and can be
    passed back to any call. For an unknown thread everything is empty.
    """

    values: Any
    next: tuple[str, ...]
    config: Config
    metadata: dict[str, Any] | None
    created_at: str | None
    parent_config: Config | None
    tasks: tuple[StateTask, ...]
    interrupts: tuple[Interrupt, ...]


Output = TypeVar("Output", default=Any)


@dataclass(frozen=True, slots=True)
class GraphOutput(Generic[Output]):
    """What `invoke(..., version="v2")` returns: the output and the open interrupts."""

    value: Output
    interrupts: tuple[Interrupt, ...] = field(default=())


class StreamPart(TypedDict, total=False):
    """One part of `stream(..., version="v2")`. `interrupts` comes with type "values" only."""

    type: StreamMode
    ns: tuple[str, ...]
    data: Any
    interrupts: tuple[Interrupt, ...]
