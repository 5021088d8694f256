"""Finished tasks are recorded, results and errors alike, and are never done twice."""

import asyncio
import threading
import time
import warnings
from dataclasses import dataclass

import pytest

from durable_graph import Command, RetryPolicy, interrupt, once
from durable_graph.errors import (
    StepMismatchError,
    StoredError,
    UnserializableValueError,
)
from durable_graph.functional import entrypoint, task
from durable_graph.recording import recorded
from tests.behaviour.making import Odd
from tests.behaviour.small_graphs import Marks, asked, thread

CFG = thread()
QUICK = RetryPolicy(0.001, jitter=False, retry_on=Exception)


# --- never twice ------------------------------------------------------------------------------------------------------


def test_a_finished_task_is_not_run_again_after_an_interrupt(face, backend):
    marks = Marks()

    @task
    def work(n):
        marks(n)
        return n

    @entrypoint(backend.make())
    def flow(n):
        before = [future.result() for future in [work(one) for one in range(n)]]
        answer = interrupt("go on?")
        return [before, answer, work("after").result()]

    face.invoke(flow, 3, CFG)
    assert face.invoke(flow, Command(resume="yes"), CFG) == [[0, 1, 2], "yes", "after"]
    assert sorted(map(str, marks.seen)) == ["0", "1", "2", "after"]


def test_async_tasks_are_not_run_again_after_an_interrupt(face, backend):
    marks = Marks()

    @task
    async def work(n):
        marks(n)
        await asyncio.sleep(0)
        return n

    @entrypoint(backend.make())
    async def flow(n):
        before = await asyncio.gather(*[work(one) for one in range(n)])
        return [before, interrupt("go on?"), await work("after")]

    face.invoke(flow, 3, CFG)
    assert face.invoke(flow, Command(resume="yes"), CFG) == [[0, 1, 2], "yes", "after"]
    assert sorted(map(str, marks.seen)) == ["0", "1", "2", "after"]


def test_none_and_other_falsy_results_are_results(face, backend):
    marks = Marks()

    @task
    def work(value):
        marks(repr(value))
        return value

    @entrypoint(backend.make())
    def flow(_):
        found = [work(value).result() for value in (None, 0, "", [], False)]
        interrupt("?")
        return found

    face.invoke(flow, 1, CFG)
    assert face.invoke(flow, Command(resume=1), CFG) == [None, 0, "", [], False]
    assert len(marks.seen) == 5


def test_another_process_gets_what_was_recorded_with_its_type(face, backend):
    @dataclass
    class Receipt:
        number: int

    def make(checkpointer, marks):
        @task
        def charge() -> Receipt:
            marks("charge")
            return Receipt(7)

        @entrypoint(checkpointer, name="flow")
        def flow(_) -> int:
            receipt = charge().result()
            assert isinstance(receipt, Receipt)
            interrupt("?")
            return receipt.number

        return flow

    marks = Marks()
    face.invoke(make(backend.make(), marks), 0, CFG)
    assert face.invoke(make(backend.reopen(), marks), Command(resume=1), CFG) == 7
    assert marks.seen == ["charge"]


def test_a_retry_of_the_parent_does_not_repeat_finished_tasks(face, backend):
    marks = Marks()

    @task
    def child(n):
        marks(n)
        return n

    def check(checkpointer, config):
        @entrypoint(checkpointer, retry_policy=QUICK)
        def flow(n):
            found = child(n).result()
            marks("parent")
            if marks.count("parent") % 3:
                raise Odd
            return found

        assert face.invoke(flow, 1, config) == 1

    check(backend.make(), CFG)
    assert (marks.count(1), marks.count("parent")) == (1, 3)
    check(None, None)  # nor does it where nothing is stored
    assert (marks.count(1), marks.count("parent")) == (2, 6)


def test_results_that_are_not_stored_are_independent_all_the_same(face):
    marks = Marks()

    @task
    def child():
        return [1]

    @entrypoint(retry_policy=QUICK)
    def flow(_):
        found = child().result()
        found.append(2)
        marks("parent")
        if marks.count("parent") == 2:
            return found
        raise Odd

    assert face.invoke(flow, 0) == [1, 2]


def test_twenty_interrupts_in_a_loop_repeat_no_task(face, backend):
    marks = Marks()

    @task
    def work(n):
        marks(n)
        return n

    @entrypoint(backend.make())
    def flow(n):
        return [(work(one).result(), interrupt(f"question {one}")) for one in range(n)]

    given = 20
    for n in range(20):
        waiting = face.invoke(flow, given, CFG)
        assert [one.value for one in waiting["__interrupt__"]] == [f"question {n}"]
        given = Command(resume=n)
    assert face.invoke(flow, given, CFG) == [(n, n) for n in range(20)]
    assert marks.seen == list(range(20))


def test_calls_that_a_deploy_brings_into_another_order_keep_their_results(face, backend):
    marks = Marks()

    @task
    def work(name):
        marks(name)
        return f"result of {name}"

    def version(checkpointer, names):
        @entrypoint(checkpointer, name="flow")
        def flow(_):
            found = {name: work(name).result() for name in names}
            interrupt("?")
            return found

        return flow

    face.invoke(version(backend.make(), "AB"), 0, CFG)
    found = face.invoke(version(backend.reopen(), "BCA"), Command(resume=1), CFG)
    assert found == {name: f"result of {name}" for name in "ABC"}
    assert sorted(marks.seen) == ["A", "B", "C"]


def test_equal_calls_of_parallel_tasks_are_not_mixed_up(face, backend):
    """Each outer task counts its own, so it does not matter which of them came first."""
    turn = threading.Event()
    first = ["slow"]

    @task
    def inner():
        return threading.get_ident(), time.monotonic_ns()

    @task
    def outer(name):
        if name == first[0]:
            assert turn.wait(30)
        found = inner().result(), once("key", lambda: name)
        turn.set()
        return [name, found, interrupt(name)]

    @entrypoint(backend.make())
    def flow(_):
        futures = [outer("slow"), outer("quick")]
        return [future.result() for future in futures]

    ids = asked(face.invoke(flow, 0, CFG)["__interrupt__"])
    turn.clear()
    first[0] = "quick"
    found = face.invoke(flow, Command(resume={ids["slow"]: 1, ids["quick"]: 2}), CFG)
    assert [(name, key, answer) for name, (_, key), answer in found] == [("slow", "slow", 1), ("quick", "quick", 2)]


def test_a_key_that_is_used_for_other_arguments_is_refused(face, backend):
    amounts = [1, 2]

    @task
    def outer():
        return once("charge", lambda amount: amount, amounts[0]) + interrupt("?")

    @entrypoint(backend.make())
    def flow(_):
        return outer().result()

    face.invoke(flow, 0, CFG)
    amounts.pop(0)
    with pytest.raises(StepMismatchError, match="charge"):
        face.invoke(flow, Command(resume=1), CFG)


def test_the_time_and_numbers_that_a_human_saw_are_those_that_are_used(face, backend):
    @task
    def dice():
        return [recorded.random(), recorded.uuid4(), recorded.now()]

    @entrypoint(backend.make())
    def flow(_):
        shown = [*dice().result(), recorded.random(), recorded.uuid4(), recorded.now()]
        interrupt({"approve": [str(one) for one in shown]})
        return [str(one) for one in shown]

    waiting = face.invoke(flow, 0, CFG)
    shown = waiting["__interrupt__"][0].value["approve"]
    assert len(set(shown)) == 6
    assert face.invoke(flow, Command(resume=True), CFG) == shown


# --- errors -----------------------------------------------------------------------------------------------------------


def test_an_error_is_raised_where_the_result_is_asked_for(face):
    @task
    def fail():
        raise Odd("this")

    @entrypoint()
    def flow(_):
        future = fail()
        assert isinstance(future.exception(), Odd)
        with pytest.raises(Odd, match="this"):
            future.result()
        return "caught"

    @entrypoint()
    async def aflow(_):
        with pytest.raises(Odd, match="this"):
            await fail()
        return "caught"

    assert face.invoke(flow, 0) == "caught"
    assert face.invoke(aflow, 0) == "caught"


def test_an_error_that_nobody_catches_fails_the_run(face, backend):
    marks = Marks()

    @task
    def fail():
        marks("fail")
        if marks.count("fail") == 1:
            raise Odd
        return "well"

    @entrypoint(backend.make())
    def flow(_):
        return fail().result()

    with pytest.raises(Odd):
        face.invoke(flow, 0, CFG)
    assert face.get_state(flow, CFG).tasks[0].error.startswith("Odd")
    assert face.invoke(flow, None, CFG) == "well"  # failed tasks run again when their parent does


def test_an_error_that_was_caught_is_recorded(face, backend):
    marks = Marks()

    @task
    def fail():
        marks("fail")
        raise Odd("this")

    @entrypoint(backend.make())
    def flow(_):
        try:
            fail().result()
        except Odd as error:
            return [str(error), interrupt("?")]

    face.invoke(flow, 0, CFG)
    assert face.invoke(flow, Command(resume=1), CFG) == ["this", 1]
    assert marks.seen == ["fail"]


def test_an_error_of_a_class_that_is_not_loaded_comes_back_as_what_was_stored(face, backend):
    def make():
        class Gone(Exception):
            pass

        return Gone

    @task
    def fail():
        raise make()("this")

    @entrypoint(backend.make())
    def flow(_):
        try:
            fail().result()
        except Exception as error:  # noqa: BLE001 - its class is what is asked about
            answer = interrupt("?")
            return [type(error).__name__, str(error), answer]

    face.invoke(flow, 0, CFG)
    assert face.invoke(flow, Command(resume=1), CFG) == [StoredError.__name__, "Gone: this", 1]


def test_a_task_is_tried_again_by_its_policy(face):
    marks = Marks()

    @task(retry_policy=[QUICK])
    def work():
        marks("work")
        if marks.count("work") < 3:
            raise Odd
        return "well"

    @entrypoint()
    def flow(_):
        return work().result()

    assert face.invoke(flow, 0) == "well"
    assert marks.count("work") == 3


@pytest.mark.parametrize("catches", [True, False])
def test_a_result_that_cannot_be_stored_is_an_error_that_names_the_task(face, backend, catches):
    @task
    def work():
        return threading.Lock()

    @entrypoint(backend.make())
    def flow(_):
        try:
            return work().result()
        except UnserializableValueError:
            if catches:
                return "caught"
            raise

    if catches:
        assert face.invoke(flow, 0, CFG) == "caught"
    else:
        with pytest.raises(UnserializableValueError, match="'work'"):
            face.invoke(flow, 0, CFG)


def test_arguments_that_cannot_be_stored_are_fine(face, backend):
    marks = Marks()

    @task
    def work(client, n):
        marks(n)
        return n

    @entrypoint(backend.make())
    def flow(_):
        client = threading.Lock()
        return [work(client, 1).result(), work(client, 2).result(), interrupt("?")]

    face.invoke(flow, 0, CFG)
    assert face.invoke(flow, Command(resume=3), CFG) == [1, 2, 3]
    assert marks.seen == [1, 2]


def test_a_failure_that_nobody_waits_for_fails_nothing_but_is_told(face):
    @task
    def fail():
        raise Odd("lost")

    @entrypoint()
    def flow(_):
        fail()
        return "well"

    @entrypoint()
    async def aflow(_):
        fail()
        return "well"

    for one in (flow, aflow):
        with pytest.warns(RuntimeWarning, match=r"task 'fail' of node '\w+' failed.*lost"):
            assert face.invoke(one, 0) == "well"


def test_a_failure_that_was_looked_at_is_not_told(face):
    @task
    def fail():
        raise Odd

    @entrypoint()
    def flow(_):
        return repr(fail().exception())

    @entrypoint()
    async def aflow(_):
        found = await asyncio.gather(fail(), return_exceptions=True)
        return repr(found[0])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert face.invoke(flow, 0) == "Odd()"
        assert face.invoke(aflow, 0) == "Odd()"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_ends_a_process_ends_the_run_and_harms_no_later_one(face, kind):
    @task
    def stop():
        raise kind

    @task
    async def astop():
        raise kind

    @entrypoint()
    def flow(_):
        return stop().result()

    @entrypoint()
    async def aflow(_):
        return await astop()

    @entrypoint()
    async def later(n):
        await asyncio.sleep(0)
        return n

    for one in (flow, aflow):
        with pytest.raises(kind):
            face.invoke(one, 0)
    assert face.invoke(later, 5) == 5
