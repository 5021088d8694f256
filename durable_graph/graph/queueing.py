"""Queued runs: the part of a compiled graph that submits them, tells of them, and cancels them.

Each async method is the twin of a sync one. What happens to a run is in `durable_graph.runs`; what is asked of the
checkpointer is a generator that both twins drive (`session.ask`).
"""

from __future__ import annotations

import asyncio
import os
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, cast, get_args

from durable_graph.core import history, identity
from durable_graph.core.ending import Outcome
from durable_graph.core.interrupts import resolve_answers
from durable_graph.core.opening import open_interrupts
from durable_graph.errors import (
    InvalidConfigError,
    InvalidInputError,
    NoCheckpointerError,
    RunCancelled,
    RunFailed,
    RunNotFoundError,
    UnserializableValueError,
)
from durable_graph.graph.calls import make_call
from durable_graph.graph.performing import Performs
from durable_graph.persistence.codec import CODEC
from durable_graph.persistence.isolation import own
from durable_graph.persistence.run_rows import ENDED, OPEN, RunFilter
from durable_graph.runs import queue
from durable_graph.runs.record import RunPolicy, RunReport, RunRequest
from durable_graph.runtime import config as configs
from durable_graph.runtime.session import aask, ask, at, newest
from durable_graph.types import MISSING, ROOT, Command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.persistence.run_rows import RunRow
    from durable_graph.records import StoredCheckpoint
    from durable_graph.runs.record import RunRecord
    from durable_graph.runtime.session import Asking
    from durable_graph.types import Durability, OnUnfinished

__all__ = ["RunCalls", "checked_id"]

_NOBODY: Final[frozenset[str]] = frozenset()
_FIRST, _LONGEST = 0.01, 0.25
"""Seconds between two looks at a run that somebody waits for, the first and the longest."""


class RunCalls(Performs):
    """The part of a compiled graph that has to do with queued runs."""

    # --- submitting ---------------------------------------------------------------------------------------------------

    def submit(
        self,
        input: Any,
        config: Mapping[str, Any] | None = None,
        *,
        context: Any = None,
        run_id: str | None = None,
        policy: RunPolicy = "queue",
        priority: int = 0,
        not_before: datetime | timedelta | float | None = None,
        interrupt_before: Sequence[str] | Literal["*"] | None = None,
        interrupt_after: Sequence[str] | Literal["*"] | None = None,
        durability: Durability | None = None,
        on_unfinished: OnUnfinished = "reject",
    ) -> str:
        """Store a run, to be carried out by a worker (`work`, or `durable-graph worker`), and return its id at once.

        Once this returned, the run ends once, whatever happens to workers. Runs of one thread are carried out in the
        order they were submitted. `Command(resume=...)` answers the run of its thread that waits: the id is that one's.

        Args:
            input: as of `invoke`; a Command only with `resume`. None goes on with what the thread has.
            config: as of `invoke`, without callbacks. Without a thread_id the run has a thread of its own, named as it.
            context: as of `invoke`. Input, config and context are stored.
            run_id: an id of yours. The same run submitted again under it is the same run, and is not done twice.
            policy: what happens where the thread has runs that have not ended: "queue" comes after them, "reject"
                raises `ThreadBusy`, "replace" cancels them.
            priority: of runs that are due, those with a higher one are taken first.
            not_before: when it may begin: a datetime with a time zone, or seconds (or a timedelta) from now.
            interrupt_before: as of `invoke`, like the three that follow.
            interrupt_after: breakpoints.
            durability: when a superstep is durable.
            on_unfinished: what becomes of an unfinished run that the thread has when this one begins.

        Returns:
            The id of the run.

        Raises:
            InvalidInputError: the input does not fit the graph's input schema.
            UnknownInterruptError: `resume` answers nothing that is asked.
            UnserializableValueError: input, config or context cannot be stored.
            NoCheckpointerError: the graph keeps no state.
            UsageError: its checkpointer keeps no runs.
        """
        rules = (interrupt_before, interrupt_after, durability, on_unfinished)
        asking = self._submitting(input, config, context, rules, (run_id, policy, priority, not_before))
        return ask(self._kept(), asking)

    async def asubmit(
        self,
        input: Any,
        config: Mapping[str, Any] | None = None,
        *,
        context: Any = None,
        run_id: str | None = None,
        policy: RunPolicy = "queue",
        priority: int = 0,
        not_before: datetime | timedelta | float | None = None,
        interrupt_before: Sequence[str] | Literal["*"] | None = None,
        interrupt_after: Sequence[str] | Literal["*"] | None = None,
        durability: Durability | None = None,
        on_unfinished: OnUnfinished = "reject",
    ) -> str:
        """Async `submit`."""
        rules = (interrupt_before, interrupt_after, durability, on_unfinished)
        asking = self._submitting(input, config, context, rules, (run_id, policy, priority, not_before))
        return await aask(self._kept(), asking)

    def _submitting(
        self,
        given: Any,
        config: Mapping[str, Any] | None,
        context: Any,
        rules: tuple[Any, Any, Durability | None, OnUnfinished],
        how: tuple[str | None, RunPolicy, int, datetime | timedelta | float | None],
    ) -> Asking[str]:
        run_id, policy, priority, not_before = how
        if policy not in get_args(RunPolicy):
            what = f"unknown policy {policy!r}; known: {', '.join(get_args(RunPolicy))}"
            raise InvalidConfigError(what)
        passed = self._normalise(config)
        name = checked_id(run_id if run_id is not None else passed.pop("run_id", None))
        request, thread = self._request(given, passed, context, rules, name)
        due, delay = _due(not_before)
        answers: dict[str, Any] = {}
        if isinstance(given, Command):
            stored = yield from newest(thread)
            asked = [] if stored is None else open_interrupts(stored)
            answers = resolve_answers(cast("Command[Any]", given).resume, asked)
            answered: RunRow | None = yield "with_runs", (queue.answering(thread, self.name, answers),), {}
            if answered is not None:
                return answered.id
        row = queue.fresh_row(name, thread, self.name, request.packed(), priority=priority, answers=answers)
        kept: RunRow = yield "with_runs", (queue.submitting(row, policy, due, delay),), {}
        return kept.id

    def _request(
        self, given: Any, passed: dict[str, Any], context: Any, rules: tuple[Any, Any, Any, Any], name: str
    ) -> tuple[RunRequest, str]:
        """What is to be stored of a call, after every check that `invoke` would make; and its thread."""
        before, after, durability, on_unfinished = rules
        if passed.pop("callbacks", None):
            what = "config['callbacks'] cannot be stored with a run"
            raise InvalidConfigError(what, cure="Give them to the worker: graph.with_config(callbacks=[...]).work().")
        if isinstance(given, Command) and cast("Command[Any]", given).resume is MISSING:
            what = f"the input of a queued run is {given!r}, which answers nothing"
            raise InvalidInputError(what, cure="Change the state with update_state(), then submit(None, config).")
        config = configs.merge(self.config, passed)
        passed["configurable"]["thread_id"] = config["configurable"].setdefault("thread_id", name)
        call = make_call(
            self.program,
            self.schemas,
            given,
            config,
            modes=_NOBODY,
            context=context,
            interrupt_before=_names(before),
            interrupt_after=_names(after),
            durability=durability,
            on_unfinished=on_unfinished,
            on_busy="reject",
            encode=CODEC.encode,
            nest=None,
        )
        options = {
            "durability": durability,
            "interrupt_before": before,
            "interrupt_after": after,
            "on_unfinished": None if on_unfinished == "reject" else on_unfinished,
        }
        goes_on = given is None or isinstance(given, Command)
        kept = {name: value for name, value in options.items() if value is not None}
        return RunRequest(MISSING if goes_on else own(given), passed, context, kept), call.request.thread

    # --- looking at runs ----------------------------------------------------------------------------------------------

    def get_run(self, run_id: str) -> RunRecord:
        """How a run stands.

        Raises:
            RunNotFoundError: there is no run with this id.
        """
        return ask(self._kept(), _one(run_id))

    async def aget_run(self, run_id: str) -> RunRecord:
        """Async `get_run`."""
        return await aask(self._kept(), _one(run_id))

    def list_runs(
        self,
        *,
        status: str | None = None,
        thread_id: str | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> list[RunRecord]:
        """The runs of this graph, newest first.

        Args:
            status: only those that are "queued", "running", "waiting", "done", "failed" or "cancelled".
            thread_id: only those of this thread.
            limit: at most so many.
            before: only runs that were submitted before the one with this id: the next page.
        """
        return ask(self._kept(), _several(self.name, status, thread_id, limit, before))

    async def alist_runs(
        self,
        *,
        status: str | None = None,
        thread_id: str | None = None,
        limit: int = 100,
        before: str | None = None,
    ) -> list[RunRecord]:
        """Async `list_runs`."""
        return await aask(self._kept(), _several(self.name, status, thread_id, limit, before))

    def result(self, run_id: str, timeout: float | None = None) -> Any:
        """Wait for a run, and return what `invoke` would have returned: the output, or where a person is asked, what is
        there with "__interrupt__". A run that waits for a time or an event is waited for.

        Args:
            run_id: what `submit` returned.
            timeout: seconds; None waits for ever.

        Raises:
            RunFailed: it failed; the text is that of its error.
            RunCancelled: it was cancelled.
            TimeoutError: the time is over; the run goes on.
            RunNotFoundError: there is no run with this id.
        """
        kept, patience = self._kept(), _Patience(run_id, timeout)
        while (found := ask(kept, self._resulting(run_id))) is None:
            time.sleep(patience.pause(ask(kept, _one(run_id))))
        return found[0]

    async def aresult(self, run_id: str, timeout: float | None = None) -> Any:  # noqa: ASYNC109 - as of the sync twin
        """Async `result`."""
        kept, patience = self._kept(), _Patience(run_id, timeout)
        while (found := await aask(kept, self._resulting(run_id))) is None:  # noqa: ASYNC110 - another process ends it
            await asyncio.sleep(patience.pause(await aask(kept, _one(run_id))))
        return found[0]

    def _resulting(self, run_id: str) -> Asking[tuple[Any] | None]:
        """What a run gave; None when it has to be waited for."""
        row: RunRow | None = yield "with_runs", (queue.row_of(run_id),), {"reads": True}
        if row is None:
            raise _unknown(run_id)
        report = RunReport.unpacked(row.report)
        asked = [one for one in report.interrupts if one.kind == "question"]
        stops = row.status == "waiting" and (bool(asked) or not report.interrupts)  # a question, or a breakpoint
        if row.ended is None and not stops:
            return None
        if row.status in ("failed", "cancelled"):
            raise (yield from self._failure(row, report))
        place = None if report.checkpoint is None else identity.parse_checkpoint_id(report.checkpoint)
        stored = yield from (newest(row.thread) if stops or place is None else at(row.thread, place))
        return (self._shown_result(row.thread, stored, live=stops),)

    def _failure(self, row: RunRow, report: RunReport) -> Asking[RunFailed | RunCancelled]:
        record: RunRecord = yield from _one(row.id)
        where = f"run {row.id!r} of thread {row.thread!r}"
        if row.status == "cancelled":
            return RunCancelled(f"{where} was cancelled", run=record)
        kind, text, trace = report.error or ("", "", "")
        return RunFailed(f"{where} failed: {kind.rpartition('.')[2]}: {text}", run=record, trace=trace)

    def _shown_result(self, thread: str, stored: StoredCheckpoint | None, *, live: bool) -> Any:
        if stored is None:
            return self._result(Outcome({}, ()))
        snapshot = history.snapshot(self.program, thread, stored, live=live, copy=own)
        state: Any = snapshot.values
        values = cast("dict[str, Any]", state) if isinstance(state, dict) else {ROOT: state}
        return self._result(Outcome(values, snapshot.interrupts if live else ()))

    # --- acting on runs -----------------------------------------------------------------------------------------------

    def cancel(self, run_id: str) -> RunRecord:
        """Cancel a run: at once where no worker has it, else before its next superstep. What its thread has stays, and
        the next run of the thread starts anew. One that ended stays as it is.

        Raises:
            RunNotFoundError: there is no run with this id.
        """
        return self._kept().with_runs(queue.cancelling(run_id))

    async def acancel(self, run_id: str) -> RunRecord:
        """Async `cancel`."""
        return await self._kept().awith_runs(queue.cancelling(run_id))

    def send_event(self, name: str, key: str = "", data: Any = None) -> bool:
        """Say that something happened: runs that wait for it (`wait_for_event`) go on, also ones that come to it later.

        Args:
            name: what the event is known by, together with its key, to everybody who uses the same database.
            key: tells apart events of one name.
            data: what `wait_for_event` returns.

        Returns:
            Whether it is new. The first one wins; another with the same name and key changes nothing.

        Raises:
            UnserializableValueError: the data cannot be stored.
        """
        return self._kept().with_runs(queue.emitting((name, key), _event_data(name, data)))

    async def asend_event(self, name: str, key: str = "", data: Any = None) -> bool:
        """Async `send_event`."""
        return await self._kept().awith_runs(queue.emitting((name, key), _event_data(name, data)))

    def _kept(self) -> Checkpointer:
        """Where runs are kept."""
        if self.checkpointer is None:
            what = f"graph {self.name!r} has no checkpointer, so it can keep no runs"
            raise NoCheckpointerError(what)
        return self.checkpointer


class _Patience:
    """How long one call waits for a run."""

    def __init__(self, run_id: str, timeout: float | None) -> None:
        self._run_id = run_id
        self._timeout = timeout
        self._until = None if timeout is None else time.monotonic() + timeout
        self._pause = _FIRST

    def pause(self, run: RunRecord) -> float:
        """Seconds until the next look.

        Raises:
            TimeoutError: there is no time for one.
        """
        pause, self._pause = self._pause, min(self._pause * 1.5, _LONGEST)
        if self._until is None:
            return pause
        left = self._until - time.monotonic()
        if left <= 0:
            waits = (
                f", for {', '.join(f'{one.kind} {one.value!r}' for one in run.interrupts)}" if run.interrupts else ""
            )
            what = f"run {self._run_id!r} has not ended after {self._timeout:g} s: it is {run.status}{waits}"
            raise TimeoutError(what)
        return min(pause, left)


def _one(run_id: str) -> Asking[RunRecord]:
    found: RunRecord | None = yield "with_runs", (queue.finding(run_id),), {"reads": True}
    if found is None:
        raise _unknown(run_id)
    return found


def _several(
    graph: str, status: str | None, thread: str | None, limit: int, before: str | None
) -> Asking[list[RunRecord]]:
    if status is not None and status not in (*OPEN, *ENDED):
        what = f"unknown status {status!r}; known: {', '.join((*OPEN, *ENDED))}"
        raise InvalidConfigError(what)
    if isinstance(limit, bool) or limit < 0:
        raise InvalidConfigError(f"limit is {limit!r}, expected 0 or more")
    no: int | None = None
    if before is not None:
        row: RunRow | None = yield "with_runs", (queue.row_of(before),), {"reads": True}
        if row is None:
            raise _unknown(before)
        no = row.no
    wanted = RunFilter(thread, graph, status, no)
    return (yield "with_runs", (queue.listing(wanted, limit),), {"reads": True})


def _unknown(run_id: str) -> RunNotFoundError:
    return RunNotFoundError(f"there is no run {run_id!r}")


def checked_id(given: Any) -> str:
    """The id that was given, or a new one."""
    if given is None:
        return os.urandom(12).hex()
    if not str(given).strip():
        raise InvalidConfigError(f"run_id is empty ({given!r})", cure="Leave it out, or give the run a name.")
    return str(given)


def _due(not_before: datetime | timedelta | float | None) -> tuple[int | None, int]:
    """When a run is due: wall, or milliseconds from now."""
    if not_before is None:
        return None, 0
    if isinstance(not_before, datetime):
        if not_before.tzinfo is None:
            what = f"not_before is {not_before!r}, which has no time zone"
            raise InvalidConfigError(what, cure="Write e.g. datetime.now(UTC) + timedelta(hours=1).")
        return int(not_before.timestamp() * 1000), 0
    seconds = not_before.total_seconds() if isinstance(not_before, timedelta) else not_before
    if isinstance(seconds, bool) or not 0 <= seconds < float("inf"):
        what = f"not_before is {not_before!r}, expected a datetime with a time zone, or seconds from now"
        raise InvalidConfigError(what)
    return None, int(seconds * 1000)


def _event_data(name: str, data: Any) -> bytes:
    try:
        return CODEC.encode(data)
    except UnserializableValueError as error:
        error.what = f"the data of event {name!r} cannot be stored: {error.what}"
        raise


def _names(given: Sequence[str] | Literal["*"] | None) -> frozenset[str] | Literal["*"]:
    if given == "*":
        return "*"
    return frozenset((given,) if isinstance(given, str) else given or ())
