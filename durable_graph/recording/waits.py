"""Durable waits inside a node: for a time, or for something that happens outside.

A wait holds no process. The run stops as at an `interrupt`, and goes on, from the start of the node, when the time has
come or the event has happened: a worker (`graph.work`) sees to it, or whoever calls `invoke(None, config)` then. So
what the node does before it waits belongs into `once`.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import TYPE_CHECKING, Any

from durable_graph.errors import InvalidConfigError, NoCheckpointerError
from durable_graph.persistence.codec import CODEC
from durable_graph.recording.doing import ado_step, do_step
from durable_graph.recording.step import Step, take_place
from durable_graph.runtime.asking import Limit, ask
from durable_graph.runtime.callables import Body
from durable_graph.runtime.context import current
from durable_graph.types import MISSING

if TYPE_CHECKING:
    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.persistence.run_rows import EventKey
    from durable_graph.runtime.context import TaskContext

__all__ = ["await_for_event", "sleep", "sleep_until", "wait_for_event"]


def sleep(duration: float | timedelta, *, key: str | None = None) -> None:
    """Go on after so many seconds (or a timedelta), counted from when this line is first reached.

    The run is stored and stops; `invoke` returns with the wait among its "__interrupt__". Async nodes call it too,
    without `await`. An answer, `Command(resume=...)`, ends the wait early.

    Args:
        duration: 0 or less does not wait at all.
        key: tells this wait from others of the node, where the order in which they come may change.

    Raises:
        GraphInterrupt: the time has not come. Derives from BaseException, so `except Exception` lets it pass.
        OutsideRunError: no node runs here.
        NoCheckpointerError: the graph has no checkpointer, so the run could never go on.
        InvalidConfigError: the duration is no number of seconds.
    """
    seconds = _seconds("sleep()", duration)
    if seconds > 0:
        _ = ask({"sleep": seconds}, key or "sleep", limit=Limit("sleep", lambda: time.time() + seconds))


def sleep_until(when: datetime, *, key: str | None = None) -> None:
    """Go on at that time. As `sleep`, also in what else it raises.

    Args:
        when: a datetime with a time zone. One that has passed does not wait at all.
        key: as of `sleep`.

    Raises:
        InvalidConfigError: `when` is no datetime, or has no time zone.
    """
    if not isinstance(when, datetime) or when.tzinfo is None:  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        what = f"sleep_until() got {when!r}, expected a datetime with a time zone"
        raise InvalidConfigError(what, cure="Write e.g. datetime.now(UTC) + timedelta(hours=1).")
    at = when.timestamp()
    if at > time.time():
        _ = ask({"sleep_until": when.astimezone(UTC).isoformat()}, key or "sleep", limit=Limit("sleep", lambda: at))


def wait_for_event(
    name: str, key: str = "", *, timeout: float | timedelta | None = None, default: Any = MISSING
) -> Any:
    """Go on when an event has happened: `graph.send_event(name, key, data)`, before or after this line is reached.

    Args:
        name: what the event is known by, together with its key, to everybody who uses the same database.
        key: tells apart events of one name.
        timeout: seconds for which it is waited for, counted from when this line is first reached; None: for ever.
        default: what is returned when the time is over.

    Returns:
        The event's data. Which it was is recorded: when the node runs again it gets the same.

    Raises:
        GraphInterrupt: it has not happened yet. Derives from BaseException, so `except Exception` lets it pass.
        TimeoutError: the time is over, and there is no default. Recorded too.
        OutsideRunError: no node runs here.
        UsageError: the checkpointer keeps no events.
    """
    step, found = _waiting(name, key, timeout, default)
    return do_step(take_place(step, found, {}), step, found, {})


async def await_for_event(
    name: str,
    key: str = "",
    *,
    timeout: float | timedelta | None = None,  # noqa: ASYNC109 - of a wait that outlives the process
    default: Any = MISSING,
) -> Any:
    """Async `wait_for_event`."""
    step, found = _waiting(name, key, timeout, default)
    return await ado_step(take_place(step, found, {}), step, found, {})


def _waiting(name: str, key: str, timeout: float | timedelta | None, default: Any) -> tuple[Step, tuple[EventKey]]:
    """The recorded step that a wait is, and its arguments."""
    limit = None if timeout is None else _seconds("wait_for_event()", timeout)
    store = _store()

    def wait(event: EventKey) -> Any:
        return _outcome(event, store.with_runs(lambda rows: rows.event(event), reads=True), limit, default)

    return Step("wait_for_event", Body(wait)), ((name, key),)


def _outcome(event: EventKey, found: bytes | None, seconds: float | None, default: Any) -> Any:
    """What waiting for an event comes to: its data, the default, or that nothing has happened yet."""
    if found is not None:
        return CODEC.decode(found)
    asked = {"event": event[0], "key": event[1]}
    place = "\0".join(event)
    over = [one.deadline for one in current("").task.interrupts if one.value == asked and one.deadline is not None]
    if over and over[0] <= time.time():
        if default is not MISSING:
            return default
        what = f"event {event[0]!r} (key {event[1]!r}) did not happen within {seconds or 0:g} s"
        raise TimeoutError(what)
    return ask(
        asked, f"event\0{place}", limit=Limit("event", lambda: None if seconds is None else time.time() + seconds)
    )


def _store() -> Checkpointer:
    context: TaskContext | None = current("wait_for_event()")
    node = context.task.name
    while context is not None and context.shared.session is None:
        context = context.shared.parent
    if context is None or context.shared.session is None:
        what = f"node {node!r} waits for an event, but a run without a checkpointer can never go on"
        raise NoCheckpointerError(what)
    return context.shared.session.outbox.hold.checkpointer


def _seconds(who: str, given: float | timedelta) -> float:
    seconds = given.total_seconds() if isinstance(given, timedelta) else given
    if isinstance(seconds, bool) or not isfinite(seconds):
        raise InvalidConfigError(f"{who} got {given!r}, expected a number of seconds or a timedelta")
    return float(seconds)
