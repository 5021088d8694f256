"""Edits that are refused: by name, with a cure, and nothing is changed."""

import threading

import pytest

from durable_graph import END, Command, StateUpdate, interrupt
from durable_graph.errors import (
    EmptyInputError,
    InvalidInputError,
    InvalidUpdateError,
    NoCheckpointerError,
    ThreadBusy,
    UnserializableValueError,
)
from tests.behaviour.making import says
from tests.behaviour.small_graphs import chain, dump, log, parallel, thread
from tests.behaviour.updating import abc, refused

CFG = thread()


# --- refusals: nothing is changed ---


@pytest.mark.parametrize(
    ("values", "as_node", "error", "match"),
    [
        ({"oops": 1}, "a", InvalidUpdateError, r"node 'a' wrote to key 'oops', which the state does not have \(it has"),
        ({"oops": 1}, None, InvalidUpdateError, "key 'oops'"),
        ({"oops": 1}, END, InvalidUpdateError, "key 'oops'"),
        ({"oops": 1}, "__input__", InvalidInputError, "the input has key 'oops'"),
        ({"log": ["x"]}, "nope", InvalidUpdateError, r"node 'nope' does not exist \(there are 'a', 'b', 'c'\)"),
        (7, "a", InvalidUpdateError, "node 'a' returned 7; expected dict, got int"),
        (7, "__input__", InvalidInputError, "the input is int"),
        ({"log": 3}, "a", TypeError, "can only concatenate|not iterable|unsupported"),
        ({"answer": threading.Lock()}, "a", UnserializableValueError, "node 'a' wrote to key 'answer'"),
        (Command(goto="nope"), "a", InvalidUpdateError, "goes to 'nope'"),
        (Command(resume=1), "a", InvalidUpdateError, "returned a Command with resume"),
        (Command(graph=Command.PARENT, goto="b"), "a", InvalidUpdateError, "has no parent"),
    ],
    ids=[
        "key",
        "inferred",
        "end",
        "input",
        "node",
        "kind",
        "kind of input",
        "reducer",
        "lock",
        "goto",
        "resume",
        "parent",
    ],
)
def test_what_does_not_fit_is_refused_by_name_and_nothing_is_stored(face, backend, values, as_node, error, match):
    saver = backend.make()
    graph = abc().compile(saver)
    face.invoke(graph, {"log": ["in"]}, CFG)
    refused(face, saver, graph, error, match, values, as_node=as_node)
    assert log(face.invoke(graph, {"log": ["on"]}, CFG)) == ["in", "a", "b", "c", "on", "a", "b", "c"]


def test_without_a_checkpointer_there_is_nothing_to_edit(face):
    with pytest.raises(NoCheckpointerError, match="has no checkpointer"):
        face.update_state(abc().compile(), CFG, {"log": ["x"]})


def test_without_a_thread_id_it_is_refused(face, backend):
    with pytest.raises(ValueError, match="thread_id"):
        face.update_state(abc().compile(backend.make()), {"configurable": {}}, {"log": ["x"]})


@pytest.mark.parametrize(
    ("steps", "match"),
    [([], "No supersteps"), ([[]], "No updates"), ([[StateUpdate({}, "a")], []], "No updates")],
    ids=["none", "empty", "second empty"],
)
def test_empty_lists_of_updates_are_refused(face, backend, steps, match):
    saver = backend.make()
    graph = abc().compile(saver)
    face.invoke(graph, {}, CFG)
    rows = dump(saver)
    with pytest.raises(ValueError, match=match):
        face.call(graph, "bulk_update_state", CFG, steps)
    assert dump(saver) == rows


def test_an_edit_that_could_stand_for_several_nodes_is_refused_and_names_them(face, backend):
    saver = backend.make()
    graph = parallel(x=says("x"), y=says("y")).compile(saver)
    face.invoke(graph, {}, CFG)
    refused(face, saver, graph, InvalidUpdateError, "Ambiguous update, specify as_node: 'x', 'y'", {"log": ["e"]})
    face.update_state(graph, CFG, {"log": ["e"]}, as_node="y")
    assert log(face.get_state(graph, CFG).values) == ["x", "y", "e"]
    face.update_state(graph, CFG, {"log": ["f"]})
    assert log(face.get_state(graph, CFG).values) == ["x", "y", "e", "f"]


def test_several_updates_of_one_superstep_must_all_name_their_node(face, backend):
    saver = backend.make()
    graph = abc().compile(saver)
    face.invoke(graph, {}, CFG)
    rows = dump(saver)
    with pytest.raises(InvalidUpdateError, match="not all of them name their node"):
        face.call(graph, "bulk_update_state", CFG, [[StateUpdate({}, "a"), StateUpdate({})]])
    for special in ("__input__", "__copy__"):
        with pytest.raises(InvalidUpdateError, match="stands together with others"):
            face.call(graph, "bulk_update_state", CFG, [[StateUpdate({}, "a"), StateUpdate({}, special)]])
    with pytest.raises(InvalidUpdateError, match="stands behind others"):
        face.call(graph, "bulk_update_state", CFG, [[StateUpdate({}, "a")], [StateUpdate(None, "__copy__")]])
    assert dump(saver) == rows


def test_one_bad_update_leaves_all_others_out(face, backend):
    saver = backend.make()
    graph = abc().compile(saver)
    face.invoke(graph, {}, CFG)
    rows = dump(saver)
    with pytest.raises(InvalidUpdateError, match="oops"):
        face.call(
            graph, "bulk_update_state", CFG, [[StateUpdate({"log": ["1"]}, "a")], [StateUpdate({"oops": 1}, "b")]]
        )
    assert dump(saver) == rows


def test_two_updates_of_one_superstep_may_not_contradict_each_other(face, backend):
    saver = backend.make()
    graph = parallel(x=says("x"), y=says("y")).compile(saver)
    face.invoke(graph, {}, CFG)
    rows = dump(saver)
    updates = [StateUpdate({"answer": 1}, "x"), StateUpdate({"answer": 2}, "y")]
    with pytest.raises(InvalidUpdateError, match="answer"):
        face.call(graph, "bulk_update_state", CFG, [updates])
    assert dump(saver) == rows


@pytest.mark.parametrize("as_node", [END, "__copy__"])
def test_an_unknown_thread_has_nothing_to_end_or_to_copy(face, backend, as_node):
    saver = backend.make()
    with pytest.raises(EmptyInputError, match="thread 't' has no checkpoint yet"):
        face.update_state(abc().compile(saver), CFG, None, as_node=as_node)
    assert dump(saver) is None


@pytest.mark.parametrize("values", [{}, {"log": ["e"]}, [], "ab", ["ab"], [()], [({}, "a", None, None)], 3])
def test_a_copy_is_edited_with_updates_and_nothing_else(face, backend, values):
    saver = backend.make()
    graph = abc().compile(saver)
    face.invoke(graph, {}, CFG)
    rows = dump(saver)
    with pytest.raises(InvalidUpdateError, match="expected None or updates of the copy"):
        face.update_state(graph, CFG, values, as_node="__copy__")
    assert dump(saver) == rows


def test_a_running_thread_is_not_edited_and_its_own_nodes_are_told(face, backend):
    found = []

    def edits(state):
        with pytest.raises(ThreadBusy) as caught:
            graph.update_state(CFG, {"log": ["x"]})
        found.append(str(caught.value))
        return {"log": ["b"]}

    graph = chain(a=says("a"), b=edits).compile(backend.make())
    assert log(face.invoke(graph, {}, CFG)) == ["a", "b"]
    assert "its run holds" in found[0]


def test_a_task_id_that_is_not_waiting_or_of_another_node_is_refused(face, backend):
    saver = backend.make()
    graph = parallel(x=lambda state: interrupt("x?"), y=lambda state: interrupt("y?")).compile(saver)
    face.invoke(graph, {}, CFG)
    tasks = {task.name: task.id for task in face.get_state(graph, CFG).tasks}
    refused(face, saver, graph, InvalidUpdateError, "is not among those", {}, as_node="x", task_id="nope")
    refused(face, saver, graph, InvalidUpdateError, "is one of node 'y'", {}, as_node="x", task_id=tasks["y"])
    rows = dump(saver)
    twice = [StateUpdate({}, "x", tasks["x"]), StateUpdate({}, "x", tasks["x"])]
    with pytest.raises(InvalidUpdateError, match="have the task_id"):
        face.call(graph, "bulk_update_state", CFG, [twice])
    assert dump(saver) == rows
