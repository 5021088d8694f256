"""One writer: several processes want one thread, and one that froze comes back."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path

import pytest

from durable_graph import START, StateGraph
from durable_graph.errors import InvalidConfigError, ThreadBusy
from durable_graph.persistence.registry import resolve_checkpointer
from durable_graph.records import ClaimRequest
from durable_graph.runtime.owner import claim_name
from tests.backends import BACKENDS
from tests.behaviour.small_graphs import Log, Marks
from tests.crash.leases import CFG, counter

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.crash, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX processes")]


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request, tmp_path):
    """Those that several processes share."""
    backend = BACKENDS[request.param](tmp_path)
    yield backend
    backend.close()


@contextmanager
def process(*args):
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.leases", *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


@contextmanager
def standing(backend, **options):
    """A process that is inside the second node of the thread."""
    with process("stand", backend.url(**options)) as child:
        assert child.stdout.readline() == "inside\n"
        yield child


def counted_by_four(backend, on_busy):
    """What each of four processes was accepted for, and the state they left."""
    graph = counter(backend.make())
    with (
        process("count", backend.url(), "a", on_busy) as a,
        process("count", backend.url(), "b", on_busy) as b,
        process("count", backend.url(), "c", on_busy) as c,
        process("count", backend.url(), "d", on_busy) as d,
    ):
        children = (a, b, c, d)
        assert [child.stdout.readline() for child in children] == ["ready\n"] * 4
        for child in children:
            child.stdin.write("\n")
            child.stdin.flush()
        accepted = [child.communicate(timeout=100)[0].split() for child in children]
    return accepted, graph.get_state(CFG)


def test_runs_that_wait_for_their_thread_come_one_after_the_other(backend):
    accepted, snapshot = counted_by_four(backend, "wait")
    assert [len(one) for one in accepted] == [10] * 4
    assert snapshot.values["n"] == 40
    assert sorted(snapshot.values["given"]) == sorted(chain.from_iterable(accepted))
    for one in accepted:  # each process's in its order
        assert [given for given in snapshot.values["given"] if given[0] == one[0][0]] == one
    assert [lane.ns for lane in backend.opened[0].load("t").lanes] == [""]


def test_runs_that_were_rejected_left_nothing_and_the_others_all(backend):
    accepted, snapshot = counted_by_four(backend, "reject")
    assert snapshot.values["n"] == sum(map(len, accepted)) >= 10
    assert sorted(snapshot.values["given"]) == sorted(chain.from_iterable(accepted))
    assert [lane.ns for lane in backend.opened[0].load("t").lanes] == [""]


def test_a_frozen_run_is_taken_over_and_writes_nothing_when_it_comes_back(backend):
    with standing(backend, lease=1) as child:
        graph = counter(resolve_checkpointer(backend.url(lease=1)))
        child.send_signal(signal.SIGSTOP)
        with pytest.raises(ThreadBusy, match=rf"process {child.pid}.*its claim ends in"):
            graph.invoke(None, CFG)
        assert graph.invoke(None, CFG, on_busy="takeover") == {"n": 1, "given": ["stood"]}
        before = backend.tables()
        child.send_signal(signal.SIGCONT)
        told = child.communicate("\n", timeout=20)[0]
        assert told.startswith("LostLease: thread 't' was taken over by another run; the last step of this one that is")
        assert backend.tables() == before
        graph.checkpointer.close()


def test_a_run_that_gives_signs_of_life_keeps_its_thread(backend):
    with standing(backend, lease=0.6) as child:
        graph = counter(backend.make())
        time.sleep(1.5)  # longer than its lease, in which it stores nothing
        with pytest.raises(ThreadBusy):
            graph.invoke(None, CFG)
        with pytest.raises(ThreadBusy) as caught:
            graph.invoke(None, CFG, on_busy="takeover")
        busy = caught.value
        assert f"process {child.pid}" in str(busy)
        assert "it last stored something" in str(busy)
        assert busy.since < datetime.now(UTC) < busy.until
        assert child.communicate("\n", timeout=20)[0] == "done\n"
    assert graph.get_state(CFG).values["n"] == 1


def test_what_died_in_another_container_is_taken_over_when_its_lease_ends(backend, face):
    """Nobody can see whether that owner lives; only its silence tells."""
    graph = counter(backend.make())
    graph.invoke({"given": ["before"]}, CFG)
    [saver] = backend.opened
    thread, [lane] = saver.load("t")[:2]
    boot, _, *rest = claim_name().split(":")
    owner = ":".join((boot, "another container", *rest))
    saver.claim(ClaimRequest("t", owner, thread.epoch, thread.epoch + 1, lane.lane, lane.last, (), (), lease=700))
    with pytest.raises(ThreadBusy, match="of another machine or container") as caught:
        face.invoke(graph, {"given": ["after"]}, CFG)
    assert caught.value.owner == owner
    assert 0 < caught.value.left <= 0.7
    assert face.invoke(graph, {"given": ["after"]}, CFG, on_busy="takeover")["n"] == 2


def test_an_edit_waits_for_its_thread_too(backend, face):
    with standing(backend) as child:
        graph = counter(backend.make())
        with pytest.raises(ThreadBusy):
            face.update_state(graph, CFG, {"n": 10}, as_node="work")
        child.stdin.write("\n")
        child.stdin.flush()
        face.update_state(graph, CFG, {"n": 10}, as_node="work", on_busy="wait")
    assert graph.get_state(CFG).values["n"] == 11


def test_calls_of_one_process_wait_for_each_other_on_both_faces(backend):
    graph = counter(backend.make())

    async def many():
        calls = (graph.ainvoke({"given": [str(number)]}, CFG, on_busy="wait") for number in range(20))
        return await asyncio.gather(*calls)

    counts = [state["n"] for state in asyncio.run(many())]
    assert sorted(counts) == list(range(1, 21))
    graph.batch([{"given": ["more"]}] * 8, CFG, on_busy="wait")
    assert graph.get_state(CFG).values["n"] == 28


def test_a_run_that_calls_its_own_thread_is_told_so_instead_of_waiting_for_itself(backend, face):
    marks = Marks()

    def call_itself(state):
        marks("called")
        with pytest.raises(ThreadBusy, match="called a graph on its own thread 't'") as caught:
            other.invoke({"log": []}, CFG, on_busy="wait")
        assert caught.value.own
        return {"log": ["went on"]}

    saver = backend.make()
    other = StateGraph(Log).add_node("a", lambda state: {"log": ["a"]}).add_edge(START, "a").compile(saver)
    graph = StateGraph(Log).add_node("a", call_itself).add_edge(START, "a").compile(saver)
    assert face.invoke(graph, {"log": []}, CFG)["log"] == ["went on"]
    assert marks.count("called") == 1


def test_an_unknown_policy_is_refused(backend):
    graph = counter(backend.make())
    with pytest.raises(InvalidConfigError, match="unknown on_busy 'queue'"):
        graph.invoke({"given": []}, CFG, on_busy="queue")
    with pytest.raises(InvalidConfigError, match="unknown on_busy 'queue'"):
        graph.update_state(CFG, {"n": 1}, on_busy="queue")
    with pytest.raises(InvalidConfigError, match=r"lease='0\.1'"):
        resolve_checkpointer(backend.url(lease=0.1))
