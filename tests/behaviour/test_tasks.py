"""What @task promises: calls that run beside their caller, on each face."""

import asyncio
import concurrent.futures
import contextvars
import threading
import time

import pytest

from durable_graph import Command, RetryPolicy, interrupt
from durable_graph.errors import (
    InvalidConfigError,
    InvalidGraphError,
    OutsideRunError,
)
from durable_graph.functional import entrypoint, task
from tests.behaviour.making import Odd
from tests.behaviour.small_graphs import Marks, asked, parallel, thread

CFG = thread()
QUICK = RetryPolicy(0.001, jitter=False, retry_on=Exception)


# --- calls and their results ------------------------------------------------------------------------------------------


def test_a_task_gives_its_result_in_a_future(face):
    @task
    def double(n):
        return 2 * n

    @entrypoint()
    def flow(n):
        future = double(n)
        assert isinstance(future, concurrent.futures.Future)
        found = future.result()
        assert future.done()
        assert not future.running()
        assert future.exception() is None
        return found

    assert face.invoke(flow, 21) == 42


def test_in_async_code_a_task_is_awaited(face):
    @task
    async def double(n):
        await asyncio.sleep(0)
        return 2 * n

    @task
    def half(n):
        return n // 2

    @entrypoint()
    async def flow(n):
        first = double(n)
        assert asyncio.isfuture(first)
        return [await first, await half(n), *await asyncio.gather(double(1), half(8))]

    assert face.invoke(flow, 10) == [20, 5, 2, 4]


def test_an_async_task_called_in_sync_code_runs_on_the_private_loop(face):
    @task
    async def name():
        await asyncio.sleep(0)
        return threading.current_thread().name

    @entrypoint()
    def flow(_):
        return name().result()

    assert face.invoke(flow, 0) == "durable_graph-loop"


def test_sync_tasks_run_at_the_same_time(face):
    meeting = threading.Barrier(3, timeout=30)

    @task
    def meet(n):
        meeting.wait()
        return n

    @entrypoint()
    def flow(_):
        return [future.result() for future in [meet(n) for n in range(3)]]

    @entrypoint()
    async def aflow(_):
        return await asyncio.gather(*[meet(n) for n in range(3)])

    assert face.invoke(flow, 0) == [0, 1, 2]
    assert face.invoke(aflow, 0) == [0, 1, 2]


def test_a_task_starts_before_anybody_waits_for_it(face):
    started = threading.Event()

    @task
    def start():
        started.set()

    @entrypoint()
    def flow(_):
        future = start()
        assert started.wait(30)
        return future.result()

    @entrypoint()
    async def aflow(_):
        future = start()
        assert await asyncio.to_thread(started.wait, 30)
        return await future

    face.invoke(flow, 0)
    started.clear()
    face.invoke(aflow, 0)
    assert started.is_set()


def test_a_task_that_nobody_began_runs_in_the_os_thread_that_asks_for_its_result():
    busy, release = threading.Barrier(2, timeout=30), threading.Event()

    @task
    def hold():
        busy.wait()
        return release.wait(30)

    @task
    def name():
        return threading.get_ident()

    @entrypoint()
    def flow(_):
        held = hold()
        busy.wait()
        waiting = name()  # the one place is taken, and here is room only when it is free again
        release.set()
        assert held.result()
        return waiting.result() is not None

    assert flow.invoke(0, {"max_concurrency": 1})


def test_tasks_in_tasks(face, backend):
    marks = Marks()

    @task
    def inner(n):
        marks(n)
        return n + 1

    @task
    def outer(n):
        return inner(n).result() + inner(10 * n).result()

    @entrypoint(backend.make())
    def flow(n):
        found = outer(n).result()
        return [found, interrupt("go on?")]

    face.invoke(flow, 1, CFG)
    assert face.invoke(flow, Command(resume="yes"), CFG) == [13, "yes"]
    assert sorted(marks.seen) == [1, 10]


def test_deep_nesting_with_one_place_ends(face):
    @task
    def down(n):
        return 0 if n == 0 else 1 + down(n - 1).result()

    @task
    async def adown(n):
        return 0 if n == 0 else 1 + await adown(n - 1)

    @entrypoint()
    def flow(n):
        return sum(future.result() for future in [down(n), down(n), down(n)])

    @entrypoint()
    async def aflow(n):
        return sum(await asyncio.gather(adown(n), adown(n), adown(n)))

    assert face.invoke(flow, 12, {"max_concurrency": 1}) == 36
    assert face.invoke(aflow, 12, {"max_concurrency": 1}) == 36


def test_max_concurrency_bounds_how_many_tasks_run_at_once(face):
    lock = threading.Lock()
    running, most = [], []

    @task
    def work(n):
        with lock:
            running.append(n)
            most.append(len(running))
        time.sleep(0.005)
        with lock:
            running.remove(n)

    @entrypoint()
    def flow(_):
        for future in [work(n) for n in range(8)]:
            future.result()

    @entrypoint()
    async def aflow(_):
        await asyncio.gather(*[work(n) for n in range(8)])

    for one in (flow, aflow):
        face.invoke(one, 0, {"max_concurrency": 2})
        assert max(most) <= 2
        assert len(most) == 8
        most.clear()


def test_more_tasks_than_there_are_os_threads(face):
    @task
    def work(n):
        return n

    @entrypoint()
    def flow(n):
        return sum(future.result() for future in [work(one) for one in range(n)])

    assert face.invoke(flow, 1000) == 499_500


def test_the_futures_work_with_the_tools_for_futures(face):
    called = []

    @task
    def work(n):
        return n

    @entrypoint()
    def flow(n):
        futures = [work(one) for one in range(n)]
        futures[0].add_done_callback(lambda done: called.append(done.result()))
        done, waiting = concurrent.futures.wait(futures)
        assert not waiting
        return sorted(one.result() for one in concurrent.futures.as_completed(done))

    assert face.invoke(flow, 20) == list(range(20))
    assert called == [0]


def test_a_result_can_be_waited_for_with_a_time_limit(face):
    release = threading.Event()

    @task
    def slow():
        release.wait(30)
        return "there"

    @entrypoint()
    def flow(_):
        future = slow()
        with pytest.raises(TimeoutError):
            future.result(0.001)
        assert not future.done()
        release.set()
        return future.result(30)

    assert face.invoke(flow, 0) == "there"


def test_a_task_that_has_not_begun_can_be_cancelled(face):
    busy, release = threading.Barrier(2, timeout=30), threading.Event()
    marks = Marks()

    @task
    def hold():
        busy.wait()
        release.wait(30)

    @task
    def never():
        marks("never")

    @entrypoint()
    def flow(_):
        held = hold()
        busy.wait()
        waiting = never()
        assert waiting.cancel()
        assert waiting.cancelled()
        with pytest.raises(concurrent.futures.CancelledError):
            waiting.result()
        assert not held.cancel()
        release.set()
        return held.result()

    face.invoke(flow, 0, {"max_concurrency": 1})
    assert marks.seen == []


def test_context_variables_come_along_and_do_not_leak(face):
    variable = contextvars.ContextVar("variable", default="none")

    @task
    def look():
        found = variable.get()
        variable.set("the task's")
        return found

    @entrypoint()
    def flow(_):
        variable.set("the caller's")
        return [look().result(), look().result(), variable.get()]

    assert face.invoke(flow, 0) == ["the caller's"] * 3


def test_tasks_work_in_nodes_of_graphs(face, backend):
    marks = Marks()

    @task
    def work(n):
        marks(n)
        return n

    def node(state):
        found = [future.result() for future in [work(n) for n in range(3)]]
        return {"log": [*found, interrupt("go on?")]}

    async def anode(state):
        return {"log": [*await asyncio.gather(work(3), work(4)), interrupt("go on too?")]}

    graph = parallel(node=node, anode=anode).compile(backend.make())
    ids = asked(face.invoke(graph, {}, CFG)["__interrupt__"])
    found = face.invoke(graph, Command(resume={ids["go on?"]: "yes", ids["go on too?"]: "no"}), CFG)
    assert found == {"log": [3, 4, "no", 0, 1, 2, "yes"]}
    assert sorted(marks.seen) == [0, 1, 2, 3, 4]


def test_outside_of_a_run_a_task_cannot_be_called():
    @task
    def work():
        return 1

    with pytest.raises(OutsideRunError, match="work"):
        work()


def test_methods_can_be_tasks(face):
    class Counter:
        step = 5

        @task
        def add(self, n):
            return self.step + n

        @staticmethod
        @task
        def double(n):
            return 2 * n

    @entrypoint()
    def flow(n):
        return Counter().add(n).result() + Counter.double(n).result()

    assert face.invoke(flow, 1) == 8


def test_a_task_looks_like_its_function():
    @task(name="other")
    def work(n: int) -> int:
        """What it does."""
        return n

    assert (work.name, work.__name__, work.__doc__) == ("other", "work", "What it does.")
    assert repr(work) == "task('other')"


@pytest.mark.parametrize("kind", ["generator", "async generator", "object"])
def test_what_yields_cannot_be_a_task(kind):
    def generator():
        yield 1

    async def asynchronous():
        yield 1

    class Yields:
        def __call__(self):
            yield 1

    wrong = {"generator": generator, "async generator": asynchronous, "object": Yields()}[kind]
    with pytest.raises(InvalidGraphError, match="generator"):
        task(wrong)


def test_what_is_no_policy_is_refused():
    with pytest.raises(InvalidConfigError, match="on_unknown"):
        task(on_unknown="guess")(lambda: 1)
    with pytest.raises(InvalidGraphError, match="reserved"):
        task(name="a/b")(lambda: 1)


# --- what is injected -------------------------------------------------------------------------------------------------


def test_a_task_gets_what_nodes_get(face, backend):
    @task
    def look(n, *, config, runtime, writer, store, previous):
        writer(n)
        return [config["configurable"]["thread_id"], runtime.context, store, previous, runtime.previous]

    @entrypoint(backend.make(), store={"a": 1})
    def flow(n):
        return look(n).result()

    assert face.stream(flow, 3, CFG, context="ctx", stream_mode="custom") == [3]
    first = ["t", "ctx", {"a": 1}, None, None]
    assert face.invoke(flow, 4, CFG, context="ctx") == ["t", "ctx", {"a": 1}, first, first]


def test_what_the_caller_passes_is_not_injected(face):
    @task
    def look(store, runtime=None, *, config=None):
        return [store, runtime is None, config["mine"]]

    @entrypoint(store="the store")
    def flow(_):
        return [look("mine", config={"mine": 1}).result(), look(config={"mine": 2}).result()]

    assert face.invoke(flow, 0) == [["mine", False, 1], ["the store", False, 2]]


def test_each_call_has_an_idempotency_key_of_its_own_that_stays(face, backend):
    keys = []

    @task
    def charge(n, *, runtime):
        keys.append(runtime.idempotency_key)
        if len(keys) % 2:
            raise Odd
        return n

    @entrypoint(backend.make())
    def flow(_):
        for n in (1, 1, 2):
            try:
                charge(n).result()
            except Odd:
                charge(n).result()
        return interrupt("?")

    face.invoke(flow, 0, CFG)
    assert len(set(keys)) == 6
    again = []

    @task(retry_policy=QUICK)
    def retried(*, runtime):
        again.append(runtime.idempotency_key)
        if len(again) < 3:
            raise Odd

    @entrypoint(backend.make())
    def other(_):
        retried().result()

    face.invoke(other, 0, thread("other"))
    assert len(again) == 3
    assert len(set(again)) == 1
