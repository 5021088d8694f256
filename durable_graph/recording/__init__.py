"""Recorded steps: work inside a node that is done once, however often the node runs."""

from __future__ import annotations

from durable_graph.recording import recorded
from durable_graph.recording.once import aonce, once

__all__ = ["aonce", "once", "recorded"]
