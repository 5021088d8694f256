"""Pictures of graphs: what may follow what, as Mermaid, text or SVG.

`read_graph` turns what was added to a builder into a `DrawnGraph`, which draws itself. Everything is made here: no web
service, no other library, and nothing of the user's runs.
"""

from __future__ import annotations

from durable_graph.graph.drawing.model import DrawnEdge, DrawnGraph, DrawnNode
from durable_graph.graph.drawing.reading import read_graph

__all__ = ["DrawnEdge", "DrawnGraph", "DrawnNode", "read_graph"]
