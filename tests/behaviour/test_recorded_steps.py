"""Recorded steps: done once, however often their node runs.

Steps that fail are in `test_recorded_steps_failing`; what SIGKILL makes of them is in `test_recorded_steps_killed`.
"""

import asyncio
import threading
import time
from collections import Counter
from uuid import UUID

import pytest

from durable_graph import (
    START,
    Command,
    RetryPolicy,
    Runtime,
    Send,
    StateGraph,
    aonce,
    get_runtime,
    interrupt,
    once,
    recorded,
)
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, Marks, answered, chain, log, parallel, thread

CFG = thread()
DURABILITIES = ("sync", "async", "exit")


# --- done once ---


@pytest.mark.parametrize("durability", DURABILITIES)
def test_in_a_loop_of_20_interrupts_each_step_is_done_once(face, backend, durability):
    marks, runs = Marks(), Marks()

    def loop(state):
        runs("node")
        total = 0
        for n in range(20):
            once(f"step {n}", marks, n)
            total += interrupt(n)
        return {"log": [total]}

    builder = chain(loop=loop)
    found = face.invoke(builder.compile(backend.make()), {}, CFG, durability=durability)
    for n in range(20):
        assert [one.value for one in found["__interrupt__"]] == [n]
        graph = builder.compile(backend.reopen())
        found = face.invoke(graph, Command(resume=n), CFG, durability=durability)
    assert log(found) == [sum(range(20))]
    assert marks.seen == list(range(20))
    assert runs.count("node") == 21


def test_the_same_key_in_a_loop_is_a_step_for_each_turn(face, backend):
    marks = Marks()

    def node(state):
        found = []
        for _ in range(3):
            found.append(once("turn", lambda: marks("x") or len(marks.seen)))
            interrupt(len(found))
        return {"log": found}

    graph = chain(node=node).compile(backend.make())
    assert log(answered(face, graph, "abc")) == [1, 2, 3]
    assert len(marks.seen) == 3


def test_async_steps_in_async_nodes_are_done_once(face, backend):
    marks = Marks()

    async def step(word):
        await asyncio.sleep(0)
        marks(word)
        return word.upper()

    async def node(state):
        first = await aonce("first", step, "a")
        answer = interrupt("?")
        second = await aonce("second", step, answer)
        sync = await aonce("sync", str.upper, "c")
        return {"log": [first, second, sync]}

    graph = chain(node=node).compile(backend.make())
    assert log(answered(face, graph, ["b"])) == ["A", "B", "C"]
    assert marks.seen == ["a", "b"]


def test_a_sync_node_may_do_async_steps_and_an_async_node_sync_ones(face, backend):
    marks = Marks()

    async def step(word):
        marks(word)
        return word

    def node(state):
        return {"log": [once("k", step, "sync node"), interrupt("?")]}

    async def other(state):
        return {"log": [await aonce("k", lambda word: marks(word) or word, "async node"), interrupt("?")]}

    graph = chain(node=node, other=other).compile(backend.make())
    assert log(answered(face, graph, "xy")) == ["sync node", "x", "async node", "y"]
    assert marks.seen == ["sync node", "async node"]


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_node_that_raised_after_a_step_does_not_repeat_it_on_resume(face, backend, durability):
    marks, broken = Marks(), [True]

    def node(state):
        charged = once("charge", lambda: marks("charge") or "charged")
        if broken.pop() if broken else False:
            raise ValueError("broken")
        return {"log": [charged, once("ship", lambda: marks("ship") or "shipped")]}

    builder = chain(node=node)
    with pytest.raises(ValueError, match="broken"):
        face.invoke(builder.compile(backend.make()), {}, CFG, durability=durability)
    done = face.invoke(builder.compile(backend.reopen()), None, CFG, durability=durability)
    assert log(done) == ["charged", "shipped"]
    assert marks.seen == ["charge", "ship"]


def test_charge_ask_ship_charges_once_and_ships_once_though_it_fails_in_between(face, backend):
    marks, failures = Marks(), ["after the charge", "after the answer", "after the shipping"]

    def fail(where):
        if where in failures:
            failures.remove(where)
            raise ConnectionError(where)

    def node(state):
        once("charge", marks, "charge")
        fail("after the charge")
        answer = interrupt("ship?")
        fail("after the answer")
        once("ship", marks, "ship")
        fail("after the shipping")
        return {"log": [answer]}

    graph = chain(node=node).compile(backend.make())
    with pytest.raises(ConnectionError, match="after the charge"):
        face.invoke(graph, {}, CFG)
    assert face.invoke(graph, None, CFG)["__interrupt__"][0].value == "ship?"
    with pytest.raises(ConnectionError, match="after the answer"):
        face.invoke(graph, Command(resume="yes"), CFG)
    with pytest.raises(ConnectionError, match="after the shipping"):
        face.invoke(graph, None, CFG)
    assert log(face.invoke(graph, None, CFG)) == ["yes"]
    assert marks.seen == ["charge", "ship"]


@pytest.mark.parametrize("stored", [True, False], ids=["checkpointer", "no checkpointer"])
def test_a_retry_of_the_node_does_not_repeat_its_steps(face, backend, stored):
    marks, keys = Marks(), []

    def node(state, runtime: Runtime):
        keys.append(runtime.idempotency_key)
        found = once("k", lambda: marks("step") or [1, 2])
        found.append(3)
        if len(keys) < 3:
            raise ConnectionError
        return {"log": found}

    builder = StateGraph(Log).add_node("node", node, retry_policy=RetryPolicy(0.001, jitter=False))
    graph = builder.add_edge(START, "node").compile(backend.make() if stored else None)
    assert log(face.invoke(graph, {}, CFG)) == [1, 2, 3]
    assert marks.seen == ["step"]
    assert len(set(keys)) == 1


def test_what_a_step_gave_is_what_another_process_gets(face, backend):
    def node(state):
        found = once("k", lambda: {"tuple": (1, 2), "set": {3}, "none": None})
        found["tuple"] += (9,)
        interrupt("?")
        return {"log": [found]}

    graph = chain(node=node).compile(backend.make())
    assert log(answered(face, graph, ["x"])) == [{"tuple": (1, 2, 9), "set": {3}, "none": None}]


def test_a_result_of_none_counts_as_done(face, backend):
    marks = Marks()

    def node(state):
        return {"log": [once("k", marks, "x"), interrupt("?")]}

    graph = chain(node=node).compile(backend.make())
    assert log(answered(face, graph, [None])) == [None, None]
    assert marks.seen == ["x"]


def test_steps_inside_steps_are_done_once_and_have_places_of_their_own(face, backend):
    marks = Marks()

    def inner(word):
        marks(word)
        return word

    def outer(word):
        return once("inner", inner, f"{word}1") + once("inner", inner, f"{word}2")

    def node(state):
        found = [once("outer", outer, "a"), once("other", outer, "b"), once("inner", inner, "c")]
        interrupt("?")
        return {"log": found}

    graph = chain(node=node).compile(backend.make())
    assert log(answered(face, graph, ["x"])) == ["a1a2", "b1b2", "c"]
    assert marks.seen == ["a1", "a2", "b1", "b2", "c"]


def test_a_step_that_asks_goes_on_with_the_answer_and_its_inner_steps_stay_done(face, backend):
    marks = Marks()

    def outer():
        once("inner", marks, "inner")
        return interrupt("inside?")

    def node(state):
        return {"log": [once("outer", outer)]}

    graph = chain(node=node).compile(backend.make())
    assert log(answered(face, graph, ["yes"])) == ["yes"]
    assert marks.seen == ["inner"]


def test_each_task_of_a_fan_out_has_steps_of_its_own(face, backend):
    marks = Marks()

    def work(n):
        found = once("k", lambda: marks(n) or n)
        return {"log": [found, interrupt(n)]}

    builder = StateGraph(Log).add_node("work", work)
    builder.add_conditional_edges(START, lambda state: [Send("work", n) for n in range(3)], ["work"])
    graph = builder.compile(backend.make())
    found = face.invoke(graph, {}, CFG)
    done = face.invoke(graph, Command(resume={one.id: "x" for one in found["__interrupt__"]}), CFG)
    assert log(done) == [0, "x", 1, "x", 2, "x"]
    assert sorted(marks.seen) == [0, 1, 2]


def test_the_next_turn_does_its_steps_anew(face, backend):
    marks = Marks()
    graph = chain(node=lambda state: once("k", marks, "x")).compile(backend.make())
    for _ in range(3):
        face.invoke(graph, {}, CFG)
    assert marks.seen == ["x"] * 3


def test_the_state_view_names_recorded_steps(face, backend):
    def node(state):
        once("first", len, "abc")
        once("second", len, "abc")
        interrupt("?")

    graph = chain(node=node).compile(backend.make())
    face.invoke(graph, {}, CFG)
    assert face.get_state(graph, CFG).tasks[0].calls == ("first", "second")
    face.invoke(graph, Command(resume=1), CFG)
    assert face.get_state_history(graph, CFG)[1].tasks[0].calls == ("first", "second")


# --- at the same time ---


def test_steps_in_os_threads_of_a_node_are_done_once_each(face, backend):
    marks = Marks()

    def node(state):
        import contextvars

        found = {}

        def work(n):
            found[n] = once(f"k{n}", lambda: marks(n) or n * n)

        workers = [threading.Thread(target=contextvars.copy_context().run, args=(work, n)) for n in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        interrupt("?")
        return {"log": [found[n] for n in range(8)]}

    graph = chain(node=node).compile(backend.make())
    assert log(answered(face, graph, ["x"])) == [n * n for n in range(8)]
    assert sorted(marks.seen) == list(range(8))


@pytest.mark.parametrize("durability", DURABILITIES)
def test_gathered_steps_are_done_once_each_in_whatever_order_they_end(face, backend, durability):
    marks = Marks()

    async def step(n):
        await asyncio.sleep(0.001 * (8 - n))
        marks(n)
        return n * n

    async def node(state):
        found = await asyncio.gather(*(aonce(f"k{n}", step, n) for n in range(8)))
        interrupt("?")
        return {"log": found}

    graph = chain(node=node).compile(backend.make())
    assert log(answered(face, graph, ["x"], durability=durability)) == [n * n for n in range(8)]
    assert sorted(marks.seen) == list(range(8))


def test_of_gathered_steps_one_that_fails_leaves_the_others_recorded(face, backend):
    marks, broken = Marks(), [True]

    async def step(n):
        marks(n)
        if n == 1 and broken:
            raise ValueError("broken")
        return n

    async def node(state):
        found = await asyncio.gather(*(aonce(f"k{n}", step, n) for n in range(3)), return_exceptions=True)
        for one in found:
            if isinstance(one, Exception):
                raise one
        return {"log": found}

    graph = chain(node=node).compile(backend.make())
    with pytest.raises(ValueError, match="broken"):
        face.invoke(graph, {}, CFG)
    broken.clear()
    assert log(face.invoke(graph, None, CFG)) == [0, 1, 2]
    assert Counter(marks.seen) == {0: 1, 1: 2, 2: 1}


def test_steps_of_parallel_nodes_do_not_meet(face, backend):
    def node(name):
        return lambda state: {"log": [once("k", str.upper, name), interrupt(name)]}

    graph = parallel(x=node("x"), y=node("y")).compile(backend.make())
    found = face.invoke(graph, {}, CFG)
    done = face.invoke(graph, Command(resume={one.id: one.value for one in found["__interrupt__"]}), CFG)
    assert log(done) == ["X", "x", "Y", "y"]


# --- keys, time and numbers ---


def test_idempotency_keys_are_stable_over_attempts_resumes_and_edits(face, backend):
    keys, failures = {"node": [], "step": []}, ["first", "second"]

    def step(runtime: Runtime):
        keys["step"].append(runtime.idempotency_key)
        if failures:
            raise ValueError(failures.pop())
        return "done"

    def node(state, runtime: Runtime):
        keys["node"].append(runtime.idempotency_key)
        return {"log": [once("k", step), interrupt("?")]}

    builder = chain(a=says("a"), node=node)
    graph = builder.compile(backend.make())
    for given in ({}, None):
        with pytest.raises(ValueError, match=r"first|second"):
            face.invoke(graph, given, CFG)
    face.invoke(graph, None, CFG)
    face.update_state(graph, CFG, {"other": 1})
    assert log(face.invoke(builder.compile(backend.reopen()), Command(resume="x"), CFG)) == ["a", "done", "x"]
    assert (len(keys["node"]), len(set(keys["node"]))) == (4, 1)
    assert (len(keys["step"]), len(set(keys["step"]))) == (3, 1)
    assert keys["node"][0] != keys["step"][0]


def test_idempotency_keys_differ_by_step_turn_task_thread_and_branch(face, backend):
    keys = []

    def step(n, runtime: Runtime):
        keys.append(runtime.idempotency_key)

    def node(state):
        keys.append(get_runtime().idempotency_key)
        once("k", step, 1)
        once("k", step, 1)
        once("other", step, 1)

    graph = chain(node=node, twin=node).compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.invoke(graph, {}, CFG)
    face.invoke(graph, {}, thread("u"))
    first = face.get_state_history(graph, CFG)[-2]
    assert first.next == ("node",)
    face.invoke(graph, None, first.config)
    face.invoke(graph, None, first.config)
    assert len(keys) == len(set(keys)) == 5 * 8


def test_recorded_time_numbers_and_ids_are_the_same_whenever_the_node_runs(face, backend):
    seen = []

    def node(state):
        found = (recorded.now(), recorded.random(), recorded.random(), recorded.uuid4(), recorded.uuid4())
        seen.append(found)
        return {"log": [interrupt(f"approve {found[1]}?")]}

    builder = chain(node=node)
    [asked] = face.invoke(builder.compile(backend.make()), {}, CFG)["__interrupt__"]
    time.sleep(0.001)
    face.invoke(builder.compile(backend.reopen()), Command(resume={asked.id: "yes"}), CFG)
    assert seen[0] == seen[1]
    now, one, two, first, second = seen[0]
    assert now.tzinfo is not None
    assert 0 <= one < 1
    assert one != two
    assert first != second
    assert (type(first), first.version) == (UUID, 4)
    face.invoke(chain(node=node).compile(backend.reopen()), {}, CFG)
    assert not {*seen[2]} & {*seen[0]}


@pytest.mark.parametrize("durability", DURABILITIES)
def test_on_a_branch_steps_are_done_anew(face, backend, durability):
    marks = Marks()

    def node(state):
        return {"log": [once("k", lambda: marks("x") or len(marks.seen)), interrupt("?")]}

    graph = chain(a=says("a"), node=node).compile(backend.make())
    face.invoke(graph, {}, CFG)
    waiting = face.get_state(graph, CFG).config
    assert log(face.invoke(graph, Command(resume="one"), CFG, durability=durability)) == ["a", 1, "one"]
    assert log(face.invoke(graph, Command(resume="two"), waiting, durability=durability)) == ["a", 2, "two"]
    assert log(face.invoke(graph, None, waiting, durability=durability)) == ["a"]
    assert log(face.invoke(graph, Command(resume="three"), CFG, durability=durability)) == ["a", 3, "three"]
