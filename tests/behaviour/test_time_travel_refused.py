"""Travelling that is refused, and branches in every durability, failing ones too."""

import threading

import pytest

from durable_graph import Command
from durable_graph.errors import (
    EmptyInputError,
    InvalidConfigError,
    InvalidUpdateError,
    ThreadBusy,
    UnknownInterruptError,
)
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Marks, chain, dump, history, log, thread
from tests.behaviour.travelling import asking, where

CFG = thread()
DURABILITIES = ("sync", "async", "exit")


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", ["nonsense", "000000000001.1", "x.y.z"])
def test_what_is_no_checkpoint_id_is_refused(face, backend, wanted):
    graph = chain(a=says("a")).compile(backend.make())
    face.invoke(graph, {}, CFG)
    for call in (
        lambda: face.invoke(graph, None, thread(checkpoint_id=wanted)),
        lambda: face.update_state(graph, thread(checkpoint_id=wanted), {}),
        lambda: face.get_state(graph, thread(checkpoint_id=wanted)),
    ):
        with pytest.raises(InvalidConfigError, match=f"'{wanted}' is not a checkpoint id"):
            call()


@pytest.mark.parametrize(
    "given", [None, {"log": ["new"]}, Command(resume=1), Command(goto="a")], ids=["none", "input", "resume", "goto"]
)
def test_a_checkpoint_id_of_another_thread_is_refused_and_nothing_is_stored(face, backend, given):
    saver = backend.make()
    graph = chain(a=says("a"), b=says("b")).compile(saver)
    face.invoke(graph, {}, CFG)
    foreign = face.get_state(graph, CFG).config["configurable"]["checkpoint_id"]
    face.invoke(graph, {}, thread("u"))
    rows = dump(saver, "u")
    with pytest.raises(InvalidConfigError, match="thread 'u' has no checkpoint") as caught:
        face.invoke(graph, given, thread("u", checkpoint_id=foreign))
    assert foreign in str(caught.value)
    assert dump(saver, "u") == rows
    with pytest.raises((InvalidConfigError, EmptyInputError), match="new"):
        face.invoke(graph, given, thread("new", checkpoint_id=foreign))
    assert dump(saver, "new") is None


def test_an_edit_of_an_unknown_checkpoint_is_refused_and_nothing_is_stored(face, backend):
    saver = backend.make()
    graph = chain(a=says("a")).compile(saver)
    face.invoke(graph, {}, CFG)
    rows = dump(saver)
    with pytest.raises(InvalidConfigError, match="thread 't' has no checkpoint"):
        face.update_state(graph, thread(checkpoint_id="000000000099.1.1"), {"log": ["x"]})
    assert dump(saver) == rows
    assert face.get_state(graph, thread(checkpoint_id="000000000099.1.1")).values == {}
    assert face.get_state_history(graph, thread(checkpoint_id="000000000099.1.1")) == []


def test_a_thread_that_runs_is_left_alone_by_travellers(face, backend):
    inside, go = threading.Event(), threading.Event()

    def hold(state):
        inside.set()
        assert go.wait(20)
        return {"log": ["hold"]}

    saver = backend.make()
    graph = chain(a=says("a"), hold=hold, c=says("c")).compile(saver)
    worker = threading.Thread(target=graph.invoke, args=({"log": []}, CFG))
    worker.start()
    try:
        assert inside.wait(20)
        old = history(face, graph)[0].config
        rows = dump(saver)
        for call in (
            lambda: face.invoke(graph, None, old),
            lambda: face.invoke(graph, {"log": []}, old),
            lambda: face.update_state(graph, old, {"log": ["x"]}),
            lambda: face.update_state(graph, CFG, {"log": ["x"]}, as_node="a"),
            lambda: face.update_state(graph, old, None, as_node="__copy__"),
        ):
            with pytest.raises(ThreadBusy, match="is held by another run"):
                call()
        assert dump(saver) == rows
    finally:
        go.set()
        worker.join()
    assert log(face.get_state(graph, CFG).values) == ["a", "hold", "c"]
    assert log(face.invoke(graph, None, old)) == ["a", "hold", "c"]


def test_an_answer_where_nothing_was_asked_and_an_empty_command_are_refused(face, backend):
    graph = chain(a=says("a"), b=says("b")).compile(backend.make())
    face.invoke(graph, {}, CFG)
    before = history(face, graph)
    for one in before:
        with pytest.raises(UnknownInterruptError, match="nothing to resume"):
            face.invoke(graph, Command(resume="x"), one.config)
        with pytest.raises(EmptyInputError, match="empty Command"):
            face.invoke(graph, Command(), one.config)
        with pytest.raises(InvalidUpdateError, match="nope"):
            face.invoke(graph, Command(goto="nope"), one.config)
    assert history(face, graph) == before


# --- durability ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", DURABILITIES)
def test_branches_are_the_same_in_every_durability(face, backend, durability):
    marks = Marks()
    builder = asking(marks)
    graph = builder.compile(backend.make())
    face.invoke(graph, {"log": ["in"]}, CFG)
    face.invoke(graph, Command(resume="first"), CFG)
    before = history(face, graph)
    waiting = where(before, next=("b",)).config
    assert log(face.invoke(graph, Command(resume="other"), waiting, durability=durability)) == [
        "in",
        "a",
        "b:other",
        "c",
    ]
    again = face.invoke(graph, None, before[0].config, durability=durability)
    assert log(again) == ["in", "a"]
    other = builder.compile(backend.reopen())
    assert log(face.invoke(other, Command(resume="last"), CFG, durability=durability)) == ["in", "a", "b:last", "c"]
    shown = history(face, other)
    assert shown[: len(before)] == before
    made = [one.metadata["source"] for one in shown[len(before) :]]
    assert made[0] == "fork" if durability != "exit" else "loop"
    heads = [log(one.values) for one in shown if not one.next]
    assert heads == [["in", "a", f"b:{answer}", "c"] for answer in ("first", "other", "last")]
    line = face.get_state_history(other, face.get_state(other, CFG).config)
    assert line[-1].config == before[0].config


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_branch_that_fails_can_be_gone_on_with(face, backend, durability):
    broken = [True]

    def b(state):
        if broken[0]:
            raise ValueError("broken")
        return {"log": ["b"]}

    graph = chain(a=says("a"), b=b).compile(backend.make())
    broken[0] = False
    face.invoke(graph, {"log": []}, CFG)
    broken[0] = True
    before = history(face, graph)
    with pytest.raises(ValueError, match="broken"):
        face.invoke(graph, None, before[0].config, durability=durability)
    failed = face.get_state(graph, CFG)
    assert (failed.next, failed.tasks[0].error) == (("b",), "ValueError('broken')")
    assert failed.config not in [one.config for one in before]
    broken[0] = False
    assert log(face.invoke(graph, None, CFG, durability=durability)) == ["a", "b"]
    assert history(face, graph)[: len(before)] == before
