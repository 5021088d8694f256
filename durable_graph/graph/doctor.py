"""Would stored threads go on with this graph? `graph.doctor()` reads every thread and tries, without running anything.

What would stop a thread is a *problem*: it waits on a node that is gone, needs a value that nobody stored, holds one
that the state no longer allows, or cannot be read at all. What is only worth knowing is a *note*.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from durable_graph.core.commands import live_frontier
from durable_graph.core.opening import open_interrupts, unfinished
from durable_graph.core.planning import plan
from durable_graph.core.request import Request
from durable_graph.core.run import Run
from durable_graph.core.versions import adapted, version_of
from durable_graph.errors import DurableGraphError, shortened
from durable_graph.persistence.isolation import own
from durable_graph.runtime.context import RunContext
from durable_graph.runtime.session import newest, placed
from durable_graph.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from durable_graph.core.planning import Task
    from durable_graph.core.program import Program
    from durable_graph.graph.lowering import Context
    from durable_graph.records import StoredCheckpoint, ThreadInfo
    from durable_graph.runtime.session import Asking

    Find = Callable[[str, StoredCheckpoint], "tuple[Program, Context] | None"]

__all__ = ["Diagnosis", "ThreadReport", "diagnose"]

_PAGE = 500
"""Threads that are listed at once."""


@dataclass(slots=True, frozen=True)
class ThreadReport:
    """One thread. `state` says how it stands: "finished", "waits for an answer" or "cut short".

    version: of the code that stored it.   problems: why it would not go on.   notes: what is worth knowing.
    """

    thread: str
    state: str
    version: str
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        stored = f", version {self.version!r}" if self.version else ""
        lines = [f"{'FAIL' if self.problems else 'ok  '} {self.thread!r} ({self.state}{stored})"]
        lines += [f"       {problem}" for problem in self.problems]
        lines += [f"       note: {note}" for note in self.notes]
        return "\n".join(lines)


@dataclass(slots=True, frozen=True)
class Diagnosis:
    """All threads of a store. Printed, it lists those with problems and counts the others."""

    graph: str
    threads: tuple[ThreadReport, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether every thread would go on."""
        return not self.failing

    @property
    def failing(self) -> tuple[ThreadReport, ...]:
        """The threads that would not go on."""
        return tuple(report for report in self.threads if report.problems)

    def __str__(self) -> str:
        count, failing = len(self.threads), self.failing
        lines = [str(report) for report in self.threads if report.problems or report.notes]
        verdict = f"{len(failing)} would not go on" if failing else "all would go on"
        return "\n".join([*lines, f"{count} threads of graph {self.graph!r}: {verdict}."])


@dataclass(slots=True)
class _Seen:
    """One thread as it was read: `rest` are (program, schemas, checkpoint) of the graph and those inside it."""

    info: ThreadInfo
    error: str = ""
    rest: list[tuple[str, Program, Context, StoredCheckpoint]] = field(
        default_factory=list["tuple[str, Program, Context, StoredCheckpoint]"]
    )


def diagnose(program: Program, schemas: Context, find: Find) -> Asking[Diagnosis]:
    """Read every thread of the store and try the graph on it; `find` gives the graph with a namespace."""
    seen: list[_Seen] = []
    after = 0
    while page := (yield "threads", (after, _PAGE), {}):
        for info in page:
            one = _Seen(info)
            seen.append(one)
            try:
                stored = yield from newest(info.key)
                if stored is not None:
                    one.rest.append(("", program, schemas, stored))
                    yield from _below(one, stored, info.key, find)
            except Exception as error:  # noqa: BLE001 - whatever a stored value raises is what is asked for
                one.error = _text(error)
        after = page[-1].no
    stored_keys = {key for one in seen for ns, _, _, stored in one.rest if not ns for key in stored.values}
    return Diagnosis(program.name, tuple(_report(one, stored_keys) for one in seen))


def _below(one: _Seen, stored: StoredCheckpoint, key: str, find: Find) -> Asking[None]:
    for record in stored.pending.values():
        if record.writes is not None:
            continue
        for ns, (lane, _) in record.children.items():
            child = yield from placed(key, lane, None)
            graph = find(ns, child) if child is not None else None
            if child is None or graph is None:
                continue
            one.rest.append((ns, *graph, child))
            yield from _below(one, child, key, find)


def _report(one: _Seen, stored_keys: set[str]) -> ThreadReport:
    problems = [one.error] if one.error else []
    notes: list[str] = []
    state, version = "unreadable" if one.error else "empty", ""
    for ns, program, schemas, stored in one.rest:
        where = f"in {ns!r}: " if ns else ""
        if not ns:
            version, state = version_of(stored), _state(stored)
        try:
            today = adapted(program, stored, one.info.key) or stored
        except DurableGraphError as error:
            problems.append(where + _text(error))
            continue
        problems += [where + problem for problem in _problems(program, schemas, today, one.info.key, stored_keys)]
        lost = [key for key in today.values if key not in program.channels and not key.startswith("\0")]
        if lost:
            notes.append(
                f"{where}the state no longer has {', '.join(map(repr, lost))}; what is stored there is not read"
            )
    return ThreadReport(one.info.key, state, version, tuple(problems), tuple(notes))


def _state(stored: StoredCheckpoint) -> str:
    if not unfinished(stored):
        return "finished"
    if open_interrupts(stored):
        return "waits for an answer"
    return "stopped at a breakpoint" if stored.step.stop else "cut short"


def _problems(
    program: Program, schemas: Context, stored: StoredCheckpoint, thread: str, stored_keys: set[str]
) -> Iterator[str]:
    """Why a thread would not go on; nothing of the user's runs but checks of values."""
    for key, value in stored.values.items():
        if program.checks is not None and key in program.channels:
            try:
                _ = program.checks.validate_result(key, value, stored.values)
                _ = schemas.checks.validate_write(key, value, stored.values) if schemas.checks is not None else None
            except Exception as error:  # noqa: BLE001 - a user's validator may raise anything
                yield f"key {key!r} holds {shortened(value)}: {_text(error)}"
    if not unfinished(stored):
        return
    known = set(program.nodes)
    frontier = live_frontier(stored)
    gone = sorted({name for name in (*frontier.nodes, *(send.node for send in frontier.sends)) if name not in known})
    for name in gone:
        near = ", ".join(repr(one) for one in sorted(known) if not program.nodes[one].hidden)
        yield f"it goes on at node {name!r}, which the graph lacks (it has {near}); give the new name as an alias"
    if gone:
        return
    yield from _inputs(program, schemas, stored, thread, stored_keys)


def _inputs(
    program: Program, schemas: Context, stored: StoredCheckpoint, thread: str, stored_keys: set[str]
) -> Iterator[str]:
    """Whether the nodes that are to run get an input."""
    request = Request(thread, "continue", 1, own)
    run = Run(program, request, stored)
    shared = RunContext(program, {}, None)
    shared.run = run
    for task in plan(program, live_frontier(stored), (thread, stored.origin)):
        record = stored.pending.get(task.path)
        if record is not None and record.writes is not None:
            continue
        try:
            _ = task.spec.work.read(task, shared)
        except Exception as error:  # noqa: BLE001 - a user's validator may raise anything
            yield f"node {task.name!r} would not get its input: {_text(error)}"
            continue
        missing = _missing(schemas, task, run, stored_keys)
        if missing and stored.step.fingerprint != program.fingerprint:
            keys = ", ".join(map(repr, missing))
            yield f"node {task.name!r} needs {keys}, which no stored thread has a value for; give it in migrate_state"


def _missing(schemas: Context, task: Task, run: Run, stored_keys: set[str]) -> list[str]:
    """Required keys of a TypedDict that are new: nothing stored has ever had them."""
    reader = task.spec.work.reader
    if task.arg is not MISSING or reader.schema.kind != "typeddict":
        return []
    required = reader.schema.required & frozenset(schemas.state.keys)
    return sorted(key for key in required if key not in run.values and key not in stored_keys)


def _text(error: BaseException) -> str:
    if isinstance(error, DurableGraphError):
        return error.what
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
