"""Entrypoints that stop, go on, are tried again, cached, or run inside other graphs."""

import asyncio
import threading

import pytest

from durable_graph import Command, RetryPolicy, StateGraph, interrupt, once
from durable_graph.caches import CachePolicy, InMemoryCache
from durable_graph.errors import (
    EmptyInputError,
    InvalidValueError,
    NoCheckpointerError,
    NodeTimeoutError,
    UnfinishedRunError,
    UnserializableValueError,
)
from durable_graph.functional import entrypoint, task
from tests.behaviour.making import Odd
from tests.behaviour.small_graphs import Log, Marks, asked, chain, count_checkpoints, thread

CFG = thread()


# --- stopping and going on --------------------------------------------------------------------------------------------


def test_a_run_that_failed_goes_on_without_input(face, backend):
    marks = Marks()

    @task
    def work(n):
        marks(n)
        return n

    @entrypoint(backend.make())
    def flow(n):
        found = work(n).result()
        marks("flow")
        if marks.count("flow") == 1:
            raise Odd
        return found

    with pytest.raises(Odd):
        face.invoke(flow, 5, CFG)
    assert face.invoke(flow, None, CFG) == 5
    assert marks.count(5) == 1
    assert face.invoke(flow, None, CFG) == 5
    assert marks.count("flow") == 2


def test_new_input_for_a_run_that_waits_is_refused_or_has_a_policy(face, backend):
    @entrypoint(backend.make())
    def flow(n, *, previous):
        return [n, previous, interrupt("?") if n == 1 else "unasked"]

    face.invoke(flow, 1, CFG)
    with pytest.raises(UnfinishedRunError):
        face.invoke(flow, 2, CFG)
    assert face.invoke(flow, 2, CFG, on_unfinished="abandon") == [2, None, "unasked"]
    with pytest.raises(EmptyInputError):
        face.invoke(flow, None, thread("new"))


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_every_durability_resumes_without_repeating_tasks(face, backend, durability):
    marks = Marks()

    @task
    def work(n):
        marks(n)
        return n

    def make(checkpointer):
        @entrypoint(checkpointer, name="flow")
        def flow(n):
            found = [future.result() for future in [work(one) for one in range(n)]]
            return [found, once("key", lambda: marks("once")), interrupt("?")]

        return flow

    face.invoke(make(backend.make()), 3, CFG, durability=durability)
    found = face.invoke(make(backend.reopen()), Command(resume=1), CFG, durability=durability)
    assert found == [[0, 1, 2], None, 1]
    assert sorted(map(str, marks.seen)) == ["0", "1", "2", "once"]


def test_a_run_is_two_commits_and_an_input_that_waits_three_checkpoints(backend):
    @entrypoint(backend.make())
    def flow(n):
        return n

    flow.invoke(1, CFG)
    assert count_checkpoints(flow.checkpointer) == 3


def test_without_a_checkpointer_nobody_can_ask(face):
    @task
    def ask():
        return interrupt("?")

    @entrypoint()
    def flow(n):
        return ask().result()

    with pytest.raises(NoCheckpointerError):
        face.invoke(flow, 1)


def test_a_result_that_cannot_be_stored_leaves_the_thread_resumable(face, backend):
    results = [threading.Lock(), 5]

    @entrypoint(backend.make())
    def flow(n):
        return results.pop(0)

    with pytest.raises(UnserializableValueError):
        face.invoke(flow, 1, CFG)
    assert face.invoke(flow, None, CFG) == 5


def test_another_checkpoint_can_be_run_again_on_a_branch(face, backend):
    marks = Marks()

    @task
    def work(n):
        marks("work")
        return n

    @entrypoint(backend.make())
    def flow(n):
        return [work(n).result(), interrupt("?")]

    face.invoke(flow, 1, CFG)
    waiting = face.get_state(flow, CFG).config
    assert face.invoke(flow, Command(resume="first"), CFG) == [1, "first"]
    assert face.invoke(flow, Command(resume="second"), waiting) == [1, "second"]
    assert face.get_state(flow, CFG).values == [1, "second"]


# --- policies ---------------------------------------------------------------------------------------------------------


def test_an_entrypoint_is_tried_again_by_its_policy(face):
    marks = Marks()

    @entrypoint(retry_policy=RetryPolicy(0.001, jitter=False, retry_on=Odd))
    def flow(n):
        marks("flow")
        if marks.count("flow") < 3:
            raise Odd
        return n

    assert face.invoke(flow, 1) == 1


def test_an_entrypoint_that_takes_too_long_is_given_up(face):
    release = threading.Event()

    @entrypoint(timeout=0.02)
    def flow(n):
        release.wait(30)

    @entrypoint(timeout=0.02)
    async def aflow(n):
        await asyncio.sleep(30)

    for one in (flow, aflow):
        with pytest.raises(NodeTimeoutError):
            face.invoke(one, 1)
    release.set()


def test_results_of_tasks_are_cached(face, backend):
    marks = Marks()
    cache = InMemoryCache()

    @task(cache_policy=CachePolicy())
    def work(n):
        marks(n)
        if n < 0:
            raise Odd
        return [n]

    @entrypoint(backend.make(), cache=cache)
    def flow(n):
        try:
            return work(n).result() + work(n).result()
        except Odd:
            return "failed"

    assert face.invoke(flow, 1, thread("a")) == [1, 1]
    assert face.invoke(flow, 1, thread("b")) == [1, 1]
    assert marks.count(1) == 1
    shown = face.stream(flow, 1, thread("c"))
    assert shown[0] == {"work": [1], "__metadata__": {"cached": True}}
    assert face.invoke(flow, -1, thread("d")) == face.invoke(flow, -1, thread("e")) == "failed"
    assert marks.count(-1) == 2  # errors are not cached
    face.call(_Clearing(work), "clear", cache)
    assert face.invoke(flow, 1, thread("f")) == [1, 1]
    assert marks.count(1) == 2


class _Clearing:
    """clear_cache and its async twin under names that `face.call` finds."""

    def __init__(self, cached):
        self.clear, self.aclear = cached.clear_cache, cached.aclear_cache


def test_equal_tasks_at_the_same_time_are_computed_once(face):
    marks = Marks()

    @task(cache_policy=CachePolicy(key_func=str))
    def work(n):
        marks(n)
        return n

    @entrypoint(cache=InMemoryCache())
    def flow(n):
        return [future.result() for future in [work(n) for _ in range(5)]]

    @entrypoint(cache=InMemoryCache())
    async def aflow(n):
        return await asyncio.gather(*[work(n) for _ in range(5)])

    assert face.invoke(flow, 1) == [1] * 5
    assert face.invoke(aflow, 2) == [2] * 5
    assert (marks.count(1), marks.count(2)) == (1, 1)


def test_a_cached_task_is_recorded_like_any_other(face, backend):
    marks = Marks()
    cache = InMemoryCache()

    @task(cache_policy=CachePolicy())
    def work(n):
        marks(n)
        return marks.count(n)

    @entrypoint(backend.make(), cache=cache)
    def flow(n):
        return [work(n).result(), interrupt("?")]

    face.invoke(flow, 1, CFG)
    cache.clear()
    assert face.invoke(flow, Command(resume=2), CFG) == [1, 2]
    assert marks.count(1) == 1


# --- inside graphs ----------------------------------------------------------------------------------------------------


def test_an_entrypoint_called_in_a_node_repeats_no_finished_task(face, backend):
    marks = Marks()

    @task
    def first():
        marks("first")
        return 1

    @task
    def second():
        marks("second")
        return interrupt("?")

    @entrypoint()
    def flow(n):
        return [n, first().result(), second().result()]

    graph = chain(Log, node=lambda state: {"answer": flow.invoke(5)}).compile(backend.make())
    assert list(asked(face.invoke(graph, {}, CFG)["__interrupt__"])) == ["?"]
    assert face.invoke(graph, Command(resume=2), CFG)["answer"] == [5, 1, 2]
    assert (marks.count("first"), marks.count("second")) == (1, 2)


def test_an_entrypoint_can_be_a_node(face, backend):
    @task
    def ask(question):
        return interrupt(question)

    @entrypoint()
    def flow(state: Log):
        return {"answer": [state["log"], ask("?").result()]}

    graph = StateGraph(Log).add_node("flow", flow).add_edge("__start__", "flow").compile(backend.make())
    face.invoke(graph, {"log": [1]}, CFG)
    assert face.invoke(graph, Command(resume=2), CFG) == {"log": [1], "answer": [[1], 2]}


def test_an_entrypoint_can_be_called_in_a_task(face, backend):
    marks = Marks()

    @task
    def leaf(n):
        marks(n)
        return n

    @entrypoint()
    def inner(n):
        return leaf(n).result() + interrupt(f"inner {n}?")

    @task
    def branch(n):
        return inner.invoke(n)

    @entrypoint(backend.make())
    def flow(n):
        return [branch(n).result(), branch(n + 1).result(), interrupt("outer?")]

    given = 1
    for question in ("inner 1?", "inner 2?", "outer?"):
        assert list(asked(face.invoke(flow, given, CFG)["__interrupt__"])) == [question]
        given = Command(resume=10)
    assert face.invoke(flow, given, CFG) == [11, 12, 10]
    assert marks.seen == [1, 2]


# --- outcome unknown --------------------------------------------------------------------------------------------------


def test_the_answer_about_an_unknown_outcome_must_be_one(face, backend):
    """The process "dies" in the step: its record says that it began, and nothing more."""

    class Died(BaseException):
        pass

    marks = Marks()

    @task(on_unknown="ask")
    def charge(n):
        marks("charge")
        if marks.count("charge") == 1:
            raise Died
        return n

    @entrypoint(backend.make())
    def flow(n):
        return [charge(n).result(), interrupt("then?"), interrupt("and then?")]

    for name, answer, result in (("rerun", "rerun", 5), ("result", {"result": "known"}, "known")):
        marks.seen.clear()
        cfg = thread(name)
        with pytest.raises(Died):
            face.invoke(flow, 5, cfg)
        question = face.invoke(flow, None, cfg)["__interrupt__"][0]
        assert (question.value["type"], question.value["step"]) == ("outcome unknown", "charge")
        with pytest.raises(InvalidValueError, match="does not fit"):
            face.invoke(flow, Command(resume="perhaps"), cfg)
        face.invoke(flow, Command(resume=answer), cfg)
        face.invoke(flow, Command(resume=1), cfg)
        assert face.invoke(flow, Command(resume=2), cfg) == [result, 1, 2]
        assert marks.count("charge") == (2 if answer == "rerun" else 1)
