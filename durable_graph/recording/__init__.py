"""Recorded steps: work inside a node that is done once, however often the node runs. And durable waits."""

from __future__ import annotations

from durable_graph.recording import recorded
from durable_graph.recording.once import aonce, once
from durable_graph.recording.waits import await_for_event, sleep, sleep_until, wait_for_event

__all__ = ["aonce", "await_for_event", "once", "recorded", "sleep", "sleep_until", "wait_for_event"]
