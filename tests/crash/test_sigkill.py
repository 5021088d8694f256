"""Real processes, killed with SIGKILL at random moments, resumed by the next one.

At least 100 kills must hit a run that is under way (at least one checkpoint stored, not done). Before each resume the
tasks whose result is stored are listed: in the process that finished it each was started once, and never after. The
final state is that of a run nobody killed. `-s` shows the steps at which the runs were hit.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.crash.shapes import SHAPES

ROOT = Path(__file__).parents[2]
HITS = 11
FACES = ("sync", "async")
assert HITS * len(SHAPES) * len(FACES) >= 100

pytestmark = [
    pytest.mark.crash,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork"),
]


class Server:
    """The other end of fork_server.py."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.fork_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )

    def run(self, **request):
        """Exit code (negative: the signal) and seconds of one child."""
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self):
        self._process.communicate()


@pytest.fixture(scope="module")
def server():
    made = Server()
    yield made
    made.close()


class Victim:
    """One thread of one graph, killed and resumed until it is done."""

    def __init__(self, server, graph, request, name):
        self.server = server
        self.graph = graph
        self.config = {"configurable": {"thread_id": name}}
        self.request = {**request, "thread": name}
        self.incarnation = 0
        self.finished_in = {}

    def live(self, kill_after):
        """One process's life."""
        self.incarnation += 1
        return self.server.run(**self.request, incarnation=self.incarnation, kill_after=kill_after)

    def starts(self):
        """task -> process -> attempts that were started there, in order."""
        found = defaultdict(lambda: defaultdict(list))
        ledger = Path(self.request["ledger"])
        for line in ledger.read_text().splitlines() if ledger.exists() else ():
            incarnation, task, attempt = line.split()
            found[task][int(incarnation)].append(int(attempt))
        return found

    def finished(self):
        """The ids of all tasks whose result is stored: those of past steps, and of the step that was hit."""
        history = list(self.graph.get_state_history(self.config))
        tasks = [task for shown in history for task in shown.tasks if task.result is not None]
        tasks += [task for task in self.graph.get_state(self.config).tasks if task.result is not None]
        return {task.id for task in tasks if task.name != "__start__"}

    def check_ledger(self):
        starts = self.starts()
        for task in self.finished():
            processes = starts[task]
            last = max(processes)
            # It finished in the process that just died, or it was known before and nobody started it since.
            assert last == self.finished_in.setdefault(task, self.incarnation)
            assert all(attempts == list(range(1, len(attempts) + 1)) for attempts in processes.values())
        assert set(self.finished_in) == self.finished()


def cases():
    """All shapes on SQLite; on Postgres one, and the others where there is time."""
    for shape in SHAPES:
        yield pytest.param("sqlite", shape, id=f"sqlite-{shape}")
        marks = [] if shape == "chain" else [pytest.mark.slow]
        yield pytest.param("postgres", shape, id=f"postgres-{shape}", marks=marks)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(("backend", "shape"), list(cases()), indirect=["backend"])
def test_killed_runs_end_like_runs_nobody_killed_and_repeat_no_finished_task(server, tmp_path, backend, shape, face):
    chance = random.Random(f"{shape} {face}")
    steps = Counter()
    kills = 0
    with backend.make() as saver:
        graph = SHAPES[shape]().compile(saver)
        request = {"shape": shape, "face": face, "database": backend.url()}

        def victim(name):
            return Victim(server, graph, {**request, "ledger": str(tmp_path / f"{name}.ledger")}, name)

        seconds = 60.0
        for name in ("first", "spared"):  # the quicker one tells how long a run takes: the first makes the tables
            spared = victim(name)
            code, took = spared.live(None)
            assert code == 0
            seconds = min(seconds, took)
        spared.check_ledger()
        assert all(len(processes) == 1 for processes in spared.starts().values())
        expected = graph.get_state(spared.config)
        assert expected.next == ()

        while steps.total() < HITS:
            hit = victim(f"hit {kills}")
            while True:
                code, _ = hit.live(chance.uniform(0.0, seconds))
                state = graph.get_state(hit.config)
                if code == 0:
                    break
                assert code == -signal.SIGKILL
                kills += 1
                if state.metadata is not None and state.next:
                    steps[state.metadata["step"]] += 1
                hit.check_ledger()
            assert state.next == ()
            assert state.values == expected.values
            hit.check_ledger()
            assert [one.values for one in graph.get_state_history(hit.config)] == [
                one.values for one in graph.get_state_history(spared.config)
            ]
    histogram = "  ".join(f"{step}: {count}" for step, count in sorted(steps.items()))
    print(f"\n{shape} {face}: {kills} kills, {steps.total()} hit a running run, by step: {histogram}")  # noqa: T201 - the histogram, shown with -s
    assert kills >= steps.total() >= HITS
