"""Every error this library raises on purpose: what happened, where, and the cure.

    DurableGraphError
     ├── GraphError                     your graph is wrong (found when it is built or compiled)
     │    ├── InvalidGraphError         one or several mistakes, reported together
     │    ├── InvalidSchemaError        a state, input, output or context schema cannot be used
     │    ├── UnknownNodeError          a stored run waits on a node this graph lacks
     │    └── MigrationError            `migrate_state` failed for a stored state
     ├── UsageError                     your call is wrong; nothing was changed
     │    ├── InvalidConfigError        config, thread id, stream mode, durability
     │    ├── InvalidInputError         the input does not fit the graph's input schema
     │    ├── EmptyInputError           no input, and nothing that could go on
     │    ├── UnfinishedRunError        new input on a thread that waits or crashed
     │    ├── UnknownInterruptError     an answer to a question that is not open
     │    ├── NoCheckpointerError       needs a checkpointer
     │    ├── OutsideRunError           only works inside a running node
     │    ├── ThreadBusy                another run holds the thread
     │    ├── EventLoopError            sync call of async code inside a running event loop
     │    └── RunNotFoundError          no queued run has this id
     ├── RunError                       a queued run gave no result
     │    ├── RunFailed                 it failed
     │    └── RunCancelled              somebody cancelled it
     ├── NodeFailure                    your node did something the engine cannot accept
     │    ├── InvalidUpdateError        an update or route that does not fit the graph
     │    ├── InvalidValueError         a value that violates the state's schema
     │    ├── UnserializableValueError  a value that cannot be stored
     │    ├── InterruptMismatchError    a node that ran again asked something else
     │    ├── StepMismatchError         a node that ran again called a recorded step with other arguments
     │    ├── GraphRecursionError       out of supersteps
     │    ├── NodeTimeoutError          a node took longer than it may
     │    └── NodeCancelledError        the node cancelled itself
     ├── EmptyChannelError              a key that holds nothing was read
     ├── StorageError                   the backend, or what it holds
     │    ├── LostLease                 another owner took the thread over
     │    ├── CorruptDataError          stored bytes are damaged
     │    ├── NewerDatabaseError        written by a newer version of this library
     │    ├── UnknownStoredTypeError    stored type is not registered here
     │    ├── DatabaseLockedError       another process holds the database
     │    ├── DatabaseUnavailableError  cannot be opened, read or written
     │    └── DatabaseFullError         no room left
     └── InternalError                  a bug of ours: please report it

    GraphBubbleUp (BaseException)       control flow, passes through `except Exception`
     ├── GraphInterrupt                 a node asked for a human
     ├── ParentCommand                  a Command addressed to the parent graph
     ├── GraphDrained                   the run was asked to stop and can be resumed
     └── AttemptOver                    this attempt was given up (timeout), and its node goes on all the same

Each class has a `code` (stable, greppable) and a default `cure`; the text of an error ends with both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from durable_graph.error_base import DurableGraphError, shortened
from durable_graph.signals import AttemptOver, GraphBubbleUp, GraphDrained, GraphInterrupt, ParentCommand

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "AttemptOver",
    "CorruptDataError",
    "DatabaseFullError",
    "DatabaseLockedError",
    "DatabaseUnavailableError",
    "DurableGraphError",
    "EmptyChannelError",
    "EmptyInputError",
    "EventLoopError",
    "GraphBubbleUp",
    "GraphDrained",
    "GraphError",
    "GraphInterrupt",
    "GraphRecursionError",
    "InternalError",
    "InterruptMismatchError",
    "InvalidConfigError",
    "InvalidGraphError",
    "InvalidInputError",
    "InvalidSchemaError",
    "InvalidUpdateError",
    "InvalidValueError",
    "LostLease",
    "MigrationError",
    "NewerDatabaseError",
    "NoCheckpointerError",
    "NodeCancelledError",
    "NodeError",
    "NodeFailure",
    "NodeTimeoutError",
    "OutsideRunError",
    "ParentCommand",
    "RunCancelled",
    "RunError",
    "RunFailed",
    "RunNotFoundError",
    "StepMismatchError",
    "StorageError",
    "StoredError",
    "ThreadBusy",
    "UnfinishedRunError",
    "UnknownInterruptError",
    "UnknownNodeError",
    "UnknownStoredTypeError",
    "UnserializableValueError",
    "UsageError",
    "shortened",
]


# --- your graph -----------------------------------------------------------------------------------------------


class GraphError(DurableGraphError):
    """The graph itself is wrong."""

    code = "DG100"


class InvalidGraphError(GraphError, ValueError):
    """One or several mistakes in a graph, found when it was built or compiled; all of them are in the text."""

    code = "DG101"
    cure = "Correct the graph as the message says and compile it again."


class InvalidSchemaError(GraphError, ValueError):
    """A schema cannot be turned into channels."""

    code = "DG102"
    cure = "Use a TypedDict, dataclass, pydantic model, or an annotated type such as Annotated[list, operator.add]."


class UnknownNodeError(GraphError, KeyError):
    """A stored run waits on a node that this graph does not have; the thread was left untouched."""

    code = "DG103"
    cure = "Run it with the graph that has this node, or add the node back under this name."

    __str__ = DurableGraphError.__str__


class MigrationError(GraphError):
    """`migrate_state` failed for a stored state; the thread was left untouched."""

    code = "DG104"
    cure = "Mend migrate_state; graph.doctor() shows which threads it fails for."


# --- your call ------------------------------------------------------------------------------------------------


class UsageError(DurableGraphError):
    """The call is wrong. Nothing was changed."""

    code = "DG200"


class InvalidConfigError(UsageError, ValueError):
    """Config, thread id, stream mode, durability or another argument of a call is wrong."""

    code = "DG201"
    cure = "Pass one of the values named in the message."


class InvalidInputError(UsageError, ValueError):
    """The input of a run does not fit the graph's input schema."""

    code = "DG202"
    cure = "Pass the keys and types of the input schema."


class EmptyInputError(UsageError):
    """No input was given and nothing is stored that could go on."""

    code = "DG203"
    cure = "Pass an input to start a run, or the thread_id of a run that waits or was cut short."


class UnfinishedRunError(UsageError):
    """New input for a thread whose last run waits for an answer or was cut short."""

    code = "DG204"
    cure = (
        "Answer with Command(resume=...), go on with invoke(None, config), or say what shall happen to the unfinished "
        "run: on_unfinished='finish' or 'abandon'."
    )


class UnknownInterruptError(UsageError, ValueError, RuntimeError):
    """An answer names an interrupt that is not open, or does not say which of several it means.

    `interrupt_ids` are the ids that do not fit, `pending_ids` those that are open.
    """

    code = "DG205"
    cure = "Answer an open interrupt: Command(resume={interrupt_id: answer}); get_state(config).interrupts lists them."

    def __init__(
        self,
        what: str,
        *,
        interrupt_ids: Sequence[str] = (),
        pending_ids: Sequence[str] = (),
        cure: str | None = None,
    ) -> None:
        super().__init__(what, cure=cure)
        self.interrupt_ids = tuple(interrupt_ids)
        self.pending_ids = tuple(pending_ids)


class NoCheckpointerError(UsageError, ValueError, RuntimeError):
    """The call needs a checkpointer and the graph was compiled without one."""

    code = "DG206"
    cure = 'Compile with one, e.g. graph.compile(checkpointer="sqlite:///runs.db").'


class OutsideRunError(UsageError, RuntimeError):
    """A function that only works inside a running node was called outside of one."""

    code = "DG207"
    cure = "Call it from inside a node (or a function that a node calls)."


class ThreadBusy(UsageError):
    """Another run holds the thread.

    owner: who, as it is stored.   since: when it took the thread.   until: when its claim ends (in `left` seconds) if
    there is no other sign of life; None where the backend keeps no leases.   own: it is the run that made this call.
    """

    code = "DG208"
    cure = "Wait until that run ends, then call again; on_busy='wait' does so."

    def __init__(
        self,
        what: str,
        *,
        owner: str = "",
        held: float | None = None,
        left: float | None = None,
        own: bool = False,
        cure: str | None = None,
    ) -> None:
        super().__init__(what, cure=cure)
        from datetime import UTC, datetime, timedelta

        now = datetime.now(UTC)
        self.owner = owner
        self.left = left
        self.own = own
        self.since = None if held is None else now - timedelta(seconds=held)
        self.until = None if left is None else now + timedelta(seconds=left)


class EventLoopError(UsageError, RuntimeError):
    """A sync call had to run async code while an event loop already runs in this OS thread."""

    code = "DG209"
    cure = "Use the async twin: await graph.ainvoke(...) or graph.astream(...)."


class RunNotFoundError(UsageError, KeyError):
    """No queued run has this id."""

    code = "DG210"
    cure = "Pass what submit() returned; list_runs() shows which runs there are."

    __str__ = DurableGraphError.__str__


# --- queued runs ----------------------------------------------------------------------------------------------


class RunError(DurableGraphError):
    """A queued run gave no result. `run` is its record."""

    code = "DG500"

    def __init__(self, what: str, *, run: Any = None, cure: str | None = None) -> None:
        super().__init__(what, cure=cure)
        self.run = run


class RunFailed(RunError):
    """A queued run failed. trace: the traceback, as text, of what it failed with."""

    code = "DG501"
    cure = "Mend what failed, then submit(None, config) goes on with what its thread has."

    def __init__(self, what: str, *, run: Any = None, trace: str = "", cure: str | None = None) -> None:
        super().__init__(what, run=run, cure=cure)
        self.trace = trace


class RunCancelled(RunError):
    """A queued run was cancelled."""

    code = "DG502"
    cure = "submit(None, config) goes on with what its thread has; a new input starts over."


# --- your node ------------------------------------------------------------------------------------------------


class NodeFailure(DurableGraphError):
    """A node did something the engine cannot accept. Nothing of it was stored; fix the node and resume."""

    code = "DG300"


class InvalidUpdateError(NodeFailure, ValueError):
    """An update, route or Send that does not fit the graph."""

    code = "DG301"
    cure = "Return a dict whose keys are keys of the state, or a Command."


class InvalidValueError(NodeFailure, ValueError):
    """A value violates the state's schema. Rejected before it was stored."""

    code = "DG302"
    cure = "Return a value of the declared type; the thread stays at its last good checkpoint and can be resumed."


class UnserializableValueError(NodeFailure, TypeError):
    """A value cannot be stored exactly."""

    code = "DG303"
    cure = (
        "Register its type with durable_graph.register_type(...), or keep the key out of checkpoints: "
        "Annotated[T, UntrackedValue]."
    )


class InterruptMismatchError(NodeFailure):
    """A node that ran again asked something else than before, so a stored answer fits no question."""

    code = "DG304"
    cure = "Give the question a stable name, interrupt(value, key='...'), or make its value the same in every run."


class StepMismatchError(NodeFailure):
    """A node that ran again called a recorded step in another way, so what is recorded does not belong to the call."""

    code = "DG309"
    cure = "Call it with the arguments of the first time, or give the changed step another key."


class GraphRecursionError(NodeFailure, RecursionError):
    """The run used up its supersteps. `state` is the last state; the thread can be resumed with a fresh budget."""

    code = "DG305"
    cure = "Raise it with config={'recursion_limit': N}, or give the graph a way to end."

    def __init__(self, what: str, *, state: Any = None, cure: str | None = None) -> None:
        super().__init__(what, cure=cure)
        self.state = state


class NodeTimeoutError(NodeFailure):
    """A node took longer than it may. What it does after this counts for nothing.

    node: its name.   elapsed: seconds since the attempt began; 0.0 when it never did.   kind: which limit it was: "run"
    (`run_timeout`), "idle" (`idle_timeout`) or "step" (the graph's `step_timeout`, which ends the whole step and is not
    tried again).   run_timeout, idle_timeout: the attempt's limits, seconds.   task: the id of the task.
    """

    code = "DG306"
    cure = "Give the node more time, make it faster, or call runtime.heartbeat() while it works (idle_timeout)."

    def __init__(
        self,
        what: str,
        *,
        node: str = "",
        elapsed: float = 0.0,
        kind: Literal["run", "idle", "step"] = "run",
        run_timeout: float | None = None,
        idle_timeout: float | None = None,
        task: str = "",
        cure: str | None = None,
    ) -> None:
        super().__init__(what, cure=cure)
        self.node = node
        self.elapsed = elapsed
        self.kind: Literal["run", "idle", "step"] = kind
        self.run_timeout = run_timeout
        self.idle_timeout = idle_timeout
        self.task = task


class NodeCancelledError(NodeFailure):
    """The body of a node raised CancelledError although nobody cancelled the run."""

    code = "DG307"
    cure = "Catch CancelledError inside the node where it cancels work of its own."


class EmptyChannelError(DurableGraphError):
    """A key was read that holds nothing."""

    code = "DG308"
    cure = "Write the key before it is read."


# --- the backend ----------------------------------------------------------------------------------------------


class StorageError(DurableGraphError):
    """The backend failed, or what it holds cannot be used."""

    code = "DG400"


class LostLease(StorageError):
    """Another owner took the thread over; nothing of this run was written after that."""

    code = "DG401"
    cure = "Load the thread again; the new owner goes on from the last durable step."


class CorruptDataError(StorageError):
    """Stored bytes are damaged, or the file is no database of ours."""

    code = "DG402"
    cure = "Restore the database from a backup, or point to another file."


class NewerDatabaseError(StorageError):
    """The database was written by a newer version of this library; it was left untouched."""

    code = "DG403"
    cure = "Upgrade durable_graph."


class UnknownStoredTypeError(StorageError, TypeError):
    """A stored value has a type that is not registered in this process. Nothing was imported or called for it."""

    code = "DG404"
    cure = "Register the type with durable_graph.register_type(...), with aliases=[...] when it was moved or renamed."


class DatabaseLockedError(StorageError):
    """Another process held the database for longer than the busy timeout."""

    code = "DG405"
    cure = "End the other process's transaction, or raise busy_timeout; then resume the run."


class DatabaseUnavailableError(StorageError):
    """The database cannot be opened, read or written."""

    code = "DG406"
    cure = "Check that the folder exists and that this user may write there."


class DatabaseFullError(StorageError):
    """No room is left for the database."""

    code = "DG407"
    cure = "Make room, then resume the run; it goes on from the last durable step."


class InternalError(DurableGraphError):
    """A bug in durable_graph."""

    code = "DG900"
    cure = "Please report it with this text and the traceback."


# --- what an error handler is told ----------------------------------------------------------------------------------


@dataclass(slots=True, frozen=True)
class NodeError:
    """What an error handler gets as `error`: the node that failed for good, and what it raised.

    After a crash the exception itself is gone; then `error` is a `StoredError` with its type, text and traceback.
    """

    node: str
    error: BaseException


class StoredError(Exception):
    """An exception that another process raised. `type` is the qualified name of its class, `trace` its traceback."""

    def __init__(self, record: Any) -> None:
        super().__init__(record.message)
        self.type: str = record.type
        self.trace: str = record.traceback
        self.record = record

    def __str__(self) -> str:
        return f"{self.type.rpartition('.')[2]}: {self.args[0]}"
