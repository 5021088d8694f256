"""How each face does what a step asks for."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any

from durable_graph.errors import NodeTimeoutError
from durable_graph.persistence.isolation import own
from durable_graph.recording.step import Call, Keep, KeepCopy, Look, perform_cached_step, perform_step
from durable_graph.runtime import pool
from durable_graph.runtime.aio import acall, flushed, in_thread
from durable_graph.runtime.blocking import call_here
from durable_graph.runtime.landing import settled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from durable_graph.recording.step import Place, Step
    from durable_graph.runtime.hold import Hold

__all__ = ["ado_step", "do_step"]


def do_step(place: Place, step: Step, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
    """Do a step in this OS thread. *Raises* as `perform_step`."""
    steps = (perform_step if step.cache is None else perform_cached_step)(place, step, args, keywords)
    try:
        due: Any = next(steps)
        while True:
            try:
                answer = _call(due) if due.__class__ is Call else _do(due)
            except BaseException as error:  # noqa: BLE001 - the step decides what it means
                due = steps.throw(error)
            else:
                due = steps.send(answer)
    except StopIteration as end:
        return end.value


def _do(due: Any) -> Any:
    kind: Any = due.__class__
    if kind is Keep:
        hold = _keep(due)
        return None if hold is None else _land(hold, due)
    if kind is Look:
        return due.access.look()
    if kind is KeepCopy:
        return due.access.keep(due.value)
    time.sleep(_seconds(due))
    return None


async def ado_step(place: Place, step: Step, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
    """Do a step on the running event loop. *Raises* as `perform_step`."""
    steps = (perform_step if step.cache is None else perform_cached_step)(place, step, args, keywords)
    try:
        due: Any = next(steps)
        while True:
            try:
                answer = await (_acall(due) if due.__class__ is Call else _ado(due))
            except BaseException as error:  # noqa: BLE001 - the step decides what it means
                due = steps.throw(error)
            else:
                due = steps.send(answer)
    except StopIteration as end:
        return end.value


async def _ado(due: Any) -> Any:
    kind: Any = due.__class__
    if kind is Keep:
        hold = _keep(due)
        return None if hold is None else await _aland(hold, due)
    if kind is Look:
        return await due.access.alook()
    if kind is KeepCopy:
        return await due.access.akeep(due.value)
    await asyncio.sleep(_seconds(due))
    return None


async def _aland(hold: Hold, due: Keep) -> None:
    if _waits(hold, due):
        if hold.checkpointer.instant:
            hold.flush()
        else:
            await flushed(hold)
        return
    while (late := hold.behind()) is not None:
        await settled(late)


def _seconds(due: Any) -> float:
    return due.seconds + (random.random() if due.jitter else 0.0)  # noqa: S311 - jitter, no secret


def _land(hold: Hold, due: Keep) -> None:
    if _waits(hold, due):
        hold.flush()
        return
    while (late := hold.behind()) is not None:
        _ = late.exception()


def _waits(hold: Hold, due: Keep) -> bool:
    """Whether the record must be durable before anything goes on. That a step starts, where its outcome matters, always
    is: after a crash it would look as if it never had.
    """
    return hold.durability == "sync" or (due.record.data is None and due.record.error is None)


def _keep(due: Keep) -> Hold | None:
    """Note a record; the hold through which it is stored, None where nothing is or where it waits for the end."""
    place, record = due.place, due.record
    context = place.context
    shared = context.shared
    run, session = shared.run, shared.session
    if context.over:
        context.check()
    assert run is not None  # noqa: S101 - tasks exist only in a run; this tells the type checker
    run.calls[place.key] = record
    if context.watch is not None:
        context.alive()
    if shared.encode is None or session is None:
        run.results[place.key] = own(due.value)
        return None
    outbox = session.outbox
    if context.watch is None:
        outbox.record(record)
    else:
        context.fenced(lambda: outbox.record(record))
    return None if outbox.hold.durability == "exit" else outbox.hold


def _call(due: Call) -> Any:
    step = due.step
    body = step.body
    keywords = _keywords(due) if body.wants else due.keywords
    limit = None if step.timeout is None else step.timeout.run_timeout
    if limit is None:
        return call_here(body, due.args, keywords)
    lent = pool.lend()
    job = pool.start(lambda: call_here(body, due.args, keywords))
    try:
        return job.result(limit)
    except TimeoutError as error:
        if job.done():  # the user's own
            raise
        raise _too_late(due, limit) from error
    finally:
        pool.give_back(lent)


async def _acall(due: Call) -> Any:
    step = due.step
    limit = None if step.timeout is None else step.timeout.run_timeout
    if limit is None:
        return await _await(due)
    clock = asyncio.timeout(limit)
    try:
        async with clock:
            return await _await(due)
    except TimeoutError as error:
        if not clock.expired():  # the user's own
            raise
        raise _too_late(due, limit) from error


async def _await(due: Call) -> Any:
    body = due.step.body
    keywords = _keywords(due) if body.wants else due.keywords
    if body.asyn is None and body.sync is not None:  # a step may take its time
        sync = body.sync
        return await in_thread(lambda: sync(*due.args, **keywords))
    return await acall(body, due.args, keywords)


def _keywords(due: Call) -> Mapping[str, Any]:
    from durable_graph.recording.inside import StepContext

    return {**due.step.body.keywords(StepContext()), **due.keywords}


def _too_late(due: Call, limit: float) -> NodeTimeoutError:
    what = f"step {due.step.name!r} took longer than {limit:g} s"
    return NodeTimeoutError(what)
