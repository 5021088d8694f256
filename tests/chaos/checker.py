"""What must be true after the chaos: pure functions of what the ledger says and of what the database holds.

A *late* line is excused where its process could not know better: it was frozen, or the database was away, while
another worker took its run over. What it then starts once more stores nothing. Nobody is excused for anything that was
known before that time.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from durable_graph.core.identity import parse_checkpoint_id
from tests.chaos.graphs import PARTS, STEPS, came_to
from tests.chaos.ledger import Line

SECOND = 1_000_000_000
LATE = 2 * SECOND
"""For how long after a freeze a process may say what it should have said before."""
NEXT = [("__start__",), *((name,) * (PARTS if name == "part" else 1) for name in STEPS), ()]
"""What is to run next, in the checkpoints of a run from first to last."""


class Run(NamedTuple):
    """A run that was accepted: as it was submitted, and as the queue shows it in the end."""

    id: str
    thread: str
    number: int
    status: str
    state: Any
    checkpoint: str | None
    started: float
    ended: float
    error: str | None = None


class Point(NamedTuple):
    """A checkpoint of a thread."""

    id: str
    parent: str | None
    step: int
    run: str
    next: tuple[str, ...]


@dataclass
class Story:
    """All that is known. runs: in the order they were submitted, thread by thread.   lines: the ledger.

    points: the checkpoints of each thread, oldest first.   lanes, owners: of each thread.
    """

    runs: list[Run]
    lines: list[Line]
    points: dict[str, list[Point]] = field(default_factory=dict)
    lanes: dict[str, list[str]] = field(default_factory=dict)
    owners: dict[str, str | None] = field(default_factory=dict)


def violations(story):
    """Every promise that was broken, as text."""
    return [
        *_ends(story),
        *_order(story),
        *_starts(story),
        *_stored(story),
        *_bodies(story),
        *_histories(story),
        *_threads(story),
    ]


def _threads_of(story):
    threads = defaultdict(list)
    for run in story.runs:
        threads[run.thread].append(run)
    return threads


def _ends(story):
    """Every run is done, with the right state."""
    for runs in _threads_of(story).values():
        state = {}
        for run in runs:
            state = came_to(state, run.id, run.number)
            if run.status != "done":
                yield f"run {run.id} is {run.status}: {run.error}"
            elif run.state != state:
                wrong = [name for name in state if (run.state or {}).get(name) != state[name]]
                yield f"run {run.id} came to another state; wrong: {', '.join(wrong)}"


def _order(story):
    """The runs of one thread come in the order they were submitted."""
    first, last = {}, {}
    for place, line in enumerate(story.lines):
        if line.what == "start":
            first.setdefault(line.run, place)
            if line.step == len(STEPS):
                last.setdefault(line.run, place)
    for runs in _threads_of(story).values():
        for before, after in pairwise(runs):
            if after.started < before.ended:
                yield f"run {after.id} of thread {after.thread} began before {before.id} had ended"
            if first.get(after.id, -1) < last.get(before.id, -1):
                yield f"run {after.id} of thread {after.thread} ran before {before.id} was through"


def _freezes(lines):
    """When each process could not know what others did, as pairs of times; under 0: all of them."""
    freezes, since = defaultdict(list), {}
    for line in lines:
        if line.what in ("frozen", "away"):
            since[line.pid] = line.at
        elif line.what in ("thawed", "back") and line.pid in since:
            freezes[line.pid].append((since.pop(line.pid), line.at))
        elif line.what == "stalled":  # it saw for itself that it had stood still
            freezes[line.pid].append((line.at - int(float(line.name) * SECOND), line.at))
    return freezes


def _excused(freezes, line, known):
    """Whether a line is late: of a process that stood still when `known` was said."""
    spans = (*freezes[line.pid], *freezes[0])
    return any(since <= known.at and line.at <= until + LATE for since, until in spans)


def _again(story, what, settled):
    """Lines of a kind that come after something was known that rules them out. settled: line -> the earlier one."""
    freezes = _freezes(story.lines)
    for line in story.lines:
        known = settled(line)
        if line.what == what and known is not None and not _excused(freezes, line, known):
            yield line, known


def _starts(story):
    """A step whose result is durable, which the start of a later step tells, is not started again. None is left out."""
    reached = defaultdict(dict)

    def settled(line):
        if line.what != "start":
            return None
        later = [known for step, known in reached[line.run].items() if step > line.step]
        reached[line.run].setdefault(line.step, line)
        return later[0] if later else None

    for line, known in _again(story, "start", settled):
        yield f"run {line.run}: {line.name} was started again by {line.pid} after {known.name} had begun"
    for run in story.runs:
        if missing := [name for number, name in enumerate(STEPS, 1) if number not in reached[run.id]]:
            yield f"run {run.id} is over, but never started {', '.join(missing)}"


def _stored(story):
    """A task whose result was seen in the store is not started again."""
    seen = {}

    def settled(line):
        if line.what == "stored":
            seen.setdefault((line.run, line.name), line)
        return seen.get((line.run, line.name))

    for line, _ in _again(story, "start", settled):
        yield f"run {line.run}: {line.name} was started again by {line.pid} after its result was stored"


def _bodies(story):
    """What follows a recorded step says that it is recorded: its body is not called again. It has one key for ever."""
    after, keys = {}, {}

    def settled(line):
        if line.what == "after":
            after.setdefault((line.run, line.name), line)
        return after.get((line.run, line.name.rpartition(" ")[0])) if line.what == "body" else None

    for line, _ in _again(story, "body", settled):
        yield f"run {line.run}: {line.name.rpartition(' ')[0]} was done again by {line.pid} after it was recorded"
    for line in story.lines:
        if line.what == "body":
            step, _, key = line.name.rpartition(" ")
            if keys.setdefault((line.run, step), key) != key:
                yield f"run {line.run}: the idempotency key of {step} changed"


def _histories(story):
    """Each run has each of its steps once, in order, in the history of its thread's head."""
    for thread, runs in _threads_of(story).items():
        points = story.points.get(thread, [])
        if [run.id for run in runs] != list(dict.fromkeys(point.run for point in points)):
            yield f"thread {thread} has the runs {list(dict.fromkeys(point.run for point in points))}"
        for run in runs:
            own = [point for point in points if point.run == run.id]
            if [point.next for point in own] != NEXT:
                yield f"run {run.id} has the steps {[point.next for point in own]}"
            if own and run.checkpoint != own[-1].id:
                yield f"run {run.id} says that it ended at {run.checkpoint}, not {own[-1].id}"


def _threads(story):
    """One lane, which is one line: each checkpoint follows the one before it, and nobody holds the thread any more."""
    for thread, points in story.points.items():
        if story.lanes.get(thread) != [""]:
            yield f"thread {thread} has the lanes {story.lanes.get(thread)}"
        if story.owners.get(thread) is not None:
            yield f"thread {thread} is still held by {story.owners[thread]}"
        known = {point.id for point in points}
        heads = known - {point.parent for point in points}
        if points and len(heads) != 1:
            yield f"thread {thread} has the heads {sorted(heads)}"
        for point in points[1:]:
            if point.parent not in known:
                yield f"thread {thread}: the parent {point.parent} of {point.id} is gone"
        yield from _line(thread, points, known)


def _line(thread, points, known):
    for before, after in pairwise(points):
        was, now = parse_checkpoint_id(before.id), parse_checkpoint_id(after.id)
        if not (was.lane == now.lane and was.seq < now.seq and was.epoch <= now.epoch):
            yield f"thread {thread}: {after.id} cannot come after {before.id}"
        if after.parent in known and after.parent != before.id:
            yield f"thread {thread}: {after.id} follows {after.parent}, not {before.id}"
        if after.step != before.step + 1:
            yield f"thread {thread}: step {after.step} at {after.id} comes after step {before.step}"
