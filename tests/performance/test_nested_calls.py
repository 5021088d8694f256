"""What a graph inside a node costs, beside its own supersteps: calls, commits, OS threads."""

import itertools

import pytest

import durable_graph
from checkpointers import InMemorySaver
from durable_graph import START, StateGraph
from durable_graph.runtime import pool
from tests.performance import graphs
from tests.performance.counting import Commits, calls_of, slope
from tests.performance.test_os_threads import repeat, started

__all__ = ["started"]

LEVEL_WITHOUT = 240
LEVEL_WITH_MEMORY = 560
MORE = 10
"""What a superstep costs more: it is fenced off when the node around it is given up."""
CALLED = 30
"""What it costs more when a function calls the graph: it may call several, and they are told apart."""


def leaf(face):
    return graphs.countdown(
        durable_graph, graphs.Counter, lambda state: {"n": 0}, asynchronous=face.name == "async", checkpointer=None
    )


def around(face, graph, *, called=False):
    """A graph whose only node is, or calls, another one."""
    node = graph
    if called and face.name == "sync":

        def node(state):
            return graph.invoke(state)

    elif called:

        async def node(state):
            return await graph.ainvoke(state)

    return StateGraph(graphs.Counter).add_node("sub", node).add_edge(START, "sub")


def nested(face, levels, saver=None, *, called=False):
    graph = leaf(face)
    for level in range(levels):
        builder = around(face, graph, called=called)
        graph = builder.compile(saver if level == levels - 1 else None)
    return graph


def calls_of_a_level(face, saver=None, *, called=False):
    """The calls of one more level around a graph: START, one superstep, and what being inside costs."""
    numbers = itertools.count()
    made = {levels: nested(face, levels, saver, called=called) for levels in (2, 10)}

    def measure(levels):
        face.invoke(made[levels], {"n": 1}, graphs.config(f"warm-{next(numbers)}"))
        return calls_of(face.invoke, made[levels], {"n": 1}, graphs.config(f"thread-{next(numbers)}"))

    return slope(measure, 2, 10)


def test_a_level_without_checkpointer_makes_at_most_240_calls(face):
    assert calls_of_a_level(face) <= LEVEL_WITHOUT


def test_a_level_with_the_memory_checkpointer_makes_at_most_560_calls(face):
    assert calls_of_a_level(face, InMemorySaver()) <= LEVEL_WITH_MEMORY


def test_a_graph_that_is_called_makes_at_most_30_calls_more_than_one_that_is_a_node(face):
    assert calls_of_a_level(face, InMemorySaver(), called=True) <= LEVEL_WITH_MEMORY + CALLED


def test_a_superstep_inside_makes_at_most_10_calls_more_than_one_outside(face):
    step = graphs.loop(durable_graph, asynchronous=face.name == "async", checkpointer=None)
    inside = around(face, step).compile(InMemorySaver())
    outside = graphs.loop(durable_graph, asynchronous=face.name == "async", checkpointer=InMemorySaver())
    numbers = itertools.count()

    def measure(graph):
        return lambda n: calls_of(face.invoke, graph, {"n": n}, graphs.config(f"thread-{next(numbers)}"))

    assert slope(measure(inside), 20, 220) <= slope(measure(outside), 20, 220) + MORE


def commits(face, database, graph, n, **options):
    file, _ = database
    with Commits(file) as count:
        face.invoke(graph, {"n": n}, graphs.config(f"thread-{count.before}"), **options)
        return count.so_far()


@pytest.mark.parametrize("n", [1, 10])
def test_a_graph_of_n_steps_inside_is_at_most_n_plus_1_commits_more(face, database, n):
    inner = graphs.loop(durable_graph, asynchronous=face.name == "async", checkpointer=None)
    alone = leaf(face)
    alone.checkpointer = database[1]
    own = commits(face, database, alone, 1)  # an outer run of one step
    graph = around(face, inner).compile(database[1])
    assert commits(face, database, graph, n) <= own + n + 1


def test_exit_durability_commits_as_often_for_many_steps_inside_as_for_few(face, database):
    inner = graphs.loop(durable_graph, asynchronous=face.name == "async", checkpointer=None)
    graph = around(face, inner).compile(database[1])
    found = [commits(face, database, graph, n, durability="exit") for n in (1, 50)]
    assert found[0] == found[1] <= 2


def test_async_durability_waits_for_no_commit_inside(face, database):
    """In a hundred graphs, one after the other; it would be a commit for each."""
    inner = leaf(face)

    def many(state):
        for _ in range(100):
            inner.invoke({"n": 1})

    async def amany(state):
        for _ in range(100):
            await inner.ainvoke({"n": 1})

    builder = StateGraph(graphs.Counter).add_node("n", many if face.name == "sync" else amany).add_edge(START, "n")
    assert commits(face, database, builder.compile(database[1]), 1, durability="async") < 100


@pytest.mark.parametrize("called", [False, True], ids=["as a node", "called"])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_graph_inside_starts_no_os_threads_once_warm(face, backend, started, durability, called):
    graph = nested(face, 3, backend.make(), called=called)

    def work(thread):
        face.invoke(graph, {"n": 1}, graphs.config(thread), durability=durability)

    assert repeat(started, work) == []


def test_the_pool_is_not_grown_by_levels(face):
    graph = nested(face, 5)
    before = pool._pool.size
    face.invoke(graph, {"n": 1})
    assert pool._pool.size == before
