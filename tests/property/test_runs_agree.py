"""Random calls of those who submit, work and look on every backend: the queue is what a naive model says it is."""

import inspect
import random
from contextlib import ExitStack, closing

import pytest

from durable_graph.errors import DurableGraphError
from durable_graph.persistence.run_rows import Clock, RunFilter, ScheduleRow, Taking
from durable_graph.records import ClaimRequest, CommitItem, LaneInfo
from durable_graph.runs import queue
from durable_graph.runs.record import RunReport, answers_in
from durable_graph.types import Interrupt
from tests.backends import BACKENDS
from tests.faces import FACES
from tests.property.run_model import Model

EVENTS = [("paid", ""), ("paid", "\0"), ("\ud800", ""), ("", "a"), ("a", "")]

CHOICES = {
    "answers": [{"first": 1}, {"first": 2}, {"second": 1}, {"second": None, "first": 1}],
    "asked": [(), ("first",), ("second",), ("first", "second")],
    "awaited": [[], EVENTS[:1], EVENTS[1:], EVENTS[2:4], EVENTS[4:], [EVENTS[1], EVENTS[0], EVENTS[1]]],
    "before": [None, None, 1, 3, 8],
    "cron": "ab",
    "dead": [(), (), (), ("worker a",)],
    "delay": [0, 0, 0, 15],
    "due": [None, None, None, -20, -5, 0, 15, 40],
    "epoch": [None, 1, 2, 3],
    "event": EVENTS,
    "face": FACES,
    "graph": [0, 0, 0, 1],
    "known": [True, False, False, False],
    "lease": [100, 100, 15, 0],
    "limit": [1, 1, 2, 3, 0],
    "name": [0, 1],
    "number": range(25),
    "of": [(0, 1), (0, 1), (0, 1), (0,), (1,), ()],
    "owner": ["worker a", "worker b"],
    "passed": [0, 0, 5, 20],
    "policy": ["queue", "queue", "queue", "replace", "reject", "adopt"],
    "priority": [-1, 0, 1],
    "released": [True, True, False],
    "put_off": [None, None, 0, 15, 40],
    "thread": [0, 0, 1, 2],
    "what": ["put", "drop", "advance", "advance"],
    "which": [0, 0, 0, 0, 1, 1, 2, 3, 5, 8],
}
"""What the arguments of a step are chosen from, by their names."""
STEPS = {}
"""The steps, each with how often it is done beside the others."""

COMPARED = (
    *("id", "thread", "graph", "status", "rank", "due", "attempt", "owner", "beat", "expires", "stop", "epoch"),
    *("submitted", "started", "ended", "request", "report"),
)


def step(often=1, **choices):
    """A step that is done so often; `choices` are for arguments that differ from those of other steps."""

    def register(work):
        STEPS[work.__name__] = often, {**CHOICES, **choices}
        return work

    return register


class StruckError(Exception):
    """A transaction comes to nothing."""


def at(rows, now):
    """The rows of a transaction at a time that the test says."""
    rows.clock = lambda: Clock(now, now)
    return rows


class Queues:
    """Each step is done to the queue of each backend, and to the model."""

    def __init__(self, checkpointers, seed):
        self.sides = checkpointers
        self.chance = random.Random(seed)
        self.done = []  # what was done, for who looks at a failure
        self.model = Model()
        self.taken = []  # (run, its attempt, the row of each side)
        self.claims = {}

    # --- calls ---

    def named(self, kind, number):
        return f"{kind}{number}"

    def on(self, name, work, face=FACES[0], *, reads=False):
        """What the work gives on one side, or the class of what it raises."""
        now = self.model.now
        try:
            return face.call(self.sides[name], "with_runs", lambda rows: work(at(rows, now)), reads=reads)
        except (DurableGraphError, StruckError) as error:
            return type(error)

    def each(self, work, face=FACES[0], *, reads=False):
        """What the same work gives on each side."""
        return {name: self.on(name, work, face, reads=reads) for name in self.sides}

    def same(self, wanted, answers):
        """All sides answered what the model did; then all rows are the same."""
        for name, answer in answers.items():
            assert answer == wanted, name
        self.look_at_rows()

    def look_at_rows(self):
        wanted = [(*(getattr(run, column) for column in COMPARED), run.answers) for run in reversed(self.model.runs)]
        count = len(wanted)
        for name, rows in self.each(lambda rows: rows.search(RunFilter(), count) if count else [], reads=True).items():
            assert [(*(getattr(row, column) for column in COMPARED), answers_in(row)) for row in rows] == wanted, name
            assert [row.no for row in rows] == sorted({row.no for row in rows}, reverse=True), name

    def modelled(self, call, *args, **options):
        """What the model gives, or the class of what it raises."""
        try:
            return call(*args, **options)
        except DurableGraphError as error:
            return type(error)

    # --- who submits ---

    def row(self, number, thread, graph, priority=0):
        names = self.named("run", number), self.named("thread\0", thread), self.named("graph", graph)
        return queue.fresh_row(*names, b"request", priority=priority)

    @step(5)
    def submit(self, known, number, thread, graph, policy, due, delay, priority, face):
        """Mostly a new run, sometimes one whose id is taken."""
        row = self.row(number if known else len(self.model.runs), thread, graph, priority)
        if policy == "adopt":
            return self.same(self.model.adopt(row), self.each(queue.adopting(row), face))
        due = None if due is None else self.model.now + due
        wanted = self.modelled(self.model.submit, row, policy, due, delay)
        found = self.each(queue.submitting(row, policy, due, delay), face)
        told = {name: one if isinstance(one, type) else (one.id, one.due) for name, one in found.items()}
        return self.same(wanted if isinstance(wanted, type) else (wanted.id, wanted.due), told)

    @step(6)
    def answer(self, thread, graph, answers, face):
        names = self.named("thread\0", thread), self.named("graph", graph)
        wanted = self.modelled(self.model.answer, *names, answers)
        found = self.each(queue.answering(*names, answers), face)
        self.same(getattr(wanted, "id", wanted), {name: getattr(one, "id", one) for name, one in found.items()})

    @step(2)
    def cancel(self, known, which, face):
        """Mostly one of the newest, sometimes none that is there."""
        name = self.named("run", 10**6 if known else max(0, len(self.model.runs) - 1 - which))
        wanted = self.modelled(self.model.cancel, name)
        told = self.each(queue.cancelling(name), face)
        self.same(getattr(wanted, "status", wanted), {name: getattr(one, "status", one) for name, one in told.items()})

    @step(3)
    def emit(self, event, passed, face):
        self.model.now += passed
        data = b"%d" % self.model.now
        self.same(self.model.emit(event, data), self.each(queue.emitting(event, data), face))
        wanted = self.model.events[event]
        self.same(wanted, self.each(lambda rows: rows.event(event), reads=True))

    # --- workers ---

    @step(7)
    def take(self, owner, of, limit, lease, dead, passed, face):
        self.model.now += passed
        of = [self.named("graph", one) for one in of]
        wanted = self.model.take(owner, of, limit, lease, dead)
        taking = Taking(owner, of, limit, lease, dead)
        rows = self.each(lambda rows: rows.take(taking, rows.clock()), face)
        told = {name: [(row.id, row.status, row.attempt) for row in found] for name, found in rows.items()}
        self.same([(run.id, was, run.attempt) for run, was in wanted], told)
        for place, (run, _) in enumerate(wanted):
            self.taken.append((run, run.attempt, {name: found[place] for name, found in rows.items()}))

    def outcome(self, which, work, face, wanted):
        """What the work on a run that was taken gives, also where it was taken again since."""
        rows = self.taken[-1 - which % len(self.taken)][2]
        self.same(wanted, {name: self.on(name, work(row), face) for name, row in rows.items()})

    @step(3, status=["done", "done", "failed", None])
    def tell(self, which, status, face):
        """The run is over, or something is noted with it."""
        run, attempt, _ = self.taken[-1 - which % len(self.taken)]
        report = RunReport(checkpoint=f"{self.model.now}", crashes=1)
        if status is None:
            wanted = self.model.note(run, attempt, report.packed())
            self.outcome(which, lambda row: queue.noting(row, report), face, wanted)
        else:
            wanted = self.model.settle(run, attempt, report.packed(), ends=status)
            self.outcome(which, lambda row: queue.settling(row, queue.Ending(status, report)), face, wanted)

    @step(
        7, status=["waiting", "waiting", "waiting", "queued"], delay=[None, None, 0, 15, 40], due=[None, 400, 40, -20]
    )
    def park(self, which, status, delay, due, awaited, asked, epoch, face):
        run, attempt, _ = self.taken[-1 - which % len(self.taken)]
        now = self.model.now
        due = None if due is None else now + due
        if status == "queued":
            awaited, delay = [], delay or 0
        report = RunReport(interrupts=tuple(Interrupt("?", one) for one in sorted(asked)))
        at = due if delay is None else now + delay
        if delay is None and due is not None and due <= now:
            at = now + 250  # not at once: its worker's clock says that it is too early
        more = {"due": at, "events": awaited, "epoch": epoch, "asked": asked}
        wanted = self.model.settle(run, attempt, report.packed(), parks=status, **more)
        parking = queue.Parking(status, report, delay=delay, due=due, events=awaited, epoch=epoch)
        self.outcome(which, lambda row: queue.settling(row, parking), face, wanted)

    @step(2, which=[(), (0,), (0, 1), (0, 1, 4), (2, 3, 5, 8)])
    def beat(self, which, lease, face):
        taken = [self.taken[place] for place in sorted({one % len(self.taken) for one in which})]
        wanted = sorted((run.id, stop) for run, stop in self.model.beat([one[:2] for one in taken], lease))
        answers = {}
        for name in self.sides:
            ids = {rows[name].no: run.id for run, _, rows in taken}
            told = self.on(name, queue.beating([(rows[name].no, attempt) for _, attempt, rows in taken], lease), face)
            answers[name] = sorted((ids[no], stop) for no, stop in told)
        self.same(wanted, answers)

    @step(2)
    def move_on(self, thread, released, passed, face):
        """Somebody runs the thread outside the queue, and a worker looks for what that woke."""
        self.model.now += passed
        key = self.named("thread\0", thread)
        old = self.model.threads.get(key, (0, False))[0]
        for name, checkpointer in self.sides.items():
            lanes = () if old else (LaneInfo(1, "", 0, 0, 0),)
            claim = checkpointer.claim(ClaimRequest(key, "somebody", old or None, old + 1, 1, 0, lanes, ()))
            if released:
                assert checkpointer.commit([CommitItem(claim, (), (), "done")]) == ["written"], name
        self.model.threads[key] = (old + 1, not released)
        self.same(self.model.wake_moved(), self.each(lambda rows: rows.wake_moved(rows.clock()), face))

    # --- what comes to nothing ---

    @step()
    def fail(self, event, owner, face):
        def work(rows):
            rows.add(self.row(99, 0, 0))
            every = [self.named("graph", one) for one in (0, 1)]
            for row in rows.take(Taking(owner, every, 2, 5, [owner]), rows.clock()):
                rows.await_events(row.no, [event])
                rows.change(row._replace(status="done", ended=1), "running")
            queue.emitting(event, b"lost")(rows)
            rows.put_schedule(ScheduleRow(self.named("schedule", 0), "graph", "*", "UTC", 9, b"lost"))
            raise StruckError

        self.same(StruckError, self.each(work, face))
        self.look_at_schedules()

    # --- schedules ---

    def look_at_schedules(self):
        wanted = [self.model.schedules[name] for name in sorted(self.model.schedules)]
        self.same(wanted, self.each(lambda rows: rows.schedules(), reads=True))

    @step(2, due=[0, 1])
    def schedule(self, what, name, due, cron, face):
        row = ScheduleRow(self.named("schedule", name), "graph", cron, "UTC", due, b"%d" % self.model.now)
        known = self.model.schedules.get(row.name)
        if what == "put":
            self.model.schedules[row.name] = row
            self.same(None, self.each(lambda rows: rows.put_schedule(row), face))
        elif what == "drop":
            self.model.schedules.pop(row.name, None)
            self.same(known is not None, self.each(lambda rows: rows.drop_schedule(row.name), face))
        else:
            fits = known is not None and known[2:5] == row[2:5]
            if fits:
                self.model.schedules[row.name] = known._replace(due=due + 1)
            self.same(fits, self.each(lambda rows: rows.advance_schedule(row, due + 1), face))
        self.look_at_schedules()

    # --- who looks ---

    @step(3, thread=[None, 0, 1, 2], status=[None, None, "queued", "running", "waiting", "done", "cancelled"])
    def look(self, thread, graph, status, limit, before, owner, of, face):
        model = self.model
        at = model.runs[-1 - (before or 0) % len(model.runs)]
        of = [self.named("graph", one) for one in of]
        wanted = {
            "thread": None if thread is None else self.named("thread\0", thread),
            "graph": self.named("graph", graph),
            "status": status,
        }

        def ids(rows):
            return [row.id for row in rows]

        def work(rows):
            row = rows.find(at.id)
            filtered = RunFilter(**wanted, before=None if before is None else row.no)
            return [
                ids(rows.search(filtered, limit)),
                ids(rows.open_runs(at.thread)),
                rows.ended_before(at.thread, row.no),
                set(rows.owners()),
                len(rows.stopped(owner)),
                rows.pending(of, rows.clock()),
            ]

        told = [
            ids(model.search(limit, None if before is None else at.order, **wanted)),
            ids(model.open_runs(at.thread)),
            model.ended_before(at),
            model.owners(),
            len(model.stopped(owner)),
            model.pending(of),
        ]
        self.same(told, self.each(work, face, reads=True))

    # --- all of it ---

    def go(self, steps):
        """Do so many steps."""
        names = list(STEPS)
        for name in self.chance.choices(names, [STEPS[name][0] for name in names], k=steps):
            work = getattr(self, name)
            choices = STEPS[name][1]
            given = {one: self.chance.choice(choices[one]) for one in inspect.signature(work).parameters}
            if self.taken or name in ("submit", "take"):
                self.done.append((name, given))
                work(**given)


@pytest.fixture
def checkpointers(tmp_path):
    with ExitStack() as opened:
        backends = {name: kind(tmp_path) for name, kind in BACKENDS.items()}
        yield {name: opened.enter_context(closing(backend)).make() for name, backend in backends.items()}


@pytest.mark.parametrize("seed", range(6))
def test_every_backend_keeps_the_queue_as_a_naive_model_does(checkpointers, seed):
    Queues(checkpointers, seed).go(180)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(1000, 1040))
def test_every_backend_keeps_the_queue_as_a_naive_model_does_for_long(checkpointers, seed):
    Queues(checkpointers, seed).go(300)
