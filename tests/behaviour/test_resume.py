"""Going on with a run that failed or was cut short: invoke(None)."""

import asyncio
import contextlib
import threading

import pytest

from durable_graph import END, START, Command, Send, StateGraph, interrupt
from durable_graph.errors import EmptyInputError, GraphRecursionError, UnfinishedRunError
from tests.behaviour.small_graphs import Log, Marks, asked, chain, dump, parallel, thread

CFG = thread()


def flaky(name, marks, error=ValueError):
    """A node that fails the first time."""

    def node(state):
        marks(name)
        if marks.count(name) == 1:
            raise error(f"{name} failed")
        return {"log": [name]}

    return node


def steady(name, marks):
    def node(state):
        marks(name)
        return {"log": [name]}

    return node


def test_a_failed_step_runs_again_and_the_run_goes_on(face, backend):
    marks = Marks()
    builder = chain(a=steady("a", marks), b=flaky("b", marks), c=steady("c", marks))
    with pytest.raises(ValueError, match="b failed"):
        face.invoke(builder.compile(backend.make()), {"log": ["in"]}, CFG)
    elsewhere = builder.compile(backend.reopen())
    assert face.invoke(elsewhere, None, CFG) == {"log": ["in", "a", "b", "c"]}
    assert marks.seen == ["a", "b", "b", "c"]


def test_a_failed_task_shows_its_error_until_it_succeeds(face, backend):
    marks = Marks()
    graph = chain(a=steady("a", marks), b=flaky("b", marks)).compile(backend.make())
    with pytest.raises(ValueError, match="b failed"):
        face.invoke(graph, {}, CFG)
    state = face.get_state(graph, CFG)
    assert (state.values, state.next) == ({"log": ["a"]}, ("b",))
    assert state.tasks[0].error == "ValueError('b failed')"
    face.invoke(graph, None, CFG)
    assert face.get_state(graph, state.config).tasks[0].error is None


def test_siblings_of_a_failed_task_are_not_run_again(face, backend):
    marks = Marks()
    nodes = {"a": steady("a", marks), "b": flaky("b", marks), "c": steady("c", marks)}
    graph = parallel(**nodes).compile(backend.make())
    with pytest.raises(ValueError, match="b failed"):
        face.invoke(graph, {}, CFG)
    finished = [task.name for task in face.get_state(graph, CFG).tasks if task.result is not None]
    assert face.invoke(graph, None, CFG)["log"] == ["a", "b", "c"]
    assert all(marks.count(name) == 1 for name in finished)
    assert marks.count("b") == 2


def test_of_many_sends_only_the_failed_ones_run_again(face, backend):
    marks = Marks()

    def work(item):
        n = item["n"]
        marks(n)
        if n in (3, 11) and marks.count(n) == 1:
            raise ValueError(f"{n} failed")
        return {"log": [n]}

    builder = StateGraph(Log).add_node("work", work)
    builder.add_conditional_edges(START, lambda state: [Send("work", {"n": n}) for n in range(16)])
    graph = builder.compile(backend.make())
    while face.get_state(graph, CFG).next or not marks.seen:
        finished = {i for i, task in enumerate(face.get_state(graph, CFG).tasks) if task.result is not None}
        before = {n: marks.count(n) for n in finished}
        with contextlib.suppress(ValueError, BaseExceptionGroup):
            face.invoke(graph, None if marks.seen else {}, CFG)
        assert {n: marks.count(n) for n in finished} == before
    assert face.get_state(graph, CFG).values == {"log": list(range(16))}
    assert marks.count(3) == marks.count(11) == 2


def test_an_early_break_leaves_a_thread_that_goes_on(face, backend):
    """A stream that is abandoned is the nearest thing to a crash in one process."""
    marks = Marks()
    builder = chain(**{name: steady(name, marks) for name in "abcd"})
    graph = builder.compile(backend.make())

    async def abandon():
        stream = graph.astream({}, CFG)
        async for _ in stream:
            break
        await stream.aclose()

    if face.name == "sync":
        for _ in graph.stream({}, CFG):
            break
    else:
        asyncio.run(abandon())
    assert marks.seen == ["a"]
    state = face.get_state(graph, CFG)
    assert (state.values, state.next) == ({"log": ["a"]}, ("b",))
    elsewhere = builder.compile(backend.reopen())
    assert face.invoke(elsewhere, None, CFG) == {"log": ["a", "b", "c", "d"]}
    assert marks.seen == ["a", "b", "c", "d"]


def test_a_base_exception_cuts_the_run_short_and_it_goes_on(face, backend):
    class PowerCut(BaseException):
        pass

    marks = Marks()
    graph = chain(a=steady("a", marks), b=flaky("b", marks, PowerCut)).compile(backend.make())
    with pytest.raises(PowerCut):
        face.invoke(graph, {}, CFG)
    assert face.invoke(graph, None, CFG)["log"] == ["a", "b"]
    assert marks.seen == ["a", "b", "b"]


def test_ctrl_c_in_a_node_cuts_the_run_short_and_it_goes_on(backend):
    marks = Marks()
    graph = chain(a=steady("a", marks), b=flaky("b", marks, KeyboardInterrupt)).compile(backend.make())
    with pytest.raises(KeyboardInterrupt):
        graph.invoke({}, CFG)
    state = graph.get_state(CFG)
    assert state.next == ("b",)
    assert "KeyboardInterrupt" in state.tasks[0].error
    assert graph.invoke(None, CFG)["log"] == ["a", "b"]


def test_cancelling_keeps_what_finished_and_leaves_the_rest(backend):
    marks = Marks()
    started = threading.Event()

    async def slow(state):
        marks("slow")
        if marks.count("slow") == 1:
            started.set()
            await asyncio.sleep(60)
        return {"log": ["slow"]}

    graph = parallel(quick=steady("quick", marks), slow=slow).compile(backend.make())

    async def main():
        run = asyncio.create_task(graph.ainvoke({}, CFG))
        while not (started.is_set() and (await graph.aget_state(CFG)).values.get("log") == ["quick"]):  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.005)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(main())
    state = graph.get_state(CFG)
    assert (state.values, state.next) == ({"log": ["quick"]}, ("slow",))
    assert graph.invoke(None, CFG)["log"] == ["quick", "slow"]
    assert (marks.count("quick"), marks.count("slow")) == (1, 2)


def test_going_on_with_a_finished_thread_returns_its_state_and_writes_nothing(face, backend):
    saver = backend.make()
    marks = Marks()
    graph = chain(a=steady("a", marks)).compile(saver)
    done = face.invoke(graph, {}, CFG)
    rows = dump(saver)
    assert face.invoke(graph, None, CFG) == done
    assert dump(saver) == rows
    assert marks.seen == ["a"]


def test_going_on_with_an_unknown_thread_is_an_error_and_makes_none(face, backend):
    saver = backend.make()
    graph = chain(a=lambda state: None).compile(saver)
    with pytest.raises(EmptyInputError, match="'t'"):
        face.invoke(graph, None, CFG)
    assert dump(saver) is None


def test_going_on_without_a_checkpointer_is_an_error(face):
    with pytest.raises(EmptyInputError):
        face.invoke(chain(a=lambda state: None).compile(), None)


def test_a_run_out_of_supersteps_goes_on_with_a_fresh_budget(face, backend):
    builder = StateGraph(Log).add_node("work", lambda state: {"log": ["w"]}).add_edge(START, "work")
    builder.add_conditional_edges("work", lambda state: END if len(state["log"]) >= 7 else "work")
    graph = builder.compile(backend.make())
    limited = {**CFG, "recursion_limit": 3}
    lengths = []
    for given in ({}, None):
        with pytest.raises(GraphRecursionError) as caught:
            face.invoke(graph, given, limited)
        lengths.append(len(caught.value.state["log"]))
    assert lengths == [3, 6]
    assert len(face.invoke(graph, None, limited)["log"]) == 7


# --- new input -------------------------------------------------------------------------------------------------------


def test_new_input_on_a_finished_thread_goes_on_with_the_old_state(face, backend):
    builder = chain(echo=lambda state: {"log": [f"seen {len(state['log'])}"], "answer": state["log"][-1]})
    face.invoke(builder.compile(backend.make()), {"log": ["one"]}, CFG)
    second = face.invoke(builder.compile(backend.reopen()), {"log": ["two"]}, CFG)
    assert second == {"log": ["one", "seen 1", "two", "seen 3"], "answer": "two"}
    history = face.get_state_history(builder.compile(backend.reopen()), CFG)
    assert [one.metadata["step"] for one in history] == [4, 3, 2, 1, 0, -1]
    assert [one.metadata["source"] for one in history] == ["loop", "loop", "input", "loop", "loop", "input"]


def test_new_input_on_a_waiting_thread_is_refused_and_changes_nothing(face, backend):
    saver = backend.make()
    graph = chain(ask=lambda state: {"answer": interrupt("ship it?")}).compile(saver)
    [question] = face.invoke(graph, {}, CFG)["__interrupt__"]
    rows = dump(saver)
    with pytest.raises(UnfinishedRunError, match=f"waits for an answer to {question.id}.*ship it") as caught:
        face.invoke(graph, {"log": ["new"]}, CFG)
    assert "on_unfinished" in str(caught.value)
    assert "Command(resume" in str(caught.value)
    assert dump(saver) == rows


def test_new_input_on_a_failed_thread_is_refused_and_names_where_it_stands(face, backend):
    saver = backend.make()
    graph = chain(b=flaky("b", Marks())).compile(saver)
    with pytest.raises(ValueError, match="b failed"):
        face.invoke(graph, {}, CFG)
    rows = dump(saver)
    with pytest.raises(UnfinishedRunError, match=r"failed in b \(ValueError: b failed\)"):
        face.invoke(graph, {}, CFG)
    assert dump(saver) == rows


def test_finish_ends_the_old_run_before_the_new_one(face, backend):
    marks = Marks()
    graph = chain(a=steady("a", marks), b=flaky("b", marks)).compile(backend.make())
    with pytest.raises(ValueError, match="b failed"):
        face.invoke(graph, {"log": ["one"]}, CFG)
    result = face.invoke(graph, {"log": ["two"]}, CFG, on_unfinished="finish")
    assert result["log"] == ["one", "a", "b", "two", "a", "b"]


def test_finish_is_refused_where_the_old_run_waits_for_a_person(face, backend):
    graph = chain(ask=lambda state: {"answer": interrupt("?")}).compile(backend.make())
    [question] = face.invoke(graph, {}, CFG)["__interrupt__"]
    with pytest.raises(UnfinishedRunError, match=question.id):
        face.invoke(graph, {"log": ["new"]}, CFG, on_unfinished="finish")
    assert face.invoke(graph, Command(resume=1), CFG) == {"log": [], "answer": 1}


def test_finish_stops_where_the_old_run_fails_again(face, backend):
    def broken(state):
        raise ValueError("still broken")

    graph = chain(b=broken).compile(backend.make())
    for given in ({"log": ["one"]}, {"log": ["two"]}):
        with pytest.raises(ValueError, match="still broken"):
            face.invoke(graph, given, CFG, on_unfinished="finish")
    assert face.get_state(graph, CFG).values == {"log": ["one"]}


def test_abandon_leaves_the_old_run_and_keeps_its_state(face, backend):
    marks = Marks()
    nodes = {"a": steady("a", marks), "ask": lambda state: {"log": [interrupt(len(state["log"]))]}}
    graph = chain(**nodes).compile(backend.make())
    first = asked(face.invoke(graph, {"log": ["one"]}, CFG)["__interrupt__"])
    second = face.invoke(graph, {"log": ["two"]}, CFG, on_unfinished="abandon")
    assert second["log"] == ["one", "a", "two", "a"]
    assert set(asked(second["__interrupt__"]).values()).isdisjoint(first.values())
    assert face.invoke(graph, Command(resume="yes"), CFG)["log"] == ["one", "a", "two", "a", "yes"]


@pytest.mark.parametrize("policy", ["reject", "finish", "abandon"])
def test_on_a_fresh_or_finished_thread_all_policies_do_the_same(face, backend, policy):
    graph = chain(a=lambda state: {"log": ["a"]}).compile(backend.make())
    assert face.invoke(graph, {}, CFG, on_unfinished=policy)["log"] == ["a"]
    assert face.invoke(graph, {}, CFG, on_unfinished=policy)["log"] == ["a", "a"]


def test_the_results_of_an_abandoned_step_are_not_taken_into_the_new_run(face, backend):
    marks = Marks()
    graph = parallel(a=steady("a", marks), b=flaky("b", marks)).compile(backend.make())
    with pytest.raises(ValueError, match="b failed"):
        face.invoke(graph, {}, CFG)
    assert face.invoke(graph, {}, CFG, on_unfinished="abandon")["log"] == ["a", "b"]
