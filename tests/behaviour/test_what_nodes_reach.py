"""What a node reaches beside the state: config, runtime, context, store and writer, by parameter and by function."""

import threading
from dataclasses import dataclass
from typing import Optional, TypedDict

import pytest
from pydantic import BaseModel, ValidationError

from durable_graph import (
    START,
    RetryPolicy,
    Runtime,
    StateGraph,
    get_config,
    get_runtime,
    get_stream_writer,
    interrupt,
)
from durable_graph.errors import OutsideRunError
from durable_graph.types import RunnableConfig
from tests.behaviour.making import both
from tests.behaviour.small_graphs import Log, thread

STORE = object()


@dataclass
class Context:
    user: str
    limit: int = 3


class Model(BaseModel):
    user: str
    limit: int = 3


class Typed(TypedDict):
    user: str


def runs(face, node, context_schema=None, **keywords):
    """The log after one node ran."""
    graph = StateGraph(Log, context_schema).add_node("a", node).add_edge(START, "a").compile(store=STORE)
    return face.invoke(graph, {"log": []}, **keywords)["log"]


def all_of_them(state, config, runtime, writer, store):
    return {"log": [type(config), type(runtime), callable(writer), store is STORE, runtime.store is STORE]}


def keywords_only(state, *, config, runtime, writer, store):
    return all_of_them(state, config, runtime, writer, store)


def other_order(runtime, store, state, writer, config):
    return all_of_them(state, config, runtime, writer, store)


def with_defaults(state, config=None, runtime=None, writer=None, store=None):
    return all_of_them(state, config, runtime, writer, store)


def annotated(state: Log, config: RunnableConfig, runtime: Runtime[Context], writer: object, store: object):
    return all_of_them(state, config, runtime, writer, store)


def optional(state: Log, config: Optional[RunnableConfig] = None):  # noqa: UP045 - as people write it
    return {"log": [type(config), Runtime, True, True, True]}


@pytest.mark.parametrize("node", [all_of_them, keywords_only, with_defaults, annotated, optional])
def test_parameters_are_given_by_name(face, node):
    assert runs(face, node) == [dict, Runtime, True, True, True]


def test_parameters_are_given_to_async_nodes_callable_objects_and_partials(face):
    import functools

    async def asynchronous(state, config, runtime, writer, store):
        return all_of_them(state, config, runtime, writer, store)

    class Callable:
        def __call__(self, state, config, runtime, writer, store):
            return all_of_them(state, config, runtime, writer, store)

    partial = functools.partial(lambda word, state, config: {"log": [word, type(config)]}, "word")
    assert runs(face, asynchronous) == runs(face, Callable()) == [dict, Runtime, True, True, True]
    assert runs(face, partial) == ["word", dict]


def test_a_router_is_given_them_too(face):
    got = []

    def route(state, config, runtime):
        got.append((type(config), runtime.context))
        return "__end__"

    graph = StateGraph(Log).add_node("a", lambda state: None).add_edge(START, "a").add_conditional_edges("a", route)
    face.invoke(graph.compile(), {"log": []}, context="c")
    assert got == [(dict, "c")]


# --- context ----------------------------------------------------------------------------------------------------------


def shows_context(state, runtime):
    return {"log": [runtime.context]}


@pytest.mark.parametrize("schema", [Context, Model])
@pytest.mark.parametrize("node", both(shows_context))
def test_a_dict_becomes_an_instance_of_the_context_schema(face, schema, node):
    def shows(state, runtime):
        return {"log": [runtime.context]}

    assert runs(face, shows, schema, context={"user": "u"}) == [schema(user="u")]
    assert runs(face, shows, schema, context=schema(user="v", limit=1)) == [schema(user="v", limit=1)]


@pytest.mark.parametrize("given", [{"user": "u"}, "text", None, 5])
def test_without_a_schema_the_context_is_what_was_passed(face, given):
    assert runs(face, shows_context, context=given) == [given]


@pytest.mark.parametrize("schema", [Typed, dict, dict[str, str]], ids=["typed", "bare", "plain"])
def test_a_context_that_is_declared_as_a_dict_stays_one(face, schema):
    assert runs(face, shows_context, schema, context={"user": "u"}) == [{"user": "u"}]


def test_a_context_that_does_not_fit_is_an_error_before_anything_runs(face):
    ran = []
    node = lambda state: ran.append(1)
    with pytest.raises(TypeError, match="wrong") as caught:
        runs(face, node, Context, context={"user": "u", "wrong": 1})
    assert caught.value.__notes__ == ["While `context` was read as Context."]
    with pytest.raises(ValidationError, match="user"):
        runs(face, node, Model, context={"user": []})
    assert ran == []


def test_a_context_is_not_stored(face, backend):
    graph = StateGraph(Log).add_node("a", lambda state, runtime: None).add_edge(START, "a")
    compiled = graph.compile(checkpointer=backend.make())
    assert face.invoke(compiled, {"log": []}, thread(), context=threading.Lock()) == {"log": []}


# --- runtime ----------------------------------------------------------------------------------------------------------


def test_the_execution_info_says_which_task_checkpoint_and_attempt_this_is(face, backend):
    infos = []

    def node(state, runtime):
        infos.append(runtime.execution_info)
        if len(infos) == 1:
            text = "again"
            raise ValueError(text)

    policy = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=ValueError)
    graph = StateGraph(Log).add_node("a", node, retry_policy=policy).add_edge(START, "a")
    compiled = graph.compile(checkpointer=backend.make())
    face.invoke(compiled, {"log": []}, {**thread(), "run_id": "r"})
    first, second = infos
    assert (first.node_attempt, second.node_attempt) == (1, 2)
    assert first.task_id == second.task_id
    assert (first.thread_id, first.run_id) == ("t", "r")
    before = face.get_state_history(compiled, thread())[1]
    assert first.checkpoint_id == before.config["configurable"]["checkpoint_id"]
    assert first.task_id == before.tasks[0].id


def test_without_a_checkpointer_there_is_neither_thread_nor_checkpoint(face):
    infos = []
    runs(face, lambda state, runtime: infos.append(runtime.execution_info))
    assert (infos[0].thread_id, infos[0].checkpoint_id) == (None, None)
    assert infos[0].task_id


def test_functions_that_a_node_calls_reach_the_same(face):
    def helper():
        return [type(get_config()), get_runtime().context, get_runtime(Context).store is STORE]

    assert runs(face, lambda state: {"log": helper()}, context="c") == [dict, "c", True]


@pytest.mark.parametrize("call", [get_config, get_runtime, get_stream_writer, lambda: interrupt("q")])
def test_outside_of_a_node_there_is_nothing_to_reach(call):
    with pytest.raises(OutsideRunError, match=r"outside of a running node(.|\n)*inside a node"):
        call()


def test_after_a_run_there_is_nothing_to_reach(face):
    runs(face, lambda state: {"log": [get_config()["metadata"]["langgraph_node"]]})
    with pytest.raises(OutsideRunError):
        get_config()


def test_an_override_of_the_runtime_is_a_copy(face):
    def node(state, runtime):
        other = runtime.override(context="other")
        return {"log": [runtime.context, other.context, other.store is STORE]}

    assert runs(face, node, context="mine") == ["mine", "other", True]
