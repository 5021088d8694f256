"""The future of a sync task, against the tools of the standard library that take futures."""

import asyncio
import concurrent.futures
import threading

import pytest

from durable_graph.functional import entrypoint, task
from durable_graph.functional.futures import Started, TaskFuture


def within(function):
    """Run a function inside an entrypoint."""
    return entrypoint()(lambda _: function()).invoke(0)


@task
def work(n=0):
    return n


@task
def fail():
    raise LookupError("this")


def test_it_can_be_awaited():
    def node():
        async def main():
            return await asyncio.wrap_future(future), await future

        future = work(5)
        assert type(future) is TaskFuture
        return asyncio.run(main())

    assert within(node) == (5, 5)


def test_callbacks_come_once_before_and_after_the_end():
    called = []

    def node():
        gate = threading.Event()

        @task
        def waiting():
            gate.wait(30)
            return "there"

        future = waiting()
        future.add_done_callback(lambda done: called.append(("before", done.result())))
        gate.set()
        future.result()
        concurrent.futures.wait([future])
        future.add_done_callback(lambda done: called.append(("after", done.result())))

    within(node)
    assert sorted(called) == [("after", "there"), ("before", "there")]


def test_a_failed_future_is_among_those_that_are_waited_for():
    def node():
        futures = [fail(), work(1)]
        done, waiting = concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_EXCEPTION, timeout=30)
        assert futures[0] in done
        assert futures[0] not in waiting
        completed = list(concurrent.futures.as_completed(futures, timeout=30))
        return sorted(type(one.exception()).__name__ for one in completed)

    assert within(node) == ["LookupError", "NoneType"]


def test_the_same_error_can_be_asked_for_again():
    def node():
        future = fail()
        for _ in range(2):
            with pytest.raises(LookupError, match="this"):
                future.result()
        return repr(future.exception())

    assert within(node) == "LookupError('this')"


def test_many_os_threads_may_wait_for_one_future():
    def node():
        gate = threading.Event()

        @task
        def waiting():
            gate.wait(30)
            return "there"

        future = waiting()
        with concurrent.futures.ThreadPoolExecutor(8) as executor:
            asking = [executor.submit(future.result) for _ in range(8)]
            gate.set()
            return [one.result(30) for one in asking]

    assert within(node) == ["there"] * 8


def test_waiting_for_nothing_is_over_at_once():
    started = Started(None)
    assert started.wait_for().done()
    started.begin()
    waiting = started.wait_for()
    assert not waiting.done()
    started.end()
    assert waiting.done()
