"""Random calls of those who submit, work and look on every backend: the queue is what a naive model says it is."""

import itertools
from contextlib import ExitStack, closing

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from durable_graph.errors import DurableGraphError
from durable_graph.persistence.run_rows import Clock, RunFilter, ScheduleRow, Taking
from durable_graph.records import ClaimRequest, CommitItem, LaneInfo
from durable_graph.runs import queue
from durable_graph.runs.record import RunReport, answers_in
from durable_graph.types import Interrupt
from tests.backends import BACKENDS
from tests.faces import FACES
from tests.property.run_model import Model

PROFILE = settings(
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=12,
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
NUMBERS = itertools.count(1)

threads = st.integers(0, 2)
graphs = st.integers(0, 1)
some_graphs = st.sampled_from([(0,), (1,), (0, 1), (0, 1), ()])
workers = st.sampled_from(["worker a", "worker b"])
times = st.integers(-20, 40)
events = st.sampled_from([("paid", ""), ("paid", "\0"), ("\ud800", "")])
answers = st.sampled_from([("first",), ("second",), ("first", "second")])
asked = st.just(()) | answers
faces = st.sampled_from(FACES)
places = st.integers(0, 40)
COMPARED = (
    *("id", "thread", "graph", "status", "rank", "due", "attempt", "owner", "beat", "expires", "stop", "epoch"),
    *("submitted", "started", "ended", "request", "report"),
)


class StruckError(Exception):
    """A transaction comes to nothing."""


class Timed:
    """The rows of a transaction at a time that the test says."""

    def __init__(self, rows, now):
        self.rows = rows
        self.now = now

    def clock(self):
        return Clock(self.now, self.now)

    def __getattr__(self, name):
        return getattr(self.rows, name)


class Queues(RuleBasedStateMachine):
    """Each step is done to the queue of each backend, and to the model."""

    def __init__(self, checkpointers):
        super().__init__()
        self.sides = checkpointers
        self.model = Model()
        self.taken = []  # (run, its attempt, the row of each side)
        self.claims = {}
        self.prefix = f"{next(NUMBERS)} "

    # --- calls ---

    def named(self, kind, number):
        return f"{self.prefix}{kind}{number}"

    def on(self, name, work, face=FACES[0], *, reads=False):
        """What the work gives on one side, or the class of what it raises."""
        now = self.model.now
        try:
            return face.call(self.sides[name], "with_runs", lambda rows: work(Timed(rows, now)), reads=reads)
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

    @rule(
        number=st.integers(0, 30),
        thread=threads,
        graph=graphs,
        policy=st.sampled_from(["queue", "queue", "queue", "replace", "reject"]),
        due=st.none() | times,
        delay=st.sampled_from([0, 0, 0, 15]),
        priority=st.integers(-1, 1),
        face=faces,
    )
    def submit(self, number, thread, graph, policy, due, delay, priority, face):
        row = self.row(number, thread, graph, priority)
        due = None if due is None else self.model.now + due
        wanted = self.modelled(self.model.submit, row, policy, due, delay)
        answers = self.each(queue.submitting(row, policy, due, delay), face)
        told = {name: one if isinstance(one, type) else (one.id, one.due) for name, one in answers.items()}
        self.same(wanted if isinstance(wanted, type) else (wanted.id, wanted.due), told)

    @rule(number=st.integers(0, 30), thread=threads, graph=graphs)
    def adopt(self, number, thread, graph):
        row = self.row(number, thread, graph)
        self.same(self.model.adopt(row), self.each(queue.adopting(row)))

    @rule(thread=threads, graph=graphs, given=answers, face=faces)
    def answer(self, thread, graph, given, face):
        names = self.named("thread\0", thread), self.named("graph", graph)
        told = dict.fromkeys(given, self.model.now)
        wanted = self.modelled(self.model.answer, *names, told)
        found = self.each(queue.answering(*names, told), face)
        self.same(getattr(wanted, "id", wanted), {name: getattr(one, "id", one) for name, one in found.items()})

    @rule(number=st.integers(0, 31), face=faces)
    def cancel(self, number, face):
        name = self.named("run", number)
        wanted = self.modelled(self.model.cancel, name)
        told = self.each(queue.cancelling(name), face)
        self.same(getattr(wanted, "status", wanted), {name: getattr(one, "status", one) for name, one in told.items()})

    @rule(event=events, face=faces)
    def emit(self, event, face):
        event = (self.prefix + event[0], event[1])
        data = b"%d" % self.model.now
        self.same(self.model.emit(event, data), self.each(queue.emitting(event, data), face))
        wanted = self.model.events[event]
        self.same(wanted, self.each(lambda rows: rows.event(event), reads=True))

    # --- workers ---

    @rule(
        owner=workers,
        of=some_graphs,
        limit=st.integers(0, 3),
        lease=st.sampled_from([0, 15, 100]),
        dead=st.lists(workers, max_size=1),
        face=faces,
    )
    def take(self, owner, of, limit, lease, dead, face):
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

    @precondition(lambda self: self.taken)
    @rule(which=places, status=st.sampled_from(["done", "done", "failed"]), face=faces)
    def finish(self, which, status, face):
        run, attempt, _ = self.taken[-1 - which % len(self.taken)]
        report = RunReport(checkpoint=f"{self.model.now}")
        wanted = self.model.settle(run, attempt, report.packed(), ends=status)
        self.outcome(which, lambda row: queue.settling(row, queue.Ending(status, report)), face, wanted)

    @precondition(lambda self: self.taken)
    @rule(
        which=places,
        status=st.sampled_from(["waiting", "waiting", "queued"]),
        delay=st.none() | times,
        due=st.none() | times,
        awaited=st.lists(events, max_size=3),
        open_ids=asked,
        epoch=st.none() | st.integers(1, 3),
        face=faces,
    )
    def park(self, which, status, delay, due, awaited, open_ids, epoch, face):
        run, attempt, _ = self.taken[-1 - which % len(self.taken)]
        now = self.model.now
        due = None if due is None else now + due
        if status == "queued":
            awaited, delay = [], delay or 0
        awaited = [(self.prefix + name, key) for name, key in awaited]
        report = RunReport(interrupts=tuple(Interrupt("?", one) for one in sorted(open_ids)))
        at = due if delay is None else now + delay
        more = {"due": at, "events": awaited, "epoch": epoch, "asked": open_ids}
        wanted = self.model.settle(run, attempt, report.packed(), parks=status, **more)
        parking = queue.Parking(status, report, delay=delay, due=due, events=awaited, epoch=epoch)
        self.outcome(which, lambda row: queue.settling(row, parking), face, wanted)

    @precondition(lambda self: self.taken)
    @rule(which=places, face=faces)
    def note(self, which, face):
        run, attempt, _ = self.taken[-1 - which % len(self.taken)]
        report = RunReport(seen=f"{self.model.now}", crashes=1)
        wanted = self.model.note(run, attempt, report.packed())
        self.outcome(which, lambda row: queue.noting(row, report), face, wanted)

    @precondition(lambda self: self.taken)
    @rule(which=st.lists(places, max_size=4), lease=st.sampled_from([0, 15, 100]), face=faces)
    def beat(self, which, lease, face):
        taken = [self.taken[place] for place in sorted({one % len(self.taken) for one in which})]
        wanted = sorted((run.id, stop) for run, stop in self.model.beat([one[:2] for one in taken], lease))
        answers = {}
        for name in self.sides:
            ids = {rows[name].no: run.id for run, _, rows in taken}
            told = self.on(name, queue.beating([(rows[name].no, attempt) for _, attempt, rows in taken], lease), face)
            answers[name] = sorted((ids[no], stop) for no, stop in told)
        self.same(wanted, answers)

    @rule(thread=threads, released=st.booleans())
    def move_on(self, thread, released):
        """Somebody runs the thread outside the queue."""
        key = self.named("thread\0", thread)
        old = self.model.threads.get(key, (0, False))[0]
        for name, checkpointer in self.sides.items():
            lanes = () if old else (LaneInfo(1, "", 0, 0, 0),)
            claim = checkpointer.claim(ClaimRequest(key, "somebody", old or None, old + 1, 1, 0, lanes, ()))
            if released:
                assert checkpointer.commit([CommitItem(claim, (), (), "done")]) == ["written"], name
        self.model.threads[key] = (old + 1, not released)

    @rule(face=faces)
    def wake(self, face):
        self.same(self.model.wake_moved(), self.each(lambda rows: rows.wake_moved(rows.clock()), face))

    @rule(passed=st.integers(1, 60))
    def wait(self, passed):
        self.model.now += passed

    # --- what comes to nothing ---

    @rule(event=events, owner=workers, face=faces)
    def fail(self, event, owner, face):
        def work(rows):
            rows.add(self.row(99, 0, 0))
            every = [self.named("graph", one) for one in (0, 1)]
            for row in rows.take(Taking(owner, every, 2, 5, [owner]), rows.clock()):
                rows.await_events(row.no, [event])
                rows.change(row._replace(status="done", ended=1), "running")
            queue.emitting((self.prefix + event[0], event[1]), b"lost")(rows)
            rows.put_schedule(ScheduleRow(self.named("schedule", 0), "graph", "*", "UTC", 9, b"lost"))
            raise StruckError

        self.same(StruckError, self.each(work, face))
        self.look_at_schedules()

    # --- schedules ---

    def look_at_schedules(self):
        wanted = [self.model.schedules[name] for name in sorted(self.model.schedules)]
        self.same(wanted, self.each(lambda rows: rows.schedules(), reads=True))

    @rule(number=st.integers(0, 2), due=st.integers(0, 2), cron=st.sampled_from(["a", "b"]), face=faces)
    def put_schedule(self, number, due, cron, face):
        row = ScheduleRow(self.named("schedule", number), "graph", cron, "UTC", due, b"%d" % self.model.now)
        self.model.schedules[row.name] = row
        self.each(lambda rows: rows.put_schedule(row), face)
        self.look_at_schedules()

    @rule(number=st.integers(0, 2), face=faces)
    def drop_schedule(self, number, face):
        name = self.named("schedule", number)
        known = self.model.schedules.pop(name, None) is not None
        self.same(known, self.each(lambda rows: rows.drop_schedule(name), face))

    @rule(number=st.integers(0, 2), seen=st.integers(0, 2), cron=st.sampled_from(["a", "b"]), due=st.integers(0, 2))
    def advance_schedule(self, number, seen, cron, due):
        row = ScheduleRow(self.named("schedule", number), "graph", cron, "UTC", seen, b"")
        known = self.model.schedules.get(row.name)
        fits = known is not None and known[2:5] == row[2:5]
        if fits:
            self.model.schedules[row.name] = known._replace(due=due)
        self.same(fits, self.each(lambda rows: rows.advance_schedule(row, due)))
        self.look_at_schedules()

    # --- who looks ---

    @precondition(lambda self: self.model.runs)
    @rule(
        thread=st.none() | threads,
        graph=graphs,
        status=st.none() | st.sampled_from(["queued", "running", "waiting", "done", "cancelled"]),
        limit=st.integers(0, 4),
        before=st.none() | places,
        owner=workers,
        of=some_graphs,
        face=faces,
    )
    def look(self, thread, graph, status, limit, before, owner, of, face):
        model = self.model
        at = model.runs[(before or 0) % len(model.runs)]
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

    def teardown(self):
        """Nothing of it is open when the next one begins."""
        for run in self.model.runs:
            self.each(lambda rows, run=run: over(rows, run))
        for name in self.model.schedules:
            self.each(lambda rows, name=name: rows.drop_schedule(name))


def over(rows, run):
    row = rows.find(run.id)
    rows.change(row._replace(status="done", ended=1), row.status)


@pytest.fixture(scope="module")
def checkpointers(tmp_path_factory):
    with ExitStack() as opened:
        backends = {name: kind(tmp_path_factory.mktemp(name)) for name, kind in BACKENDS.items()}
        yield {name: opened.enter_context(closing(backend)).make() for name, backend in backends.items()}


def test_every_backend_keeps_the_queue_as_a_naive_model_does(checkpointers):
    run_state_machine_as_test(lambda: Queues(checkpointers), settings=PROFILE)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_backend_keeps_the_queue_as_a_naive_model_does_for_long(checkpointers):
    longer = settings(PROFILE, max_examples=300, stateful_step_count=60)
    run_state_machine_as_test(lambda: Queues(checkpointers), settings=longer)
