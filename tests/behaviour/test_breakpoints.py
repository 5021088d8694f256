"""Static breakpoints: interrupt_before and interrupt_after, at compile and per call."""

import operator
from typing import Annotated, TypedDict

import pytest

from durable_graph import END, START, Command, Send, StateGraph
from durable_graph.errors import InvalidConfigError, InvalidGraphError, UnfinishedRunError
from tests.behaviour.small_graphs import Log, Marks, chain, count_checkpoints, parallel, thread

CFG = thread()


def abc():
    return chain(**{name: lambda state, name=name: {"log": [name]} for name in "abc"})


def stops(face, graph, *, limit=10):
    """Run to the end through invoke(None); the log and the next nodes at each stop."""
    found = []
    result = face.invoke(graph, {"log": []}, CFG)
    while (state := face.get_state(graph, CFG)).next:
        found.append(("".join(result["log"]), state.next))
        assert len(found) < limit
        result = face.invoke(graph, None, CFG)
    return found, "".join(result["log"])


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (["b"], None, [("a", ("b",))]),
        (["a"], None, [("", ("a",))]),
        (None, ["a"], [("a", ("b",))]),
        (None, ["c"], []),
        ("*", None, [("", ("a",)), ("a", ("b",)), ("ab", ("c",))]),
        (None, "*", [("a", ("b",)), ("ab", ("c",))]),
        (["b"], ["a"], [("a", ("b",))]),
        (["b", "c"], None, [("a", ("b",)), ("ab", ("c",))]),
        ("*", "*", [("", ("a",)), ("a", ("b",)), ("ab", ("c",))]),
    ],
    ids=str,
)
def test_a_run_stops_at_its_breakpoints_and_each_call_passes_one_stop(face, backend, before, after, expected):
    graph = abc().compile(backend.make(), interrupt_before=before, interrupt_after=after)
    assert stops(face, graph) == (expected, "abc")


def test_breakpoints_of_a_call_work_like_compiled_ones(face, backend):
    graph = abc().compile(backend.make())
    assert face.invoke(graph, {}, CFG, interrupt_before=["b"])["log"] == ["a"]
    assert face.invoke(graph, None, CFG, interrupt_after="*")["log"] == ["a", "b"]
    assert face.invoke(graph, None, CFG)["log"] == ["a", "b", "c"]


def test_breakpoints_of_a_call_stand_in_for_the_compiled_ones(face, backend):
    graph = abc().compile(backend.make(), interrupt_before=["b"])
    assert face.invoke(graph, {}, CFG, interrupt_before=["c"])["log"] == ["a", "b"]


def test_a_stop_at_a_breakpoint_adds_no_question_to_the_result(face, backend):
    graph = abc().compile(backend.make(), interrupt_before=["b"])
    assert face.invoke(graph, {}, CFG) == {"log": ["a"]}
    output = face.invoke(graph, None, CFG, interrupt_after=["b"], version="v2")
    assert output.interrupts == ()
    assert face.get_state(graph, CFG).interrupts == ()


def test_a_stop_is_an_empty_interrupt_in_the_updates_stream(face, backend):
    graph = abc().compile(backend.make(), interrupt_after=["a"], interrupt_before=["b"])
    assert face.stream(graph, {}, CFG, stream_mode="updates") == [{"a": {"log": ["a"]}}, {"__interrupt__": ()}]
    assert face.stream(graph, None, CFG, stream_mode="updates") == [{"b": {"log": ["b"]}}, {"c": {"log": ["c"]}}]


def test_a_stop_writes_no_checkpoint_of_its_own(face, backend):
    saver = backend.make()
    graph = abc().compile(saver, interrupt_before="*")
    stops(face, graph)
    assert count_checkpoints(saver) == 5


def test_a_stop_survives_the_process(face, backend):
    builder = abc()
    face.invoke(builder.compile(backend.make(), interrupt_before=["b"]), {}, CFG)
    elsewhere = builder.compile(backend.reopen(), interrupt_before=["b"])
    assert face.get_state(elsewhere, CFG).next == ("b",)
    assert face.invoke(elsewhere, None, CFG)["log"] == ["a", "b", "c"]


def test_a_breakpoint_stops_every_round_of_a_loop(face, backend):
    builder = StateGraph(Log).add_node("work", lambda state: {"log": ["w"]}).add_edge(START, "work")
    builder.add_conditional_edges("work", lambda state: END if len(state["log"]) >= 3 else "work")
    graph = builder.compile(backend.make(), interrupt_before=["work"])
    assert stops(face, graph) == ([("", ("work",)), ("w", ("work",)), ("ww", ("work",))], "www")


def test_one_parallel_node_with_a_breakpoint_stops_the_whole_step(face, backend):
    marks = Marks()
    nodes = {name: lambda state, name=name: marks(name) for name in "ab"}
    graph = parallel(**nodes).compile(backend.make(), interrupt_before=["b"])
    face.invoke(graph, {}, CFG)
    assert marks.seen == []
    face.invoke(graph, None, CFG)
    assert sorted(marks.seen) == ["a", "b"]


def test_a_breakpoint_before_a_send_target_stops_before_its_tasks(face, backend):
    builder = StateGraph(Log).add_node("work", lambda item: {"log": [item["n"]]})
    builder.add_conditional_edges(START, lambda state: [Send("work", {"n": n}) for n in range(2)])
    graph = builder.compile(backend.make(), interrupt_before=["work"])
    assert face.invoke(graph, {}, CFG)["log"] == []
    assert face.get_state(graph, CFG).next == ("work", "work")
    assert face.invoke(graph, None, CFG)["log"] == [0, 1]


def test_without_a_checkpointer_a_breakpoint_ends_the_run(face):
    graph = abc().compile(interrupt_before=["b"])
    assert face.invoke(graph, {})["log"] == ["a"]
    assert face.stream(graph, {})[-1] == {"__interrupt__": ()}


def test_goto_to_a_node_with_a_breakpoint_stops_before_it_once(face, backend):
    builder = chain(a=lambda state: Command(update={"log": ["a"]}, goto="far"))
    builder.add_node("far", lambda state: {"log": ["far"]})
    graph = builder.compile(backend.make(), interrupt_before=["far"])
    assert stops(face, graph) == ([("a", ("far",))], "afar")


def test_a_command_that_goes_to_a_node_with_a_breakpoint_stops_before_it_once(face, backend):
    marks = Marks()
    builder = abc()
    builder.add_node("far", lambda state: marks("far"))
    graph = builder.compile(backend.make(), interrupt_before=["far"])
    face.invoke(graph, {}, CFG)
    face.invoke(graph, Command(goto="far"), CFG)
    assert marks.seen == []
    assert face.get_state(graph, CFG).next == ("far",)
    face.invoke(graph, None, CFG)
    assert marks.seen == ["far"]


def test_a_breakpoint_that_comes_with_the_call_stops_before_what_waits_and_is_then_passed(face, backend):
    marks = Marks()

    def fail(state):
        marks("b")
        if marks.count("b") == 1:
            raise ValueError("once")

    graph = chain(a=lambda state: None, b=fail).compile(backend.make(), interrupt_after=["a"])
    face.invoke(graph, {}, CFG)
    with pytest.raises(ValueError, match="once"):
        face.invoke(graph, None, CFG)
    face.invoke(graph, None, CFG)
    assert marks.count("b") == 2


def test_new_input_at_a_stop_is_refused_and_the_stop_is_named(face, backend):
    graph = abc().compile(backend.make(), interrupt_before=["b"])
    face.invoke(graph, {}, CFG)
    with pytest.raises(UnfinishedRunError, match="breakpoint before b"):
        face.invoke(graph, {}, CFG)


def test_a_stop_stays_a_stop_where_a_key_was_removed_from_the_state(face, backend):
    class Old(TypedDict, total=False):
        log: Annotated[list, operator.add]
        gone: int

    class New(TypedDict, total=False):
        log: Annotated[list, operator.add]

    def graph(schema, first):
        builder = StateGraph(schema).add_node("first", first).add_node("last", lambda state: {"log": ["last"]})
        builder.add_edge(START, "first").add_edge("first", "last")
        return builder

    face.invoke(
        graph(Old, lambda state: {"log": ["first"], "gone": 1}).compile(backend.make(), interrupt_before=["last"]),
        {},
        CFG,
    )
    changed = graph(New, lambda state: {"log": ["first"]}).compile(backend.reopen(), interrupt_before=["last"])
    assert face.invoke(changed, None, CFG) == {"log": ["first", "last"]}


def test_unknown_nodes_in_breakpoints_are_errors(face, backend):
    with pytest.raises(InvalidGraphError, match="'nope'"):
        abc().compile(interrupt_before=["nope"])
    graph = abc().compile(backend.make())
    with pytest.raises(InvalidConfigError, match=r"'nope'.*'a', 'b', 'c'"):
        face.invoke(graph, {}, CFG, interrupt_after=["nope"])
    assert face.get_state(graph, CFG).metadata is None
