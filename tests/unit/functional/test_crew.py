"""Who runs the tasks that sync code called."""

import threading

import pytest

from durable_graph.functional.crew import Crew


class Job:
    """Stands in for a future."""

    def __init__(self, done, work=lambda: None):
        self._done = done
        self._work = work

    def run(self):
        self._work()
        self._done.release()


@pytest.fixture
def done():
    return threading.Semaphore(0)


def wait(done, count):
    for _ in range(count):
        assert done.acquire(timeout=30)


def test_workers_run_what_was_added(done):
    crew = Crew(None)
    for _ in range(200):
        crew.add(Job(done))
    wait(done, 200)


def test_a_job_is_run_by_its_taker_or_by_a_worker_and_not_by_both(done):
    crew = Crew(None)
    taken = 0
    for _ in range(500):
        job = Job(done)
        crew.add(job)
        if crew.take(job):
            taken += 1
            job.run()
            crew.left()
    wait(done, 500)
    assert not done.acquire(timeout=0.01)
    assert 0 <= taken <= 500
    assert not crew.take(Job(done))


def test_a_withdrawn_job_is_not_run(done):
    crew = Crew(1)
    gate = threading.Event()
    begun = threading.Event()
    crew.add(Job(done, lambda: (begun.set(), gate.wait(30))))
    assert begun.wait(30)
    job = Job(done)
    crew.add(job)
    assert crew.withdraw(job)
    assert not crew.withdraw(job)
    gate.set()
    wait(done, 1)
    assert not done.acquire(timeout=0.01)


def test_with_a_limit_nobody_takes_a_job_while_all_places_are_taken(done):
    crew = Crew(1)
    gate, begun = threading.Event(), threading.Event()
    crew.add(Job(done, lambda: (begun.set(), gate.wait(30))))
    assert begun.wait(30)
    job = Job(done)
    crew.add(job)
    assert not crew.take(job)
    gate.set()
    wait(done, 2)


def test_a_worker_that_waits_for_another_job_gives_its_place_away(done):
    crew = Crew(1)
    inner = Job(done)

    def outer():
        crew.add(inner)
        paused = crew.pause()
        assert paused
        wait(done, 1)  # the inner job, which somebody else runs
        crew.go_on(paused)

    crew.add(Job(done, outer))
    wait(done, 1)
    later = Job(done)
    crew.add(later)
    wait(done, 1)


def test_outside_of_a_worker_nothing_is_given_away():
    crew = Crew(1)
    assert not crew.pause()
    crew.go_on(paused=False)


def test_places_of_async_tasks_are_those_of_their_loop():
    import asyncio

    crew = Crew(2)

    async def main():
        assert crew.place(nested=False) is crew.place(nested=False)
        async with crew.place(nested=False), crew.place(nested=False):
            assert crew.place(nested=False).locked()
            async with crew.place(nested=True):
                pass
        return crew.place(nested=False)

    assert asyncio.run(main()) is not asyncio.run(main())
