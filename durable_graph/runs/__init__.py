"""Queued runs: accepted once, carried to their end by whichever worker lives."""

from __future__ import annotations

from durable_graph.runs.drain import drain_on_signals
from durable_graph.runs.record import RunRecord, Schedule

__all__ = ["RunRecord", "Schedule", "drain_on_signals"]
