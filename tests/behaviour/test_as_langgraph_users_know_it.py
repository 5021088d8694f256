"""What people who come from LangGraph rely on without thinking: the order of streams, what they show, what is printed.

The expected values are LangGraph 1.2.24's, observed by running the same programs there.
"""

import operator
from typing import Annotated, TypedDict

import pytest

import checkpointers
import durable_graph
from durable_graph import END, START, Command, GraphRecursionError, StateGraph, interrupt
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, chain, parallel, thread


def two():
    return chain(a=says("a"), b=says("b"))


def asking():
    return chain(a=says("a"), ask=lambda state: {"log": [interrupt("sure?")]})


def brief(parts):
    """(mode, what tells the part): a checkpoint by step and values, a task by name, an interrupt by its question."""
    return [(mode, _brief(mode, payload)) for mode, payload in parts]


def _brief(mode, payload):
    if mode == "checkpoints":
        return payload["metadata"]["step"], payload["values"], payload["next"]
    if mode == "tasks":
        return payload["name"], "input" in payload
    if "__interrupt__" in payload:
        return {**payload, "__interrupt__": [one.value for one in payload["__interrupt__"]]}
    return payload


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_the_checkpoint_of_the_input_comes_first_and_shows_the_state_without_the_input(face, backend):
    graph = two().compile(checkpointer=backend.make())
    parts = face.stream(graph, {"log": ["in"]}, thread(), stream_mode=["values", "checkpoints"])
    assert brief(parts) == [
        ("checkpoints", (-1, {"log": []}, ["__start__"])),
        ("values", {"log": ["in"]}),
        ("checkpoints", (0, {"log": ["in"]}, ["a"])),
        ("values", {"log": ["in", "a"]}),
        ("checkpoints", (1, {"log": ["in", "a"]}, ["b"])),
        ("values", {"log": ["in", "a", "b"]}),
        ("checkpoints", (2, {"log": ["in", "a", "b"]}, [])),
    ]


def test_every_streamed_checkpoint_has_the_values_that_history_shows(face, backend):
    graph = two().compile(checkpointer=backend.make())
    for turn in ("one", "two"):
        parts = face.stream(graph, {"log": [turn]}, thread(), stream_mode="checkpoints")
        history = face.get_state_history(graph, thread(), limit=4)
        assert [(part["config"], part["values"]) for part in parts] == [
            (snapshot.config, snapshot.values) for snapshot in reversed(history)
        ]


def test_a_routed_start_streams_its_checkpoints_in_the_same_order(face, backend):
    graph = StateGraph(Log).add_node("a", says("a")).add_conditional_edges(START, lambda state: "a", ["a"])
    parts = face.stream(
        graph.compile(checkpointer=backend.make()), {"log": ["in"]}, thread(), stream_mode=["values", "checkpoints"]
    )
    assert brief(parts)[:3] == [
        ("checkpoints", (-1, {"log": []}, ["__start__"])),
        ("values", {"log": ["in"]}),
        ("checkpoints", (0, {"log": ["in"]}, ["a"])),
    ]


@pytest.mark.parametrize("before", ["a", "b"])
def test_a_breakpoint_is_announced_after_the_checkpoint_it_stops_at(face, backend, before):
    graph = two().compile(checkpointer=backend.make(), interrupt_before=[before])
    parts = face.stream(graph, {"log": []}, thread(), stream_mode=["updates", "checkpoints"])
    assert [mode for mode, _ in parts[-2:]] == ["checkpoints", "updates"]
    assert parts[-2][1]["next"] == [before]
    assert parts[-1][1] == {"__interrupt__": ()}


def test_a_breakpoint_is_announced_without_a_checkpointer_too(face):
    graph = two().compile(interrupt_after=["a"])
    assert face.stream(graph, {"log": []}) == [{"a": {"log": ["a"]}}, {"__interrupt__": ()}]


# --- questions --------------------------------------------------------------------------------------------------------


def test_a_question_is_shown_before_the_result_of_its_task(face, backend):
    graph = asking().compile(checkpointer=backend.make())
    parts = face.stream(graph, {"log": []}, thread(), stream_mode=["values", "updates", "tasks"])
    assert brief(parts)[-4:] == [
        ("tasks", ("ask", True)),
        ("updates", {"__interrupt__": ["sure?"]}),
        ("values", {"log": ["a"], "__interrupt__": ["sure?"]}),
        ("tasks", ("ask", False)),
    ]


def test_going_on_with_a_thread_that_waits_shows_its_question_again(face, backend):
    graph = asking().compile(checkpointer=backend.make())
    face.invoke(graph, {"log": []}, thread())
    parts = face.stream(graph, None, thread(), stream_mode=["values", "updates"])
    assert brief(parts) == [
        ("values", {"log": ["a"]}),
        ("updates", {"__interrupt__": ["sure?"]}),
        ("values", {"log": ["a"], "__interrupt__": ["sure?"]}),
    ]


def test_answering_one_of_two_shows_the_question_that_is_still_open(face, backend):
    graph = parallel(a=lambda state: {"log": [interrupt("a?")]}, b=lambda state: {"log": [interrupt("b?")]}).compile(
        checkpointer=backend.make()
    )
    face.invoke(graph, {"log": []}, thread())
    first = next(one for one in face.get_state(graph, thread()).interrupts if one.value == "a?")
    parts = face.stream(graph, Command(resume={first.id: "yes"}), thread(), stream_mode=["updates"])
    assert sorted(map(repr, brief(parts))) == sorted(
        map(repr, [("updates", {"a": {"log": ["yes"]}}), ("updates", {"__interrupt__": ["b?"]})])
    )


# --- nothing to do ----------------------------------------------------------------------------------------------------


def test_values_of_a_finished_thread_are_its_state(face, backend):
    graph = two().compile(checkpointer=backend.make())
    face.invoke(graph, {"log": ["in"]}, thread())
    assert face.stream(graph, None, thread(), stream_mode="values") == [{"log": ["in", "a", "b"]}]
    assert face.stream(graph, None, thread()) == []
    assert len(face.get_state_history(graph, thread())) == 4


# --- bare states ------------------------------------------------------------------------------------------------------


def test_the_input_of_a_task_of_a_bare_state_is_the_bare_value(face):
    graph = StateGraph(Annotated[list, operator.add]).add_node("a", lambda state: ["a"]).add_edge(START, "a").compile()
    start, end = face.stream(graph, ["in"], stream_mode="tasks")
    assert start["input"] == ["in"]
    assert end["result"] == {"__root__": ["a"]}


@pytest.mark.parametrize(
    ("schema", "given", "node", "expected"),
    [
        (dict, {"z": 1}, lambda state: {"k": 1}, {"k": 1}),
        (dict, {"z": 1}, lambda state: {**state, "k": 1}, {"z": 1, "k": 1}),
        (dict[str, int], {"z": 1}, lambda state: {"k": 1}, {"k": 1}),
        (Annotated[dict, operator.or_], {"z": 1}, lambda state: {"k": 1}, {"z": 1, "k": 1}),
    ],
    ids=["dict", "dict-kept", "dict-of-int", "reduced-dict"],
)
def test_a_state_that_is_one_dict_takes_any_keys(face, backend, schema, given, node, expected):
    graph = StateGraph(schema).add_node("a", node).add_edge(START, "a").compile(checkpointer=backend.make())
    assert face.invoke(graph, given, thread()) == expected
    assert face.get_state(graph, thread()).values == expected


@pytest.mark.parametrize(("schema", "given"), [(str, "x"), (Annotated[list, operator.add], ["x"])], ids=["str", "list"])
def test_a_node_that_returns_nothing_leaves_a_bare_state_as_it_is(face, schema, given):
    graph = StateGraph(schema).add_node("a", lambda state: None).add_edge(START, "a").compile()
    assert face.invoke(graph, given) == given
    assert face.stream(graph, given) == [{"a": None}]


# --- the step limit ---------------------------------------------------------------------------------------------------


def test_the_step_limit_is_a_recursion_error_with_the_words_people_search_for(face):
    graph = chain(a=says("a")).add_edge("a", "a").compile()
    with pytest.raises(RecursionError, match="Recursion limit of 3 reached") as caught:
        face.invoke(graph, {"log": []}, {"recursion_limit": 3})
    assert type(caught.value) is GraphRecursionError


# --- what is printed and completed ------------------------------------------------------------------------------------


class Named(TypedDict):
    x: int


def test_a_graph_prints_its_state_and_nodes():
    graph = StateGraph(Named).add_node("a", lambda state: {"x": 1}).add_node("b", lambda state: {"x": 2})
    assert repr(graph) == "StateGraph(Named: a, b)"
    graph.add_sequence([("c", lambda state: None)]).add_edge(START, "a").add_edge("a", "b").add_edge("b", "c")
    assert repr(graph.add_edge("c", END).compile(name="shop")) == "CompiledStateGraph('shop': a, b, c)"


@pytest.mark.parametrize("package", [durable_graph, checkpointers])
def test_completion_offers_the_public_names_and_nothing_else(package):
    assert [name for name in dir(package) if not name.startswith("_")] == sorted(package.__all__)
