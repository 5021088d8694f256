"""Kits for testing what you build on durable_graph: graphs (`crash_sweep`, `Ledger`) and checkpointers (`conformance`).

    from durable_graph.testing import Ledger, crash_sweep

    crash_sweep(make_graph, {"order": "A17"}, resumes=["yes"], ledger=LEDGER).check()

Names are loaded when they are first used: a program whose nodes keep a ledger does not load the kits.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from durable_graph.testing import conformance
    from durable_graph.testing.ledger import Ledger
    from durable_graph.testing.report import CrashPoint, SweepReport
    from durable_graph.testing.sweep import crash_sweep

__all__ = ["CrashPoint", "Ledger", "SweepReport", "conformance", "crash_sweep"]

_HOMES = {
    "CrashPoint": "durable_graph.testing.report",
    "Ledger": "durable_graph.testing.ledger",
    "SweepReport": "durable_graph.testing.report",
    "crash_sweep": "durable_graph.testing.sweep",
}


def __getattr__(name: str) -> Any:
    if name == "conformance":
        return import_module("durable_graph.testing.conformance")
    if name not in _HOMES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})  # what a user completes
