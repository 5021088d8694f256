"""Command(update=..., goto=..., resume=...) given to invoke()."""

import pytest

from durable_graph import END, START, Command, Send, StateGraph, interrupt
from durable_graph.errors import EmptyInputError, InvalidUpdateError, UnknownInterruptError, UnserializableValueError
from tests.behaviour.small_graphs import Log, Marks, asked, chain, dump, thread

CFG = thread()


class Unstorable:
    """No codec knows it. Its repr is the same in every process, as a test's name must be."""

    def __repr__(self):
        return "Unstorable()"


UNSTORABLE = Unstorable()


def graph_with_far(**first):
    """A chain, and a node `far` that nothing leads to but a Command."""
    builder = chain(**first)
    builder.add_node("far", lambda state: {"log": ["far"]}, destinations=[END])
    return builder


def test_on_a_fresh_thread_it_writes_and_goes_where_it_says(face, backend):
    graph = graph_with_far(a=lambda state: {"log": ["a"]}).compile(backend.make())
    assert face.invoke(graph, Command(update={"log": ["given"]}, goto="far"), CFG)["log"] == ["given", "far"]
    assert face.get_state(graph, CFG).values == {"log": ["given", "far"]}
    assert face.get_state(graph, CFG).next == ()


def test_on_a_finished_thread_it_goes_on_from_there(face, backend):
    builder = graph_with_far(a=lambda state: {"log": ["a"]})
    face.invoke(builder.compile(backend.make()), {}, CFG)
    elsewhere = builder.compile(backend.reopen())
    assert face.invoke(elsewhere, Command(goto="far", update={"log": ["x"]}), CFG)["log"] == ["a", "x", "far"]


def test_an_update_alone_changes_the_state_of_a_finished_thread(face, backend):
    builder = chain(a=lambda state: {"log": ["a"]})
    face.invoke(builder.compile(backend.make()), {}, CFG)
    assert face.invoke(builder.compile(backend.make()), Command(update={"log": ["x"]}), CFG)["log"] == ["a", "x"]
    assert face.get_state(builder.compile(backend.reopen()), CFG).values == {"log": ["a", "x"]}
    assert face.invoke(builder.compile(backend.reopen()), {}, CFG)["log"] == ["a", "x", "a"]


def test_goto_runs_beside_the_node_that_waits(face, backend):
    marks = Marks()

    def ask(state):
        marks("ask")
        return {"log": [interrupt("?")]}

    graph = graph_with_far(ask=ask).compile(backend.make())
    face.invoke(graph, {}, CFG)
    still = face.invoke(graph, Command(goto="far"), CFG)
    assert list(asked(still["__interrupt__"])) == ["?"]
    assert still["log"] == ["far"]
    assert face.invoke(graph, Command(resume="yes"), CFG)["log"] == ["yes", "far"]
    assert marks.count("ask") == 2


def test_goto_may_be_a_send_or_a_list(face, backend):
    builder = graph_with_far(a=lambda state: {"log": ["a"]})
    builder.add_node("work", lambda item: {"log": [item]}, destinations=[END])
    graph = builder.compile(backend.make())
    face.invoke(graph, {}, CFG)
    result = face.invoke(graph, Command(goto=["far", Send("work", 1), Send("work", 2)]), CFG)
    assert result["log"] == ["a", "far", 1, 2]


def test_an_update_of_a_waiting_thread_leaves_the_question_open(face, backend):
    builder = chain(ask=lambda state: {"log": [("saw", tuple(state["log"])), interrupt("?")]})
    graph = builder.compile(backend.make())
    question = asked(face.invoke(graph, {"log": ["in"]}, CFG)["__interrupt__"])
    still = face.invoke(graph, Command(update={"log": ["edited"]}), CFG)
    assert asked(still["__interrupt__"]) == question
    assert still["log"] == ["in", "edited"]
    state = face.get_state(builder.compile(backend.reopen()), CFG)
    assert asked(state) == question
    assert state.values["log"] == ["in", "edited"]
    done = face.invoke(builder.compile(backend.reopen()), Command(resume="yes"), CFG)
    assert done["log"] == ["in", "edited", ("saw", ("in", "edited")), "yes"]


def test_several_updates_of_a_waiting_thread_all_count(face, backend):
    builder = chain(ask=lambda state: {"log": [interrupt("?")]})
    face.invoke(builder.compile(backend.make()), {}, CFG)
    for name in ("one", "two", "three"):
        face.invoke(builder.compile(backend.reopen()), Command(update={"log": [name]}), CFG)
    elsewhere = builder.compile(backend.reopen())
    assert face.get_state(elsewhere, CFG).values["log"] == ["one", "two", "three"]
    assert face.invoke(elsewhere, Command(resume="yes"), CFG)["log"] == ["one", "two", "three", "yes"]


def test_several_gotos_of_a_waiting_thread_all_run_once(face, backend):
    marks = Marks()
    builder = chain(ask=lambda state: {"log": [interrupt("?")]})
    for name in ("x", "y"):
        builder.add_node(name, lambda state, name=name: marks(name), destinations=[END])
    graph = builder.compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.invoke(graph, Command(goto="x"), CFG)
    face.invoke(graph, Command(goto="y"), CFG)
    face.invoke(graph, Command(resume="yes"), CFG)
    assert sorted(marks.seen) == ["x", "y"]


def test_answer_update_and_goto_are_applied_together(face, backend):
    builder = graph_with_far(ask=lambda state: {"log": [("saw", len(state["log"])), interrupt("?")]})
    face.invoke(builder.compile(backend.make()), {}, CFG)
    elsewhere = builder.compile(backend.reopen())
    result = face.invoke(elsewhere, Command(resume="yes", update={"log": ["up"]}, goto="far"), CFG)
    assert result["log"] == ["up", ("saw", 1), "yes", "far"]


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (Command(resume={"intr_" + "0" * 32: 1}, update={"log": ["up"]}, goto="far"), UnknownInterruptError),
        (Command(resume="yes", update={"nope": 1}, goto="far"), InvalidUpdateError),
        (Command(resume="yes", update={"log": ["up"]}, goto="nowhere"), InvalidUpdateError),
        (Command(resume="yes", update={"log": [UNSTORABLE]}), UnserializableValueError),
        (Command(resume="yes", goto=Send("far", UNSTORABLE)), UnserializableValueError),
        (Command(resume="yes", goto=Send(END, 1)), InvalidUpdateError),
        (Command(resume="yes", update="no dict"), InvalidUpdateError),
        (Command(resume="yes", graph=Command.PARENT), InvalidUpdateError),
        (Command(), EmptyInputError),
    ],
    ids=str,
)
def test_when_one_part_is_refused_nothing_is_applied(face, backend, command, error):
    saver = backend.make()
    graph = graph_with_far(ask=lambda state: {"log": [interrupt("?")]}).compile(saver)
    face.invoke(graph, {}, CFG)
    rows, state = dump(saver), face.get_state(graph, CFG)
    with pytest.raises(error):
        face.invoke(graph, command, CFG)
    assert dump(saver) == rows
    assert face.get_state(graph, CFG) == state
    assert face.invoke(graph, Command(resume="yes"), CFG)["log"] == ["yes"]


def test_an_update_that_a_reducer_refuses_changes_nothing(face, backend):
    saver = backend.make()
    graph = chain(ask=lambda state: {"log": [interrupt("?")]}).compile(saver)
    face.invoke(graph, {}, CFG)
    rows = dump(saver)
    with pytest.raises(TypeError):
        face.invoke(graph, Command(resume="yes", update={"log": 7}), CFG)
    assert dump(saver) == rows


def test_a_command_on_a_fresh_thread_survives_a_failure(face, backend):
    marks = Marks()

    def far(state):
        marks("far")
        if marks.count("far") == 1:
            raise ValueError("once")
        return {"log": ["far"]}

    builder = chain(a=lambda state: {"log": ["a"]}).add_node("far", far, destinations=[END])
    with pytest.raises(ValueError, match="once"):
        face.invoke(builder.compile(backend.make()), Command(update={"log": ["given"]}, goto="far"), CFG)
    elsewhere = builder.compile(backend.reopen())
    state = face.get_state(elsewhere, CFG)
    assert (state.values, state.next) == ({"log": ["given"]}, ("far",))
    assert face.invoke(elsewhere, None, CFG)["log"] == ["given", "far"]


def test_a_command_on_a_finished_thread_survives_a_failure(face, backend):
    marks = Marks()

    def far(state):
        marks("far")
        if marks.count("far") == 1:
            raise ValueError("once")
        return {"log": ["far"]}

    builder = chain(a=lambda state: {"log": ["a"]}).add_node("far", far, destinations=[END])
    face.invoke(builder.compile(backend.make()), {}, CFG)
    with pytest.raises(ValueError, match="once"):
        face.invoke(builder.compile(backend.make()), Command(update={"log": ["given"]}, goto="far"), CFG)
    elsewhere = builder.compile(backend.reopen())
    state = face.get_state(elsewhere, CFG)
    assert (state.values, state.next) == ({"log": ["a", "given"]}, ("far",))
    assert face.invoke(elsewhere, None, CFG)["log"] == ["a", "given", "far"]


def test_a_command_that_fails_beside_a_failed_step_is_kept_with_it(face, backend):
    marks = Marks()

    def b(state):
        marks("b")
        if marks.count("b") < 3:
            raise ValueError("b failed")
        return {"log": ["b"]}

    builder = StateGraph(Log).add_node("b", b).add_edge(START, "b")
    graph = builder.compile(backend.make())
    for given in ({}, Command(update={"log": ["up"]})):
        with pytest.raises(ValueError, match="b failed"):
            face.invoke(graph, given, CFG)
    assert face.invoke(graph, None, CFG)["log"] == ["up", "b"]


def test_a_later_update_of_a_plain_value_replaces_the_earlier_one(face, backend):
    builder = chain(ask=lambda state: {"answer": interrupt("?")})
    face.invoke(builder.compile(backend.make()), {}, CFG)
    for value in ("one", "two"):
        face.invoke(builder.compile(backend.reopen()), Command(update={"other": value}), CFG)
    elsewhere = builder.compile(backend.reopen())
    assert face.get_state(elsewhere, CFG).values["other"] == "two"
    assert face.invoke(elsewhere, Command(resume="yes", update={"other": "three"}), CFG)["other"] == "three"
