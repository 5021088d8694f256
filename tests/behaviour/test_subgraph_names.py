"""Which graphs there are inside the nodes of a graph, and under which namespaces."""

import functools

import pytest

from durable_graph.errors import InvalidConfigError
from tests.behaviour.inside import calling
from tests.behaviour.making import says
from tests.behaviour.small_graphs import chain, thread

CFG = thread()


def inside(ns):
    return thread(checkpoint_ns=ns)


class Team:
    """A node that is a method, and its graph an attribute."""

    def __init__(self, graph):
        self.graph = graph

    def work(self, state):
        return {"log": self.graph.invoke({"log": []})["log"]}


def with_graph(graph, state):
    return {"log": graph.invoke({"log": []})["log"]}


def test_graphs_of_nodes_functions_methods_and_partials_are_found(face):
    bottom = chain(b=says("b")).compile(name="bottom")
    middle = chain(deep=bottom).compile(name="middle")
    two = chain(c=says("c")).compile(name="two")

    def several(state):
        return {"log": [*middle.invoke({"log": []})["log"], *two.invoke({"log": []})["log"]]}

    nodes = {
        "itself": middle,
        "function": calling(face, middle),
        "method": Team(middle).work,
        "partial": functools.partial(with_graph, middle),
        "several": several,
        "plain": says("p"),
    }
    graph = chain(**nodes).compile()
    flat = [(name, found.name) for name, found in face.collect(graph, "get_subgraphs")]
    assert flat == [
        ("itself", "middle"),
        ("function", "middle"),
        ("method", "middle"),
        ("partial", "middle"),
        ("several", "middle"),
        ("several:+1", "two"),
    ]
    everything = dict(face.collect(graph, "get_subgraphs", recurse=True))
    assert set(everything) == {name for name, _ in flat} | {f"{name}|deep" for name, found in flat if found != "two"}
    assert everything["method|deep"] is bottom


def test_a_namespace_picks_one_graph(face):
    bottom = chain(b=says("b")).compile()
    middle = chain(deep=bottom).compile()
    graph = chain(one=middle, two=middle).compile()
    assert face.collect(graph, "get_subgraphs", namespace="two") == [("two", middle)]
    assert face.collect(graph, "get_subgraphs", namespace="one|deep") == [("one|deep", bottom)]
    found = face.collect(graph, "get_subgraphs", namespace="one", recurse=True)
    assert found == [("one", middle), ("one|deep", bottom)]


def test_a_graph_that_calls_itself_is_not_gone_into_for_ever(face, backend):
    graphs = {}

    def node(state):
        depth = state["other"]
        if depth:
            return {"log": [depth, *GRAPHS["self"].invoke({"other": depth - 1, "log": []})["log"]]}
        return {"log": [0]}

    GRAPHS["self"] = chain(n=node).compile(backend.make())
    graph = GRAPHS["self"]
    assert face.invoke(graph, {"other": 3, "log": []}, CFG)["log"] == [3, 2, 1, 0]
    assert [name for name, _ in face.collect(graph, "get_subgraphs", recurse=True)] == ["n"]
    assert face.get_state(graph, inside("n|n")).values["log"] == [1, 0]
    with pytest.raises(InvalidConfigError, match="leads to no graph"):
        face.get_state(graph, inside("other"))
    assert graphs == {}


GRAPHS = {}
