"""Recorded steps that do not fit what is recorded, that fail, or are called in the wrong place."""

import asyncio
import threading
from collections import Counter

import pytest

from durable_graph import (
    Command,
    RetryPolicy,
    Runtime,
    aonce,
    interrupt,
    once,
    recorded,
)
from durable_graph.errors import (
    InvalidConfigError,
    NodeTimeoutError,
    OutsideRunError,
    StepMismatchError,
    StoredError,
    UnserializableValueError,
)
from tests.behaviour.small_graphs import Marks, answered, chain, log, thread

CFG = thread()


# --- matched by what they are ---


def test_other_steps_and_another_order_after_a_deploy_find_the_same_results(face, backend):
    marks = Marks()

    def do(word):
        marks(word)
        return word.upper()

    def version(*words):
        def node(state):
            found = [once(word, do, word) for word in words]
            interrupt("?")
            return {"log": found}

        return chain(node=node)

    face.invoke(version("a", "b").compile(backend.make()), {}, CFG)
    graph = version("b", "new", "a").compile(backend.reopen())
    assert log(face.invoke(graph, Command(resume=1), CFG)) == ["B", "NEW", "A"]
    assert marks.seen == ["a", "b", "new"]


def test_a_key_that_is_called_with_other_arguments_is_an_error_and_never_a_swap(face, backend):
    arguments = [(1, {"unit": "eur"})]
    marks = Marks()

    def node(state):
        args, keywords = arguments[0]
        once("charge", lambda amount, unit: marks(amount), args, **keywords)
        return {"log": [interrupt("?")]}

    graph = chain(node=node).compile(backend.make())
    face.invoke(graph, {}, CFG)
    for changed in ((2, {"unit": "eur"}), (1, {"unit": "usd"}), (True, {"unit": "eur"}), (1.0, {"unit": "eur"})):
        arguments[0] = changed
        given = Command(resume="yes") if face.get_state(graph, CFG).interrupts else None
        with pytest.raises(StepMismatchError, match="step 'charge' of node 'node' was recorded with other arguments"):
            face.invoke(graph, given, CFG)
    arguments[0] = (1, {"unit": "eur"})
    assert log(face.invoke(graph, None, CFG)) == ["yes"]
    assert marks.seen == [1]


def test_equal_keys_in_another_order_are_an_error(face, backend):
    order = [1, 2]
    marks = Marks()

    def node(state):
        for n in order:
            once("k", marks, n)
        return {"log": [interrupt("?")]}

    graph = chain(node=node).compile(backend.make())
    face.invoke(graph, {}, CFG)
    order.reverse()
    with pytest.raises(StepMismatchError, match="call 1 of this key"):
        face.invoke(graph, Command(resume=1), CFG)
    assert marks.seen == [1, 2]


def test_arguments_that_cannot_be_stored_do_not_count(face, backend):
    marks = Marks()

    def node(state):
        once("k", lambda client, n: marks(n), threading.Lock(), 1)
        return {"log": [interrupt("?")]}

    graph = chain(node=node).compile(backend.make())
    assert log(answered(face, graph, ["x"])) == ["x"]
    assert marks.seen == [1]


# --- steps that fail ---


def test_a_failing_step_that_the_node_catches_is_not_run_again(face, backend):
    marks, caught = Marks(), []

    def fail():
        marks("fail")
        raise ZeroDivisionError("no")

    def node(state):
        try:
            once("k", fail)
        except ZeroDivisionError as error:
            caught.append((type(error), str(error)))
        return {"log": [interrupt("?")]}

    builder = chain(node=node)
    face.invoke(builder.compile(backend.make()), {}, CFG)
    assert log(face.invoke(builder.compile(backend.reopen()), Command(resume="x"), CFG)) == ["x"]
    assert marks.seen == ["fail"]
    assert caught == [(ZeroDivisionError, "no")] * 2


def test_an_error_of_this_library_comes_back_with_what_and_cure(face, backend):
    caught = []

    def fail():
        raise InvalidConfigError("the depot is closed", cure="Come on Monday.")

    def node(state):
        try:
            once("k", fail)
        except InvalidConfigError as error:
            caught.append((error.what, error.cure, str(error)))
        return {"log": [interrupt("?")]}

    answered(face, chain(node=node).compile(backend.make()), ["x"])
    assert caught == [("the depot is closed", "Come on Monday.", caught[0][2])] * 2


def test_an_exception_of_a_class_nobody_loaded_comes_back_as_a_stored_error(face, backend):
    class Gone(Exception):
        def __init__(self, one, two):
            super().__init__(f"{one} {two}")

    caught = []

    def fail():
        raise Gone("a", "b")

    def node(state):
        try:
            once("k", fail)
        except Exception as error:  # noqa: BLE001 - which one is what is asked
            caught.append(error)
        return {"log": [interrupt("?")]}

    graph = chain(node=node).compile(backend.make())
    answered(face, graph, ["x"])
    assert type(caught[0]) is Gone
    assert isinstance(caught[1], StoredError)
    assert (caught[1].type.rpartition(".")[2], str(caught[1])) == ("Gone", "Gone: a b")


def test_a_failing_step_that_fails_its_node_is_run_again_on_resume(face, backend):
    marks, broken = Marks(), [True]

    def step():
        marks("step")
        if broken:
            raise ValueError("broken")
        return "mended"

    def node(state):
        once("before", marks, "before")
        return {"log": [once("k", step)]}

    builder = chain(node=node)
    graph = builder.compile(backend.make())
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            face.invoke(graph, {}, CFG) if not marks.seen else face.invoke(graph, None, CFG)
    broken.clear()
    assert log(face.invoke(builder.compile(backend.reopen()), None, CFG)) == ["mended"]
    assert marks.seen == ["before", "step", "step", "step"]


def test_a_retry_policy_of_the_step_tries_it_again_and_not_the_node(face, backend):
    marks, runs, keys = Marks(), Marks(), set()

    def step(runtime: Runtime):
        marks("step")
        keys.add(runtime.idempotency_key)
        if len(marks.seen) < 3:
            raise ConnectionError
        return "done"

    def node(state):
        runs("node")
        return {"log": [once("k", step, retry_policy=RetryPolicy(0.001, jitter=False)), interrupt("?")]}

    graph = chain(node=node).compile(backend.make())
    assert log(answered(face, graph, ["x"])) == ["done", "x"]
    assert (len(marks.seen), len(runs.seen), len(keys)) == (3, 2, 1)


def test_a_retry_policy_gives_up_and_lets_errors_it_does_not_know_through(face, backend):
    marks = Marks()

    def step(error):
        marks(type(error))
        raise error

    def node(state):
        policy = RetryPolicy(0.001, max_attempts=2, jitter=False)
        for error in (ConnectionError("line"), ValueError("value")):
            with pytest.raises(type(error)):
                once(f"k {type(error)}", step, error, retry_policy=policy)
        return {"log": ["caught"]}

    assert log(face.invoke(chain(node=node).compile(backend.make()), {}, CFG)) == ["caught"]
    assert Counter(marks.seen) == {ConnectionError: 2, ValueError: 1}


def test_a_step_that_takes_too_long_is_an_error_with_its_name(face, backend):
    go = threading.Event()

    def slow():
        assert go.wait(20)

    async def aslow():
        await asyncio.sleep(20)

    def node(state):
        with pytest.raises(NodeTimeoutError, match=r"step 'slow' took longer than 0\.02 s"):
            once("slow", slow, timeout=0.02)
        with pytest.raises(NodeTimeoutError, match="step 'aslow'"):
            once("aslow", aslow, timeout=0.02)
        return {"log": [once("quick", str.upper, "quick", timeout=20)]}

    async def anode(state):
        with pytest.raises(NodeTimeoutError, match="step 'aslow'"):
            await aonce("aslow", aslow, timeout=0.02)
        return {"log": [await aonce("quick", str.upper, "aquick", timeout=20)]}

    graph = chain(node=node, anode=anode).compile(backend.make())
    try:
        assert log(face.invoke(graph, {}, CFG)) == ["QUICK", "AQUICK"]
    finally:
        go.set()


def test_a_result_that_cannot_be_stored_is_an_error_that_names_step_and_node(face, backend):
    marks, broken = Marks(), [True]

    def step():
        marks("step")
        return threading.Lock() if broken else "fine"

    graph = chain(node=lambda state: {"log": [once("k", step)]}).compile(backend.make())
    with pytest.raises(UnserializableValueError, match="the result of step 'k' of node 'node'"):
        face.invoke(graph, {}, CFG)
    broken.clear()
    assert log(face.invoke(graph, None, CFG)) == ["fine"]
    assert marks.seen == ["step", "step"]


def test_outside_of_a_node_there_is_nothing_to_record(face):
    for call in (lambda: once("k", len, ""), recorded.now, recorded.random, recorded.uuid4):
        with pytest.raises(OutsideRunError, match="outside of a running node"):
            call()
    with pytest.raises(OutsideRunError, match="outside of a running node"):
        asyncio.run(aonce("k", len, ""))


@pytest.mark.parametrize("key", ["", None, 7, len], ids=["empty", "none", "number", "function"])
def test_a_key_is_a_text(face, key):
    with pytest.raises(InvalidConfigError, match="as its key, expected a text"):
        once(key, len, "")


def test_an_unknown_policy_for_unknown_outcomes_is_refused_by_name():
    with pytest.raises(InvalidConfigError, match="unknown on_unknown 'retry'; known: 'rerun', 'ask', or a function"):
        once("k", len, "", on_unknown="retry")
