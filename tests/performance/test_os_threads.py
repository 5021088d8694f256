"""OS threads are started once, not per run: starting one costs more than a hundred supersteps' worth of engine."""

import threading

import pytest

import durable_graph
from durable_graph import Command
from durable_graph.runtime import pool
from tests.performance import graphs


@pytest.fixture
def started(monkeypatch):
    """The names of the OS threads that were started."""
    names = []
    start = threading.Thread.start

    def noting(self):
        names.append(self.name)
        start(self)

    monkeypatch.setattr(threading.Thread, "start", noting)
    return names


def warm_pool(size):
    """Make the pool have this many OS threads: so many jobs that wait for each other."""
    everybody = threading.Barrier(size + 1)
    for _ in range(size):
        pool.submit(everybody.wait)
    everybody.wait()


def repeat(started, work):
    """The OS threads that later runs start when the first ones have warmed up."""
    warm_pool(4)  # one job runs at a time, but the OS thread of the last one may not be back in the pool yet
    for number in range(3):
        work(f"first-{number}")
    started.clear()
    for number in range(10):
        work(f"later-{number}")
    return started


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync node", "async node"])
def test_a_run_starts_no_os_threads_once_warm(face, backend, started, durability, asynchronous):
    graph = graphs.loop(durable_graph, asynchronous=asynchronous, checkpointer=backend.make())

    def work(thread):
        face.invoke(graph, {"n": 3}, graphs.config(thread), durability=durability)

    assert repeat(started, work) == []


def test_a_round_trip_to_a_human_starts_no_os_threads_once_warm(face, backend, started):
    graph = graphs.ask(durable_graph, asynchronous=face.name == "async", checkpointer=backend.make())

    def work(thread):
        face.invoke(graph, {"n": 1}, graphs.config(thread))
        assert face.invoke(graph, Command(resume=True), graphs.config(thread)) == {"n": 0}

    assert repeat(started, work) == []


def test_a_fan_out_starts_no_os_threads_once_the_pool_is_full(face, started):
    graph = graphs.fan_out(durable_graph)
    warm_pool(pool.LIMIT)
    started.clear()
    for _ in range(5):
        assert len(face.invoke(graph, {"n": 200})["done"]) == 200
    assert started == []
