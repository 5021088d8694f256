"""Tasks that ask a human, one after the other and at the same time."""

import asyncio
import threading

import pytest

from durable_graph import Command, interrupt
from durable_graph.errors import (
    GraphInterrupt,
    InterruptMismatchError,
)
from durable_graph.functional import entrypoint, task
from tests.behaviour.making import Odd
from tests.behaviour.small_graphs import Marks, asked, thread

CFG = thread()


def test_a_task_can_ask(face, backend):
    marks = Marks()

    @task
    def ask(name):
        marks(name)
        return interrupt(f"{name}?")

    @entrypoint(backend.make())
    def flow(_):
        return [ask("a").result(), ask("b").result(), interrupt("c?"), interrupt("d?")]

    given = 0
    for name in "abcd":
        waiting = face.invoke(flow, given, CFG)
        assert [one.value for one in waiting["__interrupt__"]] == [f"{name}?"]
        given = Command(resume=name.upper())
    assert face.invoke(flow, given, CFG) == ["A", "B", "C", "D"]
    assert (marks.count("a"), marks.count("b")) == (2, 2)  # asked, answered, and then recorded


def test_an_async_task_can_ask(face, backend):
    @task
    async def ask(name):
        await asyncio.sleep(0)
        return interrupt(f"{name}?")

    @entrypoint(backend.make())
    async def flow(_):
        return [*await asyncio.gather(ask("a"), ask("b")), interrupt("c?")]

    waiting = face.invoke(flow, 0, CFG)
    assert [one.value for one in waiting["__interrupt__"]] == ["a?", "b?"]
    ids = asked(waiting["__interrupt__"])
    face.invoke(flow, Command(resume={ids["a?"]: 1, ids["b?"]: 2}), CFG)
    assert face.invoke(flow, Command(resume=3), CFG) == [1, 2, 3]


def test_tasks_that_ask_at_the_same_time_get_their_own_answers(face, backend):
    meeting = threading.Barrier(3, timeout=30)
    together = [True]

    @task
    def ask(name):
        if together[0]:
            meeting.wait()
        return [name, interrupt("the same question"), interrupt("the same question")]

    @entrypoint(backend.make())
    def flow(_):
        return [future.result() for future in [ask(name) for name in "abc"]]

    first = face.invoke(flow, 0, CFG)["__interrupt__"]
    assert len({one.id for one in first}) == 3
    assert {one.value for one in first} == {"the same question"}
    together[0] = False
    again = face.get_state(flow, CFG).interrupts
    assert [one.id for one in again] == [one.id for one in first]
    second = face.invoke(flow, Command(resume={one.id: n for n, one in enumerate(first)}), CFG)["__interrupt__"]
    assert len({one.id for one in (*first, *second)}) == 6
    found = face.invoke(flow, Command(resume={one.id: 10 + n for n, one in enumerate(second)}), CFG)
    assert found == [["a", 0, 10], ["b", 1, 11], ["c", 2, 12]]


def test_questions_can_be_answered_one_by_one(face, backend):
    marks = Marks()

    @task
    def ask(name):
        found = interrupt(name)
        marks(name)
        return found

    @entrypoint(backend.make())
    def flow(_):
        return [future.result() for future in [ask(name) for name in "abc"]]

    ids = asked(face.invoke(flow, 0, CFG)["__interrupt__"])
    assert list(ids) == ["a", "b", "c"]
    left = asked(face.invoke(flow, Command(resume={ids["b"]: 2}), CFG)["__interrupt__"])
    assert left == {name: ids[name] for name in "ac"}
    left = asked(face.invoke(flow, Command(resume={ids["c"]: 3}), CFG)["__interrupt__"])
    assert left == {"a": ids["a"]}
    assert face.invoke(flow, Command(resume=1), CFG) == [1, 2, 3]
    assert sorted(marks.seen) == ["a", "b", "c"]


def test_a_question_that_the_task_swallowed_is_asked_all_the_same(face, backend):
    marks = Marks()

    @task
    def ask(how):
        marks("ask")
        try:
            return interrupt("?")
        except BaseException:  # noqa: BLE001 - as careless code does
            if how == "returns":
                return "swallowed"
            raise Odd from None

    @entrypoint(backend.make())
    def flow(how):
        return ask(how).result()

    for how in ("returns", "raises"):
        cfg = thread(how)
        assert [one.value for one in face.invoke(flow, how, cfg)["__interrupt__"]] == ["?"]
        assert face.invoke(flow, Command(resume="the answer"), cfg) == "the answer"


def test_a_task_that_asks_something_else_than_before_is_refused(face, backend):
    questions = ["first", "other"]

    @task
    def ask():
        return interrupt(questions[0])

    @entrypoint(backend.make())
    def flow(_):
        return ask().result()

    face.invoke(flow, 0, CFG)
    questions.pop(0)
    with pytest.raises(InterruptMismatchError, match="other"):
        face.invoke(flow, Command(resume=1), CFG)


def test_the_node_that_asks_something_else_is_refused_although_its_tasks_asked_too(face, backend):
    questions = ["first", "other"]

    @task
    def ask(name):
        return interrupt(name)

    @entrypoint(backend.make())
    def flow(_):
        return [ask("a").result(), ask("b").result(), interrupt(questions[0])]

    face.invoke(flow, 0, CFG)
    face.invoke(flow, Command(resume=1), CFG)
    face.invoke(flow, Command(resume=2), CFG)
    questions.pop(0)
    with pytest.raises(InterruptMismatchError, match="other"):
        face.invoke(flow, Command(resume=3), CFG)


def test_an_interrupt_passes_through_the_future(face, backend):
    seen = []

    @task
    def ask():
        return interrupt("?")

    @entrypoint(backend.make())
    def flow(_):
        future = ask()
        try:
            return future.result()
        except GraphInterrupt as stopped:
            seen.append([one.value for one in stopped.interrupts])
            raise

    face.invoke(flow, 0, CFG)
    assert seen == [["?"]]
