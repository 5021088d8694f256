"""Workers that are killed, frozen, or told to stop: every accepted run ends once."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.backends import BACKENDS
from tests.crash.queue_programs import steps

ROOT = Path(__file__).parents[2]
T = {"configurable": {"thread_id": "t"}}

pytestmark = [pytest.mark.crash, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX processes")]


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request, tmp_path):
    """Those that several processes share."""
    backend = BACKENDS[request.param](tmp_path)
    yield backend
    backend.close()


@pytest.fixture
def ledger(tmp_path):
    """The path of a file in which nodes note what they do, as the processes name it: a part of a recorded call."""
    path = tmp_path / "ledger"
    path.touch()
    return str(path)


def noted(ledger):
    return Path(ledger).read_text().split()


@contextmanager
def process(*args, module="tests.crash.queue_programs"):
    child = subprocess.Popen(
        [sys.executable, "-m", module, *map(str, args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


@contextmanager
def inside(what, backend, ledger, how, **options):
    """A process that is inside the second node."""
    with process(what, backend.url(**options), ledger, how) as child:
        assert child.stdout.readline() == "inside\n", child.communicate()
        yield child


def test_a_run_of_a_killed_worker_is_carried_on_by_another(backend, ledger):
    graph = steps(backend.make(), ledger)
    run = graph.submit({"log": ["in"]}, T)
    with inside("work", backend, ledger, "hang") as child:
        assert graph.get_run(run).status == "running"
        child.kill()
        child.wait()
        assert graph.work(until_idle=True, poll=0.05) == 1
    assert graph.result(run) == {"log": ["in", "first", "second", "third"]}
    assert noted(ledger) == ["first", "paid", "second", "second", "third"]
    record = graph.get_run(run)
    assert (record.attempt, record.status) == (2, "done")


def test_a_worker_that_was_frozen_and_comes_back_changes_nothing(backend, ledger):
    graph = steps(backend.make(), ledger)
    run = graph.submit({"log": ["in"]}, T)
    with inside("work", backend, ledger, "stand", lease=1) as child:
        child.send_signal(signal.SIGSTOP)
        assert graph.work(until_idle=True, poll=0.05) == 1
        assert graph.result(run) == {"log": ["in", "first", "second", "third"]}
        before = backend.tables()
        child.send_signal(signal.SIGCONT)
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "ended 0\n", child.communicate()
        assert backend.tables() == before
    assert noted(ledger) == ["first", "paid", "second", "second", "third"]


def test_a_run_that_kills_its_workers_is_given_up_in_the_end(backend, ledger, monkeypatch):
    monkeypatch.setattr("durable_graph.runs.worker.MAX_CRASHES", 2)
    graph = steps(backend.make(), ledger)
    run = graph.submit({"log": ["in"]}, T)
    for _ in range(3):
        with inside("work", backend, ledger, "hang"):
            pass  # killed inside
    assert graph.work(until_idle=True, poll=0.05) == 1
    assert graph.get_run(run).error == "RunError: 3 workers died while they ran it, and it got no further"


def test_what_a_killed_invoke_left_is_recovered_once(backend, ledger):
    graph = steps(backend.make(), ledger)
    assert graph.recover() == []
    with inside("invoke", backend, ledger, "hang") as child:
        assert graph.recover() == []  # it lives
        child.kill()
        child.wait()
        other = steps(backend.reopen(), ledger)
        (run,) = graph.recover()
        assert other.recover() == []
    assert graph.work(until_idle=True, poll=0.05) == 1
    assert graph.result(run) == {"log": ["in", "first", "second", "third"]}
    assert noted(ledger) == ["first", "paid", "second", "second", "third"]
    assert graph.recover() == []


def test_the_command_carries_runs_and_stops_at_a_signal_with_nothing_lost(backend, tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "shop.py").write_text(
        "import time\n"
        "from tests.behaviour.queued import chain\n"
        "def slow(state):\n"
        "    time.sleep(0.3)\n"
        "    return {'log': ['slow']}\n"
        "def then(state):\n"
        "    return {'log': ['then']}\n"
        "graph = chain(None, slow, then, name='shop')\n"
    )
    sys.path.insert(0, str(folder))
    try:
        import shop
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("shop", None)
    graph = shop.chain(backend.make(), shop.slow, shop.then, name="shop")
    runs = [graph.submit({"log": [str(number)]}) for number in range(3)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))}
    command = [sys.executable, "-m", "durable_graph", "worker", "shop:graph", "--db", backend.url(), "--poll", "0.05"]

    def started(*more):
        return subprocess.Popen(
            [*command, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=environment
        )

    child = started("--concurrency", "1")
    try:
        until = time.monotonic() + 20
        while not any(graph.get_run(run).status == "running" for run in runs):
            assert time.monotonic() < until
            time.sleep(0.01)
        child.send_signal(signal.SIGTERM)
        _, told = child.communicate(timeout=20)
    finally:
        child.kill()
    assert child.returncode == 0, told
    assert "works on 'shop', 1 runs at a time" in told
    assert "SIGTERM: stopping after the current superstep" in told
    assert {graph.get_run(run).status for run in runs} <= {"queued", "done"}
    assert any(graph.get_run(run).status == "queued" for run in runs)
    child = started("--until-idle")
    _, told = child.communicate(timeout=20)
    assert child.returncode == 0, told
    assert [graph.result(run) for run in runs] == [{"log": [str(number), "slow", "then"]} for number in range(3)]
    shown = subprocess.run(
        [sys.executable, "-m", "durable_graph", "runs", "--db", backend.url()],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env=environment,
    ).stdout.splitlines()
    assert shown[0].split() == ["RUN", "THREAD", "GRAPH", "STATUS", "ATTEMPT", "SUBMITTED"]
    assert [line.split()[0] for line in shown[1:]] == runs[::-1]
    assert all(line.split()[2:4] == ["shop", "done"] for line in shown[1:])
