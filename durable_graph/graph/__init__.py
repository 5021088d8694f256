"""Building a graph and running it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_graph.lazy_names import lazy
from durable_graph.types import END, START

if TYPE_CHECKING:
    from durable_graph.graph.builder import StateGraph
    from durable_graph.graph.compiled import CompiledStateGraph

__all__ = ["END", "START", "CompiledStateGraph", "StateGraph"]

_HOME_OF = {"CompiledStateGraph": ".compiled", "StateGraph": ".builder"}

__getattr__, __dir__ = lazy(globals(), _HOME_OF)
