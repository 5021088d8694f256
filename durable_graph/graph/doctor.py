"""Would stored threads go on with this graph? `graph.doctor()` reads every thread and tries, without running a node.

What would stop a thread, or let it end otherwise than it should, is a *problem*: it waits on a node that is gone, needs
a value that nobody stored, holds one that the state no longer allows, or cannot be read at all. What is only worth
knowing is a *note*.

Of the user's code only `migrate_state`, checks of values, and reducers of what a Command brought are called.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from durable_graph.core.commands import COMMAND_PATH, live_frontier
from durable_graph.core.identity import push_path
from durable_graph.core.opening import open_interrupts, open_run, unfinished
from durable_graph.core.request import Request
from durable_graph.core.run import PIN, Run
from durable_graph.core.versions import adapted, version_of
from durable_graph.errors import DurableGraphError, StorageError, shortened
from durable_graph.persistence.isolation import own
from durable_graph.runtime.context import RunContext
from durable_graph.runtime.nested import LEVEL, path_inside
from durable_graph.runtime.owner import is_dead
from durable_graph.runtime.session import begun, newest, placed
from durable_graph.types import END, MISSING, Send

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from durable_graph.core.planning import Task
    from durable_graph.core.program import Program
    from durable_graph.graph.lowering import Context
    from durable_graph.records import Frontier, StoredCheckpoint, TaskRecord, ThreadInfo
    from durable_graph.runtime.session import Asking

    Find = Callable[[str, StoredCheckpoint], "tuple[Program, Context] | None"]
    Pasts = Mapping[Program, "_Past"]

__all__ = ["Diagnosis", "ThreadReport", "diagnose"]

_PAGE = 500
"""Threads that are listed at once."""
_NAMED = 3
"""So many threads are named where a note is about several."""


@dataclass(slots=True, frozen=True)
class ThreadReport:
    """One thread.

    state: how it stands: "finished", "waits for an answer", "stopped at a breakpoint", "failed", "cut short",
        "running" (somebody runs it right now), "empty", or "unreadable".
    version: of the code that stored it.   problems: why it would not go on.   notes: what is worth knowing.
    """

    thread: str
    state: str
    version: str
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        stored = f", version {self.version!r}" if self.version else ""
        lines = [f"{'FAIL' if self.problems else 'ok'} {self.thread!r} ({self.state}{stored})"]
        lines += [f"     {problem}" for problem in self.problems]
        lines += [f"     note: {note}" for note in self.notes]
        return "\n".join(lines)


@dataclass(slots=True, frozen=True)
class Diagnosis:
    """All threads of a store, in the order in which they were made.

    Printed, it tells the problems of each thread, each note once, and how many threads there are.
    """

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
        count, failing = len(self.threads), len(self.failing)
        lines = [str(ThreadReport(one.thread, one.state, one.version, one.problems)) for one in self.failing]
        noted: dict[str, list[str]] = defaultdict(list)
        for report in self.threads:
            for note in report.notes:
                noted[note].append(report.thread)
        lines += [f"note on {_listed(threads)}: {note}" for note, threads in noted.items()]
        verdict = f"{failing} would not go on" if failing else "all would go on"
        return "\n".join([*lines, f"{_count(count, 'thread')} of graph {self.graph!r}: {verdict}."])


@dataclass(slots=True)
class _Part:
    """One graph of a thread: the outermost one, or one inside it. `ns` is as it was stored, `place` as nodes are called
    today.
    """

    ns: str
    place: str
    program: Program
    schemas: Context
    stored: StoredCheckpoint

    @property
    def old(self) -> bool:
        """Whether it was stored by another graph, or another version of it."""
        return self.stored.step.fingerprint != self.program.fingerprint


@dataclass(slots=True)
class _Seen:
    """One thread as it was read: what goes on in it, and what of it cannot be looked at."""

    info: ThreadInfo
    error: str = ""
    parts: list[_Part] = field(default_factory=list[_Part])
    unseen: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class _Past:
    """What is known of older versions of a graph: the keys, under their names of today, that a run had values for, and
    whether a run came to its end.
    """

    keys: set[str] = field(default_factory=set[str])
    ended: bool = False


def diagnose(program: Program, schemas: Context, find: Find) -> Asking[Diagnosis]:
    """Read every thread of the store and try the graph on it; `find` gives the graph with a namespace."""
    reader = _Reader(find)
    seen: list[_Seen] = []
    after = 0
    while page := (yield "threads", (after, _PAGE), {}):
        for info in page:
            one = _Seen(info)
            seen.append(one)
            try:
                stored = yield from newest(info.key)
                if stored is not None:
                    yield from reader.read(one, _Part("", "", program, schemas, stored))
            except Exception as error:  # noqa: BLE001 - whatever a stored value raises is what is asked for
                one.error = _text(error)
        after = page[-1].no
    return Diagnosis(program.name, tuple(_report(one, reader.past) for one in seen))


# --- reading ---------------------------------------------------------------------------------------------------------


class _Reader:
    """Reads threads with the graphs inside them, and learns what older versions of each graph stored."""

    def __init__(self, find: Find) -> None:
        self.past: dict[Program, _Past] = {}
        self._find = find

    def read(self, one: _Seen, part: _Part, *, live: bool = True) -> Asking[None]:
        """A graph and those inside it. `live`: it is what the thread goes on with; else it is only learned from."""
        if live:
            one.parts.append(part)
        self._learn(part)
        stored, key = part.stored, one.info.key
        loaded = yield "load", (key,), {"ns": part.ns}
        there = [info.ns for info in loaded.lanes if _directly_below(info.ns, part.ns)] if loaded is not None else []
        pins = {name.removeprefix(PIN): at for name, at in stored.values.items() if name.startswith(PIN)}
        open_paths = {path_inside(part.ns, path) for path in _open_paths(stored)} if live else set[str]()
        for ns in sorted(dict.fromkeys(there)):
            child = None
            if _first(ns) in open_paths:
                child = yield from begun(key, ns, stored)
            if child is None and live and ns in pins:
                child = yield from placed(key, *pins[ns])
            if child is not None:
                yield from self._inside(one, part, ns, child, live=True)
                continue
            with suppress(Exception):  # of what is over and done with nothing has to be readable
                child = yield from newest(key, ns=ns)
                if child is not None:
                    yield from self._inside(one, part, ns, child, live=False)

    def _inside(self, one: _Seen, part: _Part, ns: str, child: StoredCheckpoint, *, live: bool) -> Asking[None]:
        segment = ns.rpartition(LEVEL)[2]
        node = segment.partition("+")[0].partition(":")[0]
        today = part.program.changes.nodes.get(node, node)
        place = path_inside(part.place, today + segment[len(node) :])
        graph = self._find(place, child)
        if graph is not None:
            yield from self.read(one, _Part(ns, place, *graph, child), live=live)
        elif live and today in part.program.nodes:
            one.unseen.append(f"what the graph inside node {today!r} would do cannot be seen from here")

    def _learn(self, part: _Part) -> None:
        if part.old:
            past = self.past.setdefault(part.program, _Past())
            renamed = part.program.changes.keys
            past.keys.update(renamed.get(key, key) for key in part.stored.values)
            past.ended = past.ended or not unfinished(part.stored)


def _directly_below(ns: str, above: str) -> bool:
    """Whether a graph with this namespace is in a node of one with that."""
    return bool(ns) and ns.rpartition(LEVEL)[0] == above


def _open_paths(stored: StoredCheckpoint) -> Iterator[str]:
    """The tasks of the next step that have no result yet."""
    frontier = live_frontier(stored)
    for path in (*frontier.nodes, *(push_path(send.node, at) for at, send in enumerate(frontier.sends))):
        record = stored.pending.get(path)
        if record is None or record.writes is None:
            yield path


def _first(ns: str) -> str:
    """The namespace of the first graph of the same task."""
    above, level, segment = ns.rpartition(LEVEL)
    return f"{above}{level}{segment.partition('+')[0]}"


# --- judging ---------------------------------------------------------------------------------------------------------


def _report(one: _Seen, pasts: Pasts) -> ThreadReport:
    problems = [one.error] if one.error else []
    notes = list(one.unseen)
    state, version = "unreadable" if one.error else "empty", ""
    if one.parts:
        stored = one.parts[0].stored
        state, version = _state(stored, one.info), version_of(stored)
    for part in one.parts:
        where = f"in {part.ns!r}: " if part.ns else ""
        try:
            today = adapted(part.program, part.stored, one.info.key) or part.stored
        except DurableGraphError as error:
            problems.append(where + _text(error))
            continue
        found, lost = _of_another(part, today), _lost(part, today)
        if found and unfinished(today):
            problems.append(where + found)
            continue
        if found or lost:
            notes.append(where + (found or lost))
        problems += [where + problem for problem in _problems(part, today, one.info.key, pasts)]
    return ThreadReport(one.info.key, state, version, tuple(problems), tuple(dict.fromkeys(notes)))


def _state(stored: StoredCheckpoint, info: ThreadInfo) -> str:
    if info.owner is not None and not is_dead(info.owner, one_host=True):
        return "running"
    if not unfinished(stored):
        return "finished"
    if open_interrupts(stored):
        return "waits for an answer"
    if any(record.error is not None and not record.routes for record in stored.pending.values()):
        return "failed"
    return "stopped at a breakpoint" if stored.step.stop else "cut short"


def _of_another(part: _Part, today: StoredCheckpoint) -> str:
    """Why a thread seems to be of another graph: this one knows nothing of it. "" when it does not seem so."""
    keys, nodes = _visible(today), _names(live_frontier(today))
    if not keys or not part.program.channels.keys().isdisjoint(keys) or not part.program.nodes.keys().isdisjoint(nodes):
        return ""
    going_on = f" and goes on at {_quoted(nodes)}" if nodes else ""
    return f"it seems to be a thread of another graph: it has a state of {_quoted(keys)}{going_on}"


def _lost(part: _Part, today: StoredCheckpoint) -> str:
    lost = [key for key in _visible(today) if key not in part.program.channels]
    return f"the state no longer has {_quoted(lost)}; what is stored there is not read" if lost else ""


def _visible(stored: StoredCheckpoint) -> list[str]:
    """The keys that are the user's."""
    return [key for key in stored.values if not key.startswith("\0")]


def _problems(part: _Part, today: StoredCheckpoint, thread: str, pasts: Pasts) -> Iterator[str]:
    """Why a thread would not go on."""
    for key, value in today.values.items():
        if why := _refused(part, key, value, today):
            yield why
    if not unfinished(today):
        return
    nodes = part.program.nodes
    gone = [name for name in _names(live_frontier(today)) if name not in nodes]
    for name in gone:
        yield (
            f"it goes on at node {name!r}, which the graph lacks (it has {_nodes(part.program)}); give the node that "
            "takes its place in node_aliases"
        )
    for record in today.pending.values():
        if record.path != COMMAND_PATH and record.writes is not None:
            yield from _of_finished(part, record, today)
    yield from _of_joins(part.program, today.step.frontier)
    if not gone:
        yield from _of_inputs(part, thread, pasts)


def _of_finished(part: _Part, record: TaskRecord, today: StoredCheckpoint) -> Iterator[str]:
    """What is wrong with the result of a task whose siblings are still to run: it will be applied with theirs."""
    for route in record.routes:
        target = route.node if isinstance(route, Send) else route
        if isinstance(target, str) and target != END and target not in part.program.nodes:
            yield f"node {record.node!r} has finished and leads to {target!r}, which the graph lacks"
    for write in record.writes or ():
        if why := _refused(part, write.key, write.value, today):
            yield f"node {record.node!r} has finished, and what it wrote is not allowed: {why}"


def _of_joins(program: Program, frontier: Frontier) -> Iterator[str]:
    """Barrier edges that others took the place of, while something has arrived: it will not arrive again on those."""
    for name, came in frontier.arrived.items():
        before, _, target = name.rpartition("->")
        sources = set(before.split("+"))
        for join in program.joins.values() if name not in program.joins else ():
            follows = join.target == target or sources == {*join.sources}
            if follows and not {*came}.isdisjoint(join.sources):
                yield (
                    f"{_quoted(came)} arrived on the edge {name!r}, which is {join.name!r} now: {join.target!r} would "
                    "wait for ever; give what was renamed in node_aliases"
                )


def _of_inputs(part: _Part, thread: str, pasts: Pasts) -> Iterator[str]:
    """Whether the nodes that are to run get an input. Opening a run decides what it would do, and stores nothing."""
    program = part.program
    run = Run(program, Request(thread, "continue", 1, own, durable=True, nested=bool(part.ns), ns=part.ns), part.stored)
    try:
        _ = open_run(run)
    except Exception as error:  # noqa: BLE001 - of a Command that came before: a user's reducer may raise anything
        yield f"it would not begin: {_text(error)}"
        return
    shared = RunContext(program, {}, None)
    shared.run = run
    for task in run.tasks:
        if task.writes is not None or task.handler is not None:
            continue
        try:
            _ = task.spec.work.read(task, shared)
        except Exception as error:  # noqa: BLE001 - a user's validator may raise anything
            yield f"node {task.name!r} would not get its input: {_text(error)}"
            continue
        missing = _missing(part, task, run, pasts.get(program))
        if missing:
            them = "it" if len(missing) == 1 else "them"
            yield (
                f"node {task.name!r} needs {_quoted(missing)}, and no run of another version had a value for {them}; "
                f"give {them} in migrate_state"
            )


def _missing(part: _Part, task: Task, run: Run, past: _Past | None) -> list[str]:
    """Required keys of a TypedDict that are new: runs of older versions came to their end without them.

    Of a key that has no value yet nothing else tells whether it is new, or is to be written by a later node.
    """
    reader = task.spec.work.reader
    if past is None or not (part.old and past.ended) or task.arg is not MISSING or reader.schema.kind != "typeddict":
        return []
    required = reader.schema.required & frozenset(part.schemas.state.keys)
    return sorted(key for key in required if key not in run.values and key not in past.keys)


def _refused(part: _Part, key: str, value: object, today: StoredCheckpoint) -> str:
    """Why the state does not allow a value; "" when it does."""
    checks = part.program.checks
    if checks is None or part.schemas.checks is None or key not in part.program.channels:
        return ""
    try:
        _ = checks.validate_result(key, value, today.values)
        _ = part.schemas.checks.validate_write(key, value, today.values)
    except Exception as error:  # noqa: BLE001 - a user's validator may raise anything
        return f"{_text(error)} (key {key!r} holds {shortened(value)})"
    return ""


# --- words -----------------------------------------------------------------------------------------------------------


def _names(frontier: Frontier) -> list[str]:
    """The nodes that are to run."""
    return sorted({*frontier.nodes, *frontier.deferred, *(send.node for send in frontier.sends)})


def _nodes(program: Program) -> str:
    return _quoted(sorted(name for name, spec in program.nodes.items() if not spec.hidden))


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _listed(threads: Sequence[str]) -> str:
    """Some threads, the first ones by name."""
    more = f" and {len(threads) - _NAMED} more" if len(threads) > _NAMED else ""
    return f"{_count(len(threads), 'thread')} ({_quoted(threads[:_NAMED])}{more})"


def _text(error: BaseException) -> str:
    if isinstance(error, StorageError):
        return f"{error.what} {error.cure}" if error.cure else error.what
    if isinstance(error, DurableGraphError):
        return error.what
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
