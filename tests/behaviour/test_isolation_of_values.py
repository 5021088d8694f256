"""What a node changes in place reaches nobody: not its siblings, not a retry, not the stored state, not the caller."""

import pytest

from durable_graph import START, RetryPolicy, Send, StateGraph
from tests.behaviour.making import both
from tests.behaviour.small_graphs import Log, chain, parallel, thread

QUICK = RetryPolicy(initial_interval=0.0, jitter=False, retry_on=Exception)


def scribble(state):
    """Change everything in reach."""
    state["log"].append("scribbled")
    state["log"][0]["deep"].append("scribbled")
    state["new"] = "scribbled"


def fresh():
    return {"log": [{"deep": []}]}


@pytest.mark.parametrize("node", both(scribble))
def test_changes_in_place_reach_neither_the_next_node_nor_the_result(face, backend, node):
    seen = []
    graph = chain(a=node, b=lambda state: seen.append(dict(state))).compile(checkpointer=backend.make())
    assert face.invoke(graph, fresh(), thread()) == fresh()
    assert seen == [fresh()]
    assert face.get_state(graph, thread()).values == fresh()
    for snapshot in face.get_state_history(graph, thread()):
        assert "scribbled" not in repr(snapshot.values)


@pytest.mark.parametrize("node", both(scribble))
def test_changes_in_place_reach_no_sibling(face, node):
    seen = []

    def look(state):
        seen.append(dict(state))

    face.invoke(parallel(a=node, b=look, c=node, d=look).compile(), fresh())
    assert seen == [fresh()] * 2


def test_changes_in_place_reach_no_other_attempt(face):
    seen = []

    def node(state):
        seen.append(repr(dict(state)))
        scribble(state)
        if len(seen) < 3:
            text = "again"
            raise ValueError(text)

    graph = StateGraph(Log).add_node("a", node, retry_policy=QUICK).add_edge(START, "a").compile()
    face.invoke(graph, fresh())
    assert seen == [repr(fresh())] * 3


def test_changes_in_place_of_a_send_reach_neither_siblings_nor_retries_nor_the_sender(face):
    seen, shared, failed = [], {"items": [1]}, []

    def worker(arg):
        seen.append(repr(arg))
        arg["items"].append("scribbled")
        if not failed:
            failed.append(1)
            text = "again"
            raise ValueError(text)

    graph = StateGraph(Log).add_node("worker", worker, retry_policy=QUICK)
    graph.add_conditional_edges(START, lambda state: [Send("worker", shared)] * 3, ["worker"])
    face.invoke(graph.compile(), {"log": []}, {"max_concurrency": 1})
    assert seen == [repr({"items": [1]})] * 4
    assert shared == {"items": [1]}


def test_what_a_node_keeps_of_its_update_and_changes_later_does_not_reach_the_state(face, backend):
    kept = []

    def give(state):
        kept.append([{"deep": []}])
        return {"log": kept[0], "answer": kept[0]}

    def change(state):
        kept[0][0]["deep"].append("scribbled")
        kept[0].append("scribbled")

    graph = chain(a=give, b=change).compile(checkpointer=backend.make())
    expected = {"log": [{"deep": []}], "answer": [{"deep": []}]}
    assert face.invoke(graph, {"log": []}, thread()) == expected
    assert face.get_state(graph, thread()).values == expected


def test_the_input_belongs_to_the_caller(face):
    given = fresh()
    face.invoke(chain(a=scribble).compile(), given)
    assert given == fresh()


def test_the_input_can_be_changed_while_the_run_goes_on(face):
    given = fresh()

    def node(state):
        given["log"][0]["deep"].append("scribbled by the caller")

    assert face.invoke(chain(a=node, b=lambda state: None).compile(), given) == fresh()


@pytest.mark.parametrize("mode", ["values", "updates", "tasks", "checkpoints", "debug"])
def test_what_a_listener_changes_in_a_streamed_payload_reaches_nobody(backend, mode):
    def wreck(value):
        if isinstance(value, dict):
            for one in list(value.values()):
                wreck(one)
            value["scribbled"] = 1
        elif isinstance(value, list):
            for one in value:
                wreck(one)
            value.append("scribbled")

    node = lambda state: {"log": [{"deep": []}]}
    graph = chain(a=node, b=node).compile(checkpointer=backend.make())
    for payload in graph.stream({"log": []}, thread(), stream_mode=mode):
        wreck(payload)
    assert graph.get_state(thread()).values == {"log": [{"deep": []}] * 2}


def test_one_listener_of_several_modes_gets_values_of_its_own(face):
    graph = chain(a=lambda state: {"log": [{"deep": []}]}).compile()
    values, updates = [part for _, part in face.stream(graph, {"log": []}, stream_mode=["values", "updates"])][-2:]
    logs = [part.get("log") or part["a"]["log"] for part in (values, updates)]
    logs[0][0]["deep"].append("scribbled")
    assert logs[1] == [{"deep": []}]


def test_custom_events_are_snapshots(face):
    def node(state, writer):
        kept = {"items": []}
        writer(kept)
        kept["items"].append("scribbled")

    assert face.stream(chain(a=node).compile(), {"log": []}, stream_mode="custom") == [{"items": []}]


def test_outputs_and_snapshots_belong_to_the_caller(face, backend):
    graph = chain(a=lambda state: {"log": [{"deep": []}]}).compile(checkpointer=backend.make())
    result = face.invoke(graph, {"log": []}, thread())
    result["log"][0]["deep"].append("scribbled")
    snapshot = face.get_state(graph, thread())
    assert snapshot.values == fresh()
    snapshot.values["log"][0]["deep"].append("scribbled")
    snapshot.config["configurable"]["thread_id"] = "scribbled"
    assert face.get_state(graph, thread()).values == fresh()


def test_an_output_without_a_checkpointer_shares_nothing_with_the_nodes(face):
    kept = []

    def give(state):
        kept.append({"deep": []})
        return {"log": kept}

    result = face.invoke(chain(a=give).compile(), {"log": []})
    kept[0]["deep"].append("scribbled")
    assert result == fresh()


def test_an_explicit_none_and_an_absent_key_are_different(face):
    seen = []
    graph = chain(a=lambda state: {"answer": None}, b=lambda state: seen.append(dict(state))).compile()
    face.invoke(graph, {"log": []})
    assert seen == [{"log": [], "answer": None}]
