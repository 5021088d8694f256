"""A worker that stands still until another one has taken its run over: what it does then counts no more."""

import asyncio

import pytest

from durable_graph import sleep
from durable_graph.runs.queue import row_of
from durable_graph.runs.worker import Worker
from tests.backends import BACKENDS
from tests.behaviour.queued import chain, given, note, on


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def saver(request, tmp_path):
    backend = BACKENDS[request.param](tmp_path)
    yield backend.make()
    backend.close()


class Standing:
    """A graph whose worker stands still right before it runs, for the first time, while something else happens."""

    def __init__(self, graph, meanwhile):
        self._graph = graph
        self._meanwhile = [meanwhile]

    def __getattr__(self, name):
        return getattr(self._graph, name)

    async def ainvoke(self, *args, **options):
        if self._meanwhile:
            await self._meanwhile.pop()()
        return await self._graph.ainvoke(*args, **options)


def expire(saver, run):
    """The worker that has the run gave no sign of life for a lease."""
    row = saver.with_runs(row_of(run), reads=True)
    saver.with_runs(lambda rows: rows.beat([(row.no, row.attempt)], rows.clock(), -1))


def stand(graph, saver, run):
    """A worker begins, and stands still; its lease ends, and another one does all there is to do."""

    async def meanwhile():
        expire(saver, run)
        await graph.awork(until_idle=True, poll=0.02)

    worker = Worker([Standing(graph, meanwhile)], saver, concurrency=1, poll=0.02, until_idle=True, control=None)
    return asyncio.run(worker.work())


def test_its_input_is_not_brought_again(saver):
    graph = chain(saver, note("a"), note("b"))
    graph.submit(given("one"), on("t"), run_id="1")
    assert stand(graph, saver, "1") == 0
    assert graph.get_state(on("t")).values["log"] == ["one", "a", "b"]
    assert (graph.get_run("1").status, graph.get_run("1").attempt) == ("done", 2)


def test_its_input_is_not_brought_again_after_that_of_the_next_run(saver):
    graph = chain(saver, note("a"))
    for name in ("1", "2"):
        graph.submit(given(name), on("t"), run_id=name)
    assert stand(graph, saver, "1") == 0
    assert graph.get_state(on("t")).values["log"] == ["1", "a", "2", "a"]


def test_it_does_not_go_on_with_the_next_run_of_the_thread(saver):
    begun = []

    def nap(state):
        begun.append(state["log"][-1])
        if begun == ["1"]:
            raise ConnectionError
        if state["log"][-1] == "2":
            sleep(60)
        return {"log": ["nap"]}

    graph = chain(saver, nap)
    with pytest.raises(ConnectionError):
        graph.invoke(given("1"), on("t"))
    graph.submit(None, on("t"), run_id="1")
    graph.submit(given("2"), on("t"), run_id="2")
    assert stand(graph, saver, "1") == 0
    assert begun == ["1", "1", "2"]
    assert [graph.get_run(name).status for name in ("1", "2")] == ["done", "waiting"]


def test_it_may_finish_what_the_thread_has_before_it_brings_its_input(saver):
    """Its own run has moved the thread on then."""
    fails = [True]

    def a(state):
        if fails and fails.pop():
            raise ConnectionError
        return {"log": ["a"]}

    graph = chain(saver, a)
    with pytest.raises(ConnectionError):
        graph.invoke(given("left"), on("t"))
    graph.submit(given("new"), on("t"), run_id="1", on_unfinished="finish")
    assert graph.work(until_idle=True, poll=0.02) == 1
    assert graph.result("1")["log"] == ["left", "a", "new", "a"]


def test_a_worker_that_takes_its_own_run_again_cares_for_it_after_it_let_go_of_the_first_time(saver, caplog):
    """It gives signs of life, and hears that the run is cancelled."""

    async def main():
        inside, go = asyncio.Event(), asyncio.Event()

        async def a(state):
            inside.set()
            await go.wait()
            return {"log": ["a"]}

        async def meanwhile():
            expire(saver, "1")
            await inside.wait()

        graph = chain(saver, a, note("b"))
        graph.submit(given("one"), on("t"), run_id="1")
        worker = Worker([Standing(graph, meanwhile)], saver, concurrency=2, poll=0.02, until_idle=True, control=None)
        working = asyncio.create_task(worker.work())
        while "run '1' of thread 't' was taken over by another worker" not in caplog.text:  # noqa: ASYNC110 - a log tells nobody
            await asyncio.sleep(0.01)
        await graph.acancel("1")
        await asyncio.sleep(1.2)  # longer than it takes to hear of it
        go.set()
        await working
        return await graph.aget_state(on("t")), await graph.aget_run("1")

    state, run = asyncio.run(main())
    assert state.values["log"] == ["one", "a"]
    assert (run.status, run.attempt) == ("cancelled", 2)
