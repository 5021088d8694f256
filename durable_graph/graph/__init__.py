"""Building a graph and running it."""

from __future__ import annotations

from durable_graph.graph.builder import StateGraph
from durable_graph.graph.compiled import CompiledStateGraph
from durable_graph.types import END, START

__all__ = ["END", "START", "CompiledStateGraph", "StateGraph"]
