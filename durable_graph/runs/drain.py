"""`drain_on_signals`: ending a process without losing or cutting short a superstep."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from durable_graph.core.control import RunControl
from durable_graph.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

__all__ = ["drain_on_signals"]

_log = logging.getLogger("durable_graph")

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def drain_on_signals(
    signals: Sequence[signal.Signals] = _SIGNALS, *, control: RunControl | None = None
) -> Generator[RunControl]:
    """Inside, a signal asks what was given the `RunControl` to stop after its superstep, where it can be resumed.

        with drain_on_signals() as control:
            graph.work(control=control)        # or graph.invoke(..., control=control)

    `invoke` then raises `GraphDrained`, which names the signal; `work` gives its runs back to the queue and returns.
    The second signal does what it did before. This library installs no handler anywhere else.

    Args:
        signals: which; SIGTERM and Ctrl-C when left out.
        control: one that exists already.

    Raises:
        UsageError: this is not the main thread, where alone Python lets handlers be installed.
    """
    if threading.current_thread() is not threading.main_thread():
        what = "drain_on_signals() was called outside of the main thread, where Python installs no signal handlers"
        raise UsageError(what, cure="Call it in the main thread, and hand its control to the others.")
    control = RunControl() if control is None else control
    asked = control
    before: dict[signal.Signals, Any] = {}

    def drain(number: int, _: Any) -> None:
        name = signal.Signals(number).name
        asked.request_drain(name)
        for one, handler in before.items():
            _ = signal.signal(one, handler)
        _log.warning("%s: stopping after the current superstep; a second one stops at once", name)

    for one in signals:
        before[one] = signal.signal(one, drain)
    try:
        yield control
    finally:
        for one, handler in before.items():
            _ = signal.signal(one, handler)
