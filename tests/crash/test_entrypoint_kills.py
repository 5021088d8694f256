"""Entrypoints and their tasks under SIGKILL: finished tasks are not repeated, and nothing is lost."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from durable_graph.testing import crash_sweep
from durable_graph.testing.ledger import Ledger
from tests.crash import entrypoints
from tests.crash.entrypoints import LEDGER

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.crash, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")]

ANSWERS = {
    entrypoints.ten_tasks: (10, ["yes"]),
    entrypoints.ten_tasks_at_once: (10, ["yes"]),
    entrypoints.ten_async_tasks: (10, ["yes"]),
    entrypoints.tasks_that_ask: (["a", "b"], lambda asked: f"answer to {asked.value}"),
}


@pytest.mark.timeout(240)
@pytest.mark.parametrize("most", [12, pytest.param(24, marks=pytest.mark.slow)])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("flow", ANSWERS, ids=lambda flow: flow.__name__)
def test_an_entrypoint_ends_the_same_wherever_it_was_killed(flow, durability, most):
    given, answers = ANSWERS[flow]
    one_by_one = flow is entrypoints.ten_tasks and durability == "sync"
    crash_sweep(
        flow,
        given,
        resumes=answers,
        durability=durability,
        ledger=LEDGER,
        recorded=["work"] if one_by_one else (),
        kill=True,
        max_points=most,
        report=None,
    ).check()


@pytest.mark.parametrize("flow", ANSWERS, ids=lambda flow: flow.__name__)
def test_an_entrypoint_ends_the_same_wherever_it_crashed(flow):
    given, answers = ANSWERS[flow]
    crash_sweep(flow, given, resumes=answers, ledger=LEDGER, backend="sqlite", report=None, max_points=40).check()


class Lives:
    """One thread, in one process after the other."""

    def __init__(self, folder, policy, face):
        self.ledger = Ledger(folder / "ledger")
        self._command = [sys.executable, "-m", "tests.crash.entrypoints", policy, face, str(folder / "runs.db")]

    def live(self, answer=None):
        """What one process printed; its signal where it was killed."""
        ended = subprocess.run(
            [*self._command, str(self.ledger.path), json.dumps(answer)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode < 0:
            return -ended.returncode
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    def charges(self):
        """How often each idempotency key was charged."""
        return sorted(self.ledger.counts().values())


@pytest.mark.parametrize("face", ["sync", "async"])
def test_a_step_killed_in_its_work_runs_again_with_the_same_key(tmp_path, face):
    lives = Lives(tmp_path, "rerun", face)
    assert lives.live() == signal.SIGKILL
    assert lives.live() == {"asked": "ship?"}
    assert lives.live("yes") == ["charged 5", "yes"]
    assert lives.charges() == [2]


@pytest.mark.parametrize("face", ["sync", "async"])
@pytest.mark.parametrize(("answer", "result", "charges"), [("rerun", "charged 5", [2]), ({"result": 7}, 7, [1])])
def test_a_human_is_asked_what_became_of_a_step_killed_in_its_work(tmp_path, face, answer, result, charges):
    lives = Lives(tmp_path, "ask", face)
    assert lives.live() == signal.SIGKILL
    question = lives.live()["asked"]
    assert (question["type"], question["step"], question["node"]) == ("outcome unknown", "charge", "flow")
    assert question["idempotency_key"] == lives.ledger.entries()[0].key
    assert lives.live(answer) == {"asked": "ship?"}
    assert lives.live("yes") == [result, "yes"]
    assert lives.charges() == charges


@pytest.mark.parametrize("face", ["sync", "async"])
def test_a_function_finds_out_what_became_of_a_step_killed_in_its_work(tmp_path, face):
    lives = Lives(tmp_path, "reconcile", face)
    assert lives.live() == signal.SIGKILL
    assert lives.live() == {"asked": "ship?"}
    assert lives.live("yes") == ["charge of 5 was found 1 time", "yes"]
    assert lives.charges() == [1]
