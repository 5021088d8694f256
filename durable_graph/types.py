"""The vocabulary that users and every floor share: constants, small values, and what a run returns.

Names are LangGraph's. Everything here is plain data without behaviour; nothing is imported beyond the standard
library, so that importing it costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, Literal, NamedTuple, TypeAlias, TypedDict, final

from typing_extensions import TypeVar

__all__ = [
    "END",
    "MISSING",
    "ROOT",
    "START",
    "TAG_HIDDEN",
    "Command",
    "Config",
    "Durability",
    "GraphOutput",
    "Interrupt",
    "Missing",
    "OnUnfinished",
    "Overwrite",
    "RetryPolicy",
    "RunnableConfig",
    "Send",
    "StateSnapshot",
    "StateTask",
    "StreamMode",
    "StreamPart",
    "StreamWriter",
]

START: Final = "__start__"
END: Final = "__end__"
ROOT: Final = "__root__"
"""The key of a state that is one bare value."""
TAG_HIDDEN: Final = "langsmith:hidden"

Durability: TypeAlias = Literal["sync", "async", "exit"]
"""When a superstep becomes durable: before the next one starts, in the background, or when the run stops."""

OnUnfinished: TypeAlias = Literal["reject", "finish", "abandon"]
"""What new input does to a run of the same thread that waits or was cut short."""

StreamMode: TypeAlias = Literal["values", "updates", "custom", "tasks", "checkpoints", "debug"]

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

    `arg` is handed to the node as it is; it need not have the shape of the state.
    """

    __slots__ = ("arg", "node")

    def __init__(self, node: str, arg: Any) -> None:
        self.node = node
        self.arg = arg

    def __repr__(self) -> str:
        return f"Send(node={self.node!r}, arg={self.arg!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Send) and self.node == other.node and bool(self.arg == other.arg)

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


@dataclass(frozen=True, slots=True, repr=False)
class Interrupt:
    """A question a node asked. `id` is what an answer refers to; `value` is what was asked.

    `response_schema` is the JSON schema of the answer, when the node gave one.
    """

    value: Any
    id: str = ""
    response_schema: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        schema = f", response_schema={self.response_schema!r}" if self.response_schema is not None else ""
        return f"Interrupt(value={self.value!r}, id={self.id!r}{schema})"


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


class StateTask(NamedTuple):
    """One task of a checkpoint: what will run, or ran, or waits."""

    id: str
    name: str
    path: tuple[Any, ...]
    error: str | None = None
    interrupts: tuple[Interrupt, ...] = ()
    state: Any = None
    result: Any = None

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
