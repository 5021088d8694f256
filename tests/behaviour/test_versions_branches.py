"""Branches, edits and graphs inside of threads that an older version of the code stored."""

import pytest

from durable_graph import START, Command, StateGraph
from durable_graph.errors import (
    InvalidUpdateError,
)
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, Marks, asked, chain, parallel, thread
from tests.behaviour.two_versions import CFG, asks, renamed

# --- branches and edits of renamed threads ---------------------------------------------------------------------------


def test_a_branch_from_an_old_checkpoint_asks_under_the_old_id_and_is_answered(face, backend):
    old = chain(a=says("a"), old=asks("?"), c=says("c")).compile(backend.make())
    questions = asked(face.invoke(old, {}, CFG)["__interrupt__"])
    face.invoke(old, Command(resume="first"), CFG)
    graph = renamed(chain(a=says("a"), new=asks("?"), c=says("c")), backend.reopen(), old="new")
    waiting = next(shown for shown in face.get_state_history(graph, CFG) if shown.next == ("new",))
    assert asked(face.invoke(graph, None, waiting.config)["__interrupt__"]) == questions
    assert asked(face.get_state(graph, CFG)) == questions
    assert face.invoke(graph, Command(resume={questions["?"]: "second"}), CFG)["log"] == ["a", "second", "c"]


def test_an_old_question_is_answered_differently_on_a_branch(face, backend):
    old = chain(a=says("a"), old=asks("?"), c=says("c")).compile(backend.make())
    questions = asked(face.invoke(old, {}, CFG)["__interrupt__"])
    face.invoke(old, Command(resume="first"), CFG)
    graph = renamed(chain(a=says("a"), new=asks("?"), c=says("c")), backend.reopen(), old="new")
    waiting = next(shown for shown in face.get_state_history(graph, CFG) if shown.next == ("new",))
    answer = Command(resume={questions["?"]: "other"})
    assert face.invoke(graph, answer, waiting.config)["log"] == ["a", "other", "c"]


def test_an_edit_of_a_waiting_thread_keeps_its_question_and_the_answer_to_the_old_id(face, backend):
    marks = Marks()
    old = parallel(old=asks("?", marks=marks), x=asks("x?"))
    questions = asked(face.invoke(old.compile(backend.make()), {}, CFG)["__interrupt__"])
    new = parallel(new=asks("?", marks=marks), x=asks("x?"))
    graph = renamed(new, backend.reopen(), old="new")
    face.update_state(graph, CFG, {"log": ["edited"]}, as_node="x")
    shown = face.get_state(graph, CFG)
    assert shown.next == ("new",)
    assert shown.interrupts[0].id == questions["?"]
    again = renamed(new, backend.reopen(), old="new")
    assert face.invoke(again, Command(resume={questions["?"]: "yes"}), CFG)["log"] == ["edited", "yes"]


def test_an_edit_as_the_renamed_node_answers_for_it(face, backend):
    face.invoke(chain(old=asks("?"), c=says("c")).compile(backend.make()), {}, CFG)
    graph = renamed(chain(new=asks("?"), c=says("c")), backend.reopen(), old="new")
    face.update_state(graph, CFG, {"log": ["edited"]}, as_node="new")
    assert face.invoke(graph, None, CFG)["log"] == ["edited", "c"]


def test_an_edit_without_as_node_finds_the_renamed_node_that_ran(face, backend):
    face.invoke(chain(old=says("a"), ask=asks("?")).compile(backend.make()), {}, CFG)
    graph = renamed(chain(new=says("a"), ask=asks("?")), backend.reopen(), old="new")
    face.update_state(graph, CFG, {"log": ["edited"]})
    assert face.get_state(graph, CFG).next == ("ask",)
    with pytest.raises(InvalidUpdateError, match="'old' does not exist"):
        face.update_state(graph, CFG, {"log": []}, as_node="old")


# --- graphs inside ---------------------------------------------------------------------------------------------------


def outer(name, inner, **more):
    return StateGraph(Log).add_node(name, inner).add_edge(START, name)


def test_a_graph_inside_a_renamed_node_goes_on_where_it_was(face, backend):
    marks = Marks()

    def first(state):
        marks("first")
        return {"log": ["first"]}

    inner = chain(first=first, ask=asks("?"))
    questions = asked(face.invoke(outer("old", inner.compile()).compile(backend.make()), {}, CFG)["__interrupt__"])
    graph = renamed(outer("new", inner.compile()), backend.reopen(), old="new")
    assert asked(face.get_state(graph, CFG)) == questions
    answer = Command(resume={questions["?"]: "yes"})
    assert face.invoke(graph, answer, CFG)["log"] == ["first", "yes"]
    assert marks.count("first") == 1


def test_a_graph_inside_has_aliases_of_its_own(face, backend):
    old = chain(a=says("a"), old=asks("?")).compile(version="i1")
    questions = asked(face.invoke(outer("sub", old).compile(backend.make()), {}, CFG)["__interrupt__"])
    new = chain(a=says("a"), new=asks("?")).compile(version="i2", node_aliases={"old": "new"})
    graph = outer("sub", new).compile(backend.reopen())
    assert asked(face.get_state(graph, CFG)) == questions
    assert face.invoke(graph, Command(resume="yes"), CFG)["log"] == ["a", "yes"]


def test_a_graph_inside_migrates_its_own_state(face, backend):
    seen = []
    old = chain(a=says("a"), ask=asks("?")).compile(version="i1")
    face.invoke(outer("sub", old).compile(backend.make()), {}, CFG)

    def migrate(values, version):
        seen.append(version)
        return {**values, "log": [*values["log"], "migrated"]}

    new = chain(a=says("a"), ask=asks("?")).compile(version="i2", migrate_state=migrate)
    assert face.invoke(outer("sub", new).compile(backend.reopen()), Command(resume="yes"), CFG)["log"] == [
        "a",
        "migrated",
        "yes",
    ]
    assert seen == ["i1"]


def test_a_memory_of_a_graph_inside_moves_with_its_node(face, backend):
    def memory():
        def node(state):
            return {"log": [len(state["log"])]}

        return chain(n=node).compile(checkpointer=True)

    face.invoke(outer("old", memory()).compile(backend.make()), {"log": ["1"]}, CFG)
    graph = renamed(outer("new", memory()), backend.reopen(), old="new")
    face.invoke(graph, {"log": ["2"]}, CFG)
    face.invoke(graph, {"log": ["3"]}, CFG)
    other = outer("old", memory()).compile(backend.make())
    for word in ("1", "2", "3"):
        face.invoke(other, {"log": [word]}, thread("same"))
    assert face.get_state(graph, CFG).values == face.get_state(other, thread("same")).values
