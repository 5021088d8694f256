"""The only way out of the core: what a script asks a driver to do.

`reply = yield from SomeEffect(...)`: the reply has the effect's type.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, final

from typing_extensions import TypeVar

from durable_graph.core.mail import Mail
from durable_graph.core.planning import Task
from durable_graph.records import Address, StoredCheckpoint

if TYPE_CHECKING:
    from durable_graph.core.streaming import Event
    from durable_graph.records import PendingRecord, StepRecord

__all__ = ["Batch", "Cancel", "Effect", "Emit", "Flush", "Launch", "Load", "Persist", "Receive", "Script"]

R = TypeVar("R")
T = TypeVar("T")


class Effect(Generic[R]):
    """Base of all effects."""

    __slots__ = ()

    def __iter__(self) -> Generator[Effect[Any], R, R]:
        return (yield self)


Script: TypeAlias = Generator[Effect[Any], Any, T]


class Batch:
    """What is to be stored: checkpoints in order, then what is known of the step after the last of them.

    `status` not None means that the run ends or pauses here and gives the thread back.
    """

    __slots__ = ("pending", "status", "steps")

    def __init__(
        self, steps: Sequence[StepRecord] = (), pending: PendingRecord | None = None, status: str | None = None
    ) -> None:
        self.steps = steps
        self.pending = pending
        self.status = status


class Load(Effect[StoredCheckpoint | None]):
    """Read the checkpoint the run starts from; None when there is none."""

    __slots__ = ()


class Persist(Effect[Sequence[Address]]):
    """Store a batch, after everything persisted before it. The reply are the addresses of its checkpoints.

    The first Persist of a run claims the thread. How long the batch may stay in memory is the durability's matter;
    `Flush` waits for it.
    """

    __slots__ = ("batch",)

    def __init__(self, batch: Batch) -> None:
        self.batch = batch


class Flush(Effect[None]):
    """Wait until everything persisted is durable."""

    __slots__ = ()


class Launch(Effect[Sequence[Mail]]):
    """Start tasks (each after its `delay`). Every one of them answers with mail, or is handed back by Cancel.

    The reply is mail that is there already: a driver may run a task on the spot.
    """

    __slots__ = ("tasks",)

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks


class Cancel(Effect[Sequence[Task]]):
    """Do not start what has not started. The reply is what was taken back; started tasks go on."""

    __slots__ = ()


class Receive(Effect[Sequence[Mail]]):
    """Wait for mail; the reply is all that waits. `wait=False` takes what is there and does not wait."""

    __slots__ = ("wait",)

    def __init__(self, *, wait: bool = True) -> None:
        self.wait = wait


@final
class Emit(Effect[None]):
    """Hand events to whoever listens."""

    __slots__ = ("events",)

    def __init__(self, events: Sequence[Event]) -> None:
        self.events = events
