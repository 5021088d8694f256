"""`compile(debug=True)`: a run prints what its nodes write and what the state is then, as it happens."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from durable_graph.errors import shortened
from durable_graph.graph.nesting import own_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durable_graph.core.streaming import Event
    from durable_graph.graph.calls import Call

__all__ = ["PRINTED", "printed"]

PRINTED: Final = frozenset({"updates", "values"})
"""The stream modes that are printed."""

_WIDTH: Final = 1000
"""Characters of a line at the most."""


def printed(call: Call, events: Sequence[Event]) -> list[Event]:
    """Print events; what nobody but the printer wanted is not passed on."""
    where = call.request.ns or call.request.thread
    for mode, payload, *ns in events:
        if mode in PRINTED and not ns:
            sys.stdout.write(f"[{mode}{f' {where}' if where else ''}] {shortened(payload, _WIDTH)}\n")
    return own_events(call, events)
