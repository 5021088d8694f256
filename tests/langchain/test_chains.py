"""Graphs inside LangChain's chains, and the configs that LangChain passes down to them."""

import asyncio
import uuid

import pytest
from langchain_core.runnables import RunnableLambda, RunnableParallel
from langchain_core.runnables.config import DEFAULT_RECURSION_LIMIT

from checkpointers import InMemorySaver
from durable_graph import END, START, GraphRecursionError, StateGraph
from tests.langchain.graphs import Log, line, says, thread

into = RunnableLambda(lambda text: {"log": [text]})
out_of = RunnableLambda(lambda state: state["log"])


def graph(**compile_arguments):
    return line({"work": says("b")}, **compile_arguments)


CHAINS = {
    "graph last": lambda g: into | g | out_of,
    "graph first": lambda g: into | (g | out_of),
    "lambda": lambda g: into | RunnableLambda(g) | out_of,
    "both faces": lambda g: into | RunnableLambda(g.invoke, g.ainvoke) | out_of,
    "called": lambda g: into | RunnableLambda(lambda state, config: g.invoke(dict(state), config)) | out_of,
}
chains = pytest.mark.parametrize("make", CHAINS.values(), ids=CHAINS.keys())


@chains
def test_a_graph_is_part_of_a_chain(face, make):
    assert face.invoke(make(graph()), "a") == ["a", "b"]


@chains
def test_a_chain_with_a_graph_runs_in_a_batch(face, make):
    assert face.batch(make(graph()), ["a", "c"], {"max_concurrency": 1}) == [["a", "b"], ["c", "b"]]


@chains
def test_a_chain_with_a_graph_streams_its_result(face, make):
    assert face.stream(make(graph()), "a") == [["a", "b"]]


@chains
def test_a_graph_in_a_chain_is_below_it(face, make, recorder):
    face.invoke(make(graph(name="mine")), "a", {"callbacks": [recorder], "tags": ["t"], "run_name": "chain"})
    book = recorder.book
    assert book.path("work")[0] == "chain"
    assert book.path("work")[-2:] == ["mine", "work"]
    assert "t" in book.one("work").tags
    assert {seen.end for seen in book.runs.values()} == {"ok"}


def test_a_graph_that_is_called_in_a_chain_without_a_config_is_below_it_too(face, recorder):
    mine = graph(name="mine")
    chain = into | RunnableLambda(lambda state: mine.invoke(dict(state))).with_config(run_name="caller")
    face.invoke(chain, "a", {"callbacks": [recorder]})
    assert recorder.book.path("work")[-3:] == ["caller", "mine", "work"]


def test_several_graphs_run_in_parallel(face):
    both = RunnableParallel(one=into | graph(), two=into | graph())
    assert face.invoke(both, "a") == {"one": {"log": ["a", "b"]}, "two": {"log": ["a", "b"]}}


def test_an_async_node_runs_in_a_chain(face):
    async def work(state):
        await asyncio.sleep(0)
        return {"log": ["b"]}

    assert face.invoke(into | line({"work": work}) | out_of, "a") == ["a", "b"]


def test_a_graph_is_a_node_of_a_graph(face):
    assert face.invoke(line({"outer": graph()}), {"log": ["a"]})["log"] == ["a", "a", "b"]


# --- what LangChain passes down ---------------------------------------------------------------------------------------


def test_everything_that_langchain_passes_down_is_accepted(face):
    config = {
        "tags": ["t"],
        "metadata": {"user": 1},
        "callbacks": [],
        "run_name": "chain",
        "max_concurrency": None,
        "recursion_limit": 5,
        "configurable": {"mine": 1},
        "run_id": uuid.uuid4(),
    }
    seen = []

    def work(state, config):
        seen.append(config)
        return {"log": ["b"]}

    assert face.invoke(into | line({"work": work}), "a", config) == {"log": ["a", "b"]}
    assert seen[0]["configurable"] == {"mine": 1}
    assert seen[0]["tags"] == ["t"]
    assert seen[0]["metadata"]["user"] == 1
    assert seen[0]["recursion_limit"] == 5


@pytest.mark.parametrize(
    "config", [thread(), {"thread_id": "t"}, {"configurable": {"thread_id": uuid.UUID(int=7)}}], ids=repr
)
def test_the_thread_id_of_the_chain_is_that_of_the_graph(face, backend, config):
    mine = graph(checkpointer=backend.make())
    chain = into | mine | out_of
    assert face.invoke(chain, "a", config) == ["a", "b"]
    assert face.invoke(chain, "c", config) == ["a", "b", "c", "b"]
    assert face.get_state(mine, config).values["log"] == ["a", "b", "c", "b"]


def test_with_config_names_the_thread(face, backend):
    mine = graph(checkpointer=backend.make())
    for bound in (mine.with_config(configurable={"thread_id": "t"}), mine.with_config({"thread_id": "t"})):
        face.invoke(into | bound, "a")
    chain = (into | mine).with_config(configurable={"thread_id": "t"})
    assert len(face.invoke(chain, "a")["log"]) == 6


def test_what_is_bound_to_the_chain_goes_before_what_is_bound_to_the_graph(face):
    def work(state, config):
        return {"log": [config["configurable"][key] for key in ("a", "b", "c")] + config["tags"]}

    bound = line({"work": work}).with_config(configurable={"a": 1, "b": 1, "c": 1}, tags=["graph"])
    chain = (into | bound).with_config(configurable={"b": 2, "c": 2}, tags=["chain"])
    found = face.invoke(chain, "", {"configurable": {"c": 3}})["log"][1:]
    assert (found[:3], sorted(found[3:])) == ([1, 2, 3], ["chain", "graph"])


def test_configurable_values_are_not_copied_into_what_is_stored(face, backend):
    mine = graph(checkpointer=backend.make())
    config = {"configurable": {"thread_id": "t", "api_key": "secret"}}
    face.invoke(into | mine, "a", config)
    for snapshot in face.get_state_history(mine, config):
        assert "secret" not in repr(snapshot.metadata)


# --- recursion_limit --------------------------------------------------------------------------------------------------


def loop(until, **compile_arguments):
    """A graph that takes `until` supersteps."""
    builder = StateGraph(Log).add_node("turn", says("x")).add_edge(START, "turn")
    builder.add_conditional_edges("turn", lambda state: "turn" if len(state["log"]) < until else END, ["turn", END])
    return builder.compile(**compile_arguments)


LONG = DEFAULT_RECURSION_LIMIT + 15
EMPTY = RunnableLambda(lambda _: {"log": []})


@pytest.mark.parametrize("config", [None, {"recursion_limit": LONG}])
def test_a_chain_does_not_cut_a_graph_off_at_a_limit_that_nobody_set(face, config):
    assert len(face.invoke(EMPTY | loop(LONG) | out_of, "", config)) == LONG


@pytest.mark.parametrize("limit", [5, DEFAULT_RECURSION_LIMIT + 1])
def test_a_limit_that_the_caller_of_a_chain_set_is_obeyed(face, limit):
    with pytest.raises(GraphRecursionError, match=str(limit)):
        face.invoke(EMPTY | loop(LONG), "", {"recursion_limit": limit})


def test_the_limit_of_the_graph_itself_holds_in_a_chain(face):
    bound = loop(LONG).with_config(recursion_limit=DEFAULT_RECURSION_LIMIT)
    with pytest.raises(GraphRecursionError, match=str(DEFAULT_RECURSION_LIMIT)):
        face.invoke(EMPTY | bound, "")


def test_langchains_default_is_a_limit_when_the_graph_is_called_with_it(face, recorder):
    with pytest.raises(GraphRecursionError, match=str(DEFAULT_RECURSION_LIMIT)):
        face.invoke(loop(LONG), {"log": []}, {"recursion_limit": DEFAULT_RECURSION_LIMIT, "callbacks": [recorder]})


def test_a_graph_in_a_node_has_the_limit_that_was_set_for_the_graph_around_it(face):
    inner = loop(LONG)
    outer = line({"work": lambda state, config: inner.invoke({"log": []}, config)})
    assert len(face.invoke(outer, {"log": []})["log"]) == LONG
    with pytest.raises(GraphRecursionError, match=str(DEFAULT_RECURSION_LIMIT)):
        face.invoke(outer, {"log": []}, {"recursion_limit": DEFAULT_RECURSION_LIMIT})


def test_a_chain_in_a_node_brings_no_limit_of_its_own(face):
    chain = EMPTY | loop(LONG)
    assert len(face.invoke(line({"work": chain}), {"log": []})["log"]) == LONG


def test_a_graph_without_a_thread_id_says_so_in_a_chain(face):
    with pytest.raises(ValueError, match="thread_id"):
        face.invoke(into | graph(checkpointer=InMemorySaver()), "a")
