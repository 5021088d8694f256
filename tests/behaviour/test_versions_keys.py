"""Threads that an older version of the code stored, and keys of the state that have other names since."""

import pytest

from durable_graph import START, Command, StateGraph, interrupt
from durable_graph.errors import (
    InvalidGraphError,
    MigrationError,
)
from tests.behaviour.making import says
from tests.behaviour.small_graphs import chain, dump
from tests.behaviour.two_versions import CFG, KEYS, New, Old, ask_old, new_keys, old_keys


def test_values_are_found_under_their_new_names_and_reducers_go_on(face, backend):
    seen = []

    def ask(state):
        seen.append(dict(state))
        return {"entries": [interrupt("?")]}

    face.invoke(old_keys(backend.make()), {"log": ["in"]}, CFG)
    graph = new_keys(backend.reopen(), ask)
    assert face.get_state(graph, CFG).values == {"entries": ["in", "a"], "after": "b"}
    assert face.invoke(graph, Command(resume="X"), CFG) == {"entries": ["in", "a", "X"], "after": "b"}
    assert seen[-1] == {"entries": ["in", "a"], "after": "b"}
    again = new_keys(backend.reopen(), ask)
    assert face.get_state(again, CFG).values == {"entries": ["in", "a", "X"], "after": "b"}
    assert face.invoke(again, {"entries": ["next"]}, CFG)["__interrupt__"]


def test_once_stored_under_the_new_name_the_alias_can_go(face, backend):
    face.invoke(old_keys(backend.make()), {}, CFG)
    face.invoke(new_keys(backend.reopen()), Command(resume="X"), CFG)
    builder = StateGraph(New).add_node("a", says()).add_edge(START, "a")
    graph = builder.compile(backend.reopen())
    assert face.get_state(graph, CFG).values == {"entries": ["a", "X"], "after": "b"}


def test_the_old_name_holds_nothing_any_more(face, backend):
    face.invoke(old_keys(backend.make()), {}, CFG)
    face.invoke(new_keys(backend.reopen()), Command(resume="X"), CFG)
    assert face.get_state(old_keys(backend.reopen()), CFG).values == {"log": []}


def test_pending_writes_are_applied_under_their_new_names(face, backend):
    def made(schema, key, saver, **more):
        builder = StateGraph(schema).add_node("work", lambda state: {key: ["work"]})
        builder.add_node("ask", lambda state: {key: [interrupt("?")]}).add_edge(START, "work").add_edge(START, "ask")
        return builder.compile(saver, **more)

    face.invoke(made(Old, "log", backend.make()), {}, CFG)
    graph = made(New, "entries", backend.reopen(), key_aliases=KEYS)
    shown = face.get_state(graph, CFG)
    assert shown.values["entries"] == ["work"]
    assert next(task.result for task in shown.tasks if task.name == "work") == {"entries": ["work"]}
    assert face.invoke(graph, Command(resume="A"), CFG)["entries"] == ["A", "work"]


def test_what_a_command_wrote_before_the_deploy_is_applied_under_the_new_name(face, backend):
    old = old_keys(backend.make())
    face.invoke(old, {}, CFG)
    face.invoke(old, Command(update={"before": "from the command"}), CFG)
    graph = new_keys(backend.reopen())
    assert face.invoke(graph, Command(resume="X"), CFG) == {"entries": ["a", "X"], "after": "from the command"}


def test_an_input_that_was_stored_under_old_names_goes_on(face, backend):
    """The run was cut short before START's router had run, and a branch begins at the input."""
    failing = [1]

    def route(state):
        if failing:
            failing.clear()
            text = "down"
            raise ValueError(text)
        return "a"

    def made(schema, key, saver, **more):
        builder = StateGraph(schema).add_node("a", lambda state: {key: ["a"]})
        return builder.add_conditional_edges(START, route, ["a"]).compile(saver, **more)

    with pytest.raises(ValueError, match="down"):
        face.invoke(made(Old, "log", backend.make()), {"log": ["in"]}, CFG)
    graph = made(New, "entries", backend.reopen(), key_aliases=KEYS)
    assert face.invoke(graph, None, CFG)["entries"] == ["in", "a"]


def test_a_branch_from_an_old_input_reads_it_under_its_new_names(face, backend):
    face.invoke(old_keys(backend.make()), {"log": ["in"], "before": "x"}, CFG)
    graph = new_keys(backend.reopen())
    first = face.get_state_history(graph, CFG)[-1]
    result = face.invoke(graph, None, first.config)
    assert (result["entries"], result["after"]) == (["in", "a"], "b")


def test_history_and_branches_show_old_values_under_new_names(face, backend):
    old = old_keys(backend.make())
    face.invoke(old, {"log": ["in"]}, CFG)
    face.invoke(old, Command(resume="X"), CFG)
    graph = new_keys(backend.reopen())
    assert [shown.values.get("entries") for shown in face.get_state_history(graph, CFG)] == [
        ["in", "a", "X"],
        ["in", "a"],
        ["in"],
        [],
    ]
    waiting = next(shown for shown in face.get_state_history(graph, CFG) if shown.next == ("ask",))
    answer = Command(resume={waiting.tasks[0].interrupts[0].id: "Y"})
    assert face.invoke(graph, answer, waiting.config)["entries"] == ["in", "a", "Y"]
    assert face.get_state(graph, CFG).values == {"entries": ["in", "a", "Y"], "after": "b"}


def test_an_edit_of_an_old_thread_stores_the_new_names(face, backend):
    face.invoke(old_keys(backend.make()), {}, CFG)
    graph = new_keys(backend.reopen())
    face.update_state(graph, CFG, {"entries": ["edited"]}, as_node="a")
    assert face.get_state(graph, CFG).values == {"entries": ["a", "edited"], "after": "b"}
    assert face.invoke(graph, Command(resume="X"), CFG)["entries"] == ["a", "edited", "X"]


def test_an_alias_costs_one_checkpoint_and_not_every_run(backend):
    """A long list is written anew once, and appended to from then on."""
    saver = backend.make()
    face_free = old_keys(saver)
    face_free.invoke({"log": ["x" * 2000] * 50}, CFG)
    graph = new_keys(saver, lambda state: {"entries": ["small"]})
    graph.invoke(Command(resume="X"), CFG)
    sizes = []
    for _ in range(3):
        before = stored_bytes(saver)
        graph.invoke({"entries": ["y"]}, CFG)
        sizes.append(stored_bytes(saver) - before)
    assert max(sizes) < 20_000


def stored_bytes(saver):
    _, lanes, parts = dump(saver)
    assert lanes
    return sum(len(row.data) for rows in parts for row in rows)


def test_two_old_keys_in_one_checkpoint_cannot_become_one(face, backend):
    saver = backend.make()
    face.invoke(old_keys(saver), {}, CFG)
    rows = dump(saver)
    builder = StateGraph(New).add_node("ask", ask_old).add_edge(START, "ask")
    graph = builder.compile(backend.reopen(), key_aliases={"log": "entries", "before": "entries"})
    with pytest.raises(MigrationError, match=r"'before'.*'log'.*'entries'"):
        face.invoke(graph, Command(resume="X"), CFG)
    assert dump(saver) == rows


@pytest.mark.parametrize(
    ("aliases", "text"),
    [({"old": "nowhere"}, "'nowhere'"), ({"log": "answer"}, "'log'.*is the name")],
    ids=["unknown", "in use"],
)
def test_aliases_of_keys_that_cannot_be_meant_are_refused(aliases, text):
    with pytest.raises(InvalidGraphError, match=text):
        _ = chain(a=says("a")).compile(key_aliases=aliases)
