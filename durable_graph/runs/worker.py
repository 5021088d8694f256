"""A worker: takes runs that are due, carries each as far as it goes, and says what came of it.

Rules that keep every accepted run from being lost or done twice:

1. An OS thread of its own gives signs of life for the runs that were taken, so that a node that keeps the event loop
   busy does not look like a dead worker. A worker that is dead, or gave no sign of life for the time of a lease, loses
   its runs to the next one that looks.
2. Before it begins, a worker looks whether the run's input is in its thread already (by the run's id, which each of
   its checkpoints has). Then it goes on, and never brings the input twice.
3. What a run's thread stores is fenced by the thread's own lease; what becomes of the run by its attempt. So a worker
   that comes back from the dead changes neither.
4. A run that ended badly for reasons that are not its own (its thread is busy, the database is away, the worker is to
   stop) goes back to the queue.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from durable_graph.core.control import CarryControl, RunControl
from durable_graph.core.reports import error_record
from durable_graph.errors import (
    DatabaseFullError,
    DatabaseLockedError,
    DatabaseUnavailableError,
    GraphDrained,
    InvalidConfigError,
    LostLease,
    RunError,
    StorageError,
    ThreadBusy,
    shortened,
)
from durable_graph.persistence.run_rows import Taking
from durable_graph.records import LEASE
from durable_graph.runs import queue
from durable_graph.runs.queue import Ending, Parking
from durable_graph.runs.record import RunReport, RunRequest, answers_in
from durable_graph.runs.schedules import firing
from durable_graph.runtime import owner
from durable_graph.types import MISSING, Command

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.persistence.run_rows import RunRow, RunRows
    from durable_graph.types import Config, StateSnapshot

__all__ = ["MAX_CRASHES", "Worker", "checked_pace"]

_log = logging.getLogger("durable_graph")

_TICK: Final = 0.1
"""Seconds after which a worker at the latest notices that it is to stop."""
_SWEEP: Final = 5.0
"""Seconds between two looks for waiting runs whose threads somebody else moved on, and for schedules."""
_PAUSE: Final = 1000
"""Milliseconds for which a run is put off that could not go on for reasons that are not its own."""
_PASSING: Final = (ThreadBusy, LostLease, DatabaseLockedError, DatabaseUnavailableError, DatabaseFullError)
"""What a run cannot help, and what may be over when it is tried again."""
MAX_CRASHES: Final = 10
"""How many workers may die under a run that gets nowhere, before it is taken for their killer."""


class Graph(Protocol):
    """What a worker needs of a graph."""

    @property
    def name(self) -> str:
        """What its runs are known by."""
        ...

    async def ainvoke(self, input: Any, config: Mapping[str, Any], **options: Any) -> Any:
        """Run."""
        ...

    async def aget_state(self, config: Mapping[str, Any]) -> StateSnapshot:
        """How a thread stands."""
        ...

    def aget_state_history(self, config: Mapping[str, Any]) -> AsyncIterator[StateSnapshot]:
        """Its checkpoints."""
        ...


class _Active:
    """A run that this worker carries."""

    __slots__ = ("control", "row", "taken")

    def __init__(self, row: RunRow) -> None:
        self.row = row
        self.control = CarryControl()
        self.taken = time.monotonic()


class Worker:
    """Takes runs of graphs from a checkpointer's queue. `work` is its life."""

    def __init__(
        self,
        graphs: Sequence[Graph],
        checkpointer: Checkpointer,
        *,
        concurrency: int,
        poll: float,
        until_idle: bool,
        control: RunControl | None,
    ) -> None:
        self._graphs = {graph.name: graph for graph in graphs}
        self._store = checkpointer
        self._concurrency = concurrency
        self._poll = poll
        self._until_idle = until_idle
        self._control = control or RunControl()
        self._lease = LEASE if checkpointer.lease is None else int(checkpointer.lease * 1000)
        self._owner = ""
        self._active: dict[int, _Active] = {}
        self._ended = 0
        self._over = False
        self._swept = 0.0
        self._woken = asyncio.Event()

    async def work(self) -> int:
        """Carry runs until asked to stop (or, `until_idle`, until none is left that could go on); how many ended."""
        self._owner = owner.claim_name()
        loop = asyncio.get_running_loop()
        helpers = [
            threading.Thread(target=self._beat, name="durable_graph-worker", daemon=True),
            threading.Thread(target=self._listen, args=(loop,), name="durable_graph-listener", daemon=True),
        ]
        tasks: set[asyncio.Task[None]] = set()
        for helper in helpers:
            helper.start()
        try:
            await self._take_and_carry(tasks)
            for task in tasks:
                await task
        except BaseException:  # cancelled: runs are given back before this is over
            for task in tasks:
                _ = task.cancel()
            _ = await asyncio.gather(*tasks, return_exceptions=True)
            raise
        finally:
            self._over = True
            owner.forget(self._owner)
        return self._ended

    async def _take_and_carry(self, tasks: set[asyncio.Task[None]]) -> None:
        while not self._control.drain_requested:
            self._woken.clear()
            taken = await self._take(self._concurrency - len(tasks))
            for row in taken:
                task = asyncio.create_task(self._carry(row))
                tasks.add(task)
                task.add_done_callback(lambda _: self._woken.set())
            for task in [task for task in tasks if task.done()]:
                tasks.remove(task)
                task.result()  # a fault of the worker itself ends it; its runs are found by others
            if self._until_idle and not taken and not tasks and await self._is_idle():
                return
            if not taken or len(tasks) >= self._concurrency:
                await self._wait()
        reason = self._control.drain_reason or ""
        _log.info("worker stops (%s): %d runs finish their superstep and go back to the queue", reason, len(tasks))
        for active in list(self._active.values()):
            active.control.request_drain(reason)

    async def _wait(self) -> None:
        """Until something ended, somebody told of a run, or it is time to look."""
        until = time.monotonic() + self._poll
        while not self._woken.is_set() and not self._control.drain_requested and (left := until - time.monotonic()) > 0:
            with suppress(TimeoutError):
                _ = await asyncio.wait_for(self._woken.wait(), min(left, _TICK))

    async def _is_idle(self) -> bool:
        return await self._do(queue.idle(tuple(self._graphs)), reads=True, otherwise=False)

    async def _take(self, limit: int) -> list[RunRow]:
        now = time.monotonic()
        if now - self._swept >= min(_SWEEP, 10 * self._poll):
            self._swept = now
            _ = await self._do(lambda rows: rows.wake_moved(rows.clock()), otherwise=0)
            _ = await self._do(firing(tuple(self._graphs)), otherwise=0)
        if limit <= 0:
            return []
        wanted = Taking(self._owner, tuple(self._graphs), limit, self._lease)
        rows = await self._do(queue.taking(wanted, one_host=self._store.one_host), otherwise=list["RunRow"]())
        for row in rows:
            self._active[row.no] = _Active(row)
        return rows

    async def _do(self, work: Callable[[RunRows], Any], *, otherwise: Any, reads: bool = False) -> Any:
        """Do something with the queue; where the database is away, it is tried again at the next turn."""
        try:
            return await self._store.awith_runs(work, reads=reads)
        except StorageError as error:
            _log.warning("worker cannot reach its queue: %s", error)
            await asyncio.sleep(self._poll)
            return otherwise

    # --- beside the event loop ---------------------------------------------------------------------------------------

    def _beat(self) -> None:
        """Give signs of life for the runs, and see which of them are cancelled."""
        beaten = time.monotonic()
        while not self._over:
            time.sleep(min(0.5, self._lease / 3000))
            try:
                if time.monotonic() - beaten >= self._lease / 3000:
                    beaten = time.monotonic()
                    self._beat_once()
                elif self._active:
                    for no in self._store.with_runs(lambda rows: rows.stopped(self._owner), reads=True):
                        self._stop(no)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next beat may come through
                _log.warning("worker could give no sign of life: %s", error)

    def _beat_once(self) -> None:
        runs = [(no, active.row.attempt) for no, active in list(self._active.items())]
        if not runs:
            return
        found = dict(self._store.with_runs(queue.beating(runs, self._lease)))
        for no, stop in found.items():
            if stop:
                self._stop(no)

    def _stop(self, no: int) -> None:
        active = self._active.get(no)
        if active is not None:
            active.control.request_drain("cancelled")

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        def heard() -> None:
            with suppress(RuntimeError):  # the loop is closed
                _ = loop.call_soon_threadsafe(self._woken.set)

        try:
            self._store.listen(heard, lambda: self._over)
        except Exception as error:  # noqa: BLE001 - the worker looks now and then in any case
            _log.warning("worker hears of no runs, and looks every %g s: %s", self._poll, error)

    # --- one run -----------------------------------------------------------------------------------------------------

    async def _carry(self, row: RunRow) -> None:
        active = self._active[row.no]
        try:
            try:
                outcome = await self._advance(row, active.control)
            except asyncio.CancelledError:
                await asyncio.shield(self._settle(row, _put_back(row, 0), active))
                raise
            await self._settle(row, outcome, active)
        finally:
            if self._active.get(row.no) is active:  # else this worker has taken the run again meanwhile
                del self._active[row.no]

    async def _settle(self, row: RunRow, outcome: Ending | Parking, active: _Active) -> None:
        while True:
            try:
                status = await self._store.awith_runs(queue.settling(row, outcome))
            except StorageError as error:
                # The database is away: what became of the run is told when it is back. Should that take longer than
                # the lease, another worker finds the run as its thread has it.
                _log.warning("run %r: what became of it cannot be stored yet: %s", row.id, error)
                await asyncio.sleep(self._poll)
                continue
            break
        if status is None:
            _log.warning("run %r of thread %r was taken over by another worker", row.id, row.thread)
            return
        if status in ("done", "failed", "cancelled"):
            self._ended += 1
        took = time.monotonic() - active.taken
        _log.info("run %r of thread %r is %s after %.1f s%s", row.id, row.thread, status, took, _why(outcome.report))

    async def _advance(self, row: RunRow, control: CarryControl) -> Ending | Parking:
        """Carry a run as far as it goes."""
        report = RunReport.unpacked(row.report)
        if row.stop:
            return Ending("cancelled", report)
        try:
            return await self._run(row, report, control)
        except GraphDrained:
            return Ending("cancelled", report) if control.drain_reason == "cancelled" else _put_back(row, 0)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a node raised is what became of the run
            if isinstance(error, _PASSING) and not getattr(error, "own", False):
                _log.warning("run %r is put off: %s", row.id, error)
                return _put_back(row, _PAUSE)
            kept = error_record(error)
            report.error = (kept.type, kept.message, kept.traceback)
            return Ending("failed", report)

    async def _run(self, row: RunRow, report: RunReport, control: CarryControl) -> Ending | Parking:
        graph = self._graphs[row.graph]
        request = RunRequest.unpacked(row.request)
        thread: Config = {"configurable": {"thread_id": row.thread}}
        loaded = await self._store.aload(row.thread)
        since = None if loaded is None else loaded.thread.epoch
        state = await graph.aget_state(thread)
        if row.status == "running" and await self._kills(row, state, report):
            what = f"{report.crashes} workers died while they ran it, and it got no further"
            report.error = (f"{RunError.__module__}.{RunError.__qualname__}", what, "")
            return Ending("failed", report)
        begun, before = await self._begun(graph, row, state)
        if before is not None:  # somebody brought new input past the queue
            report.checkpoint = _checkpoint_of(before)
            return Ending("cancelled" if before.next else "done", report)
        given, config, options = await self._given(row, request, begun=begun)
        asked = {one.id for one in state.interrupts}
        answers = {question: answer for question, answer in answers_in(row).items() if question in asked}
        if answers:
            given = Command(resume=answers)
        config = {**config, "run_id": row.id}
        # What was decided above holds only while nobody else carries the run: at that epoch it was still ours.
        if not await self._store.awith_runs(queue.is_held(row), reads=True):
            raise LostLease(f"run {row.id!r} was taken over before it could begin")
        control.since = since
        _ = await graph.ainvoke(given, config, context=request.context, control=control, **options)
        # First the epoch, then the state: what somebody changes after this look changes the epoch too.
        loaded = await self._store.aload(row.thread)
        state = await self._newest_of(graph, thread, row.id)
        report.checkpoint = _checkpoint_of(state)
        report.interrupts = tuple(state.interrupts)
        if not state.next:
            return Ending("done", report)
        due, events = queue.waiting_for(state.interrupts)
        if loaded is not None and loaded.thread.owner is not None:  # somebody else goes on with it right now
            return Parking("waiting", report, delay=_PAUSE, events=events)
        epoch = None if loaded is None else loaded.thread.epoch
        return Parking("waiting", report, due=due, events=events, epoch=epoch)

    async def _kills(self, row: RunRow, state: StateSnapshot, report: RunReport) -> bool:
        """A worker died under the run, which is noted. Whether it looks as if it always would."""
        seen = _checkpoint_of(state)
        report.crashes = report.crashes + 1 if seen == report.seen else 1
        report.seen = seen
        await self._store.awith_runs(queue.noting(row, report))
        return report.crashes >= MAX_CRASHES

    async def _given(
        self, row: RunRow, request: RunRequest, *, begun: bool
    ) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """What the graph is to be called with: the input, unless the thread has it already."""
        config, options = request.config, dict(request.options)
        if begun or request.given is MISSING:
            if begun:  # it has gone on from there already
                config = {**config, "configurable": {**config["configurable"]}}
                _ = config["configurable"].pop("checkpoint_id", None)
            _ = options.pop("on_unfinished", None)
            return None, config, options
        if "on_unfinished" not in options:
            before = await self._store.awith_runs(lambda rows: rows.ended_before(row.thread, row.no), reads=True)
            if before == "cancelled":  # what it left was given up on purpose
                options["on_unfinished"] = "abandon"
        return request.given, config, options

    async def _begun(self, graph: Graph, row: RunRow, state: StateSnapshot) -> tuple[bool, StateSnapshot | None]:
        """Whether the run has checkpoints; and where its thread stood when somebody brought new input after them."""
        if row.attempt == 1:
            return False, None
        if (state.metadata or {}).get("run_id") == row.id:
            return True, None
        before: StateSnapshot | None = None
        is_before = False
        async for snapshot in graph.aget_state_history({"configurable": {"thread_id": row.thread}}):
            before, is_before = (snapshot if is_before else before), False
            metadata = snapshot.metadata or {}
            if metadata.get("run_id") == row.id:
                return True, before
            is_before = metadata.get("source") == "input"
        return False, None

    async def _newest_of(self, graph: Graph, thread: Config, run_id: str) -> StateSnapshot:
        """The newest checkpoint; that of the run where somebody went on from there already."""
        state = await graph.aget_state(thread)
        if state.next or (state.metadata or {}).get("run_id") == run_id:
            return state
        async for snapshot in graph.aget_state_history(thread):
            if (snapshot.metadata or {}).get("run_id") == run_id and not snapshot.next:
                return snapshot
        return state


def _checkpoint_of(state: StateSnapshot) -> str | None:
    return state.config.get("configurable", {}).get("checkpoint_id")


def _why(report: RunReport) -> str:
    """What there is to say of how a run stands."""
    if report.error is not None:
        return f": {report.error[0].rpartition('.')[2]}: {report.error[1]}"
    return (
        f", for {', '.join(f'{one.kind} {shortened(one.value)}' for one in report.interrupts)}"
        if report.interrupts
        else ""
    )


def checked_pace(concurrency: int, poll: float) -> None:
    """Refuse what no worker could keep to.

    Raises:
        InvalidConfigError: fewer than one run at a time, or no time between two looks.
    """
    if isinstance(concurrency, bool) or concurrency < 1:
        raise InvalidConfigError(f"concurrency is {concurrency!r}, expected 1 or more runs at a time")
    if not 0 < poll <= 3600:  # noqa: PLR2004 - an hour
        raise InvalidConfigError(f"poll is {poll!r}, expected seconds: above 0, and at most 3600")


def _put_back(row: RunRow, delay: int) -> Parking:
    return Parking("queued", RunReport.unpacked(row.report), delay=delay)
