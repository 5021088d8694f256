"""Graphs inside nodes, found by their namespace without running anything."""

import pytest

from durable_graph.errors import InvalidConfigError
from durable_graph.graph.inner import graph_at, graphs_at, namespace_of, subgraphs_below
from durable_graph.records import Address, Frontier, StepRecord, StoredCheckpoint
from tests.behaviour.small_graphs import chain


def leaf(name):
    return chain(**{name: lambda state: None}).compile(name=name)


ONE, TWO = leaf("one"), leaf("two")
MIDDLE = chain(deep=ONE).compile(name="middle")


def calls_both(state):
    ONE.invoke(state)
    TWO.invoke(state)


GRAPH = chain(**{"sub": MIDDLE, "both": calls_both, "c++": ONE, "a+1": TWO, "plain": lambda state: None}).compile()


def stored_by(graph):
    step = StepRecord(0, "loop", {}, Frontier(), fingerprint=graph.program.fingerprint)
    return StoredCheckpoint(Address(2, 5, 1), None, {}, {}, step)


@pytest.mark.parametrize(
    ("ns", "found"),
    [
        ("", GRAPH),
        ("sub", MIDDLE),
        ("sub:3", MIDDLE),
        ("sub:3+1", MIDDLE),
        ("sub:+7", MIDDLE),
        ("sub|deep", ONE),
        ("sub:3|deep:1+2", ONE),
        ("both", ONE),
        ("both:+1", TWO),
        ("both:2+1", TWO),
        ("both:+9", TWO),
        ("c++", ONE),
        ("c++:+1", ONE),
        ("a+1", TWO),
    ],
)
def test_a_namespace_leads_to_its_graph(ns, found):
    assert graph_at(GRAPH, ns) is found


@pytest.mark.parametrize(
    "ns", ["nope", "sub|nope", "plain", "sub|", "|sub", "a", "sub:x", "sub:1:2", "sub+1", "sub|deep|one"]
)
def test_a_namespace_without_a_graph_leads_nowhere(ns):
    assert graph_at(GRAPH, ns) is None
    assert graphs_at(GRAPH, ns) == []
    with pytest.raises(InvalidConfigError, match="leads to no graph"):
        subgraphs_below(GRAPH, ns, recurse=False)


def test_where_a_node_calls_several_the_checkpoint_says_which_one_it_is():
    assert graph_at(GRAPH, "both", stored_by(TWO)) is TWO
    assert graph_at(GRAPH, "both:+1", stored_by(ONE)) is ONE
    assert graph_at(GRAPH, "both:+1", stored_by(MIDDLE)) is TWO


def test_the_graphs_below_are_listed_once_each():
    found = list(subgraphs_below(GRAPH, None, recurse=True))
    names = ["sub", "sub|deep", "both", "both:+1", "c++", "a+1"]
    assert found == list(zip(names, [MIDDLE, ONE, ONE, TWO, ONE, TWO], strict=True))
    assert [ns for ns, _ in subgraphs_below(GRAPH, None, recurse=False)] == ["sub", "both", "both:+1", "c++", "a+1"]


def test_graphs_that_call_each_other_are_listed_to_where_they_begin_again():
    graphs = {}

    def ping(state):
        graphs["pong"].invoke(state)

    def pong(state):
        graphs["ping"].invoke(state)

    graphs["ping"], graphs["pong"] = chain(i=ping).compile(), chain(o=pong).compile()
    found = list(subgraphs_below(graphs["ping"], None, recurse=True))
    assert len(found) <= 8
    assert graph_at(graphs["ping"], found[-1][0]) is not None


def test_the_namespace_of_a_config_is_the_outermost_graph_unless_it_says_so():
    assert namespace_of({"configurable": {}}) == ""
    assert namespace_of({"configurable": {"checkpoint_ns": None}}) == ""
    assert namespace_of({"configurable": {"checkpoint_ns": "sub|deep"}}) == "sub|deep"
