"""The order of things in a run. What is decided stands in `run`, how it is performed in the drivers.

Rules held by tests over the effect transcript:

1. Nothing that follows from a write (a Launch, an event) comes before that write's Persist; with durability "sync"
   not before its Flush.
2. Every Receive has something outstanding that can answer it.
3. No effect stands in a `finally`: cleaning up is the driver's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_graph.core import opening
from durable_graph.core.applying import Blamed
from durable_graph.core.effects import Cancel, Emit, Flush, Launch, Load, Persist, Receive, Script
from durable_graph.core.run import Outcome, Run
from durable_graph.errors import UnfinishedRunError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durable_graph.core.effects import Batch
    from durable_graph.core.program import Program
    from durable_graph.core.request import Request
    from durable_graph.records import Address

__all__ = ["run_graph"]


def run_graph(program: Program, request: Request) -> Script[Outcome]:
    """A whole call: read the thread, finish what is unfinished if that is wanted, run."""
    stored = (yield from Load()) if request.durable else None
    if request.kind == "input" and request.on_unfinished == "finish" and opening.unfinished(stored):
        before = yield from _run(Run(program, request.continuing(), stored))
        stored = yield from Load()
        if opening.unfinished(stored):
            asked = ", ".join(f"{one.id} ({one.value!r})" for one in before.interrupts) or "to be continued"
            what = f"new input for thread {request.thread!r}, whose last run was continued and waits again: {asked}"
            raise UnfinishedRunError(what)
    return (yield from _run(Run(program, request, stored)))


def _run(run: Run) -> Script[Outcome]:
    run.request.began(run)
    first = run.open()
    if first is None:
        yield from Emit(run.take_events())
        return run.outcome()
    # Outside of the try: a run that cannot begin has stored nothing and holds nothing.
    addresses = (yield from Persist(first)) if run.request.durable else None
    try:
        yield from _settle(run, first, addresses)
        while not run.over:
            yield from _step(run)
    except GeneratorExit:
        raise
    except BaseException as error:
        yield from _end_badly(run, error)
        if isinstance(error, Blamed):
            raise error.error from error.error.__cause__
        raise
    return run.outcome()


def _step(run: Run) -> Script[None]:
    """One superstep: start its tasks, hear from all of them, store what came of it."""
    tasks = run.launch()
    if tasks:
        yield from Launch(tasks)
    while run.busy:
        run.receive((yield from Receive()))
        if run.busy:
            yield from _between(run)
    batch = run.close_step()
    addresses = (yield from Persist(batch)) if run.request.durable else None
    yield from _settle(run, batch, addresses)


def _settle(run: Run, batch: Batch, addresses: Sequence[Address] | None) -> Script[None]:
    """Wait until a batch is as durable as it must be, plan what follows it, show it."""
    if addresses is not None and (run.request.flush or batch.status is not None):
        yield from Flush()
    if batch.steps:
        run.arrive(addresses)
    if run.events:
        yield from Emit(run.take_events())


def _between(run: Run) -> Script[None]:
    """Some tasks answered, others still run: try again, take back, make durable, show."""
    if run.failed:
        run.withdraw((yield from Cancel()))
    if run.again:
        yield from Launch(run.take_again())
    if run.request.durable and run.request.partial:
        batch = run.interim()
        if batch is not None:
            yield from Persist(batch)
            if run.request.flush:
                yield from Flush()
    if run.events:
        yield from Emit(run.take_events())


def _end_badly(run: Run, error: BaseException) -> Script[None]:
    """Store what is worth storing and give the thread back."""
    if run.busy:  # cut short: what has not started never will, what has finished counts
        run.withdraw((yield from Cancel()))
        run.receive((yield from Receive(wait=False)))
    batch = run.stop(error)
    if batch is not None and run.request.durable:
        yield from Persist(batch)
        yield from Flush()
    if run.events and isinstance(error, Exception):
        yield from Emit(run.take_events())
