"""durable_graph: a durable-execution engine for agent graphs.

    from durable_graph import END, START, StateGraph

Everything public is here; names are loaded when they are first used, so that importing this costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_graph.lazy_names import lazy

if TYPE_CHECKING:
    from durable_graph.caches import BaseCache, CachePolicy, InMemoryCache
    from durable_graph.errors import (
        DurableGraphError,
        EmptyInputError,
        GraphDrained,
        GraphError,
        GraphInterrupt,
        GraphRecursionError,
        InternalError,
        InvalidUpdateError,
        NodeError,
        NodeFailure,
        NodeTimeoutError,
        ParentCommand,
        RunCancelled,
        RunFailed,
        StorageError,
        ThreadBusy,
        UnfinishedRunError,
        UnknownInterruptError,
        UsageError,
    )
    from durable_graph.functional import entrypoint, task
    from durable_graph.graph import CompiledStateGraph, StateGraph
    from durable_graph.models.streaming import push_message
    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.persistence.type_registry import register_type
    from durable_graph.recording import aonce, await_for_event, once, recorded, sleep, sleep_until, wait_for_event
    from durable_graph.runs import RunRecord, Schedule, drain_on_signals
    from durable_graph.runtime import (
        ExecutionInfo,
        RunControl,
        Runtime,
        get_config,
        get_runtime,
        get_store,
        get_stream_writer,
        interrupt,
    )
    from durable_graph.schema import IsLastStep, RemainingSteps
    from durable_graph.stores import BaseStore, InMemoryStore, Item, SearchItem
    from durable_graph.types import (
        END,
        START,
        Command,
        Config,
        GraphOutput,
        Interrupt,
        Overwrite,
        RetryPolicy,
        Send,
        StateSnapshot,
        StateTask,
        StateUpdate,
        StreamPart,
        StreamWriter,
        TimeoutPolicy,
    )

__all__ = [
    "END",
    "START",
    "BaseCache",
    "BaseStore",
    "CachePolicy",
    "Checkpointer",
    "Command",
    "CompiledStateGraph",
    "Config",
    "DurableGraphError",
    "EmptyInputError",
    "ExecutionInfo",
    "GraphDrained",
    "GraphError",
    "GraphInterrupt",
    "GraphOutput",
    "GraphRecursionError",
    "InMemoryCache",
    "InMemoryStore",
    "InternalError",
    "Interrupt",
    "InvalidUpdateError",
    "IsLastStep",
    "Item",
    "NodeError",
    "NodeFailure",
    "NodeTimeoutError",
    "Overwrite",
    "ParentCommand",
    "RemainingSteps",
    "RetryPolicy",
    "RunCancelled",
    "RunControl",
    "RunFailed",
    "RunRecord",
    "Runtime",
    "Schedule",
    "SearchItem",
    "Send",
    "StateGraph",
    "StateSnapshot",
    "StateTask",
    "StateUpdate",
    "StorageError",
    "StreamPart",
    "StreamWriter",
    "ThreadBusy",
    "TimeoutPolicy",
    "UnfinishedRunError",
    "UnknownInterruptError",
    "UsageError",
    "aonce",
    "await_for_event",
    "drain_on_signals",
    "entrypoint",
    "get_config",
    "get_runtime",
    "get_store",
    "get_stream_writer",
    "interrupt",
    "once",
    "push_message",
    "recorded",
    "register_type",
    "sleep",
    "sleep_until",
    "task",
    "wait_for_event",
]

_HOMES = {
    "durable_graph.caches": "BaseCache CachePolicy InMemoryCache",
    "durable_graph.errors": (
        "DurableGraphError EmptyInputError GraphDrained GraphError GraphInterrupt GraphRecursionError "
        "InternalError InvalidUpdateError NodeError NodeFailure NodeTimeoutError ParentCommand RunCancelled RunFailed "
        "StorageError ThreadBusy UnfinishedRunError UnknownInterruptError UsageError"
    ),
    "durable_graph.functional": "entrypoint task",
    "durable_graph.graph": "CompiledStateGraph StateGraph",
    "durable_graph.models.streaming": "push_message",
    "durable_graph.persistence.checkpointer": "Checkpointer",
    "durable_graph.persistence.type_registry": "register_type",
    "durable_graph.recording": "aonce await_for_event once recorded sleep sleep_until wait_for_event",
    "durable_graph.runs": "RunRecord Schedule drain_on_signals",
    "durable_graph.runtime": (
        "ExecutionInfo RunControl Runtime get_config get_runtime get_store get_stream_writer interrupt"
    ),
    "durable_graph.schema": "IsLastStep RemainingSteps",
    "durable_graph.stores": "BaseStore InMemoryStore Item SearchItem",
    "durable_graph.types": (
        "END START Command Config GraphOutput Interrupt Overwrite RetryPolicy Send StateSnapshot "
        "StateTask StateUpdate StreamPart StreamWriter TimeoutPolicy"
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

__getattr__, __dir__ = lazy(globals(), _HOME_OF)
