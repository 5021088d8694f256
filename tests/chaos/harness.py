"""One seeded run of the chaos: workers that are killed, frozen and told to stop, a database that goes away, and the
story of it all for the checker.

What happens when, and to whom, comes from the seed; what it meets there is up to the machine. Every wait has an end:
when the time is over, `Stuck` says which runs are left, what is known of them, and what the workers last said.
"""

import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from durable_graph.errors import StorageError
from durable_graph.persistence.registry import resolve_checkpointer
from tests.chaos.checker import Point, Run, Story, violations
from tests.chaos.graphs import NAME, built, given
from tests.chaos.ledger import LEDGER, lines_of

ROOT = Path(__file__).parents[2]
LEASE = 2
_LOOK = 0.1
_SHOWN = 12
"""Lines of each log, and runs, that a dump shows."""


class Plan(NamedTuple):
    """What is to happen.

    span: seconds over which the runs are submitted.   every: about how many seconds lie between two blows at workers.
    freezes: the share of blows after which a worker stands still for about a lease; the others kill, a few only ask it
    to stop.   restarts: how the database server is stopped, each time.   limit: seconds after which all is given up.
    """

    backend: str
    seed: int
    workers: int = 3
    runs: int = 24
    span: float = 4.0
    every: float = 0.7
    freezes: float = 0.2
    restarts: tuple[str, ...] = ("SIGQUIT",)
    limit: float = 90.0


SHORT = Plan("sqlite", 1)
LONG = Plan("sqlite", 1, workers=8, runs=200, span=60.0, every=2.0, restarts=("SIGQUIT", "SIGINT"), limit=400.0)


@dataclass
class Summary:
    plan: Plan
    blows: Counter = field(default_factory=Counter)
    seconds: float = 0.0
    attempts: Counter = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)

    def __str__(self):
        plan = self.plan
        blows = ", ".join(f"{count} {name}" for name, count in sorted(self.blows.items()))
        attempts = ", ".join(f"{count}x{attempt}" for attempt, count in sorted(self.attempts.items()))
        return (
            f"{plan.backend}, seed {plan.seed}: {plan.runs} runs on {plan.workers} workers in {self.seconds:.1f} s; "
            f"{blows}; attempts (runs x attempts): {attempts}; violations: {len(self.violations)}"
        )


class Stuck(AssertionError):
    """The time is over, and not all runs are done."""


class Workers:
    """The harness's side of the keeper."""

    def __init__(self, folder):
        self._log = (folder / "keeper.log").open("w")
        command = [sys.executable, "-m", "tests.chaos.keeper", str(folder)]
        self._keeper = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )

    def ask(self, verb, *values):
        self._keeper.stdin.write(json.dumps([verb, *values]) + "\n")
        self._keeper.stdin.flush()
        reply = self._keeper.stdout.readline()
        if not reply:
            raise RuntimeError(f"the keeper ended; see {self._log.name}:\n{Path(self._log.name).read_text()}")
        return json.loads(reply)

    def close(self):
        self._keeper.stdin.close()
        try:
            self._keeper.wait(60)
        finally:
            self._keeper.kill()
            self._keeper.wait()
            self._keeper.stdout.close()
            self._log.close()


class Submitter(threading.Thread):
    """Submits the runs, spread over the span. One whose acknowledgement failed to come is submitted again: under its
    id it is the same run.
    """

    def __init__(self, graph, wanted, span):
        super().__init__(daemon=True)
        self._graph = graph
        self._wanted = wanted
        self._span = span
        self.failed = None
        self.over = False

    def run(self):
        began = time.monotonic()
        for place, (name, thread, number) in enumerate(self._wanted):
            time.sleep(max(0.0, began + self._span * place / len(self._wanted) - time.monotonic()))
            config = {"configurable": {"thread_id": thread}}
            while not self.over:
                try:
                    self._graph.submit(given(name, number), config, run_id=name, durability="sync")
                except StorageError:
                    continue
                except BaseException as error:  # noqa: BLE001 - the harness tells of it
                    self.failed = error
                    return
                break


def wanted_runs(plan, rng):
    """(name, thread, number) of each: some threads have one run, others several, whose order counts."""
    shared = [f"shared-{number}" for number in range(max(1, plan.runs // 20))]
    threads = [rng.choice(shared) if rng.random() < 0.4 else f"alone-{number}" for number in range(plan.runs)]
    return [(f"run-{number:03d}", thread, number) for number, thread in enumerate(threads)]


class Chaos:
    """One run of it."""

    def __init__(self, plan, folder, say=lambda text: None):
        self.plan = plan
        self.folder = Path(folder)
        self.say = say
        self.rng = random.Random(plan.seed)
        self.wanted = wanted_runs(plan, self.rng)
        self.summary = Summary(plan)
        self.alive = {}
        self.frozen = {}
        self.leaving = {}
        self.problems = []
        self.restarts = list(plan.restarts) if plan.backend == "postgres" else []

    def run(self):
        """The summary."""
        began = time.monotonic()
        self.until = began + self.plan.limit
        LEDGER.open(self.folder / "ledger")
        workers = self.workers = Workers(self.folder)
        try:
            self.url = self._database()
            with resolve_checkpointer(self.url) as saver:
                saver.setup()
                self.saver, self.graph = saver, built().compile(saver, name=NAME)
                submitter = Submitter(self.graph, self.wanted, self.plan.span)
                submitter.start()
                try:
                    self._rage(submitter)
                    self._stop_all()
                finally:
                    submitter.over = True
                    submitter.join(60)
                story = self._story()
        finally:
            workers.close()
        self.summary.seconds = time.monotonic() - began
        self.summary.violations = self.problems + violations(story)
        return self.summary

    def _database(self):
        if self.plan.backend == "postgres":
            return f"{self.workers.ask('serve')}&lease={LEASE}"
        return f"sqlite:///{self.folder}/runs.db?synchronous=NORMAL&lease={LEASE}"

    # --- what is done to the workers ----------------------------------------------------------------------------------

    def _rage(self, submitter):
        """Until every run has ended."""
        blow = time.monotonic() + self._pause()
        told = 0.0
        ended = 0
        while ended < self.plan.runs:
            self._replace()
            self._thaw()
            now = time.monotonic()
            if now > self.until or submitter.failed:
                raise self._stuck(f"{ended} of {self.plan.runs} runs ended") from submitter.failed
            if now >= blow:
                self._strike()
                blow = time.monotonic() + self._pause()
            done = len(self.plan.restarts) - len(self.restarts) + 1
            if self.restarts and ended >= self.plan.runs * done // (len(self.plan.restarts) + 1):
                self._restart(self.restarts.pop(0))
            time.sleep(_LOOK)
            counts = Counter(run.status for run in self._records())
            ended = counts["done"] + counts["failed"] + counts["cancelled"]
            if now - told >= 2:
                told = now
                blows = dict(self.summary.blows)
                self.say(f"{now - self.until + self.plan.limit:6.1f} s  {dict(counts)}  {blows}")

    def _pause(self):
        return self.plan.every * self.rng.uniform(0.5, 1.5)

    def _replace(self):
        """As many workers as there are to be; those that ended by themselves should have been told to."""
        for pid, code in self.workers.ask("ends"):
            asked = self.leaving.pop(pid, None)
            self.alive.pop(pid, None)
            self.frozen.pop(pid, None)
            if code or asked is None:
                self.problems.append(f"worker {pid} ended by itself with code {code}; see worker-{pid}.log")
        for pid, since in self.leaving.items():
            if pid not in self.frozen and time.monotonic() - since > self.plan.limit / 2:
                raise self._stuck(f"worker {pid} was told to stop and did not")
        while len(self.alive) < self.plan.workers:
            self.alive[self.workers.ask("start", self.url, 4, 0.1)] = time.monotonic()

    def _strike(self):
        pid = self._victim()
        how = self.rng.random()
        if how < self.plan.freezes and pid not in self.frozen and len(self.frozen) < self.plan.workers / 2:
            self.frozen[pid] = time.monotonic() + LEASE * self.rng.uniform(0.9, 1.4)
            LEDGER.say("frozen", pid=pid)
            self.workers.ask("signal", pid, "SIGSTOP")
            self.summary.blows["frozen"] += 1
        elif how < self.plan.freezes + 0.1 and time.monotonic() - self.alive[pid] > 0.5:
            del self.alive[pid]
            self.leaving[pid] = time.monotonic()
            self.workers.ask("signal", pid, "SIGTERM")
            self.summary.blows["told to stop"] += 1
        else:
            self._kill(pid)
            self._note_stored()

    def _victim(self):
        """Mostly one that carries runs: the others have little to lose."""
        known = sorted(self.alive, key=self.alive.__getitem__)
        busy = {run.owner for run in self._records() if run.status == "running"}
        worth = [pid for pid in known if f"process {pid}" in busy]
        return self.rng.choice(worth if worth and self.rng.random() < 0.8 else known)

    def _kill(self, pid):
        self.workers.ask("kill", pid)
        for table in (self.alive, self.frozen, self.leaving):
            table.pop(pid, None)
        self.summary.blows["killed"] += 1

    def _thaw(self, *, all_of_them=False):
        for pid, until in list(self.frozen.items()):
            if all_of_them or time.monotonic() >= until:
                del self.frozen[pid]
                LEDGER.say("thawed", pid=pid)
                self.workers.ask("signal", pid, "SIGCONT")

    def _restart(self, how):
        """The database server goes away, and so does a worker meanwhile."""
        self.say(f"        the database stops ({how})")
        with self._away():
            self.workers.ask("stop_server", how)
            self._kill(self.rng.choice(sorted(self.alive)))
            self._replace()
            time.sleep(self.rng.uniform(0.1, 0.8))
            self.workers.ask("start_server")
        self.summary.blows["restarts"] += 1

    @contextmanager
    def _away(self):
        """All processes stand still as far as others can see, and for a lease after it."""
        LEDGER.say("away", pid=0, at=time.monotonic_ns())
        try:
            yield
        finally:
            LEDGER.say("back", pid=0, at=time.monotonic_ns() + LEASE * 1_000_000_000)

    def _stop_all(self):
        """At the end each worker is told to stop, and stops."""
        self._thaw(all_of_them=True)
        time.sleep(0.5)  # one that was just started knows no signal yet
        for pid in self.alive:
            self.leaving[pid] = time.monotonic()
            self.workers.ask("signal", pid, "SIGTERM")
        self.alive = {}
        until = time.monotonic() + 20
        while self.leaving:
            for pid, code in self.workers.ask("ends"):
                del self.leaving[pid]
                if code:
                    self.problems.append(f"worker {pid} stopped with code {code}; see worker-{pid}.log")
            if time.monotonic() > until:
                raise self._stuck(f"workers {sorted(self.leaving)} were told to stop and did not")
            time.sleep(_LOOK)

    # --- what is seen -------------------------------------------------------------------------------------------------

    def _records(self):
        """Of all runs. What cannot be read right now is read at the next look."""
        try:
            return self.graph.list_runs(limit=10 * self.plan.runs)
        except StorageError:
            return []

    def _note_stored(self):
        """Say which tasks of the step that is under way are stored: nobody may start them again."""
        for run in self._records():
            if run.status in ("running", "waiting"):
                snapshot = self.graph.get_state({"configurable": {"thread_id": run.thread_id}})
                for task in snapshot.tasks:
                    if task.result is not None and (snapshot.metadata or {}).get("run_id") == run.id:
                        name = f"{task.name}#{task.path[2]}" if task.path[0] == "push" else task.name
                        LEDGER.say("stored", run.id, 0, name)

    def _story(self):
        records = {run.id: run for run in self._records()}
        self.summary.attempts = Counter(run.attempt for run in records.values())
        story = Story([], lines_of(self.folder / "ledger"))
        for name, thread, number in self.wanted:
            run = records.pop(name, None)
            if run is None:
                self.problems.append(f"run {name} was accepted, and is gone")
                continue
            state = self.graph.result(name, timeout=5) if run.status == "done" else None
            times = [0.0 if at is None else at.timestamp() for at in (run.started_at, run.ended_at)]
            story.runs.append(Run(name, thread, number, run.status, state, run.checkpoint_id, *times, run.error))
        self.problems += [f"run {name} was never submitted" for name in records]
        for thread in self.saver.threads(limit=10 * self.plan.runs):
            history = self.graph.get_state_history({"configurable": {"thread_id": thread.key}})
            story.points[thread.key] = [_point(snapshot) for snapshot in history][::-1]
            story.lanes[thread.key] = [lane.ns for lane in self.saver.load(thread.key).lanes]
            story.owners[thread.key] = thread.owner
        return story

    def _stuck(self, why):
        """With all that helps to see why."""
        left = [run for run in self._records() if run.status != "done"]
        told = [f"{why} after {time.monotonic() - self.until + self.plan.limit:.0f} s (seed {self.plan.seed})"]
        told += [str(run) for run in left[-_SHOWN:]]
        told += [str(thread) for thread in self.saver.threads() if thread.owner is not None][:_SHOWN]
        for pid in sorted({*self.alive, *self.leaving}):
            log = self.folder / f"worker-{pid}.log"
            lines = log.read_text().splitlines() if log.exists() else []
            told += [f"--- worker {pid}{' (frozen)' if pid in self.frozen else ''}", *lines[-_SHOWN:]]
        return Stuck("\n".join(told))


def _point(snapshot):
    place, parent = snapshot.config["configurable"], (snapshot.parent_config or {}).get("configurable", {})
    about = snapshot.metadata
    return Point(place["checkpoint_id"], parent.get("checkpoint_id"), about["step"], about["run_id"], snapshot.next)
