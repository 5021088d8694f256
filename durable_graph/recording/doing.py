"""How each face does what a step asks for."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any

from durable_graph.errors import NodeTimeoutError
from durable_graph.recording.step import Call, Keep, perform_step
from durable_graph.runtime import pool
from durable_graph.runtime.aio import acall, flushed, in_thread
from durable_graph.runtime.blocking import call_here

if TYPE_CHECKING:
    from collections.abc import Mapping

    from durable_graph.recording.step import Place, Step
    from durable_graph.runtime.hold import Hold
    from durable_graph.types import TimeoutPolicy

__all__ = ["ado_step", "do_step"]


def do_step(place: Place, step: Step, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
    """Do a step in this OS thread. *Raises* as `perform_step`."""
    steps = perform_step(place, step, args, keywords)
    try:
        due = next(steps)
        while True:
            try:
                answer = _do(due)
            except BaseException as error:  # noqa: BLE001 - the step decides what it means
                due = steps.throw(error)
            else:
                due = steps.send(answer)
    except StopIteration as end:
        return end.value


def _do(due: Any) -> Any:
    if type(due) is Call:
        return _call(due)
    if type(due) is Keep:
        hold = _keep(due)
        if hold is not None and hold.durability == "sync":
            hold.flush()
        elif hold is not None:
            while (late := hold.behind()) is not None:
                _ = late.exception()
        return None
    time.sleep(_seconds(due))
    return None


async def ado_step(place: Place, step: Step, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
    """Do a step on the running event loop. *Raises* as `perform_step`."""
    steps = perform_step(place, step, args, keywords)
    try:
        due = next(steps)
        while True:
            try:
                answer = await _ado(due)
            except BaseException as error:  # noqa: BLE001 - the step decides what it means
                due = steps.throw(error)
            else:
                due = steps.send(answer)
    except StopIteration as end:
        return end.value


async def _ado(due: Any) -> Any:
    if type(due) is Call:
        limit = _limit(due.step.timeout)
        if limit is None:
            return await _acall(due)
        try:
            async with asyncio.timeout(limit):
                return await _acall(due)
        except TimeoutError as error:
            raise _too_late(due, limit) from error
    if type(due) is Keep:
        hold = _keep(due)
        if hold is not None and hold.durability == "sync":
            if hold.checkpointer.instant:
                hold.flush()
            else:
                await flushed(hold)
        elif hold is not None:
            while (late := hold.behind()) is not None:
                _ = await asyncio.wait([asyncio.wrap_future(late)])
        return None
    await asyncio.sleep(_seconds(due))
    return None


def _seconds(due: Any) -> float:
    return due.seconds + (random.random() if due.jitter else 0.0)  # noqa: S311 - jitter, no secret


def _keep(due: Keep) -> Hold | None:
    """Note a record; the hold through which it is stored, None where nothing is or where it waits for the end."""
    place, record, value = due
    shared = place.context.shared
    run, session = shared.run, shared.session
    place.context.check()
    assert run is not None  # noqa: S101 - tasks exist only in a run; this tells the type checker
    run.calls[place.key] = record
    if shared.encode is None or session is None:
        run.results[place.key] = value
        return None
    outbox = session.outbox
    outbox.record(record)
    return None if outbox.hold.durability == "exit" else outbox.hold


def _call(due: Call) -> Any:
    body = due.step.body
    keywords = _keywords(due)
    limit = _limit(due.step.timeout)
    if limit is None:
        return call_here(body, due.args, keywords)
    job = pool.start(lambda: call_here(body, due.args, keywords))
    try:
        return job.result(limit)
    except TimeoutError as error:
        if job.done():  # the user's own
            raise
        raise _too_late(due, limit) from error


async def _acall(due: Call) -> Any:
    body, keywords = due.step.body, _keywords(due)
    if body.asyn is None and body.sync is not None:  # a step may take its time
        sync = body.sync
        return await in_thread(lambda: sync(*due.args, **keywords))
    return await acall(body, due.args, keywords)


def _keywords(due: Call) -> Mapping[str, Any]:
    body = due.step.body
    if not body.wants:
        return due.keywords
    from durable_graph.recording.inside import StepContext

    return {**body.keywords(StepContext()), **due.keywords}


def _limit(timeout: TimeoutPolicy | None) -> float | None:
    return None if timeout is None else timeout.run_timeout


def _too_late(due: Call, limit: float) -> NodeTimeoutError:
    what = f"step {due.step.name!r} took longer than {limit:g} s"
    return NodeTimeoutError(what)
