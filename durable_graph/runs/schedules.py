"""Schedules: runs that are submitted when a cron expression says so, by whichever worker looks first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from durable_graph.errors import InvalidConfigError
from durable_graph.persistence.run_rows import ScheduleRow
from durable_graph.runs.queue import fresh_row, submitting
from durable_graph.runs.record import RunRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from durable_graph.persistence.run_rows import RunRows

__all__ = ["firing", "next_time", "scheduling"]


def next_time(cron: str, zone: str, after: int) -> int:
    """The first time that the expression names after this one; both wall.

    Raises:
        InvalidConfigError: the expression or the zone is none, or cronsim is not installed.
    """
    try:
        from cronsim import CronSim, CronSimError
    except ImportError as error:
        what = f"schedules need cronsim, which cannot be imported here: {error}."
        raise InvalidConfigError(what, cure="Run: pip install 'durable-graph[schedules]'") from error
    try:
        start = datetime.fromtimestamp(after / 1000, UTC).astimezone(ZoneInfo(zone))
        found = next(CronSim(cron, start), None)
    except CronSimError as error:
        what = f"cron={cron!r}: {error}"
        raise InvalidConfigError(
            what, cure="Write five fields, e.g. '0 9 * * 1-5': minute hour day month weekday."
        ) from error
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        what = f"timezone={zone!r} is not known here"
        raise InvalidConfigError(what, cure="Write a name such as 'Europe/Berlin', or 'UTC'.") from error
    if found is None:
        raise InvalidConfigError(f"cron={cron!r} names no time that ever comes")
    return int(found.timestamp() * 1000)


def scheduling(name: str, graph: str, cron: str, zone: str, request: RunRequest) -> Callable[[RunRows], ScheduleRow]:
    """Keep a schedule, in place of one with its name. *Raises* as `next_time`, and as `RunRequest.packed`."""
    packed = request.packed()

    def work(rows: RunRows) -> ScheduleRow:
        row = ScheduleRow(name, graph, cron, zone, next_time(cron, zone, rows.clock().wall), packed)
        rows.put_schedule(row)
        return row

    return work


def firing(graphs: Sequence[str]) -> Callable[[RunRows], int]:
    """Submit the runs of schedules whose time has come; how many. Of the times that were missed, one is made up for.

    A run's id is made of the schedule's name and the time, so that it is submitted once. It has a thread of its own
    unless the schedule names one.
    """

    def work(rows: RunRows) -> int:
        wall = rows.clock().wall
        due = [row for row in rows.schedules() if row.due <= wall and row.graph in graphs]
        return sum(_fire(rows, row, wall) for row in due)

    return work


def _fire(rows: RunRows, row: ScheduleRow, wall: int) -> bool:
    if not rows.advance_schedule(row, next_time(row.cron, row.zone, wall)):
        return False
    time = datetime.fromtimestamp(row.due / 1000, UTC).isoformat().replace("+00:00", "Z")
    name = f"{row.name}@{time}"
    request = RunRequest.unpacked(row.request)
    configurable = request.config.setdefault("configurable", {})
    thread = configurable.setdefault("thread_id", name)
    new = fresh_row(name, thread, row.graph, request.packed())
    _ = submitting(new, "queue", row.due, 0)(rows)
    return True
