"""Whose the kept results of nodes are: of functions, graphs inside and older versions; and `clear_cache`."""

from typing import TypedDict

import pytest

from durable_graph import END, START, Command, StateGraph
from durable_graph.caches import CachePolicy, InMemoryCache
from durable_graph.errors import InvalidConfigError
from tests.behaviour.kept import CFG, KEPT, Asked, Question, answering, one
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, Marks

# --- whose results they are ------------------------------------------------------------------------------------------


def test_another_function_under_the_same_name_finds_nothing_of_the_old_one(face, caches):
    """Two lambdas in one place have the same name; they are told apart by what they do."""
    first = one(lambda state: {"answer": "first"}).compile(cache=caches.make())
    second = one(lambda state: {"answer": "second"}).compile(cache=caches.make())
    assert [face.invoke(graph, {"question": "x"})["answer"] for graph in (first, second)] == ["first", "second"]


def test_two_nodes_of_one_function_keep_their_own(face, caches):
    marks = Marks()
    node = answering(marks)
    builder = one(node).add_node("b", node, cache_policy=KEPT, input_schema=Question).add_edge("a", "b")
    face.invoke(builder.compile(cache=caches.make()), {"question": "x"})
    assert marks.seen == ["x", "x"]


def test_two_graphs_as_nodes_keep_their_own(face, caches):
    def made(word):
        inner = StateGraph(Asked).add_node(word, lambda state: {"answer": word}).add_edge(START, word).compile()
        return StateGraph(Asked).add_node("sub", inner, cache_policy=KEPT).add_edge(START, "sub")

    found = [face.invoke(made(word).compile(cache=caches.make()), {"question": "x"})["answer"] for word in ("p", "q")]
    assert found == ["p", "q"]


def test_a_result_that_no_longer_fits_the_graph_is_computed_anew(face, caches):
    """It was kept by a version that had another key and another node to go to."""
    marks = Marks()

    def node(state):
        marks("a")
        return Command(update={word: "x"}, goto=target)

    class Old(TypedDict, total=False):
        question: str
        old: str

    class New(TypedDict, total=False):
        question: str
        new: str

    word, target = "old", "gone"
    old = one(node, schema=Old).add_node("gone", lambda state: None)
    face.invoke(old.compile(cache=caches.make()), {"question": "q"})
    word, target = "new", END
    graph = one(node, schema=New).compile(cache=caches.make())
    for _ in range(2):
        assert face.invoke(graph, {"question": "q"}) == {"question": "q", "new": "x"}
    assert marks.count("a") == 2


# --- graphs inside, defaults, no cache -------------------------------------------------------------------------------


def test_graphs_inside_use_the_cache_of_the_outermost_one(face, caches):
    marks = Marks()
    inner = one(answering(marks)).compile()
    graph = StateGraph(Asked).add_node("sub", inner).add_edge(START, "sub").compile(cache=caches.make())
    for _ in range(2):
        assert face.invoke(graph, {"question": "x"})["answer"] == "answer to x"
    assert marks.seen == ["x"]


def test_a_graph_inside_may_have_a_cache_of_its_own(face, caches):
    marks = Marks()
    inner = one(answering(marks)).compile(cache=InMemoryCache())
    graph = StateGraph(Asked).add_node("sub", inner).add_edge(START, "sub").compile(cache=caches.make())
    face.invoke(graph, {"question": "x"})
    caches.make().clear()
    face.invoke(graph, {"question": "x"})
    assert marks.seen == ["x"]


def test_a_default_policy_holds_for_all_nodes(face, caches):
    marks = Marks()
    builder = StateGraph(Asked).add_node("a", answering(marks)).add_node("b", answering(marks)).add_edge(START, "a")
    builder.add_edge("a", "b").set_node_defaults(cache_policy=CachePolicy(key_func=lambda state: state["question"]))
    graph = builder.compile(cache=caches.make())
    for _ in range(2):
        face.invoke(graph, {"question": "x"})
    assert marks.seen == ["x", "x"]


def test_a_policy_without_a_cache_is_an_error_before_anything_happens(face, backend):
    marks = Marks()
    graph = one(answering(marks)).compile(backend.make())
    with pytest.raises(InvalidConfigError, match=r"(?s)'a'.*cache_policy.*compile\(cache="):
        face.invoke(graph, {"question": "x"}, CFG)
    assert marks.seen == []
    assert face.get_state(graph, CFG).metadata is None


# --- forgetting ------------------------------------------------------------------------------------------------------


def two_nodes(marks):
    builder = one(answering(marks, "a "))
    builder.add_node("b", answering(marks, "b "), cache_policy=KEPT, input_schema=Question)
    return builder.add_node("plain", says("plain")).add_edge("a", "b").add_edge("b", "plain")


def clear(face, graph, nodes=None):
    face.call(graph, "clear_cache", nodes)


@pytest.mark.parametrize(("nodes", "again"), [(None, 2), (["a"], 1), (["a", "b"], 2), ([], 0), (["plain"], 0)])
def test_results_of_all_nodes_or_of_some_are_forgotten(face, caches, nodes, again):
    marks = Marks()
    graph = two_nodes(marks).compile(cache=caches.make())
    face.invoke(graph, {"question": "x"})
    clear(face, graph, nodes)
    face.invoke(graph, {"question": "x"})
    assert len(marks.seen) == 2 + again


def test_forgetting_leaves_other_graphs_alone(face, caches):
    cache, marks = caches.make(), Marks()
    first, second = one(lambda state: {"answer": "1"}).compile(cache=cache), one(answering(marks)).compile(cache=cache)
    face.invoke(second, {"question": "x"})
    clear(face, first)
    face.invoke(second, {"question": "x"})
    assert marks.seen == ["x"]


def test_results_of_graphs_inside_are_forgotten_with_those_of_the_outer_one(face, caches):
    marks = Marks()
    inner = one(answering(marks)).compile()
    graph = StateGraph(Asked).add_node("sub", inner).add_edge(START, "sub").compile(cache=caches.make())
    face.invoke(graph, {"question": "x"})
    clear(face, graph)
    face.invoke(graph, {"question": "x"})
    assert marks.seen == ["x", "x"]


def test_an_unknown_node_and_a_graph_without_a_cache_are_errors(face, caches):
    with pytest.raises(InvalidConfigError, match=r"(?s)'nope'.*'a'"):
        clear(face, one(answering(Marks())).compile(cache=caches.make()), ["nope"])
    with pytest.raises(ValueError, match="cache"):
        clear(face, StateGraph(Log).add_node("a", says("a")).add_edge(START, "a").compile())
