"""What each stream mode shows, in which order and shape; the same on both faces."""

import asyncio
from datetime import datetime
from typing import Annotated, TypedDict

import pytest
from pydantic import BaseModel

from durable_graph import START, Overwrite, Send, StateGraph, interrupt
from durable_graph.errors import InvalidConfigError
from tests.behaviour.making import Number, says
from tests.behaviour.small_graphs import Log, chain, parallel, thread

MODES = ["values", "updates", "custom", "tasks", "checkpoints", "debug"]


def two():
    return chain(a=says("a"), b=says("b"))


# --- updates ----------------------------------------------------------------------------------------------------------


def test_updates_is_the_default_and_shows_what_each_node_wrote(face):
    graph = chain(a=says("a"), quiet=lambda state: None, empty=lambda state: {}).compile()
    assert face.stream(graph, {"log": []}) == [{"a": {"log": ["a"]}}, {"quiet": None}, {"empty": None}]


def test_updates_lists_several_writes_to_one_key(face):
    from durable_graph import Command

    node = lambda state: [{"log": [1]}, Command(update={"log": [2]})]
    assert face.stream(chain(a=node).compile(), {"log": []}) == [{"a": [{"log": [1]}, {"log": [2]}]}]


def test_updates_shows_each_send(face):
    graph = StateGraph(Log).add_node("w", lambda arg: {"log": [arg]})
    graph.add_conditional_edges(START, lambda state: [Send("w", 0), Send("w", 1)], ["w"])
    parts = face.stream(graph.compile(), {"log": []}, {"max_concurrency": 1})
    assert parts == [{"w": {"log": [0]}}, {"w": {"log": [1]}}]


def test_updates_shows_an_overwrite_as_it_was_written(face):
    graph = chain(a=lambda state: {"log": Overwrite(["new"])}).compile()
    assert face.stream(graph, {"log": ["old"]}) == [{"a": {"log": Overwrite(["new"])}}]


def test_updates_shows_stored_results_again_when_a_run_is_resumed_and_marks_them(face, backend):
    broken = [True]

    def bad(state):
        if broken[0]:
            text = "bad"
            raise ValueError(text)
        return {"log": ["bad"]}

    graph = parallel(bad=bad, good=says("good")).compile(checkpointer=backend.make())
    with pytest.raises(ValueError, match="bad"):
        face.invoke(graph, {"log": []}, thread(), durability="sync")
    broken[0] = False
    parts = face.stream(graph, None, thread())
    if len(parts) == 2 and "__metadata__" in parts[0]:  # unless `good` was never started
        assert parts == [{"good": {"log": ["good"]}, "__metadata__": {"cached": True}}, {"bad": {"log": ["bad"]}}]
    assert face.get_state(graph, thread()).values == {"log": ["bad", "good"]}


# --- values -----------------------------------------------------------------------------------------------------------


def test_values_shows_the_state_after_the_input_and_after_each_step(face):
    parts = face.stream(two().compile(), {"log": ["in"]}, stream_mode="values")
    assert parts == [{"log": ["in"]}, {"log": ["in", "a"]}, {"log": ["in", "a", "b"]}]


class Output(TypedDict):
    log: list


def test_values_shows_the_whole_state_after_each_step_that_changed_it(face):
    graph = StateGraph(Log, output_schema=Output).add_sequence(
        [("other", lambda state: {"other": 1}), ("quiet", lambda state: None), ("a", says("a"))]
    )
    parts = face.stream(graph.add_edge(START, "other").compile(), {"log": ["in"]}, stream_mode="values")
    assert parts == [{"log": ["in"]}, {"log": ["in"], "other": 1}, {"log": ["in", "a"], "other": 1}]


def test_values_of_a_resume_start_with_the_state_as_it_is(face, backend):
    graph = two().compile(checkpointer=backend.make(), interrupt_before=["b"])
    face.invoke(graph, {"log": []}, thread())
    assert face.stream(graph, None, thread(), stream_mode="values") == [{"log": ["a"]}, {"log": ["a", "b"]}]


# --- interrupts -------------------------------------------------------------------------------------------------------


def test_a_question_is_shown_by_updates_and_values(face, backend):
    """The trace D1: two nodes ask, a third one writes."""
    graph = parallel(n1=lambda state: interrupt("q1"), n2=lambda state: interrupt("q2"), n3=says("n3"))
    compiled = graph.compile(checkpointer=backend.make())
    config = {**thread(), "max_concurrency": 1}
    parts = face.stream(compiled, {"log": []}, config, stream_mode=["updates", "values"])
    short = [
        (mode, {key: [one.value for one in value] if key == "__interrupt__" else value for key, value in part.items()})
        for mode, part in parts
    ]
    assert short == [
        ("values", {"log": []}),
        ("updates", {"__interrupt__": ["q1"]}),
        ("values", {"log": [], "__interrupt__": ["q1"]}),
        ("updates", {"__interrupt__": ["q2"]}),
        ("values", {"log": [], "__interrupt__": ["q2"]}),
        ("updates", {"n3": {"log": ["n3"]}}),
        ("values", {"log": ["n3"]}),
    ]


def test_a_breakpoint_is_shown_by_an_empty_interrupt(face, backend):
    """The trace D5."""
    graph = two().compile(checkpointer=backend.make(), interrupt_before=["b"], interrupt_after=["a"])
    assert face.stream(graph, {"log": []}, thread()) == [{"a": {"log": ["a"]}}, {"__interrupt__": ()}]
    assert face.stream(graph, None, thread()) == [{"b": {"log": ["b"]}}]


# --- tasks, checkpoints, debug ----------------------------------------------------------------------------------------


def test_tasks_shows_start_and_result_of_each_task(face):
    graph = StateGraph(Log).add_node("a", says("a"), metadata={"team": "x"}).add_edge(START, "a").compile()
    start, end = face.stream(graph, {"log": ["in"]}, stream_mode="tasks")
    assert start == {
        "id": start["id"],
        "name": "a",
        "input": {"log": ["in"]},
        "triggers": start["triggers"],
        "metadata": {"team": "x"},
    }
    assert end == {"id": start["id"], "name": "a", "error": None, "result": {"log": ["a"]}, "interrupts": []}


def test_tasks_shows_the_input_of_a_send(face):
    graph = StateGraph(Log).add_node("w", lambda arg: {"log": [arg]})
    graph.add_conditional_edges(START, lambda state: Send("w", {"own": 1}), ["w"])
    assert face.stream(graph.compile(), {"log": []}, stream_mode="tasks")[0]["input"] == {"own": 1}


def test_tasks_groups_several_writes_to_one_key(face):
    from durable_graph import Command

    node = lambda state: Command(update=[("log", [1]), ("log", [2])])
    assert face.stream(chain(a=node).compile(), {"log": []}, stream_mode="tasks")[1]["result"] == {
        "log": {"$writes": [[1], [2]]}
    }


def test_tasks_shows_failures_and_questions(face, backend):
    graph = parallel(ask=lambda state: interrupt("q"), good=says("good")).compile(checkpointer=backend.make())
    parts = face.stream(graph, {"log": []}, thread(), stream_mode="tasks")
    asked = next(part for part in parts if part.get("interrupts"))
    assert (asked["name"], asked["result"], asked["interrupts"][0]["value"]) == ("ask", {}, "q")
    assert set(asked["interrupts"][0]) == {"value", "id", "response_schema"}


def test_checkpoints_shows_every_checkpoint_as_history_does(face, backend):
    graph = two().compile(checkpointer=backend.make())
    parts = face.stream(graph, {"log": []}, thread(), stream_mode="checkpoints")
    assert [(part["metadata"]["source"], part["metadata"]["step"], part["next"]) for part in parts] == [
        ("input", -1, ["__start__"]),
        ("loop", 0, ["a"]),
        ("loop", 1, ["b"]),
        ("loop", 2, []),
    ]
    history = face.get_state_history(graph, thread())[::-1]
    for part, snapshot in zip(parts, history, strict=True):
        assert part["config"] == snapshot.config
        assert part["parent_config"] == snapshot.parent_config
        assert part["values"] == snapshot.values
        assert [task["id"] for task in part["tasks"]] == [task.id for task in snapshot.tasks]


def test_without_a_checkpointer_there_are_no_checkpoints_to_show(face):
    assert face.stream(two().compile(), {"log": []}, stream_mode="checkpoints") == []


def test_debug_wraps_checkpoints_and_tasks_with_step_time_and_type(face, backend):
    graph = two().compile(checkpointer=backend.make())
    parts = face.stream(graph, {"log": []}, thread(), stream_mode=["debug", "tasks", "checkpoints"])
    wrapped = [part for mode, part in parts if mode == "debug"]
    plain = [part for mode, part in parts if mode != "debug"]
    assert [part["payload"] for part in wrapped] == plain
    assert [(part["step"], part["type"]) for part in wrapped] == [
        (-1, "checkpoint"),
        (0, "checkpoint"),
        (1, "task"),
        (1, "task_result"),
        (1, "checkpoint"),
        (2, "task"),
        (2, "task_result"),
        (2, "checkpoint"),
    ]
    for part in wrapped:
        assert datetime.fromisoformat(part["timestamp"]).tzinfo is not None


# --- shapes -----------------------------------------------------------------------------------------------------------


def test_a_list_of_modes_names_the_mode_of_each_part(face):
    parts = face.stream(two().compile(), {"log": []}, stream_mode=["values", "updates"])
    assert parts == [
        ("values", {"log": []}),
        ("updates", {"a": {"log": ["a"]}}),
        ("values", {"log": ["a"]}),
        ("updates", {"b": {"log": ["b"]}}),
        ("values", {"log": ["a", "b"]}),
    ]


def test_a_list_of_one_mode_still_names_it(face):
    assert face.stream(chain(a=says("a")).compile(), {"log": []}, stream_mode=["updates"]) == [
        ("updates", {"a": {"log": ["a"]}})
    ]


def test_v2_parts_have_type_namespace_and_data(face):
    parts = face.stream(chain(a=says("a")).compile(), {"log": []}, stream_mode=["updates", "values"], version="v2")
    assert parts == [
        {"type": "values", "ns": (), "data": {"log": []}, "interrupts": ()},
        {"type": "updates", "ns": (), "data": {"a": {"log": ["a"]}}},
        {"type": "values", "ns": (), "data": {"log": ["a"]}, "interrupts": ()},
    ]


def test_v2_parts_of_one_mode_have_the_same_shape(face):
    assert face.stream(chain(a=says("a")).compile(), {"log": []}, version="v2") == [
        {"type": "updates", "ns": (), "data": {"a": {"log": ["a"]}}}
    ]


def test_v2_values_carry_questions_beside_the_data(face, backend):
    graph = chain(a=lambda state: interrupt("q")).compile(checkpointer=backend.make())
    part = face.stream(graph, {"log": []}, thread(), stream_mode="values", version="v2")[-1]
    assert part["data"] == {"log": []}
    assert [one.value for one in part["interrupts"]] == ["q"]


class Model(BaseModel):
    x: int = 0


def test_v2_values_are_instances_of_the_output_schema(face):
    graph = chain(Model, a=lambda state: {"x": 2}).compile()
    parts = face.stream(graph, {"x": 1}, stream_mode="values", version="v2")
    assert [part["data"] for part in parts] == [Model(x=1), Model(x=2)]


def test_invoke_with_another_mode_returns_the_list_of_its_events(face):
    graph = two().compile()
    assert face.invoke(graph, {"log": []}, stream_mode="updates") == face.stream(graph, {"log": []})
    assert face.invoke(graph, {"log": []}, stream_mode=["values", "updates"]) == face.stream(
        graph, {"log": []}, stream_mode=["values", "updates"]
    )


def test_debug_events_of_invoke_have_their_time_too(face):
    for part in face.invoke(two().compile(), {"log": []}, stream_mode="debug"):
        assert datetime.fromisoformat(part["timestamp"]).tzinfo is not None


@pytest.mark.parametrize("bad", ["value", ["values", "update"], "", None, 5])
def test_an_unknown_mode_is_an_error_that_lists_the_known_ones(face, bad):
    with pytest.raises(InvalidConfigError) as caught:
        face.stream(two().compile(), {"log": []}, stream_mode=bad)
    for mode in MODES:
        assert mode in str(caught.value)


def test_an_unknown_version_is_an_error(face):
    with pytest.raises(InvalidConfigError, match="v1, v2"):
        face.stream(two().compile(), {"log": []}, version="v9")


@pytest.mark.parametrize("modes", [*MODES, MODES], ids=str)
def test_both_faces_show_the_same_events_in_the_same_order(modes, backend):
    def node(state, writer):
        writer(len(state["log"]))
        return {"log": [1]}

    graph = chain(a=node, b=node, ask=lambda state: interrupt("q")).compile(checkpointer=backend.make())
    config = {**thread(), "run_id": "same"}
    sync = list(graph.stream({"log": []}, config, stream_mode=modes))

    async def main():
        return [part async for part in other.astream({"log": []}, config, stream_mode=modes)]

    from checkpointers import InMemorySaver

    other = chain(a=node, b=node, ask=lambda state: interrupt("q")).compile(checkpointer=InMemorySaver())
    assert _comparable(sync) == _comparable(asyncio.run(main()))


def _comparable(value):
    """Without what differs from run to run: times, and ids, which hold the epoch of a claim."""
    if isinstance(value, dict):
        vary = ("timestamp", "id", "config", "parent_config", "created_at")
        return {key: _comparable(one) for key, one in value.items() if key not in vary}
    if isinstance(value, list | tuple):
        return [_comparable(one) for one in value]
    return getattr(value, "value", value)


class Counted(TypedDict):
    n: Annotated[int, lambda old, new: old + new]


def test_streams_work_without_output_changes(face):
    graph = chain(Counted, a=lambda state: None).compile()
    assert face.stream(graph, {}, stream_mode="values") == [{"n": 0}]


@pytest.mark.parametrize(
    ("keys", "values", "updates"),
    [
        ("x", [1, 2], [{"a": {"x": 2}}, {"b": None}]),
        (["y"], [{}, {}, {"y": 5}], [{"a": None}, {"b": {"y": 5}}]),
    ],
)
def test_output_keys_narrow_values_and_updates(face, keys, values, updates):
    graph = chain(Number, a=lambda state: {"x": 2}, b=lambda state: {"y": 5}).compile()
    assert face.stream(graph, {"x": 1}, stream_mode="values", output_keys=keys)[: len(values)] == values
    assert face.stream(graph, {"x": 1}, output_keys=keys) == updates


def test_an_unknown_output_key_of_a_stream_is_an_error(face):
    with pytest.raises(InvalidConfigError, match="'nope'"):
        face.stream(two().compile(), {"log": []}, output_keys="nope")
