"""Standing between a run and whoever listens to it: what the run shows goes through a function on its way.

`through` is given the events of a moment and answers with those that are passed on; none of them: nothing is passed.
Whoever closes the stream closes the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator, Sequence

    from durable_graph.core.ending import Outcome
    from durable_graph.core.streaming import Event

__all__ = ["apassing", "passing"]


def passing(
    running: Generator[Sequence[Event], None, Outcome], through: Callable[[Sequence[Event]], Sequence[Event]]
) -> Generator[Sequence[Event], None, Outcome]:
    """The same run, with other events."""
    try:
        while True:
            try:
                events = next(running)
            except StopIteration as end:
                return end.value
            if shown := through(events):
                yield shown
    finally:
        running.close()


async def apassing(
    running: AsyncGenerator[Sequence[Event], None], through: Callable[[Sequence[Event]], Sequence[Event]]
) -> AsyncGenerator[Sequence[Event], None]:
    """Async `passing`."""
    try:
        async for events in running:
            if shown := through(events):
                yield shown
    finally:
        await running.aclose()
