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
from durable_graph.core.ending import Outcome, outcome_of, stop_run
from durable_graph.core.interrupts import listing
from durable_graph.core.run import Run, owner_of
from durable_graph.errors import GraphDrained, UnfinishedRunError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from durable_graph.core.effects import Batch
    from durable_graph.core.mail import Mail
    from durable_graph.core.program import Program
    from durable_graph.core.request import Request
    from durable_graph.records import Address, StoredCheckpoint

__all__ = ["run_graph"]


def run_graph(program: Program, request: Request, began: Callable[[Run], None]) -> Script[Outcome]:
    """A whole call: read the thread, finish what is unfinished if that is wanted, run. `began` is told each run."""
    # Effects of every call are yielded, not `yield from`ed: see `_advance`.
    stored: StoredCheckpoint | None = (yield Load()) if request.durable else None
    if request.nested and stored is not None and (stored.past or owner_of(stored) == (request.owner or ())[:2]):
        request = request.continuing()  # its task ran it before
    if request.kind == "input" and request.on_unfinished == "finish" and opening.unfinished(stored):
        stored = yield from _finish(program, request, began)
    run = Run(program, request, stored)
    began(run)
    first = opening.open_run(run)
    if first is None:
        yield from Emit(run.show.take())
        return outcome_of(run)
    # Outside of the try: a run that cannot begin has stored nothing and holds nothing.
    addresses: Sequence[Address] | None = (yield Persist(first)) if run.request.durable else None
    try:
        yield from _settle(run, first, addresses)
        yield from _advance(run)
    except GeneratorExit:
        raise
    except BaseException as error:
        yield from _end_badly(run, error)
        if isinstance(error, Blamed):
            raise error.error from error.error.__cause__
        raise
    return outcome_of(run)


def _finish(program: Program, request: Request, began: Callable[[Run], None]) -> Script[StoredCheckpoint | None]:
    """Run what is unfinished to its end; the checkpoint from which the new input goes on."""
    before = yield from run_graph(program, request.continuing(), began)
    stored = yield from Load()
    if opening.unfinished(stored):
        asked = listing(before.interrupts) or "to be continued"
        what = f"new input for thread {request.thread!r}, whose last run was continued and waits again: {asked}"
        cure = "Answer with Command(resume=...) or go on with invoke(None, config); on_unfinished='abandon' drops it."
        raise UnfinishedRunError(what, cure=cure)
    return stored


def _advance(run: Run) -> Script[None]:
    """Superstep after superstep: start its tasks, hear from all of them, store what came of it.

    What happens in every superstep stands here and not in functions of its own: each generator between a script and
    its driver costs a call for each effect. For the same reason its effects are yielded, not `yield from`ed.
    """
    durable, flush, nested = run.request.durable, run.request.flush, run.request.nested
    addresses: Sequence[Address] | None = None
    while not run.over:
        tasks = run.launch()
        if run.show.events:  # that a task starts is seen before it ends: Launch may run it on the spot
            yield from Emit(run.show.take())
        if tasks:
            run.busy = len(tasks)
            mails: Sequence[Mail] = yield Launch(tasks)
            run.receive(mails)
        while run.busy:
            mails = yield from _between(run)
            if not mails and run.busy:  # what was taken back may have been all that was outstanding
                mails = yield from Receive()
            run.receive(mails)
        batch = run.close_step()
        if durable:
            addresses = yield Persist(batch)
            run.released = batch.status is not None
        if batch.steps:  # before the Flush: results of a step that is stored are no results of the next one
            run.arrive(addresses)
        ends = batch.status is not None
        if durable and (flush or ends) and not (ends and nested and _left_to_outer(run)):
            yield Flush()
        if run.show.events:
            yield from Emit(run.show.take())


def _left_to_outer(run: Run) -> bool:
    """Whether the end of a graph inside a node may become durable together with what the outer run stores next: nobody
    acts on it before.
    """
    return not run.request.flush or (run.request.joined and not run.show.events)


def _settle(run: Run, batch: Batch, addresses: Sequence[Address] | None) -> Script[None]:
    """Wait until the first batch is as durable as it must be, plan what follows it, show it."""
    if batch.steps:
        run.arrive(addresses)
    if addresses is not None:
        run.released = batch.status is not None
        if run.request.flush or run.released:
            yield Flush()
    if run.show.events:
        yield from Emit(run.show.take())


def _between(run: Run) -> Script[Sequence[Mail]]:
    """Tasks still run: take back, make durable what came, show it, try again. The answer is mail that is there."""
    if run.failed:
        run.withdraw((yield from Cancel()))
    if run.request.durable and run.request.partial:
        batch = run.interim()
        if batch is not None:
            yield from Persist(batch)
            if run.request.flush:
                yield from Flush()
    if run.show.events:
        yield from Emit(run.show.take())
    return (yield from Launch(run.take_again())) if run.again else ()


def _end_badly(run: Run, error: BaseException) -> Script[None]:
    """Store what is worth storing and give the thread back."""
    if run.released:  # all is stored already, and another run may hold the thread now
        return
    if run.busy:  # cut short: what has not started never will, what has finished counts
        run.withdraw((yield from Cancel()))
        run.receive((yield from Receive(wait=False)))
    if isinstance(error, Blamed):  # the step is refused: what its tasks did is shown when it is run again
        run.show.events.clear()
    batch = stop_run(run, error)
    if batch is not None and run.request.durable:
        yield from Persist(batch)
        yield from Flush()
    stored = batch is not None
    if run.show.events and stored and isinstance(error, Exception | GraphDrained):
        yield from Emit(run.show.take())
