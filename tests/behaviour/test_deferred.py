"""Deferred nodes: they run once nothing else would, with what all others wrote."""

import operator
import warnings
from typing import Annotated, Literal, TypedDict

import pytest

from durable_graph import END, START, Command, Send, StateGraph, interrupt
from durable_graph.errors import GraphRecursionError, UnknownNodeError
from durable_graph.testing import Ledger, crash_sweep
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, Marks, asked, chain, thread

CFG = thread()


class Seen(TypedDict, total=False):
    log: Annotated[list, operator.add]
    seen: Annotated[list, operator.add]


def sees(state):
    """What the join found: the log as it was when it ran."""
    return {"seen": [list(state["log"])], "log": ["join"]}


def uneven(*, defer=True, join=sees, **nodes):
    """a -> join, and a -> b -> c -> join: two branches of unequal length."""
    builder = StateGraph(Seen)
    for name in "abc":
        builder.add_node(name, nodes.get(name, says(name)))
    builder.add_node("join", join, defer=defer).add_edge(START, "a").add_edge("a", "join")
    return builder.add_edge("a", "b").add_edge("b", "c").add_edge("c", "join")


# --- when it runs ----------------------------------------------------------------------------------------------------


def test_a_join_of_branches_of_unequal_length_runs_once_with_what_all_wrote(face):
    assert face.invoke(uneven().compile(), {}) == {"log": ["a", "b", "c", "join"], "seen": [["a", "b", "c"]]}


def test_without_defer_it_runs_for_each_of_them(face):
    """What deferring is for."""
    assert face.invoke(uneven(defer=False).compile(), {})["log"] == ["a", "b", "join", "c", "join"]


def test_several_deferred_nodes_run_in_the_same_step(face):
    builder = StateGraph(Seen).add_node("a", says("a")).add_node("b", says("b"))
    builder.add_node("x", sees, defer=True).add_node("y", sees, defer=True)
    builder.add_edge(START, "a").add_edge("a", "x").add_edge("a", "b").add_edge("b", "y")
    assert face.invoke(builder.compile(), {})["seen"] == [["a", "b"], ["a", "b"]]


def test_a_deferred_node_leads_on_and_one_that_it_leads_to_waits_in_its_turn(face):
    builder = uneven().add_node("d", says("d")).add_node("e", says("e")).add_node("last", sees, defer=True)
    builder.add_edge("join", "d").add_edge("join", "last").add_edge("d", "e")
    result = face.invoke(builder.compile(), {})
    assert result["log"] == ["a", "b", "c", "join", "d", "e", "join"]
    assert result["seen"][-1] == ["a", "b", "c", "join", "d", "e"]


def test_a_deferred_node_may_lead_to_itself_until_it_has_enough(face):
    builder = StateGraph(Log).add_node("a", says("a")).add_node("d", says("d"), defer=True)
    builder.add_edge(START, "a").add_edge("a", "d")
    builder.add_conditional_edges("d", lambda state: "d" if state["log"].count("d") < 3 else END)
    assert face.invoke(builder.compile(), {})["log"] == ["a", "d", "d", "d"]


def test_a_deferred_node_that_nothing_else_stands_before_runs_at_once(face):
    builder = StateGraph(Log).add_node("d", says("d"), defer=True).add_edge(START, "d")
    assert face.invoke(builder.compile(), {}) == {"log": ["d"]}


def test_start_may_lead_to_a_deferred_node_and_to_others(face):
    builder = StateGraph(Log).add_node("d", says("d"), defer=True).add_node("a", says("a"))
    builder.add_edge(START, "d").add_edge(START, "a")
    assert face.invoke(builder.compile(), {}) == {"log": ["a", "d"]}


def test_a_deferred_node_waits_for_sends_too(face):
    def more(arg):
        rest = {"goto": Send("work", arg - 1)} if arg else {}
        return Command(update={"log": [arg]}, **rest)

    builder = StateGraph(Seen).add_node("work", more).add_node("join", sees, defer=True)
    builder.add_conditional_edges(START, lambda state: [Send("work", n) for n in (0, 2, 1)], ["work"])
    builder.add_edge("work", "join")
    assert face.invoke(builder.compile(), {})["seen"] == [[0, 2, 1, 1, 0, 0]]


def test_what_a_send_brings_to_a_deferred_node_is_not_put_off(face):
    """A Send is a task of its own with an input of its own; only being led to can wait."""
    builder = StateGraph(Log).add_node("d", lambda arg: {"log": [arg]}, defer=True)
    builder.add_node("a", says("a")).add_node("b", says("b")).add_edge("a", "b").add_edge(START, "a")
    builder.add_conditional_edges(START, lambda state: [Send("d", "sent")], ["d"])
    assert face.invoke(builder.compile(), {})["log"] == ["a", "sent", "b"]


def test_a_barrier_whose_target_is_deferred_waits_for_its_sources_and_for_all_others(face):
    builder = StateGraph(Seen)
    for name in "abcd":
        builder.add_node(name, says(name)).add_edge(START, name) if name in "abc" else builder.add_node("d", says("d"))
    builder.add_node("join", sees, defer=True).add_edge(["a", "b"], "join").add_edge("c", "d")
    assert face.invoke(builder.compile(), {})["seen"] == [["a", "b", "c", "d"]]


def test_a_barrier_that_is_not_complete_does_not_release_its_deferred_target(face):
    builder = StateGraph(Log).add_node("a", says("a")).add_node("b", says("b")).add_node("c", says("c"))
    builder.add_node("join", says("join"), defer=True).add_edge(["a", "b"], "join").add_edge(START, "a")
    builder.add_edge("a", "c").add_conditional_edges("c", lambda state: END, ["b", END])
    assert face.invoke(builder.compile(), {})["log"] == ["a", "c"]


def test_a_barrier_may_have_a_deferred_source(face):
    builder = StateGraph(Log).add_node("a", says("a")).add_node("d", says("d"), defer=True).add_node("b", says("b"))
    builder.add_node("join", says("join")).add_edge(START, "a").add_edge("a", "d").add_edge("a", "b")
    builder.add_edge(["b", "d"], "join")
    assert face.invoke(builder.compile(), {})["log"] == ["a", "b", "d", "join"]


def test_it_is_led_to_by_name_with_commands_and_routers(face):
    def a(state) -> Command[Literal["b", "join"]]:
        return Command(update={"log": ["a"]}, goto=["join", "b"])

    builder = StateGraph(Seen).add_node("a", a).add_node("b", says("b")).add_node("c", says("c"))
    builder.add_node("join", sees, defer=True).add_edge(START, "a")
    builder.add_conditional_edges("b", lambda state: ["c", "join"], ["c", "join"])
    assert face.invoke(builder.compile(), {})["seen"] == [["a", "b", "c"]]


# --- stops and resumes -----------------------------------------------------------------------------------------------


def test_a_run_that_waits_keeps_its_deferred_nodes(face, backend):
    graph = uneven(b=lambda state: {"log": [interrupt("?")]}).compile(backend.make())
    face.invoke(graph, {}, CFG)
    again = uneven(b=lambda state: {"log": [interrupt("?")]}).compile(backend.reopen())
    assert face.get_state(again, CFG).next == ("b",)
    assert face.invoke(again, Command(resume="B"), CFG)["seen"] == [["a", "B", "c"]]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_run_that_failed_keeps_its_deferred_nodes(face, backend, durability):
    fails = [1]

    def c(state):
        if fails:
            text = "down"
            raise ValueError(fails.pop() and text)
        return {"log": ["c"]}

    graph = uneven(c=c).compile(backend.make())
    with pytest.raises(ValueError, match="down"):
        face.invoke(graph, {}, CFG, durability=durability)
    again = uneven(c=c).compile(backend.reopen())
    assert face.invoke(again, None, CFG, durability=durability)["seen"] == [["a", "b", "c"]]


def test_a_deferred_node_that_asks_is_asked_once_and_runs_alone(face, backend):
    marks = Marks()

    def join(state):
        marks("join")
        return {"seen": [[*state["log"], interrupt("?")]]}

    graph = uneven(join=join).compile(backend.make())
    result = face.invoke(graph, {}, CFG)
    assert list(asked(result["__interrupt__"])) == ["?"]
    again = uneven(join=join).compile(backend.reopen())
    assert face.invoke(again, Command(resume="A"), CFG)["seen"] == [["a", "b", "c", "A"]]
    assert marks.count("join") == 2


def test_a_breakpoint_before_a_deferred_node_stops_when_it_is_its_turn_and_not_earlier(face, backend):
    graph = uneven().compile(backend.make(), interrupt_before=["join"])
    assert face.invoke(graph, {}, CFG)["log"] == ["a", "b", "c"]
    assert face.get_state(graph, CFG).next == ("join",)
    assert face.invoke(graph, None, CFG)["log"] == ["a", "b", "c", "join"]


def test_a_branch_from_a_checkpoint_at_which_nodes_are_deferred_runs_them_too(face, backend):
    graph = uneven().compile(backend.make())
    face.invoke(graph, {}, CFG)
    history = face.get_state_history(graph, CFG)
    found = next(shown for shown in history if shown.next == ("c",))
    assert face.invoke(graph, None, found.config)["seen"] == [["a", "b", "c"]]
    assert [shown.config for shown in face.get_state_history(graph, CFG)][-len(history) :] == [
        shown.config for shown in history
    ]


def test_the_step_limit_counts_a_deferred_step_and_the_thread_goes_on_with_it(face, backend):
    graph = uneven().compile(backend.make())
    with pytest.raises(GraphRecursionError):
        face.invoke(graph, {}, {**CFG, "recursion_limit": 3})
    assert face.get_state(graph, CFG).next == ("join",)
    assert face.invoke(graph, None, CFG)["seen"] == [["a", "b", "c"]]


# --- Commands and edits from outside ---------------------------------------------------------------------------------


def test_a_command_as_input_defers_like_any_other_route(face, backend):
    graph = uneven().compile(backend.make())
    face.invoke(graph, {}, CFG)
    result = face.invoke(graph, Command(update={"log": ["cmd"]}, goto=["join", "b"]), CFG)
    assert result["log"] == ["a", "b", "c", "join", "cmd", "b", "c", "join"]


def test_a_command_for_a_waiting_thread_defers_its_deferred_target(face, backend):
    graph = uneven(b=lambda state: {"log": [interrupt("?")]}).compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.invoke(graph, Command(goto="join"), CFG)
    assert face.get_state(graph, CFG).next == ("b",)
    assert face.invoke(graph, Command(resume="B"), CFG)["seen"] == [["a", "B", "c"]]


def test_a_command_that_leads_elsewhere_does_not_put_off_a_deferred_node_that_waits_for_an_answer(face, backend):
    def join(state):
        return {"seen": [[interrupt("?")]]}

    graph = uneven(join=join).compile(backend.make())
    face.invoke(graph, {}, CFG)
    result = face.invoke(graph, Command(resume="A", goto="c"), CFG)
    assert result["seen"][0] == ["A"]


def test_a_command_to_a_deferred_node_alone_runs_it(face, backend):
    graph = uneven().compile(backend.make())
    face.invoke(graph, {}, CFG)
    assert face.invoke(graph, Command(goto="join"), CFG)["log"][-2:] == ["join", "join"]


def test_an_edit_keeps_deferred_nodes_waiting_for_those_that_are_still_to_run(face, backend):
    """b and x wait; an edit answers for b."""
    builder = uneven(b=lambda state: {"log": [interrupt("b?")]})
    builder.add_node("x", lambda state: {"log": [interrupt("x?")]}).add_edge("a", "x")
    graph = builder.compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.update_state(graph, CFG, {"log": ["B"]}, as_node="b")
    assert face.get_state(graph, CFG).next == ("c", "x")
    assert face.invoke(graph, Command(resume="X"), CFG)["seen"] == [["a", "B", "c", "X"]]


def test_an_edit_releases_a_deferred_node_when_nothing_else_is_left(face, backend):
    graph = uneven(c=lambda state: {"log": [interrupt("?")]}).compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.update_state(graph, CFG, {"log": ["C"]}, as_node="c")
    assert face.get_state(graph, CFG).next == ("join",)
    assert face.invoke(graph, None, CFG)["seen"] == [["a", "b", "C"]]


def test_an_edit_of_a_finished_thread_defers_too(face, backend):
    graph = uneven().compile(backend.make())
    face.invoke(graph, {}, CFG)
    face.update_state(graph, CFG, {"log": ["edit"]}, as_node="a")
    assert face.get_state(graph, CFG).next == ("b",)
    assert face.invoke(graph, None, CFG)["seen"][-1] == ["a", "b", "c", "join", "edit", "b", "c"]


# --- changed graphs --------------------------------------------------------------------------------------------------


def test_a_node_that_is_no_longer_deferred_is_not_forgotten(face, backend):
    def version(*, defer):
        builder = StateGraph(Log).add_node("a", says("a")).add_node("b", lambda state: {"log": [interrupt("?")]})
        builder.add_node("join", says("join"), defer=defer).add_edge(START, "a")
        return builder.add_edge("a", "b").add_edge("a", "join")

    face.invoke(version(defer=True).compile(backend.make()), {}, CFG)
    new = version(defer=False).compile(backend.reopen())
    assert face.invoke(new, Command(resume="B"), CFG)["log"] == ["a", "B", "join"]


def test_a_deferred_node_that_the_graph_lacks_is_found_before_anything_runs(face, backend):
    marks = Marks()
    face.invoke(uneven(b=lambda state: {"log": [interrupt("?")]}).compile(backend.make()), {}, CFG)

    def b(state):
        marks("b")
        return {"log": [interrupt("?")]}

    new = chain(Seen, a=says("a"), b=b, c=says("c")).compile(backend.reopen())
    with pytest.raises(UnknownNodeError, match="'join'"):
        face.invoke(new, Command(resume="B"), CFG)
    assert marks.seen == []


# --- building --------------------------------------------------------------------------------------------------------


def test_a_deferred_node_that_something_leads_to_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _ = uneven().compile()


def test_a_deferred_node_that_nothing_leads_to_is_warned_of():
    def a(state) -> dict:
        return {"log": ["a"]}

    builder = StateGraph(Log).add_node("a", a).add_node("d", a, defer=True).add_edge(START, "a")
    with pytest.warns(UserWarning, match="nothing leads to node 'd'"):
        _ = builder.compile()


# --- crashes, at every point -----------------------------------------------------------------------------------------

LEDGER = Ledger()


def crashing():
    """Branches of unequal length, Sends and a question before a deferred join, and one more round behind it."""

    def noting(name):
        def node(state):
            LEDGER.append(name, len(state["log"]))
            return {"log": [name]}

        return node

    def spread(state):
        return [Send("sent", n) for n in range(3)]

    def sent(arg):
        LEDGER.append("sent", arg)
        return {"log": [arg]}

    builder = uneven(join=noting("join"), c=lambda state: {"log": [interrupt("?")]}, b=noting("b"))
    builder.add_node("sent", sent).add_conditional_edges("b", spread, ["sent"]).add_edge("sent", "join")
    return builder.add_node("last", noting("last"), defer=True).add_edge("a", "last").add_edge("join", "last")


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
def test_wherever_the_process_dies_the_join_runs_once_and_last(backend):
    report = crash_sweep(
        crashing, {}, resumes=["C"], ledger=LEDGER, faces=["sync", "async"], backend=backend, report=None
    )
    report.check()
