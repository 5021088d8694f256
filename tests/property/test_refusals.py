"""What a run refuses, and what it leaves behind when it does."""

import operator
from typing import Annotated

import pytest
from typing_extensions import TypedDict

from checkpointers import InMemorySaver
from durable_graph import START, Command, GraphRecursionError, StateGraph, interrupt
from durable_graph.errors import InvalidUpdateError, UnfinishedRunError, UnserializableValueError
from durable_graph.types import ROOT
from tests.property.driver import Backwards, Disk, Driver, InOrder, check_write_order


def swap(old, new):
    """A reducer whose result cannot be stored when it is told so."""
    return object() if new == "spoil" else new


class State(TypedDict, total=False):
    log: Annotated[list, operator.add]
    last: str
    odd: Annotated[str, swap]


def graph_of(schema, **nodes):
    builder = StateGraph(schema)
    for name, body in nodes.items():
        builder.add_node(name, body)
        builder.add_edge(START, name)
    return builder.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("order", [InOrder(), Backwards()], ids=["one by one", "together"])
@pytest.mark.parametrize("sync", [True, False], ids=["sync", "async"])
def test_after_a_conflict_the_tasks_that_took_part_run_again_and_no_other(order, sync):
    world = {"last": ["one", "two"], "ran": []}

    def writer(name, number):
        def run(state):
            world["ran"].append(name)
            return {"last": world["last"][number]} if world["last"][number] else {"log": [name]}

        return run

    graph = graph_of(
        State, a=writer("a", 0), b=writer("b", 1), c=lambda state: world["ran"].append("c") or {"log": ["c"]}
    )
    driver = Driver(graph, Disk(), order, sync=sync)
    with pytest.raises(InvalidUpdateError, match=r"written by .*'a', 'b'"):
        driver.run({"log": ["given"]})
    driver.disk.flush()
    assert {path: task.error is None for path, task in driver.disk.head().pending.items()} == {
        "a": False,
        "b": False,
        "c": True,
    }
    world["last"][1], world["ran"] = None, []
    driver.run(None)
    assert world["ran"] == ["a", "b"]
    assert driver.disk.head().values == {"log": ["given", "b", "c"], "last": "one"}


def test_a_reduced_value_that_cannot_be_stored_is_refused_and_the_thread_goes_on_from_before_it():
    world = {"value": "spoil"}
    graph = graph_of(State, a=lambda state: {"odd": world["value"]})
    driver = Driver(graph, Disk())
    with pytest.raises(UnserializableValueError, match="odd"):
        driver.run({"log": ["given"]})
    assert driver.disk.head().step.step == 0
    assert driver.disk.head().pending["a"].writes is None
    assert driver.disk.head().pending["a"].error.type.endswith("UnserializableValueError")
    world["value"] = "fine"
    assert driver.run(None).values == {"log": ["given"], "odd": "fine"}


def test_an_input_that_a_reducer_refuses_stores_nothing():
    graph = graph_of(State, a=lambda state: {})
    driver = Driver(graph, Disk())
    with pytest.raises(TypeError, match="concatenate") as caught:
        driver.run({"log": 5})
    assert any("'__start__'" in note for note in caught.value.__notes__)
    assert driver.disk.head() is None
    assert "Persist" not in [entry.kind for entry in driver.transcript]


def test_all_failures_of_a_step_surface_together_and_finished_siblings_keep_their_results():
    def fail(name):
        def run(state):
            raise ValueError(name)

        return run

    graph = graph_of(State, a=fail("a"), b=fail("b"), c=lambda state: {"log": ["c"]})
    driver = Driver(graph, Disk(), Backwards())
    with pytest.raises(BaseExceptionGroup, match="2 tasks of step 1 failed: 'a', 'b'") as caught:
        driver.run({})
    assert [str(error) for error in caught.value.exceptions] == ["a", "b"]
    assert driver.disk.head().pending["c"].writes[0].value == ["c"]


@pytest.mark.parametrize("order", [InOrder(), Backwards()], ids=["one by one", "together"])
def test_a_failed_step_shows_what_its_tasks_did_after_that_is_stored(order):
    def fail(state):
        raise ValueError("no")

    graph = graph_of(State, a=lambda state: {"log": ["<a>"]}, b=fail)
    driver = Driver(graph, Disk(), order, modes={"updates", "tasks"})
    with pytest.raises(ValueError, match="no"):
        driver.run({})
    assert ("updates", {"a": {"log": ["<a>"]}}) in driver.events
    assert [payload["error"] for mode, payload in driver.events if mode == "tasks" and "error" in payload][-1:] == [
        "ValueError('no')" if isinstance(order, InOrder) else None
    ]
    check_write_order(driver.transcript, sync=True)


def test_a_failure_takes_back_what_has_not_started():
    def fail(state):
        raise ValueError("no")

    graph = graph_of(State, a=fail, b=lambda state: {"log": ["b"]})
    lazy = Driver(graph, Disk(), eager=False)
    with pytest.raises(ValueError, match="no"):
        lazy.run({})
    assert lazy.executed == [(1, "a")]
    started = Driver(graph, Disk())
    with pytest.raises(ValueError, match="no"):
        started.run({})
    assert started.disk.head().pending["b"].writes is not None


def test_a_run_that_used_up_its_supersteps_raises_with_its_state_and_can_go_on():
    builder = StateGraph(State)
    builder.add_node("a", lambda state: {"log": ["a"]})
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: "a" if len(state["log"]) < 4 else "__end__")
    driver = Driver(builder.compile(checkpointer=InMemorySaver()), Disk())
    with pytest.raises(GraphRecursionError, match="2 supersteps ran") as caught:
        driver.run({}, config={"recursion_limit": 2})
    assert caught.value.state["log"] == ["a", "a"]
    assert driver.run(None).values["log"] == ["a"] * 4


@pytest.mark.parametrize("answered", [True, False])
def test_new_input_may_let_the_last_run_finish_first(answered):
    world = {"down": True}

    def node(state):
        if len(state["log"]) == 1 and world["down"]:
            raise ValueError("down")
        return {"log": [interrupt("sure?") if not answered and len(state["log"]) == 1 else "done"]}

    driver = Driver(graph_of(State, a=node), Disk())
    with pytest.raises(ValueError, match="down"):
        driver.run({"log": ["first"]})
    world["down"] = False
    if answered:
        outcome = driver.run({"log": ["second"]}, on_unfinished="finish")
        assert outcome.values["log"] == ["first", "done", "second", "done"]
        assert driver.run({"log": ["third"]}, on_unfinished="finish").values["log"][-2:] == ["third", "done"]
    else:
        with pytest.raises(UnfinishedRunError, match=r"waits again: intr_[0-9a-f]{32} \('sure\?'\)"):
            driver.run({"log": ["second"]}, on_unfinished="finish")
        assert driver.disk.head().values == {"log": ["first"]}


def test_a_breakpoint_that_stops_the_last_run_again_is_told():
    driver = Driver(graph_of(State, a=lambda state: {"log": ["a"]}, b=lambda state: {}), Disk())
    driver.run({}, before=frozenset({"a"}))
    with pytest.raises(UnfinishedRunError, match="stopped at a breakpoint before a, b"):
        driver.run({})


def test_a_bare_state_that_asks_shows_the_question_in_updates_and_its_value_in_values():
    graph = graph_of(Annotated[list, operator.add], a=lambda state: [interrupt("sure?")], b=lambda state: ["b"])
    driver = Driver(graph, Disk(), modes={"values", "updates"})
    outcome = driver.run(["given"])
    assert outcome.values == {ROOT: ["given", "b"]}
    shown = [payload for mode, payload in driver.events if mode == "values"]
    assert shown[0] == ["given"]
    assert shown[-1] == ["given", "b"]
    assert driver.run(Command(resume="yes")).values == {ROOT: ["given", "yes", "b"]}


def test_a_breakpoint_that_comes_with_the_call_that_goes_on_stops_once():
    world = {"down": True}

    def node(state):
        if world["down"]:
            raise KeyboardInterrupt
        return {"log": ["a"]}

    driver = Driver(graph_of(State, a=node), Disk(), eager=False, modes={"updates"})
    with pytest.raises(KeyboardInterrupt):
        driver.run({})
    assert driver.disk.head().pending == {}
    world["down"] = False
    here = frozenset({"a"})
    assert driver.run(None, before=here).values.get("log") == []
    assert driver.events[-1] == ("updates", {"__interrupt__": ()})
    assert driver.run(None, before=here).values["log"] == ["a"]
