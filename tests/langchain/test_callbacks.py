"""What callback handlers see of a run: the graph, its nodes, and what nodes call, each below the other."""

import asyncio
import logging
import uuid

import pytest
from langchain_core.callbacks import AsyncCallbackManager, CallbackManager
from langchain_core.runnables import RunnableLambda

from checkpointers import InMemorySaver
from durable_graph import START, Command, RetryPolicy, StateGraph, get_config, interrupt
from durable_graph.errors import InvalidConfigError
from tests.langchain.graphs import Log, fan, line, says, thread
from tests.langchain.recording import AsyncRecorder, Recorder

shout = RunnableLambda(lambda text: text.upper()).with_config(run_name="shout")


def sync_node(state):
    return {"log": [shout.invoke("sync")]}


async def async_node(state):
    return {"log": [await shout.ainvoke("async")]}


def broken(state):
    raise ValueError("broken")


def asks(state):
    return {"log": [interrupt("really?")]}


@pytest.mark.parametrize("node", [sync_node, async_node])
def test_nested_calls_are_below_the_node_below_the_graph(face, node, any_recorder):
    graph = line({"work": node}, name="my graph")
    face.invoke(graph, {"log": ["a"]}, {"callbacks": [any_recorder]})
    book = any_recorder.book
    assert book.path("shout") == ["my graph", "work", "shout"]
    assert book.ends() == {"my graph": "ok", "work": "ok", "shout": "ok"}


@pytest.mark.parametrize("node", [sync_node, async_node])
@pytest.mark.parametrize("limit", [None, 2])
def test_parallel_nodes_keep_their_calls_apart(face, node, limit, any_recorder):
    graph = fan(dict.fromkeys("abcd", node), after=node)
    face.invoke(graph, {"log": []}, {"callbacks": [any_recorder], "max_concurrency": limit})
    book = any_recorder.book
    assert sorted(book.runs[seen.parent].name for seen in book.named("shout")) == ["a", "after", "b", "c", "d"]
    assert {book.runs[book.one(name).parent].name for name in "abcd"} == {"LangGraph"}
    assert {seen.end for seen in book.runs.values()} == {"ok"}


def test_a_stream_is_told_of_as_well(face, any_recorder):
    graph = line({"work": sync_node})
    face.stream(graph, {"log": []}, {"callbacks": [any_recorder]}, stream_mode=["updates", "custom"])
    assert any_recorder.book.path("shout") == ["LangGraph", "work", "shout"]
    assert any_recorder.book.one("LangGraph").outputs == {"log": ["SYNC"]}


def test_name_id_tags_and_metadata_come_from_the_config(face, recorder):
    run_id = uuid.uuid4()
    graph = line({"work": sync_node}, checkpointer=InMemorySaver())
    config = {
        "configurable": {"thread_id": 7, "api_key": "secret"},
        "callbacks": [recorder],
        "run_name": "nightly",
        "run_id": run_id,
        "tags": ["mine"],
        "metadata": {"user": "u"},
    }
    face.invoke(graph, {"log": []}, config)
    book = recorder.book
    assert next(iter(book.runs)) == run_id
    assert [seen.name for seen in book.runs.values()] == ["nightly", "work", "shout"]
    for seen in book.runs.values():
        assert "mine" in seen.tags
        assert seen.metadata["user"] == "u"
        assert seen.metadata["thread_id"] == "7"
        assert "secret" not in seen.metadata.values()
    for name in ("work", "shout"):
        assert book.one(name).metadata["langgraph_node"] == "work"
        assert book.one(name).metadata["langgraph_step"] == 1
    assert "graph:step:1" in book.one("work").tags
    assert "graph:step:1" not in book.one("shout").tags


@pytest.mark.parametrize("given", ["6f0e3c1e-7d0b-4d6c-9d3c-2f6f5d0f4a11", "not-a-uuid", 5])
def test_a_run_id_that_is_no_uuid_does_not_stop_the_run(recorder, given):
    line({"work": says("a")}).invoke({"log": []}, {"callbacks": [recorder], "run_id": given})
    first = next(iter(recorder.book.runs))
    assert (str(first) == given) == (given == "6f0e3c1e-7d0b-4d6c-9d3c-2f6f5d0f4a11")


def test_the_run_id_and_name_of_the_graph_are_not_those_of_nested_calls(face, recorder):
    def node(state, config):
        return {"log": [shout.invoke("x", config), sorted({"run_id", "run_name"} & config.keys())]}

    config = {"callbacks": [recorder], "run_id": uuid.uuid4(), "run_name": "nightly"}
    assert face.invoke(line({"work": node}), {"log": []}, config)["log"] == ["X", []]
    assert recorder.book.path("shout") == ["nightly", "work", "shout"]


def test_handlers_see_inputs_and_outputs(face, recorder):
    face.invoke(line({"work": says("b")}), {"log": ["a"]}, {"callbacks": [recorder]})
    graph, node = recorder.book.runs.values()
    assert (graph.inputs, graph.outputs) == ({"log": ["a"]}, {"log": ["a", "b"]})
    assert (node.inputs, node.outputs) == ({"log": ["a"]}, {"log": ["b"]})


def test_a_node_without_input_and_one_that_returns_nothing_are_told_of(face, recorder):
    def silent():
        return None

    face.invoke(line({"silent": silent}), {"log": []}, {"callbacks": [recorder]})
    assert (recorder.book.one("silent").inputs, recorder.book.one("silent").outputs) == ({}, None)


def test_an_error_reaches_the_handlers_of_node_and_graph(face, any_recorder):
    graph = line({"work": broken})
    with pytest.raises(ValueError, match="broken"):
        face.invoke(graph, {"log": []}, {"callbacks": [any_recorder]})
    assert any_recorder.book.ends() == {"LangGraph": ValueError, "work": ValueError}


def test_each_attempt_is_a_run(face, recorder):
    seen = []

    def flaky(state):
        seen.append(1)
        if len(seen) < 3:
            raise ConnectionError
        return {"log": ["done"]}

    policy = RetryPolicy(initial_interval=0.001, max_attempts=3, jitter=False)
    graph = StateGraph(Log).add_node("work", flaky, retry_policy=policy).add_edge(START, "work").compile()
    face.invoke(graph, {"log": []}, {"callbacks": [recorder]})
    ends = [one.end if one.end == "ok" else type(one.end) for one in recorder.book.named("work")]
    assert ends == [ConnectionError, ConnectionError, "ok"]


def test_a_question_to_a_human_is_no_error(face, backend, any_recorder):
    graph = line({"work": asks}, checkpointer=backend.make())
    asked = face.invoke(graph, {"log": []}, {**thread(), "callbacks": [any_recorder]})
    book = any_recorder.book
    assert book.ends() == {"LangGraph": "ok", "work": "ok"}
    for name in ("work", "LangGraph"):
        assert book.one(name).outputs["__interrupt__"] == asked["__interrupt__"]

    again = Recorder()
    face.invoke(graph, Command(resume="yes"), {**thread(), "callbacks": [again]})
    assert again.book.one("LangGraph").inputs == Command(resume="yes")
    assert again.book.one("work").outputs == {"log": ["yes"]}


def test_a_router_belongs_to_its_nodes_run(face, recorder):
    route = RunnableLambda(lambda state: "b").with_config(run_name="route")
    builder = StateGraph(Log).add_node("a", says("a")).add_node("b", says("b")).add_edge(START, "a")
    builder.add_conditional_edges("a", route, ["b"])
    assert face.invoke(builder.compile(), {"log": []}, {"callbacks": [recorder]})["log"] == ["a", "b"]
    assert recorder.book.path("route") == ["LangGraph", "a", "route"]


def test_a_router_at_the_start_belongs_to_the_graphs_run(face, recorder):
    route = RunnableLambda(lambda state: "b").with_config(run_name="route")
    builder = StateGraph(Log).add_node("b", says("b")).add_conditional_edges(START, route, ["b"])
    face.invoke(builder.compile(), {"log": []}, {"callbacks": [recorder]})
    assert recorder.book.path("route") == ["LangGraph", "route"]


def test_get_config_gives_the_callbacks_of_the_node(face, recorder):
    def node(state):
        return {"log": [shout.invoke("x", get_config())]}

    face.invoke(line({"work": node}), {"log": []}, {"callbacks": [recorder]})
    assert recorder.book.path("shout") == ["LangGraph", "work", "shout"]


def test_nothing_stays_behind_in_the_callers_context(face, recorder):
    after = Recorder()
    face.invoke(line({"work": sync_node}), {"log": []}, {"callbacks": [recorder], "tags": ["mine"]})
    shout.invoke("x", {"callbacks": [after]})
    assert (after.book.one("shout").parent, after.book.one("shout").tags) == (None, [])


# --- handlers that misbehave ------------------------------------------------------------------------------------------


class Angry(Recorder):
    """Raises where it is told to."""

    def __init__(self, event, name, *, raise_error=False):
        super().__init__()
        self.raise_error = raise_error
        self.at = event, name

    def on_chain_start(self, *args, name=None, **more):
        super().on_chain_start(*args, name=name, **more)
        self.be_angry("start", name)

    def on_chain_end(self, outputs, *, run_id, **more):
        super().on_chain_end(outputs, run_id=run_id, **more)
        self.be_angry("end", self.book.runs[run_id].name)

    def be_angry(self, event, name):
        if self.at == (event, name):
            raise OSError(f"{event} of {name}")


@pytest.mark.parametrize("event", ["start", "end"])
@pytest.mark.parametrize("name", ["LangGraph", "work"])
def test_an_exception_in_a_handler_does_not_break_the_run(face, event, name, caplog):
    with caplog.at_level(logging.WARNING):
        result = face.invoke(line({"work": says("a")}), {"log": []}, {"callbacks": [Angry(event, name)]})
    assert result == {"log": ["a"]}
    assert f"{event} of {name}" in caplog.text


@pytest.mark.parametrize("event", ["start", "end"])
@pytest.mark.parametrize("name", ["LangGraph", "work"])
def test_a_handler_that_insists_on_its_error_stops_the_run(face, event, name, caplog):
    handler = Angry(event, name, raise_error=True)
    with pytest.raises(OSError, match=f"{event} of {name}"):
        face.invoke(line({"work": says("a")}), {"log": []}, {"callbacks": [handler]})


# --- who gets the handlers --------------------------------------------------------------------------------------------


def test_handlers_of_the_graph_and_of_the_call_are_told_both(face, recorder):
    called = Recorder()
    graph = line({"work": sync_node}).with_config(callbacks=[recorder])
    face.invoke(graph, {"log": []}, {"callbacks": [called]})
    assert recorder.book.ends() == called.book.ends() == {"LangGraph": "ok", "work": "ok", "shout": "ok"}


@pytest.mark.parametrize("manager", [CallbackManager, AsyncCallbackManager])
def test_a_manager_joins_the_handlers_of_the_graph(face, recorder, manager):
    called = Recorder()
    graph = line({"work": sync_node}).with_config(callbacks=[recorder])
    face.invoke(graph, {"log": []}, {"callbacks": manager([called], inheritable_handlers=[called])})
    assert recorder.book.ends() == called.book.ends() == {"LangGraph": "ok", "work": "ok", "shout": "ok"}


def test_two_managers_are_joined(recorder):
    called = Recorder()
    graph = line({"work": sync_node}).with_config(callbacks=CallbackManager([recorder], [recorder]))
    graph.invoke({"log": []}, {"callbacks": CallbackManager([called], [called])})
    assert recorder.book.ends() == called.book.ends()


def test_callbacks_may_be_a_tuple(recorder):
    line({"work": sync_node}).invoke({"log": []}, {"callbacks": (recorder,)})
    assert recorder.book.path("shout") == ["LangGraph", "work", "shout"]


def test_a_lone_handler_is_refused_with_the_cure(recorder):
    with pytest.raises(InvalidConfigError, match="callbacks=\\[handler\\]"):
        line({"work": sync_node}).invoke({"log": []}, {"callbacks": recorder})


def test_a_graph_called_in_a_node_belongs_to_the_node(face, recorder):
    inner = line({"deep": sync_node}, name="inner")

    def node(state):
        return {"log": inner.invoke({"log": []})["log"] + inner.batch([{"log": []}])[0]["log"]}

    face.invoke(line({"work": node}, name="outer"), {"log": []}, {"callbacks": [recorder], "tags": ["mine"]})
    book = recorder.book
    assert [book.runs[seen.parent].name for seen in book.named("inner")] == ["work", "work"]
    assert [book.runs[seen.parent].name for seen in book.named("deep")] == ["inner", "inner"]
    assert all("mine" in seen.tags for seen in book.named("deep"))


# --- the async face ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("node", [sync_node, async_node])
def test_async_handlers_run_on_the_loop_of_the_run(node):
    recorder = AsyncRecorder()

    async def main():
        graph = fan({"a": node, "b": node})
        await graph.ainvoke({"log": []}, {"callbacks": [recorder]})
        return asyncio.get_running_loop()

    loop = asyncio.run(main())
    assert loop in recorder.loops
    told = {"LangGraph": "ok", "a": "ok", "b": "ok", "shout": "ok"}
    assert recorder.book.ends() == told
    if node is async_node:
        assert recorder.loops == {loop}


def test_of_a_sync_node_under_asyncio_async_handlers_are_told_on_the_loop_of_the_run():
    recorder = AsyncRecorder()

    async def main():
        await line({"a": says("a")}).ainvoke({"log": []}, {"callbacks": [recorder]})
        assert recorder.loops == {asyncio.get_running_loop()}

    asyncio.run(main())
