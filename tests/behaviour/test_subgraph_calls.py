"""What a graph called inside a node has from the run around it, and when such a call is a run of its own."""

from dataclasses import dataclass

import pytest

from checkpointers import InMemorySaver
from durable_graph import START, Command, Runtime, StateGraph, get_config
from durable_graph.errors import ThreadBusy
from durable_graph.stores import InMemoryStore
from tests.behaviour.inside import DURABILITIES, asking, calling, checkpoints, working
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, Marks, chain, dump, thread

CFG = thread()


@dataclass
class Who:
    """What is handed to a run as context."""

    name: str


def child(**nodes):
    marks = Marks()
    return chain(**(nodes or {"c1": working(marks, "c1"), "c2": working(marks, "c2")})).compile()


# --- what is inherited ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_node", [True, False], ids=["as a node", "called"])
def test_the_inner_run_has_context_store_config_metadata_tags_and_limits_of_the_outer_one(face, backend, as_node):
    seen = {}

    def look(state, runtime: Runtime):
        config = get_config()
        seen.update(
            context=runtime.context,
            store=runtime.store,
            user=config["configurable"]["user"],
            metadata=config["metadata"]["customer"],
            tags=config["tags"],
            limit=config["recursion_limit"],
            thread=runtime.execution_info.thread_id,
        )

    store = InMemoryStore()
    inner = child(look=look)
    builder = StateGraph(Log, context_schema=Who).add_node("sub", inner if as_node else calling(face, inner))
    graph = builder.add_edge(START, "sub").compile(backend.make(), store=store)
    config = {**thread(user="u1"), "metadata": {"customer": 7}, "tags": ["blue"], "recursion_limit": 33}
    face.invoke(graph, {"log": []}, config, context=Who("Ada"))
    assert seen == {
        "context": Who("Ada"),
        "store": store,
        "user": "u1",
        "metadata": 7,
        "tags": ["blue"],
        "limit": 33,
        "thread": "t",
    }


def test_what_is_passed_to_the_inner_call_wins(face, backend):
    seen = {}

    def look(state, runtime: Runtime):
        config = get_config()
        seen.update(user=config["configurable"]["user"], tags=config["tags"], context=runtime.context)

    inner = child(look=look)

    def node(state):
        inner.invoke({}, {"configurable": {"user": "u2"}, "tags": ["blue", "red"]}, context=Who("Bob"))

    graph = chain(n=node).compile(backend.make())
    face.invoke(graph, {"log": []}, {**thread(user="u1"), "tags": ["blue"]}, context=Who("Ada"))
    assert seen == {"user": "u2", "tags": ["blue", "red"], "context": Who("Bob")}


def test_checkpoints_inside_keep_the_users_metadata_and_nothing_of_ours(face, backend):
    graph = chain(sub=child()).compile(backend.make())
    face.invoke(graph, {"log": []}, {**CFG, "metadata": {"customer": 7}})
    outer = face.get_state(graph, CFG).metadata
    inner = face.get_state(graph, thread(checkpoint_ns="sub")).metadata
    assert inner["customer"] == 7
    assert set(inner) == set(outer)


def test_a_graph_called_with_the_nodes_config_is_part_of_the_run(face, backend):
    inner = child()

    def node(state, config):
        return {"log": inner.invoke({"log": []}, config)["log"]}

    async def anode(state, config):
        return {"log": (await inner.ainvoke({"log": []}, config))["log"]}

    saver = backend.make()
    graph = chain(n=node if face.name == "sync" else anode).compile(saver)
    assert face.invoke(graph, {"log": []}, CFG)["log"] == ["c1", "c2"]
    assert set(checkpoints(saver)) == {"", "n"}


def test_a_config_of_a_node_two_levels_up_is_no_nested_call(face, backend):
    """Its thread is held by the run; the error says what to do."""
    bottom = chain(c=says("c")).compile(backend.make())
    kept = {}

    def keep(state, config):
        kept["config"] = config

    middle = chain(m=lambda s: {"log": bottom.invoke({"log": []}, kept["config"])["log"]}).compile()
    graph = chain(keep=keep, sub=middle).compile(backend.make())
    with pytest.raises(ThreadBusy, match="on its own thread"):
        face.invoke(graph, {"log": []}, CFG)


def test_a_graph_without_a_checkpointer_called_with_the_same_thread_id_is_part_of_the_run(face, backend):
    """As with `{"configurable": config["configurable"]}`: it names no other conversation."""
    inner = child()

    def node(state, config):
        return {"log": inner.invoke({"log": []}, {"configurable": config["configurable"]})["log"]}

    saver = backend.make()
    graph = chain(n=node).compile(saver)
    assert face.invoke(graph, {"log": []}, CFG)["log"] == ["c1", "c2"]
    assert set(checkpoints(saver)) == {"", "n"}


@DURABILITIES
def test_a_graph_with_a_thread_of_its_own_is_a_run_of_its_own(face, backend, durability):
    saver = backend.make()
    inner = chain(c=lambda s: {"log": [len(s["log"])]}).compile(saver)

    def node(state):
        return {"log": inner.invoke({"log": ["turn"]}, thread("other"), durability=durability)["log"]}

    graph = chain(n=node).compile(saver)
    assert face.invoke(graph, {"log": []}, CFG, durability=durability)["log"] == ["turn", 1]
    assert face.invoke(graph, {"log": []}, CFG, durability=durability)["log"] == ["turn", 1, "turn", 1, "turn", 3]
    assert set(checkpoints(saver)) == {""}
    assert set(checkpoints(saver, "other")) == {""}


def test_the_checkpointer_of_a_graph_that_becomes_a_node_is_not_used(face, backend, tmp_path):
    own = InMemorySaver()
    saver = backend.make()
    inner = chain(c1=says("c1")).compile(own)
    assert face.invoke(chain(sub=inner).compile(saver), {"log": []}, CFG)["log"] == ["c1"]
    assert set(checkpoints(saver)) == {"", "sub"}
    assert face.invoke(chain(sub=inner).compile(), {"log": []}) == {"log": ["c1"]}
    assert dump(own) is None


@pytest.mark.parametrize("memory", [None, True, False])
def test_idempotency_keys_inside_are_stable_over_resumes_and_differ_from_call_to_call(face, backend, memory):
    keys = []

    def look(state, runtime: Runtime):
        keys.append(runtime.idempotency_key)

    inner = chain(look=look).compile(checkpointer=memory)
    last = chain(ask=asking(Marks(), "ask")).compile(checkpointer=memory)

    def node(state):
        inner.invoke({"log": []})
        inner.invoke({"log": []})
        return {"log": last.invoke({"log": []})["log"]}

    graph = chain(n=node).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    face.invoke(graph, Command(resume=1), CFG)
    assert len(set(keys)) == 2
    assert keys == (keys[:2] * 2 if memory is False else keys[:2])
    face.invoke(graph, {"log": []}, CFG)
    assert len(set(keys)) == 4


def test_idempotency_keys_without_a_checkpointer_differ_from_call_to_call_and_run_to_run(face):
    keys = []

    def look(state, runtime: Runtime):
        keys.append(runtime.idempotency_key)

    inner = chain(look=look).compile()

    def node(state):
        inner.invoke({"log": []})
        inner.invoke({"log": []})

    graph = chain(n=node).compile()
    face.invoke(graph, {"log": []})
    face.invoke(graph, {"log": []})
    assert len(set(keys)) == 4


def test_runs_inside_have_the_run_id_of_the_outer_one(face, backend):
    graph = chain(sub=child()).compile(backend.make())
    face.invoke(graph, {"log": []}, CFG)
    outer = face.get_state(graph, CFG).metadata["run_id"]
    assert face.get_state(graph, thread(checkpoint_ns="sub")).metadata["run_id"] == outer


def test_a_graph_bound_to_a_thread_of_its_own_is_a_run_of_its_own(face, backend):
    saver = backend.make()
    inner = chain(c=lambda s: {"log": [len(s["log"])]}).compile(saver).with_config(thread("other"))
    for number, node in enumerate((inner, calling(face, inner, {"log": ["turn"]}))):
        graph = chain(n=node).compile(saver)
        face.invoke(graph, {"log": []}, thread(f"outer {number}"))
        assert set(checkpoints(saver, f"outer {number}")) == {""}
    assert face.get_state(inner, thread("other")).values["log"] == [0, "turn", 2]
