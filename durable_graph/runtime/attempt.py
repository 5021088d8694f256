"""One attempt of one task, for both faces.

`attempt` is a generator: it yields each call of the user's code that is due and is sent its result (or has its
exception thrown in); it returns the mail. A face only says how a call is made.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, cast

from durable_graph.core.mail import Failed, Finished, Interrupted
from durable_graph.core.reports import error_record
from durable_graph.errors import GraphInterrupt, NodeCancelledError, ParentCommand
from durable_graph.runtime.context import CURRENT, TaskContext
from durable_graph.runtime.work import Result

if TYPE_CHECKING:
    from collections.abc import Generator

    from durable_graph.core.mail import Mail
    from durable_graph.core.planning import Task
    from durable_graph.runtime.callables import Body
    from durable_graph.runtime.context import RunContext
    from durable_graph.runtime.deadlines import Watch
    from durable_graph.runtime.work import NodeWork

__all__ = ["attempt", "perform"]

_PASS_THROUGH = (KeyboardInterrupt, SystemExit, GeneratorExit)


def attempt(  # noqa: C901, PLR0912, PLR0915 - the hot path of every node, without calls of our own
    task: Task, shared: RunContext, watch: Watch | None = None
) -> Generator[tuple[Body, tuple[Any, ...], Any], Any, Mail]:
    """Run a task once, under the time limits of `watch`. CURRENT is set while the user's code runs."""
    work: NodeWork = task.spec.work
    context = TaskContext(task, shared)
    if watch is not None:
        watch.bind(context)
    timed = shared.timed
    started = began = context.started = 0.0
    if timed or task.spec.retry:
        started = context.started = time.time()
        began = time.monotonic()  # how long it takes is told by a clock that nobody sets
    token = CURRENT.set(context)
    result = Result(work, shared)
    try:
        given = work.read(task, shared)
        body = work.body
        if body is None:
            output = given
        elif body.wants or not body.takes_input:
            output = yield body, (given,) if body.takes_input else (), body.keywords(context)
        else:
            output = yield body, (given,), None
        if context.children is not None:
            yield context.children.ending, (context.children,), None
        asked = context.asked
        if asked is None or not (asked.open or asked.stopped):  # a swallowed interrupt stops the task all the same
            if context.pushed is not None:
                for key, value in context.pushed:
                    result.write(key, value)
            result.take(output)
            for branch in work.branches:
                seen = branch.reader.read(result.seen(), shared)
                keywords = branch.body.keywords(context) if branch.body.wants else None
                answer = yield branch.body, (seen,) if branch.body.takes_input else (), keywords
                result.take_route(branch, answer)
    except _PASS_THROUGH:
        raise
    except ParentCommand as said:
        if context.children is not None:
            yield context.children.ending, (context.children,), None
        try:
            result.take_from_below(said.commands)
        except Exception as error:  # noqa: BLE001 - reported by mail
            return _unhappy(task, context, error, began)
    except BaseException as error:  # noqa: BLE001 - whatever a node raises is reported by mail
        if context.children is not None:
            yield context.children.ending, (context.children,), None
        return _unhappy(task, context, error, began)
    finally:
        CURRENT.reset(token)
        if context.children is not None:
            context.children.abandon()
    asked = context.asked
    duration = time.monotonic() - began if timed else 0.0
    if asked is None:
        return Finished(task, result.writes, result.routes, (), started, duration)
    if asked.open or asked.stopped:
        return Interrupted(task, asked.open, tuple(asked.answered), started, duration)
    return Finished(task, result.writes, result.routes, tuple(asked.answered), started, duration)


def _unhappy(task: Task, context: TaskContext, error: BaseException, began: float) -> Mail:
    """An attempt that raised: it waits for a human, or it failed. `began`: by the clock that nobody sets."""
    started = context.started
    duration = time.monotonic() - began if started else 0.0
    asked = context.asked
    if context.watch is not None and context.watch.error is not None:  # this is what it ended with for all others
        error = context.watch.error
        return Failed(task, error, error_record(error), (), started, duration)
    if isinstance(error, BaseExceptionGroup):
        error = _without_interrupts(cast("BaseExceptionGroup[BaseException]", error))
    if isinstance(error, asyncio.CancelledError):  # who cancels a run does not come by here
        what = f"node {task.name!r} raised CancelledError, though nobody cancelled the run"
        own, error = error, NodeCancelledError(what)
        error.__cause__ = own
    if isinstance(error, GraphInterrupt) and asked is not None and (asked.open or asked.stopped):
        return Interrupted(task, asked.open, tuple(asked.answered), started, duration)
    return Failed(task, error, error_record(error), tuple(context.rejected), started, duration)


def _without_interrupts(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """A group without its interrupts: they stop the task only where nothing else went wrong."""
    interrupts, rest = group.split(GraphInterrupt)
    if interrupts is None:
        return group
    return GraphInterrupt() if rest is None else rest


def _cached() -> Any:
    from durable_graph.runtime.caching import through_cache

    return through_cache


def perform(task: Task, shared: RunContext, call: Any, watch: Watch | None = None) -> Mail:
    """Run a task in this OS thread; `call(body, args, keywords)` makes one call of the user's code."""
    steps = (attempt if task.spec.work.cache is None else _cached())(task, shared, watch)
    if shared.bridge is not None:
        steps = shared.bridge.follow(task, steps)
    try:
        body, args, keywords = next(steps)
        while True:
            try:
                result = call(body, args, keywords)
            except BaseException as error:  # noqa: BLE001 - the attempt decides what it means
                body, args, keywords = steps.throw(error)
            else:
                body, args, keywords = steps.send(result)
    except StopIteration as end:
        mail: Mail = end.value
        return mail
