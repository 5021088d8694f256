"""Where effects happen: the only floor with OS threads, asyncio and clocks. Also what a node reaches of its run."""

from __future__ import annotations

from durable_graph.core.control import RunControl
from durable_graph.runtime.asking import interrupt
from durable_graph.runtime.context import (
    ExecutionInfo,
    Runtime,
    get_config,
    get_runtime,
    get_store,
    get_stream_writer,
)

__all__ = [
    "ExecutionInfo",
    "RunControl",
    "Runtime",
    "get_config",
    "get_runtime",
    "get_store",
    "get_stream_writer",
    "interrupt",
]
