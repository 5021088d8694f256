"""Queued runs: the part of a compiled graph that carries them, takes over what the dead left, and keeps schedules."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

from durable_graph.core.opening import unfinished
from durable_graph.errors import EventLoopError
from durable_graph.graph.queueing import RunCalls, checked_id
from durable_graph.runs import queue
from durable_graph.runs.record import RunRequest, Schedule
from durable_graph.runtime import config as configs
from durable_graph.runtime import owner
from durable_graph.runtime.session import aask, ask, newest
from durable_graph.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from durable_graph.core.control import RunControl
    from durable_graph.persistence.run_rows import RunRows, ScheduleRow
    from durable_graph.records import ThreadInfo
    from durable_graph.runtime.session import Asking

__all__ = ["WorkCalls"]

_PAGE: Final = 1000
"""Threads that are looked at at once."""


class WorkCalls(RunCalls):
    """The part of a compiled graph that makes a process a worker."""

    def recover(self) -> list[str]:
        """Queue what `invoke` and `stream` of dead processes left: threads of this very graph whose owner is dead, or
        gave no sign of life for the time of its lease. Queued runs need no recovery: workers take those by themselves.

        Returns:
            The ids of the runs that were queued. Of two who recover at once, one queues each.
        """
        return ask(self._kept(), self._recovering())

    async def arecover(self) -> list[str]:
        """Async `recover`."""
        return await aask(self._kept(), self._recovering())

    def _recovering(self) -> Asking[list[str]]:
        kept = self._kept()
        found: list[str] = []
        after = 0
        while page := (yield "threads", (after, _PAGE), {}):
            threads: list[ThreadInfo] = page
            for info in threads:
                if not _is_orphan(info, one_host=kept.one_host):
                    continue
                stored = yield from newest(info.key)
                if stored is None or not unfinished(stored) or stored.step.fingerprint != self.program.fingerprint:
                    continue
                request = RunRequest(MISSING, {"configurable": {"thread_id": info.key}})
                row = queue.fresh_row(f"recovered-{info.no}-{info.epoch}", info.key, self.name, request.packed())
                added: bool = yield "with_runs", (queue.adopting(row),), {}
                if added:
                    found.append(row.id)
            after = threads[-1].no
        return found

    # --- workers ------------------------------------------------------------------------------------------------------

    def work(
        self,
        *,
        concurrency: int = 4,
        poll: float = 0.5,
        until_idle: bool = False,
        control: RunControl | None = None,
    ) -> int:
        """Be a worker: take runs of this graph (by its name) that are due, and carry them to where they end or wait;
        also those of workers that died. Any number of workers, in any number of processes, may do so over one database.

        Args:
            concurrency: how many runs at a time. Sync nodes run in OS threads.
            poll: seconds between two looks for runs, where nobody tells of them. On Postgres submitting tells.
            until_idle: return when no run runs or is due any more. Runs that wait for a person, a time or an event do
                not count.
            control: asked to stop, it lets each run finish its superstep, gives it back to the queue, and returns. See
                `drain_on_signals`.

        Returns:
            How many runs ended here.

        Raises:
            EventLoopError: an event loop runs in this OS thread; await `awork`.
            NoCheckpointerError: the graph keeps no state.
        """
        try:
            _ = asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise EventLoopError("work() was called where an event loop runs", cure="Write: await graph.awork(...).")
        return asyncio.run(self.awork(concurrency=concurrency, poll=poll, until_idle=until_idle, control=control))

    async def awork(
        self,
        *,
        concurrency: int = 4,
        poll: float = 0.5,
        until_idle: bool = False,
        control: RunControl | None = None,
    ) -> int:
        """Async `work`."""
        from durable_graph.runs.worker import Worker, checked_pace

        checked_pace(concurrency, poll)
        worker = Worker(
            [cast("Any", self)],
            self._kept(),
            concurrency=concurrency,
            poll=poll,
            until_idle=until_idle,
            control=control,
        )
        return await worker.work()

    # --- schedules ----------------------------------------------------------------------------------------------------

    def schedule(
        self,
        name: str,
        cron: str,
        input: Any,
        config: Mapping[str, Any] | None = None,
        *,
        context: Any = None,
        timezone: str = "UTC",
    ) -> Schedule:
        """Submit a run at the times that a cron expression names; workers see to it. Replaces a schedule of this name.

        Args:
            name: of the schedule. Its runs are called "name@time".
            cron: "minute hour day month weekday", e.g. "0 9 * * 1-5".
            input: of the runs.
            config: of the runs. Without a thread_id each has a thread of its own.
            context: of the runs.
            timezone: in which the expression is read, e.g. "Europe/Berlin".

        Raises:
            InvalidConfigError: the expression or the time zone is none, or cronsim is not installed.
        """
        return Schedule.of(self._kept().with_runs(self._scheduling(name, cron, input, config, context, timezone)))

    async def aschedule(
        self,
        name: str,
        cron: str,
        input: Any,
        config: Mapping[str, Any] | None = None,
        *,
        context: Any = None,
        timezone: str = "UTC",
    ) -> Schedule:
        """Async `schedule`."""
        work = self._scheduling(name, cron, input, config, context, timezone)
        return Schedule.of(await self._kept().awith_runs(work))

    def _scheduling(
        self, name: str, cron: str, given: Any, config: Mapping[str, Any] | None, context: Any, zone: str
    ) -> Callable[[RunRows], ScheduleRow]:
        passed = self._normalise(config)
        named = "thread_id" in configs.merge(self.config, passed)["configurable"]
        request, _ = self._request(given, passed, context, (None, None, None, "reject"), checked_id(name))
        if not named:
            del request.config["configurable"]["thread_id"]
        from durable_graph.runs.schedules import scheduling

        return scheduling(name, self.name, cron, zone, request)

    def unschedule(self, name: str) -> bool:
        """Remove a schedule; whether it was there. Runs that it submitted stay."""
        return self._kept().with_runs(lambda rows: rows.drop_schedule(name))

    async def aunschedule(self, name: str) -> bool:
        """Async `unschedule`."""
        return await self._kept().awith_runs(lambda rows: rows.drop_schedule(name))

    def list_schedules(self) -> list[Schedule]:
        """The schedules of this graph, by name."""
        rows = self._kept().with_runs(lambda rows: rows.schedules(), reads=True)
        return [Schedule.of(row) for row in rows if row.graph == self.name]

    async def alist_schedules(self) -> list[Schedule]:
        """Async `list_schedules`."""
        rows = await self._kept().awith_runs(lambda rows: rows.schedules(), reads=True)
        return [Schedule.of(row) for row in rows if row.graph == self.name]


def _is_orphan(info: ThreadInfo, *, one_host: bool) -> bool:
    """Whether a run holds a thread that is dead."""
    holder = info.owner
    if holder is None:
        return False
    over = info.lease is not None and info.lease.left <= 0 and not owner.is_here(holder)
    return over or owner.is_dead(holder, one_host=one_host)
