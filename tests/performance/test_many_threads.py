"""Many threads at once: how often they commit together, and what their runs share."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import durable_graph
from durable_graph.records import CommitItem, Row
from durable_graph.runtime import pool
from durable_graph.runtime.committer import Committer, committer_for
from durable_graph.testing.conformance.acting import start
from tests import postgres_server
from tests.backends import BACKENDS
from tests.performance import graphs
from tests.performance.places import commits
from tests.performance.test_os_threads import started, warm_pool

__all__ = ["started"]

THREADS, STEPS = 20, 10
OTHERS = 10
"""Transactions that Postgres itself may begin meanwhile."""


@pytest.fixture(params=["sqlite", "postgres"])
def stored(request, tmp_path):
    """(checkpointer, a function that tells how many transactions wrote something so far)."""
    backend = BACKENDS[request.param](tmp_path)
    saver = backend.make()
    saver.setup()
    place = postgres_server.dsn() if request.param == "postgres" else tmp_path
    yield saver, lambda: commits(request.param, place)
    backend.close()


@pytest.fixture
def given(monkeypatch):
    """The items that were given to committers."""
    items = []
    submit = Committer.submit

    def noting(self, item, **options):
        future = submit(self, item, **options)
        items.append(item)
        return future

    monkeypatch.setattr(Committer, "submit", noting)
    return items


class Gate:
    """In front of a store: a group is written when every thread has given its next item."""

    def __init__(self, saver, given, monkeypatch):
        self.given, self.commit = given, saver.commit
        self.written = self.groups = 0
        monkeypatch.setattr(saver, "commit", self)

    def __call__(self, items):
        wait_until(lambda: len(self.given) >= THREADS * (self.written // THREADS + 1))
        self.groups += 1
        self.written += len(items)
        return self.commit(items)


def wait_until(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


async def at_once(saver, threads, *, steps=STEPS, first=0):
    graph = graphs.loop(durable_graph, asynchronous=True, checkpointer=saver)
    runs = (graph.ainvoke({"n": steps}, graphs.config(f"thread-{first + number}")) for number in range(threads))
    assert await asyncio.gather(*runs) == [{"n": 0}] * threads


def test_threads_that_come_at_once_commit_together(stored, given, monkeypatch):
    saver, so_far = stored
    before, gate = so_far(), Gate(saver, given, monkeypatch)
    asyncio.run(at_once(saver, THREADS))
    # Of each superstep the first one to come may go alone; all that came meanwhile go with the next group.
    assert gate.written >= THREADS * STEPS
    assert gate.groups <= 2 * gate.written / THREADS
    assert so_far() - before <= gate.groups + THREADS + OTHERS  # a claim is a transaction of its own


def test_what_comes_while_an_os_thread_commits_is_one_group(stored, given, monkeypatch):
    saver, so_far = stored
    claims = [start(saver, key=f"thread {number}") for number in range(THREADS)]
    committer, commit = committer_for(saver), saver.commit
    busy, groups = threading.Event(), []

    def slow(items):
        groups.append(len(items))
        busy.set()
        wait_until(lambda: len(given) == THREADS - 1)
        return commit(items)

    monkeypatch.setattr(saver, "commit", slow)
    before = so_far()
    with ThreadPoolExecutor(THREADS) as threads:
        ends = [threads.submit(committer.commit, one_row(claims[0]))]
        assert busy.wait(60)
        ends += [threads.submit(committer.commit, one_row(claim)) for claim in claims[1:]]
        assert [end.result() for end in ends] == ["written"] * THREADS
    assert groups == [1, THREADS - 1]
    assert so_far() - before <= 2 + OTHERS


def one_row(claim):
    return CommitItem(claim, (Row(1, 0, 2, 0, b"x"),))


def test_many_runs_at_once_start_no_os_threads_once_the_pool_is_full(stored, started):
    saver, _ = stored
    warm_pool(pool.LIMIT)

    async def twice():
        await at_once(saver, 1)
        started.clear()
        await at_once(saver, 3 * pool.LIMIT // 2, steps=2, first=1)

    asyncio.run(twice())
    assert started == []
