"""What @entrypoint promises: a function with the calls of a graph, on the same engine."""

from dataclasses import dataclass
from typing import TypedDict

import pytest
from pydantic import BaseModel

from durable_graph import Command, GraphOutput, Runtime, interrupt
from durable_graph.errors import (
    InvalidConfigError,
    InvalidGraphError,
)
from durable_graph.functional import entrypoint, task
from durable_graph.graph import CompiledStateGraph
from tests.behaviour.making import Odd, both
from tests.behaviour.small_graphs import Log, asked, chain, thread

CFG = thread()


class Note(BaseModel):
    text: str


@dataclass
class Point:
    x: int
    y: int


# --- what goes in and what comes out ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [0, "", "text", [1, {"a": (2, 3)}], {"a": 1}, {1, 2}, Point(1, 2), Note(text="hello"), b"bytes", None]
)
@pytest.mark.parametrize("durable", [True, False])
def test_input_and_output_can_be_anything(face, backend, value, durable):
    def flow(given: dict | Point | Note):
        return {"got": given[0]} if isinstance(given, tuple) else given

    for function in both(flow):
        workflow = entrypoint(backend.make() if durable else None, name="flow")(function)
        if value is None:
            assert face.invoke(workflow, (None,), CFG) == {"got": None}
            continue
        found = face.invoke(workflow, value, CFG)
        assert found == value
        assert type(found) is type(value)


def test_the_input_is_the_functions_own(face):
    given = {"list": [1]}

    @entrypoint()
    def flow(given):
        given["list"].append(2)
        return given

    assert face.invoke(flow, given) == {"list": [1, 2]}
    assert given == {"list": [1]}


def test_none_is_a_result(face, backend):
    @entrypoint(backend.make())
    def flow(n):
        return None

    assert face.invoke(flow, 1, CFG) is None
    assert face.get_state(flow, CFG).values is None
    assert face.get_state(flow, CFG).next == ()


def test_it_has_the_calls_of_a_graph(face, backend):
    @entrypoint(backend.make())
    def flow(n: int) -> int:
        """What it does."""
        return n + 1

    assert isinstance(flow, CompiledStateGraph)
    assert (flow.name, flow.get_name(), repr(flow)) == ("flow", "flow", "entrypoint('flow')")
    assert flow.__doc__ == "What it does."
    assert face.batch(flow, [1, 2, 3], [thread(str(n)) for n in range(3)]) == [2, 3, 4]
    assert face.invoke(flow.with_config(tags=["a"]), 5, CFG) == 6
    assert face.invoke(flow, 1, CFG, version="v2") == GraphOutput(2, ())
    assert face.invoke(flow, 1, CFG, stream_mode="updates") == [{"flow": 2}]


def test_injected_parameters(face, backend):
    class Context(TypedDict):
        user: str

    def flow(n, *, config, runtime: Runtime, writer, store, previous):
        writer("said")
        return [config["configurable"]["thread_id"], runtime.context, store, previous, runtime.previous]

    async def aflow(n, *, config, runtime: Runtime, writer, store, previous):
        return flow(n, config=config, runtime=runtime, writer=writer, store=store, previous=previous)

    for function in (flow, aflow):
        workflow = entrypoint(backend.make(), store="the store", context_schema=Context)(function)
        cfg = thread(function.__name__)
        assert face.stream(workflow, 1, cfg, context={"user": "Ada"}, stream_mode="custom") == ["said"]
        expected = [function.__name__, {"user": "Ada"}, "the store", None, None]
        assert face.get_state(workflow, cfg).values == expected


def test_the_first_parameter_is_the_input_whatever_its_name(face):
    @entrypoint()
    def flow(config, store=None, more=5):
        return [config, store, more]

    assert face.invoke(flow, 1) == [1, None, 5]


# --- previous and final -----------------------------------------------------------------------------------------------


def test_previous_is_what_the_last_run_returned(face, backend):
    @entrypoint(backend.make())
    def flow(n, *, previous: int | None = None):
        return n + (previous or 0)

    assert [face.invoke(flow, n, CFG) for n in (1, 2, 3)] == [1, 3, 6]
    assert face.invoke(flow, 1, thread("other")) == 1


def test_final_returns_one_value_and_saves_another(face, backend):
    @entrypoint(backend.make())
    def flow(n, *, previous) -> entrypoint.final[str, Point]:
        if n < 0:
            return [n, previous]
        return entrypoint.final(value=f"returned {n}", save=Point(n, n))

    assert face.invoke(flow, 1, CFG) == "returned 1"
    assert face.get_state(flow, CFG).values == "returned 1"
    assert face.invoke(flow, -1, CFG) == [-1, Point(1, 1)]
    assert face.invoke(flow, -2, CFG) == [-2, [-1, Point(1, 1)]]
    assert face.stream(flow, 2, CFG) == [{"flow": "returned 2"}]
    assert face.invoke(flow, -3, CFG) == [-3, Point(2, 2)]


def test_without_a_checkpointer_there_is_no_previous(face):
    @entrypoint()
    def flow(n, *, previous):
        return [n, previous]

    assert [face.invoke(flow, n) for n in (1, 2)] == [[1, None], [2, None]]


def test_what_a_run_saved_is_its_own(face, backend):
    @entrypoint(backend.make())
    def flow(n, *, previous):
        if previous is None:
            return [0]
        previous.append(n)
        if n == 1:
            raise Odd
        return previous

    face.invoke(flow, 0, CFG)
    with pytest.raises(Odd):
        face.invoke(flow, 1, CFG)
    assert face.invoke(flow, 2, CFG, on_unfinished="abandon") == [0, 2]


# --- what is no entrypoint --------------------------------------------------------------------------------------------


def test_what_cannot_be_an_entrypoint_is_refused_when_it_is_made():
    def generator(n):
        yield n

    async def asynchronous(n):
        yield n

    for wrong in (generator, asynchronous):
        with pytest.raises(InvalidGraphError, match="generator"):
            entrypoint()(wrong)
    with pytest.raises(InvalidGraphError, match="no input"):
        entrypoint()(lambda: 1)
    with pytest.raises(InvalidGraphError, match="no input"):
        entrypoint()(lambda *, previous: 1)
    with pytest.raises(InvalidGraphError, match="'more', which nobody gives"):
        entrypoint()(lambda n, more: 1)
    with pytest.raises(InvalidGraphError, match="without parentheses"):
        entrypoint(generator)
    with pytest.raises(InvalidConfigError):
        entrypoint(checkpointer=5)(lambda n: 1)
    with pytest.raises(TypeError):
        _ = entrypoint.final[int]


# --- looking at it ----------------------------------------------------------------------------------------------------


def test_history_shows_what_was_returned(face, backend):
    @entrypoint(backend.make())
    def flow(n):
        return n

    for n in (1, 2):
        face.invoke(flow, n, CFG)
    shown = [(one.metadata["source"], one.next, one.values) for one in face.get_state_history(flow, CFG)]
    assert shown == [
        ("loop", (), 2),
        ("loop", ("flow",), 1),
        ("input", ("__start__",), 1),
        ("loop", (), 1),
        ("loop", ("flow",), None),
        ("input", ("__start__",), None),
    ]
    assert face.get_state(flow, thread("unknown")).next == ()


def test_a_waiting_entrypoint_shows_its_question_and_its_finished_tasks(face, backend):
    @task
    def work(n):
        return n

    @entrypoint(backend.make())
    def flow(n):
        return [work(n).result(), interrupt("?")]

    assert list(face.invoke(flow, 1, CFG)) == ["__interrupt__"]
    shown = face.get_state(flow, CFG)
    assert (shown.values, shown.next, list(asked(shown))) == (None, ("flow",), ["?"])
    assert [(one.name, one.calls) for one in shown.tasks] == [("flow", ("work",))]
    waiting = face.invoke(flow, None, CFG, version="v2")
    assert (waiting.value, [one.value for one in waiting.interrupts]) == (None, ["?"])
    face.invoke(flow, Command(resume=2), CFG)
    before = list(face.get_state_history(flow, CFG))[1]
    assert [one.result for one in before.tasks] == [[1, 2]]


def test_streams_show_values_updates_and_tasks(face, backend):
    @task
    def work(n):
        return 10 * n

    @entrypoint(backend.make())
    def flow(n):
        return {"found": work(n).result() + interrupt("?")}

    modes = ["values", "updates", "tasks"]
    shown = face.stream(flow, 2, CFG, stream_mode=modes)
    kinds = [(mode, list(payload) if isinstance(payload, dict) else payload) for mode, payload in shown]
    assert ("updates", ["work"]) in kinds
    assert ("updates", ["__interrupt__"]) in kinds
    assert [payload["input"] for mode, payload in shown if mode == "tasks" and "input" in payload] == [2]
    shown = face.stream(flow, Command(resume=1), CFG, stream_mode=modes)
    assert [payload for mode, payload in shown if mode == "updates"] == [{"flow": {"found": 21}}]
    assert [payload for mode, payload in shown if mode == "values"][-1] == {"found": 21}
    results = [payload["result"] for mode, payload in shown if mode == "tasks" and "result" in payload]
    assert results == [{"__end__": {"found": 21}}]


def test_debug_and_checkpoints_show_bare_values_too(face, backend):
    @entrypoint(backend.make())
    def flow(n):
        return n + 1

    shown = face.stream(flow, 1, CFG, stream_mode=["checkpoints", "debug"])
    assert [payload["values"] for mode, payload in shown if mode == "checkpoints"] == [None, None, 2]
    results = [part["payload"]["result"] for mode, part in shown if mode == "debug" and part["type"] == "task_result"]
    assert results == [{"__end__": 2}]


def test_custom_events_come_only_to_those_who_ask_for_them(face):
    @task
    def work(*, writer):
        writer("from the task")

    @entrypoint()
    def flow(n, *, writer):
        writer("from the entrypoint")
        work().result()
        return n

    assert face.stream(flow, 1) == [{"work": None}, {"flow": 1}]
    assert face.stream(flow, 1, stream_mode="custom") == ["from the entrypoint", "from the task"]


def test_a_graph_inside_shows_itself_only_where_subgraphs_are_wanted(face):
    inner = chain(Log, node=lambda state: {"answer": 1}).compile()

    @entrypoint()
    def flow(n):
        return inner.invoke({})["answer"]

    assert face.stream(flow, 1) == [{"flow": 1}]
    shown = face.stream(flow, 1, subgraphs=True)
    assert [(len(ns), payload) for ns, payload in shown] == [(1, {"node": {"answer": 1}}), (0, {"flow": 1})]


def test_json_schemas_come_from_the_hints():
    @entrypoint()
    def flow(n: int) -> entrypoint.final[list[str], int]:
        return entrypoint.final(value=[], save=n)

    @entrypoint()
    def untyped(n):
        return n

    assert flow.get_input_jsonschema() == {"title": "flowInput", "type": "integer"}
    assert flow.get_output_jsonschema() == {"title": "flowOutput", "type": "array", "items": {"type": "string"}}
    assert untyped.get_input_jsonschema() == {"title": "untypedInput"}
