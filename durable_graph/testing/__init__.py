"""Kits for testing what you build on durable_graph: graphs (`crash_sweep`, `Ledger`) and checkpointers (`conformance`).

    from durable_graph.testing import Ledger, crash_sweep

    crash_sweep(make_graph, {"order": "A17"}, resumes=["yes"], ledger=LEDGER).check()

Names are loaded when they are first used: a program whose nodes keep a ledger does not load the kits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from durable_graph.lazy_names import lazy

if TYPE_CHECKING:
    from durable_graph.testing import conformance
    from durable_graph.testing.ledger import Ledger
    from durable_graph.testing.report import CrashPoint, SweepReport
    from durable_graph.testing.sweep import crash_sweep

__all__ = ["CrashPoint", "Ledger", "SweepReport", "conformance", "crash_sweep"]

_HOMES: Final[dict[str, str]] = {
    "CrashPoint": ".report",
    "Ledger": ".ledger",
    "SweepReport": ".report",
    "conformance": ".conformance",
    "crash_sweep": ".sweep",
}

__getattr__, __dir__ = lazy(globals(), _HOMES)
