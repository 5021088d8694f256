"""A naive model of the queue of runs: lists and dicts, looked through from end to end.

It says what each work of `durable_graph.runs.queue` and each verb of `RunRows` answers and leaves behind.
"""

from dataclasses import dataclass, field

from durable_graph.errors import InvalidConfigError, RunNotFoundError, ThreadBusy, UnknownInterruptError


@dataclass
class Run:
    """A run. order: of its submission.   awaited: events it waits for."""

    order: int
    id: str
    thread: str
    graph: str
    rank: int
    request: bytes
    submitted: int
    due: int | None
    status: str = "queued"
    attempt: int = 0
    owner: str | None = None
    beat: int = 0
    expires: int = 0
    stop: int = 0
    epoch: int | None = None
    started: int | None = None
    ended: int | None = None
    answers: dict = field(default_factory=dict)
    report: bytes | None = None
    awaited: tuple = ()

    def end(self, status, now):
        self.status, self.ended, self.due, self.answers, self.awaited = status, now, None, {}, ()

    @property
    def open(self):
        return self.ended is None


class Model:
    """The queue. now: what time it is, on both clocks."""

    def __init__(self):
        self.now = 1_000_000
        self.runs = []
        self.events = {}
        self.threads = {}
        self.schedules = {}

    def find(self, id):
        return next((run for run in self.runs if run.id == id), None)

    def open_runs(self, thread):
        return [run for run in self.runs if run.thread == thread and run.open]

    def firsts(self):
        """The runs before which nothing of their thread is left."""
        return [run for run in self.runs if run.open and self.open_runs(run.thread)[0] is run]

    def is_due(self, run):
        return run.due is not None and run.due <= self.now

    # --- who submits ---

    def submit(self, row, policy, due, delay):
        known = self.find(row.id)
        if known is not None:
            if (known.thread, known.graph, known.request) != (row.thread, row.graph, row.request):
                raise InvalidConfigError(row.id)
            return known
        before = self.open_runs(row.thread)
        if policy == "reject" and before:
            raise ThreadBusy(row.thread)
        for run in before if policy == "replace" else ():
            self.cancel(run.id)
        return self.add(row, self.now + delay if due is None else due)

    def add(self, row, due):
        run = Run(len(self.runs), row.id, row.thread, row.graph, row.rank, row.request, self.now, due)
        self.runs.append(run)
        return run

    def adopt(self, row):
        if self.open_runs(row.thread) or self.find(row.id):
            return False
        self.add(row, self.now)
        return True

    def answer(self, thread, graph, answers):
        run = next(iter(self.open_runs(thread)), None)
        if run is None or run.graph != graph or not run.attempt:
            return None
        if any(run.answers.get(one, answer) != answer for one, answer in answers.items()):
            raise UnknownInterruptError(run.id)
        run.answers |= answers
        if run.status != "running":
            run.due = self.now
        return run

    def cancel(self, id):
        run = self.find(id)
        if run is None:
            raise RunNotFoundError(id)
        if run.status == "running":
            run.stop = 1
        elif run.open:
            run.end("cancelled", self.now)
        return run

    def emit(self, event, data):
        if event in self.events:
            return False
        self.events[event] = data
        for run in self.runs:
            if run.status == "waiting" and event in run.awaited and not self.is_due(run):
                run.due = self.now
        return True

    # --- workers ---

    def take(self, owner, graphs, limit, lease, dead):
        """Each run with the status it had."""
        found = [
            run
            for run in self.firsts()
            if run.graph in graphs
            and ((run.expires <= self.now or run.owner in dead) if run.status == "running" else self.is_due(run))
        ]
        taken = sorted(found, key=lambda run: (run.rank, run.due, run.order))[:limit]
        had = [(run, run.status) for run in taken]
        for run in taken:
            run.status, run.owner, run.attempt = "running", owner, run.attempt + 1
            run.beat, run.expires = self.now, self.now + lease
            run.started = self.now if run.started is None else run.started
        return had

    def settle(self, run, attempt, report, *, ends=None, parks=None, due=None, events=(), epoch=None, asked=()):
        if run.attempt != attempt:
            return None
        if run.status != "running":
            return run.status
        run.report = report
        if ends or run.stop:
            run.end(ends or "cancelled", self.now)
            return run.status
        run.status, run.due, run.epoch, run.awaited = parks, due, epoch, ()
        if parks == "waiting":
            run.awaited = tuple(events)
            run.answers = {one: answer for one, answer in run.answers.items() if one in asked}
            if run.answers or any(event in self.events for event in events):
                run.due = self.now
        return run.status

    def note(self, run, attempt, report):
        if run.attempt != attempt or run.status != "running":
            return False
        run.report = report
        return True

    def beat(self, taken, lease):
        still = [run for run, attempt in taken if run.attempt == attempt and run.status == "running"]
        for run in still:
            run.beat, run.expires = self.now, self.now + lease
        return [(run, bool(run.stop)) for run in still]

    def wake_moved(self):
        woken = 0
        for run in self.runs:
            epoch, held = self.threads.get(run.thread, (None, True))
            if run.status == "waiting" and run.epoch is not None and not held and epoch != run.epoch:
                run.due, run.epoch = self.now, None
                woken += 1
        return woken

    # --- who looks ---

    def search(self, limit, before, **wanted):
        found = [
            run
            for run in reversed(self.runs)
            if (before is None or run.order < before)
            and all(value is None or getattr(run, name) == value for name, value in wanted.items())
        ]
        return found[:limit]

    def ended_before(self, run):
        before = [one.status for one in self.runs[: run.order] if one.thread == run.thread and not one.open]
        return before[-1] if before else None

    def owners(self):
        return {run.owner for run in self.runs if run.status == "running"}

    def stopped(self, owner):
        return [run for run in self.runs if run.status == "running" and run.stop and run.owner == owner]

    def pending(self, graphs):
        return sum(
            run.graph in graphs and ((run.status != "waiting" and run.attempt > 0) or self.is_due(run))
            for run in self.firsts()
        )
