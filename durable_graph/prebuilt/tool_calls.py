"""One tool call as a recorded step, and several at the same time, for both faces.

    job ──► [wrap_tool_call] ──► execute ──► the tool
             recorded             recorded

Without a wrapper the call itself is what is recorded: its answer, as a message or Command, in one commit. A node that
does nothing but one call (a Send for each call, say) is recorded as the task it is, and not once more.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from durable_graph.errors import GraphBubbleUp
from durable_graph.functional.futures import begin, begin_async
from durable_graph.persistence.codec import CODEC
from durable_graph.recording.doing import ado_step, do_step
from durable_graph.recording.step import take_place
from durable_graph.runtime import pool
from durable_graph.runtime.places import INSIDE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from durable_graph.prebuilt.injection import ToolRuntime
    from durable_graph.prebuilt.results import Answer
    from durable_graph.recording.step import Place, Step

__all__ = ["Job", "Outcome", "ToolCallRequest", "aperform", "arun_jobs", "perform", "run_jobs"]

Outcome = Any
"""What became of a job: its answers (a list), or what it raised."""


@dataclass(frozen=True, slots=True)
class ToolCallRequest:
    """A call that is about to be made, as `wrap_tool_call` sees it.

    tool_call: name, args and id.   tool: what is called; None when no tool has this name.   state: the state.
    runtime: what the tool gets as `runtime`.
    """

    tool_call: dict[str, Any]
    tool: Any
    state: Any
    runtime: ToolRuntime[Any, Any]

    def override(self, **changes: Any) -> ToolCallRequest:
        """A copy with other fields. The request itself is never changed."""
        return replace(self, **changes)


class Job:
    """One call to make.

    request: the call as the model made it.   answer: makes messages.   step: how it is recorded; None when there is
    nothing to call.   place: where; None outside of a run.   recorded: it is; False where its node is.   failures: how
    often in a row its tool failed before.
    """

    __slots__ = ("answer", "failures", "family", "place", "recorded", "request", "root", "step")

    def __init__(self, step: Step | None, answer: Answer, failures: int) -> None:
        self.step = step
        self.answer = answer
        self.failures = failures
        self.place: Place | None = None
        self.recorded = False
        self.request: ToolCallRequest = None  # type: ignore[assignment] # pyright: ignore[reportAttributeAccessIssue] - set by who makes it

    def key(self) -> str:
        """The idempotency key of the call: the same whichever attempt, or wrapper's attempt, makes it."""
        return "" if self.place is None else self.place.durable_key()

    def changed(self, request: ToolCallRequest) -> ToolRuntime[Any, Any]:
        """The runtime of a request. With other arguments it is another call, and so is its key."""
        args = request.tool_call["args"]
        if args == self.request.tool_call["args"]:
            return request.runtime
        digest = CODEC.encode(args)
        return request.runtime.override(
            key_source=lambda: blake2b(self.key().encode() + digest, digest_size=16).hexdigest()
        )


# --- sync ------------------------------------------------------------------------------------------------------------


def run_jobs(jobs: Sequence[Job]) -> list[Outcome]:
    """What became of each job; they run at the same time. KeyboardInterrupt and the like are raised at once."""
    if len(jobs) == 1:
        return [_outcome(lambda: _run(jobs[0]))]
    started: list[Any] = []
    for job in jobs:
        if job.step is None:
            started.append(None)
        elif job.place is None:
            started.append(pool.start(lambda job=job: _run(job)))
        else:
            started.append(begin(job.place, job.step, (job, job.request), {}))
    return [None if one is None else _outcome(one.result) for one in started]


def _run(job: Job) -> Any:
    step, place = job.step, job.place
    if step is None:
        return None
    if place is None:
        return perform(step, job, job.request)
    if job.recorded:
        return do_step(place, step, (job, job.request), {})
    token = INSIDE.set(place)
    try:
        return perform(step, job, job.request)
    finally:
        INSIDE.reset(token)


def perform(step: Step, job: Job, request: ToolCallRequest) -> Any:
    """Do what a step does, without recording it."""
    body = step.body
    if body.sync is not None:
        return body.sync(job, request)
    from durable_graph.runtime.blocking import call_here

    return call_here(body, (job, request), None)


def _outcome(get: Any) -> Outcome:
    try:
        return get()
    except (Exception, GraphBubbleUp) as error:  # noqa: BLE001 - the node decides what it means
        return error


# --- async -----------------------------------------------------------------------------------------------------------


async def arun_jobs(jobs: Sequence[Job]) -> list[Outcome]:
    """Async `run_jobs`."""
    if len(jobs) == 1:
        return [await _aoutcome(_arun(jobs[0]))]
    loop = asyncio.get_running_loop()
    started: list[Any] = []
    for job in jobs:
        if job.step is None:
            started.append(None)
        elif job.place is None:
            started.append(loop.create_task(_aoutcome(_arun(job))))
        else:
            started.append(begin_async(job.place, job.step, (job, job.request), {}, loop))
    running = [one for one in started if one is not None]
    if running:
        _ = await asyncio.wait(running)
    return [None if one is None else _outcome(one.result) for one in started]


async def _arun(job: Job) -> Any:
    step, place = job.step, job.place
    if step is None:
        return None
    if place is None:
        return await aperform(step, job, job.request)
    if job.recorded:
        return await ado_step(place, step, (job, job.request), {})
    token = INSIDE.set(place)
    try:
        return await aperform(step, job, job.request)
    finally:
        INSIDE.reset(token)


async def aperform(step: Step, job: Job, request: ToolCallRequest) -> Any:
    """Async `perform`."""
    assert step.body.asyn is not None  # noqa: S101 - all of ours have it; this tells the type checker
    return await step.body.asyn(job, request)


async def _aoutcome(due: Any) -> Outcome:
    try:
        return await due
    except (Exception, GraphBubbleUp) as error:  # noqa: BLE001 - the node decides what it means
        return error


def nested(step: Step, call: Mapping[str, Any]) -> Place:
    """The place of a call that a wrapper makes, inside the wrapper's own."""
    return take_place(step, (dict(call),), {})
