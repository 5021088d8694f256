"""What a call of a task costs: function calls and commits, which no noisy machine changes."""

import asyncio
import itertools

import pytest

from checkpointers import InMemorySaver, SqliteSaver
from durable_graph.functional import entrypoint, task
from durable_graph.recording import once
from durable_graph.runtime import pool
from tests.performance.counting import Commits, calls_of, growth, slope

SEQUENTIAL = 60
LINEAR = 1.05
SIZES = (1000, 3000, 10_000)


@task
def work(n):
    return n


@task
async def awork(n):
    return n


def in_turn(n):
    for one in range(n):
        work(one).result()


def at_once(n):
    return sum(future.result() for future in [work(one) for one in range(n)])


async def awaited_in_turn(n):
    for one in range(n):
        await awork(one)


async def awaited_at_once(n):
    return sum(await asyncio.gather(*[awork(one) for one in range(n)]))


def steps_of_one_key(n):
    for one in range(n):
        once("key", work.function, one)


def steps_of_many_keys(n):
    for one in range(n):
        once(f"key {one}", work.function, one)


SYNC = (in_turn, at_once, steps_of_one_key, steps_of_many_keys)
ASYNC = (awaited_in_turn, awaited_at_once)


def calls(function, checkpointer=None):
    """A function that tells the calls of one run with n tasks, on a thread of its own."""
    flow = entrypoint(checkpointer)(function)
    numbers = itertools.count()

    def measure(n):
        pool._pool = pool._Pool()  # its OS threads start while calls are counted, so what they do is counted too
        config = {"configurable": {"thread_id": str(next(numbers))}}
        if function in ASYNC:
            return calls_of(asyncio.run, flow.ainvoke(n, config))
        return calls_of(flow.invoke, n, config)

    return measure


def test_a_sequential_task_without_checkpointer_makes_at_most_60_calls():
    assert slope(calls(in_turn), 200, 1200) <= SEQUENTIAL


@pytest.mark.timeout(120)
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("function", [*SYNC, *ASYNC], ids=lambda function: function.__name__)
def test_calls_are_in_proportion_to_the_tasks(function, durable):
    assert growth(calls(function, InMemorySaver() if durable else None), SIZES) <= LINEAR


def test_a_durable_task_is_one_commit(tmp_path):
    with SqliteSaver(tmp_path / "runs.db") as saver:
        flow = entrypoint(saver)(in_turn)
        flow.invoke(1, {"configurable": {"thread_id": "first"}})
        with Commits(tmp_path / "runs.db") as commits:
            flow.invoke(50, {"configurable": {"thread_id": "second"}})
            assert commits.so_far() <= 50 + 2
