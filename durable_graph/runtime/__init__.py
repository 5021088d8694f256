"""Where effects happen: the only floor with OS threads, asyncio and clocks. Also what a node reaches of its run."""

from __future__ import annotations

from durable_graph.runtime.context import (
    ExecutionInfo,
    Runtime,
    get_config,
    get_runtime,
    get_stream_writer,
    interrupt,
)

__all__ = ["ExecutionInfo", "Runtime", "get_config", "get_runtime", "get_stream_writer", "interrupt"]
