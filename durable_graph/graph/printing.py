"""`compile(debug=True)`: a run prints what its nodes write and what the state is then, as it happens."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from durable_graph.errors import shortened
from durable_graph.graph.nesting import own_events

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Sequence

    from durable_graph.core.ending import Outcome
    from durable_graph.core.streaming import Event
    from durable_graph.graph.calls import Call

__all__ = ["PRINTED", "aprinting", "printing"]

PRINTED: Final = frozenset({"updates", "values"})
"""The stream modes that are printed."""

_WIDTH: Final = 1000
"""Characters of a line at the most."""


def printing(
    call: Call, running: Generator[Sequence[Event], None, Outcome]
) -> Generator[Sequence[Event], None, Outcome]:
    """The same run; what nobody but the printer wanted is not passed on."""
    try:
        while True:
            try:
                events = next(running)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome
            _print(call, events)
            if shown := own_events(call, events):
                yield shown
    finally:
        running.close()


async def aprinting(
    call: Call, running: AsyncGenerator[Sequence[Event], None]
) -> AsyncGenerator[Sequence[Event], None]:
    """Async `printing`."""
    try:
        async for events in running:
            _print(call, events)
            if shown := own_events(call, events):
                yield shown
    finally:
        await running.aclose()


def _print(call: Call, events: Sequence[Event]) -> None:
    where = call.request.ns or call.request.thread
    for mode, payload, *ns in events:
        if mode in PRINTED and not ns:
            sys.stdout.write(f"[{mode}{f' {where}' if where else ''}] {shortened(payload, _WIDTH)}\n")
