"""Nodes whose results are kept by their input: `cache_policy` and `compile(cache=...)`."""

import asyncio
import operator
import threading
from dataclasses import dataclass
from typing import Annotated, TypedDict

import pytest
from pydantic import BaseModel

from durable_graph import START, Command, RetryPolicy, Send, StateGraph, interrupt
from durable_graph.caches import CachePolicy
from durable_graph.channels import UntrackedValue
from durable_graph.errors import InvalidValueError, UnserializableValueError
from tests.behaviour.kept import CFG, KEPT, Asked, answering, one
from tests.behaviour.making import both, says, until
from tests.behaviour.small_graphs import Log, Marks, asked, thread

# --- hits and misses -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [0, 1], ids=["sync", "async"])
def test_a_node_runs_once_for_each_input(face, caches, kind):
    marks = Marks()
    node = answering(marks)
    for question in ("x", "y", "x", "x"):
        graph = one(both(node)[kind]).compile(cache=caches.make())
        assert face.invoke(graph, {"question": question})["answer"] == f"answer to {question}"
    assert marks.seen == ["x", "y"]


def test_only_what_the_node_reads_makes_the_key(face, caches):
    marks = Marks()
    graph = one(answering(marks)).compile(cache=caches.make())
    for log in (["1"], ["2"]):
        face.invoke(graph, {"question": "x", "log": log})
    assert marks.seen == ["x"]


def test_a_node_that_reads_everything_depends_on_everything(face, caches):
    marks = Marks()
    graph = one(answering(marks), input_schema=None).compile(cache=caches.make())
    for log in (["1"], ["2"], ["1"]):
        face.invoke(graph, {"question": "x", "log": log})
    assert marks.seen == ["x", "x"]


def test_a_key_func_says_what_matters(face, caches):
    marks = Marks()
    policy = CachePolicy(key_func=lambda state: state["question"].lower())
    graph = one(answering(marks), policy).compile(cache=caches.make())
    for question in ("x", "X"):
        assert face.invoke(graph, {"question": question})["answer"] == "answer to x"
    assert marks.seen == ["x"]


def test_a_key_func_gets_a_dict_of_what_the_node_reads(face, caches):
    seen = []
    policy = CachePolicy(key_func=lambda state: seen.append(state) or "key")
    face.invoke(one(answering(Marks()), policy).compile(cache=caches.make()), {"question": "x", "answer": "old"})
    assert seen == [{"question": "x"}]
    assert type(seen[0]) is dict


def test_a_key_func_that_returns_no_text_fails_its_node(face, caches):
    policy = CachePolicy(key_func=lambda state: 7)
    with pytest.raises(InvalidValueError, match="returned a int"):
        face.invoke(one(answering(Marks()), policy).compile(cache=caches.make()), {"question": "x"})


def test_an_input_that_makes_no_key_fails_its_node_and_says_how_to_help(face, caches):
    class Odd(TypedDict):
        odd: Annotated[object, UntrackedValue]

    builder = StateGraph(Odd).add_node("a", says("a"), cache_policy=KEPT).add_edge(START, "a")
    with pytest.raises(UnserializableValueError, match="key_func"):
        face.invoke(builder.compile(cache=caches.make()), {"odd": object()})


def test_results_are_kept_for_their_time_and_no_longer(face, caches):
    for ttl, runs in ((3600, 1), (0.001, 2)):
        marks = Marks()
        graph = one(answering(marks), CachePolicy(lambda state, ttl=ttl: str(ttl), ttl=ttl)).compile(
            cache=caches.make()
        )
        for _ in range(2):
            face.invoke(graph, {"question": "x"})
            threading.Event().wait(0.02)
        assert marks.count("x") == runs


def test_dataclass_pydantic_and_bare_states_make_keys_too(face, caches):
    @dataclass
    class Data:
        question: str
        answer: str = ""

    class Model(BaseModel):
        question: str
        answer: str = ""

    for schema in (Data, Model):
        marks = Marks()

        def node(state, marks=marks):
            marks(state.question)
            return {"answer": "yes"}

        graph = one(node, schema=schema, input_schema=None).compile(cache=caches.make())
        for _ in range(2):
            assert face.invoke(graph, {"question": "x"})["answer"] == "yes"
        assert marks.seen == ["x"]
    marks = Marks()
    bare = StateGraph(Annotated[list, operator.add])
    bare.add_node("a", lambda state: (marks("a"), ["a"])[1], cache_policy=KEPT).add_edge(START, "a")
    graph = bare.compile(cache=caches.make())
    assert [face.invoke(graph, ["in"]) for _ in range(2)] == [["in", "a"]] * 2
    assert marks.seen == ["a"]


def test_a_kept_result_is_made_anew_for_everybody(face, caches):
    graph = one(lambda state: {"log": [{"deep": []}]}).compile(cache=caches.make())
    for _ in range(2):
        result = face.invoke(graph, {"question": "x"})
        assert result["log"] == [{"deep": []}]
        result["log"][0]["deep"].append("changed by the caller")


def test_kept_types_are_exact(face, caches):
    graph = one(lambda state: {"answer": ("a", frozenset({1}))}).compile(cache=caches.make())
    assert [face.invoke(graph, {"question": "x"})["answer"] for _ in range(2)] == [("a", frozenset({1}))] * 2


# --- what is kept ----------------------------------------------------------------------------------------------------


def test_where_a_command_and_routers_lead_is_kept_too(face, caches):
    marks = Marks()

    def a(state):
        marks("a")
        return Command(update={"log": ["a"]}, goto=["b", Send("c", {"sent": True})])

    builder = one(a).add_node("b", says("b")).add_node("d", says("d"))
    builder.add_node("c", lambda arg: {"log": [arg["sent"]]})
    builder.add_conditional_edges("a", lambda state: (marks("router"), "d")[1], ["d"])
    graph = builder.compile(cache=caches.make())
    for _ in range(2):
        assert face.invoke(graph, {"question": "x"})["log"] == ["a", "b", "d", True]
    assert marks.seen == ["a", "router"]


def test_a_command_for_the_parent_is_kept(face, caches):
    marks = Marks()

    def inside(state):
        marks("inside")
        return Command(graph=Command.PARENT, update={"log": ["from below"]}, goto="b")

    inner = one(inside).compile()
    builder = StateGraph(Asked).add_node("sub", inner).add_node("b", says("b")).add_edge(START, "sub")
    graph = builder.compile(cache=caches.make())
    for _ in range(2):
        assert face.invoke(graph, {"question": "x"})["log"] == ["from below", "b"]
    assert marks.seen == ["inside"]


def test_a_failure_is_not_kept(face, caches):
    marks = Marks()

    def node(state):
        marks("a")
        if marks.count("a") == 1:
            text = "down"
            raise ValueError(text)
        return {"answer": "up"}

    graph = one(node).compile(cache=caches.make())
    with pytest.raises(ValueError, match="down"):
        face.invoke(graph, {"question": "x"})
    assert [face.invoke(graph, {"question": "x"})["answer"] for _ in range(2)] == ["up", "up"]
    assert marks.count("a") == 2


def test_a_retry_is_kept_and_an_error_handlers_result_is_not(face, caches):
    marks = Marks()

    def node(state):
        marks("a")
        if marks.count("a") < 3:
            raise ValueError(marks.count("a"))
        return {"answer": "third"}

    again = RetryPolicy(initial_interval=0.001, jitter=False, max_attempts=2, retry_on=ValueError)
    graph = one(node, retry_policy=again, error_handler=lambda state, error: {"answer": "handled"})
    graph = graph.compile(cache=caches.make())
    assert [face.invoke(graph, {"question": "x"})["answer"] for _ in range(3)] == ["handled", "third", "third"]
    assert marks.count("a") == 3


def test_a_question_and_what_was_made_of_its_answer_are_not_kept(face, backend, caches):
    """Else the next run would be approved by the answer of this one."""
    graph = one(lambda state: {"answer": interrupt("sure?")}).compile(backend.make(), cache=caches.make())
    for number, answer in enumerate(("yes", "no")):
        config = thread(str(number))
        assert list(asked(face.invoke(graph, {"question": "x"}, config)["__interrupt__"])) == ["sure?"]
        assert face.invoke(graph, Command(resume=answer), config)["answer"] == answer


def test_a_result_that_cannot_be_stored_fails_its_node(face, caches):
    graph = one(lambda state: {"answer": object()}).compile(cache=caches.make())
    with pytest.raises(UnserializableValueError, match=r"'a'"):
        face.invoke(graph, {"question": "x"})


# --- at the same time ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [0, 1], ids=["sync", "async"])
def test_of_parallel_sends_with_the_same_input_one_computes(face, caches, kind):
    marks = Marks()

    def work(arg):
        marks(arg)
        threading.Event().wait(0.01)
        return {"log": [f"{arg} {marks.count(arg)}"]}

    builder = StateGraph(Log).add_node("work", both(work)[kind], cache_policy=KEPT)
    builder.add_conditional_edges(START, lambda state: [Send("work", n % 3) for n in range(12)], ["work"])
    graph = builder.compile(cache=caches.make())
    assert face.invoke(graph, {})["log"] == [f"{n % 3} 1" for n in range(12)]
    assert sorted(marks.seen) == [0, 1, 2]


def test_with_few_os_threads_those_who_wait_stand_in_nobodys_way(face, caches):
    builder = StateGraph(Log).add_node("work", lambda arg: {"log": [arg]}, cache_policy=KEPT)
    builder.add_conditional_edges(START, lambda state: [Send("work", n % 2) for n in range(10)], ["work"])
    graph = builder.compile(cache=caches.make())
    assert face.invoke(graph, {}, {"max_concurrency": 2})["log"] == [0, 1] * 5


def test_when_the_one_that_computes_fails_the_next_one_does(face, caches):
    marks = Marks()

    def work(arg):
        marks("work")
        if marks.count("work") == 1:
            text = "first"
            raise ConnectionError(text)
        return {"log": ["second"]}

    again = RetryPolicy(initial_interval=0.001, jitter=False)
    builder = StateGraph(Log).add_node("work", work, cache_policy=KEPT, retry_policy=again)
    builder.add_conditional_edges(START, lambda state: [Send("work", 0)] * 4, ["work"])
    assert face.invoke(builder.compile(cache=caches.make()), {})["log"] == ["second"] * 4
    assert marks.count("work") == 2


def test_parallel_sends_that_ask_each_ask_for_themselves(face, backend, caches):
    builder = StateGraph(Log).add_node("work", lambda arg: {"log": [interrupt("?")]}, cache_policy=KEPT)
    builder.add_conditional_edges(START, lambda state: [Send("work", 0)] * 3, ["work"])
    graph = builder.compile(backend.make(), cache=caches.make())
    interrupts = face.invoke(graph, {}, CFG)["__interrupt__"]
    assert len({one.id for one in interrupts}) == 3
    answers = {one.id: number for number, one in enumerate(interrupts)}
    assert sorted(face.invoke(graph, Command(resume=answers), CFG)["log"]) == [0, 1, 2]


def test_a_cancelled_run_leaves_the_input_to_others(caches):
    marks = Marks()
    inside = threading.Event()

    async def node(state):
        marks("a")
        if marks.count("a") == 1:
            inside.set()
            await asyncio.sleep(60)
        return {"answer": "second"}

    graph = one(node).compile(cache=caches.make())

    async def main():
        first = asyncio.ensure_future(graph.ainvoke({"question": "x"}))
        await until(inside.is_set)
        second = asyncio.ensure_future(graph.ainvoke({"question": "x"}))
        await asyncio.sleep(0.01)
        first.cancel()
        return await second

    assert asyncio.run(main())["answer"] == "second"


def test_a_node_that_took_too_long_leaves_the_input_to_others(face, caches):
    out, marks = threading.Event(), Marks()

    def node(state):
        marks("a")
        if marks.count("a") == 1:
            assert out.wait(20)
        return {"answer": f"run {marks.count('a')}"}

    again = RetryPolicy(initial_interval=0.001, jitter=False)
    graph = one(node, timeout=0.05, retry_policy=again).compile(cache=caches.make())
    try:
        # The retry waits for nobody: the attempt that was given up does not compute for others any more.
        assert face.invoke(graph, {"question": "x"})["answer"] == "run 2"
    finally:
        out.set()


# --- streams and storage ---------------------------------------------------------------------------------------------


def test_streams_say_that_a_result_was_kept(face, caches):
    graph = one(answering(Marks())).compile(cache=caches.make())
    update = {"a": {"answer": "answer to x"}}
    assert face.stream(graph, {"question": "x"}) == [update]
    assert face.stream(graph, {"question": "x"}) == [{**update, "__metadata__": {"cached": True}}]


def test_a_kept_result_is_stored_like_any_other(face, backend, caches):
    marks = Marks()

    def made(saver):
        builder = one(answering(marks)).add_node("ask", lambda state: {"log": [interrupt("?")]})
        return builder.add_edge(START, "ask").compile(saver, cache=caches.make())

    face.invoke(one(answering(marks)).compile(cache=caches.make()), {"question": "x"})
    graph = made(backend.make())
    face.invoke(graph, {"question": "x"}, CFG)
    caches.make().clear()
    again = made(backend.reopen())
    shown = face.get_state(again, CFG)
    assert shown.values["answer"] == "answer to x"
    assert next(task.result for task in shown.tasks if task.name == "a") == {"answer": "answer to x"}
    assert face.invoke(again, Command(resume="ok"), CFG)["answer"] == "answer to x"
    assert marks.seen == ["x"]


def test_a_resumed_run_does_not_look_for_what_is_stored(face, backend, caches):
    marks = Marks()
    builder = one(answering(marks)).add_node("ask", lambda state: {"log": [interrupt("?")]}).add_edge(START, "ask")
    graph = builder.compile(backend.make(), cache=caches.make())
    face.invoke(graph, {"question": "x"}, CFG)
    caches.make().clear()
    face.invoke(graph, Command(resume="ok"), CFG)
    assert marks.seen == ["x"]
