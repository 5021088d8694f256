"""Editing a thread: which node an edit stands for, and what follows from it.

Edits of threads that wait are in `test_update_state_waiting`, those that are refused in `test_update_state_refused`.
"""

import operator
import threading
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from durable_graph import END, START, Command, Overwrite, Send, StateGraph, StateUpdate, interrupt
from durable_graph.channels import UntrackedValue
from durable_graph.errors import (
    InvalidUpdateError,
    InvalidValueError,
    NodeFailure,
)
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, Marks, chain, log, parallel, thread
from tests.behaviour.small_graphs import history as shown
from tests.behaviour.updating import abc, before, refused

CFG = thread()


# --- which node an edit stands for ---


def test_on_an_unknown_thread_an_edit_counts_as_the_input(face, backend):
    graph = abc().compile(backend.make())
    edited = face.update_state(graph, CFG, {"log": ["e"]})
    state = face.get_state(graph, CFG)
    assert (log(state.values), state.next, state.config, state.parent_config) == (["e"], ("a",), edited, None)
    assert (state.metadata["source"], state.metadata["step"]) == ("update", 0)
    assert log(face.invoke(graph, None, CFG)) == ["e", "a", "b", "c"]


def test_on_an_unknown_thread_an_edit_may_name_where_it_starts(face, backend):
    graph = abc().compile(backend.make())
    face.update_state(graph, CFG, {"log": ["e"]}, as_node="b")
    assert log(face.invoke(graph, None, CFG)) == ["e", "c"]


def test_an_edit_stands_for_the_node_that_ran_before_and_goes_where_that_leads(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {"log": ["in"]}, CFG)
    for one in shown(face, graph):
        edited = face.update_state(graph, one.config, {"answer": "e"})
        state = face.get_state(graph, edited)
        ahead = ("a",) if one.next == (START,) else one.next
        assert (state.next, state.values["answer"], state.metadata["source"]) == (ahead, "e", "update")
        assert (state.metadata["step"], state.parent_config) == (one.metadata["step"] + 1, one.config)


def test_an_edit_behind_an_edit_stands_for_the_same_node(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {}, CFG)
    edited = face.update_state(graph, before(face, graph, "b").config, {"answer": 1})
    edited = face.update_state(graph, edited, {"answer": 2})
    face.update_state(graph, CFG, {"other": 3})
    state = face.get_state(graph, CFG)
    assert (state.next, state.values["answer"], state.values["other"]) == (("b",), 2, 3)
    assert log(face.invoke(graph, None, CFG)) == ["a", "b", "c"]


def test_an_edit_of_a_fork_or_a_copy_stands_for_what_ran_before_the_original(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.invoke(graph, None, before(face, graph, "b").config)
    fork = next(one for one in shown(face, graph) if one.metadata["source"] == "fork")
    edited = face.update_state(graph, fork.config, {"answer": 1})
    assert face.get_state(graph, edited).next == ("b",)
    copied = face.update_state(graph, fork.config, None, as_node="__copy__")
    edited = face.update_state(graph, copied, {"answer": 1})
    assert face.get_state(graph, edited).next == ("b",)


def test_the_only_node_that_ran_is_meant_however_many_tasks_it_had(face, backend):
    builder = StateGraph(Log).add_node("work", lambda n: {"log": [n]}).add_node("sum", says("sum"))
    builder.add_conditional_edges(START, lambda state: [Send("work", n) for n in range(3)], ["work"])
    graph = builder.add_edge("work", "sum").compile(backend.make())
    face.invoke(graph, {}, CFG)
    edited = face.update_state(graph, before(face, graph, "sum").config, {"log": ["e"]})
    assert log(face.invoke(graph, None, edited)) == [0, 1, 2, "e", "sum"]


def test_results_stored_before_the_step_closed_count_for_what_ran_before(face, backend):
    graph = parallel(x=lambda state: {"log": [interrupt("?")]}, y=says("y")).compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.invoke(graph, Command(resume="x"), CFG)
    with pytest.raises(InvalidUpdateError, match="'x', 'y' ran before"):
        face.update_state(graph, CFG, {"log": ["e"]})


def test_behind_an_edit_as_end_the_node_that_ran_before_is_meant(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {}, CFG)
    ended = face.update_state(graph, before(face, graph, "b").config, {"answer": 1}, as_node=END)
    assert face.get_state(graph, ended).next == ()
    edited = face.update_state(graph, ended, {"answer": 2})
    state = face.get_state(graph, edited)
    assert (state.next, state.values["answer"]) == (("b",), 2)


# --- what follows from it ---


def test_routers_see_the_edit_and_run_once(face, backend):
    marks = Marks()

    def route(state):
        marks(state.get("answer"))
        return "left" if state.get("answer") == "l" else "right"

    builder = chain(a=says("a")).add_node("left", says("l")).add_node("right", says("r"))
    graph = builder.add_conditional_edges("a", route, ["left", "right"]).compile(backend.make())
    assert log(face.invoke(graph, {}, CFG)) == ["a", "r"]
    marks.seen.clear()
    edited = face.update_state(graph, before(face, graph, "right").config, {"answer": "l"})
    assert (marks.seen, face.get_state(graph, edited).next) == (["l"], ("left",))
    assert log(face.invoke(graph, None, edited)) == ["a", "l"]
    assert marks.seen == ["l"]


def test_a_command_as_the_edit_updates_and_routes(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {}, CFG)
    edited = face.update_state(
        graph, CFG, Command(update={"answer": 1}, goto=["b", Send("c", {"log": []})]), as_node="c"
    )
    state = face.get_state(graph, edited)
    assert (state.next, state.values["answer"]) == (("b", "c"), 1)


def test_barriers_remember_what_arrived_before_the_edit(face, backend):
    builder = chain(a=says("a")).add_node("x", says("x")).add_node("y", lambda state: {"log": [interrupt("?")]})
    builder.add_node("z", says("z")).add_node("join", says("join")).add_edge("a", "x").add_edge("a", "z")
    builder.add_edge("z", "y").add_edge(["x", "y"], "join")
    graph = builder.compile(backend.make())
    face.invoke(graph, {}, CFG)
    assert face.get_state(graph, CFG).next == ("y",)
    face.update_state(graph, CFG, {"log": ["e"]}, as_node="y")
    assert face.get_state(graph, CFG).next == ("join",)
    assert log(face.invoke(graph, None, CFG)) == ["a", "x", "z", "e", "join"]


def test_deferred_nodes_keep_waiting_for_what_the_edit_leaves_to_run(face, backend):
    builder = chain(a=says("a")).add_node("quick", says("q")).add_node("slow", lambda state: {"log": [interrupt("?")]})
    builder.add_node("end", says("end"), defer=True).add_edge("a", "quick").add_edge("a", "late")
    builder.add_node("late", says("late")).add_edge("late", "slow").add_edge("quick", "end").add_edge("slow", "end")
    graph = builder.compile(backend.make())
    face.invoke(graph, {}, CFG)
    assert face.get_state(graph, CFG).next == ("slow",)
    face.update_state(graph, CFG, {"other": 1}, as_node="late")
    assert face.get_state(graph, CFG).next == ("slow",)
    assert log(face.invoke(graph, Command(resume="s"), CFG)) == ["a", "late", "q", "s", "end"]
    face.invoke(graph, {}, CFG)
    face.update_state(graph, CFG, {"log": ["e"]}, as_node="slow")
    assert face.get_state(graph, CFG).next == ("end",)


def test_overwrite_replaces_what_a_reducer_would_add_to(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {"log": ["in"]}, CFG)
    edited = face.update_state(graph, before(face, graph, "c").config, {"log": Overwrite(["only"])})
    assert log(face.get_state(graph, edited).values) == ["only"]
    assert log(face.invoke(graph, None, edited)) == ["only", "c"]


def test_none_as_values_moves_the_thread_and_writes_nothing(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.update_state(graph, CFG, None, as_node="a")
    state = face.get_state(graph, CFG)
    assert (log(state.values), state.next) == (["a", "b", "c"], ("b",))


def test_the_caller_can_change_what_he_passed_afterwards(face, backend):
    graph = abc().compile(backend.make())
    given = {"log": ["e"], "answer": {"deep": [1]}}
    face.update_state(graph, CFG, given)
    given["answer"]["deep"].append(2)
    given["log"].append("later")
    assert face.get_state(graph, CFG).values == {"log": ["e"], "answer": {"deep": [1]}}


def test_history_shows_the_edit_as_the_result_of_the_task_it_took_the_place_of(face, backend):
    graph = chain(a=says("a"), b=lambda state: {"log": [interrupt("?")]}).compile(backend.make())
    face.invoke(graph, {}, CFG)
    waiting = face.get_state(graph, CFG)
    face.update_state(graph, CFG, {"log": ["e"]}, as_node="b")
    task = face.get_state(graph, waiting.config).tasks[0]
    assert (task.id, task.result) == (waiting.tasks[0].id, {"log": ["e"]})


def test_metadata_of_the_config_is_kept_with_the_edit(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.update_state(graph, {**CFG, "metadata": {"by": "ada"}}, {"answer": 1})
    assert face.get_state(graph, CFG).metadata["by"] == "ada"
    assert [one.metadata.get("by") for one in shown(face, graph)][:-1] == [None] * 5


# --- END, INPUT, COPY ---


def test_as_end_a_run_is_over_and_a_new_input_may_follow(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {"log": ["in"]}, CFG, interrupt_before=["b"])
    face.update_state(graph, CFG, None, as_node=END)
    state = face.get_state(graph, CFG)
    assert (log(state.values), state.next, state.metadata["source"]) == (["in", "a"], (), "update")
    assert log(face.invoke(graph, None, CFG)) == ["in", "a"]
    assert log(face.invoke(graph, {"log": ["on"]}, CFG)) == ["in", "a", "on", "a", "b", "c"]


def test_as_input_values_wait_to_be_run(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {"log": ["in"]}, CFG, interrupt_before=["c"])
    face.update_state(graph, CFG, {"log": ["new"]}, as_node="__input__")
    state = face.get_state(graph, CFG)
    assert (log(state.values), state.next, state.metadata["source"]) == (["in", "a", "b"], (START,), "input")
    assert log(face.invoke(graph, None, CFG)) == ["in", "a", "b", "new", "a", "b", "c"]


def test_as_input_on_an_unknown_thread_it_is_the_first_input(face, backend):
    graph = abc().compile(backend.make())
    face.update_state(graph, CFG, {"log": ["new"]}, as_node="__input__")
    state = face.get_state(graph, CFG)
    assert (state.next, state.metadata["source"], state.metadata["step"]) == ((START,), "input", -1)
    assert log(face.invoke(graph, None, CFG)) == ["new", "a", "b", "c"]
    assert [one.metadata["step"] for one in shown(face, graph)] == [-1, 0, 1, 2, 3]


def test_a_copy_is_a_sibling_with_the_same_parent_on_a_branch_of_its_own(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {"log": ["in"]}, CFG)
    history = shown(face, graph)
    for one in history:
        copied = face.get_state(graph, face.update_state(graph, one.config, None, as_node="__copy__"))
        assert (copied.values, copied.next, copied.parent_config) == (one.values, one.next, one.parent_config)
        assert (copied.metadata["source"], copied.metadata["step"]) == ("fork", one.metadata["step"])
        assert [task.id for task in copied.tasks] == [task.id for task in one.tasks]
        assert log(face.invoke(graph, None, copied.config)) == ["in", "a", "b", "c"]
    assert shown(face, graph)[: len(history)] == history


def test_a_copy_of_the_head_leaves_the_head_and_what_it_waits_for_as_it_is(face, backend):
    graph = chain(a=says("a"), b=lambda state: {"log": [interrupt("?")]}).compile(backend.make())
    face.invoke(graph, {}, CFG)
    waiting = face.get_state(graph, CFG)
    copied = face.update_state(graph, CFG, None, as_node="__copy__")
    assert face.get_state(graph, CFG).config == copied
    old = next(one for one in shown(face, graph) if one.config == waiting.config)
    assert old.interrupts == waiting.interrupts
    assert face.get_state(graph, CFG).interrupts == ()
    assert face.invoke(graph, None, CFG)["__interrupt__"] == list(waiting.interrupts)


def test_a_copy_may_be_edited_in_the_same_call(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {"log": ["in"]}, CFG)
    one = before(face, graph, "b")
    edited = face.update_state(graph, one.config, [({"log": ["e"]}, "a")], as_node="__copy__")
    line = face.get_state_history(graph, edited)
    assert [shot.metadata["source"] for shot in line] == ["update", "fork", "loop", "input"]
    assert log(face.invoke(graph, None, edited)) == ["in", "a", "e", "b", "c"]


# --- several supersteps ---


def test_chained_supersteps_are_checkpoints_of_their_own_in_one_commit(face, backend):
    saver = backend.make()
    graph = abc().compile(saver)
    commits = []
    claim, commit = saver.claim, saver.commit
    saver.claim = lambda request: commits.append("claim") or claim(request)
    saver.commit = lambda items: commits.extend(["commit"] * len(items)) or commit(items)
    steps = [
        [StateUpdate({"log": ["in"]}, "__input__")],
        [StateUpdate({"log": ["1"]}, START)],
        [StateUpdate({"log": ["2"]}, "a")],
        [StateUpdate({"log": ["3"]}, "b"), StateUpdate({"answer": 3}, "a")],
    ]
    try:
        last = face.call(graph, "bulk_update_state", CFG, steps)
    finally:
        del saver.claim, saver.commit
    assert len(commits) <= 2  # the claim takes the rows along; then the thread is given back
    history = shown(face, graph)
    assert [one.metadata["source"] for one in history] == ["input", "update", "update", "update"]
    assert [one.metadata["step"] for one in history] == [-1, 0, 1, 2]
    assert [one.next for one in history] == [(START,), ("a",), ("b",), ("b", "c")]
    assert [log(one.values) for one in history] == [[], ["1"], ["1", "2"], ["1", "2", "3"]]
    assert history[-1].config == last
    assert log(face.invoke(graph, None, CFG)) == ["1", "2", "3", "b", "c", "c"]


def test_the_same_call_on_an_old_checkpoint_makes_a_branch(face, backend):
    graph = abc().compile(backend.make())
    face.invoke(graph, {"log": ["in"]}, CFG)
    history = shown(face, graph)
    steps = [[StateUpdate({"log": ["A"]}, "a")], [StateUpdate({"log": ["B"]}, "b")]]
    last = face.call(graph, "bulk_update_state", history[1].config, steps)
    assert shown(face, graph)[: len(history)] == history
    assert log(face.invoke(graph, None, last)) == ["in", "A", "B", "c"]


def test_plain_tuples_serve_as_updates(face, backend):
    graph = abc().compile(backend.make())
    face.call(graph, "bulk_update_state", CFG, [[({"log": ["x"]}, "a")], [({"log": ["y"]},)]])
    assert (log(face.get_state(graph, CFG).values), face.get_state(graph, CFG).next) == (["x", "y"], ("b",))


# --- other kinds of state ---


class Item(BaseModel):
    count: int


class Model(BaseModel):
    log: Annotated[list[str], operator.add] = []
    item: Item | None = None


@dataclass
class Data:
    log: Annotated[list[str], operator.add] = field(default_factory=list)
    note: str = "default"


def test_a_pydantic_state_is_edited_by_dict_or_model_and_stays_valid(face, backend):
    saver = backend.make()
    graph = chain(Model, a=lambda state: {"log": [f"a{state.item and state.item.count}"]}).compile(saver)
    face.invoke(graph, Model(log=["in"]), CFG)
    face.update_state(graph, CFG, {"item": {"count": 2}})
    assert face.get_state(graph, CFG).values["item"] == Item(count=2)
    refused(face, saver, graph, InvalidValueError, "item", {"item": {"count": "many"}})
    face.update_state(graph, CFG, Model(item=Item(count=3)), as_node=START)
    assert face.invoke(graph, None, CFG)["log"] == ["in", "aNone", "a3"]


def test_a_dataclass_state_is_edited_by_dict(face, backend):
    graph = chain(Data, a=lambda state: {"log": [state.note]}).compile(backend.make())
    face.invoke(graph, {"log": ["in"]}, CFG)
    face.update_state(graph, CFG, {"note": "edited"}, as_node=START)
    assert face.invoke(graph, None, CFG) == {"log": ["in", "default", "edited"], "note": "edited"}


def test_a_root_state_is_edited_as_the_value_it_is(face, backend):
    graph = chain(Annotated[list, operator.add], a=lambda state: ["a"]).compile(backend.make())
    assert face.invoke(graph, ["in"], CFG) == ["in", "a"]
    face.update_state(graph, CFG, ["e"])
    assert face.get_state(graph, CFG).values == ["in", "a", "e"]
    face.update_state(graph, CFG, Overwrite(["only"]), as_node=START)
    assert face.invoke(graph, None, CFG) == ["only", "a"]


class Private(TypedDict, total=False):
    private: str


def test_private_keys_are_edited_as_the_node_would(face, backend):
    def reads(state: Private) -> Any:
        return {"log": [state.get("private")]}

    graph = chain(a=lambda state: {"private": "s"}, b=reads).compile(backend.make())
    assert log(face.invoke(graph, {"log": []}, CFG)) == ["s"]
    edited = face.update_state(graph, before(face, graph, "b").config, {"private": "edited"})
    assert face.get_state(graph, edited).values["private"] == "edited"
    assert log(face.invoke(graph, None, edited)) == ["edited"]


class Unkept(TypedDict, total=False):
    log: Annotated[list, operator.add]
    client: Annotated[Any, UntrackedValue]


def test_keys_that_are_not_stored_may_be_edited_and_are_not_stored(face, backend):
    graph = chain(Unkept, a=says("a")).compile(backend.make())
    face.update_state(graph, CFG, {"log": ["e"], "client": threading.Lock()})
    assert face.get_state(graph, CFG).values == {"log": ["e"]}
    assert face.invoke(graph, None, CFG) == {"log": ["e", "a"]}


def test_async_nodes_and_routers_are_edited_like_sync_ones(face, backend):
    async def route(state):
        return "b" if state.get("answer") else END

    async def never(state):
        raise AssertionError

    builder = chain(a=never).add_node("b", says("b")).add_conditional_edges("a", route, ["b", END])
    graph = builder.compile(backend.make())
    face.update_state(graph, CFG, {"answer": 1}, as_node="a")
    assert log(face.invoke(graph, None, CFG)) == ["b"]


def test_a_router_that_raises_refuses_the_edit(face, backend):
    def route(state):
        if state.get("answer") == "bad":
            raise KeyError("route")
        return END

    saver = backend.make()
    graph = chain(a=says("a")).add_conditional_edges("a", route, [END]).compile(saver)
    face.invoke(graph, {}, CFG)
    refused(face, saver, graph, KeyError, "route", {"answer": "bad"})


def test_node_failures_of_edits_are_of_their_family(face, backend):
    graph = abc().compile(backend.make())
    with pytest.raises(NodeFailure):
        face.update_state(graph, CFG, {"oops": 1})
