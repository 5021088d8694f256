"""From a frontier to tasks, and from finished tasks to the next frontier."""

import pytest

from durable_graph.core.planning import Task, breakpoint_hit, follow, plan
from durable_graph.core.program import Join, NodeSpec, Program, matches
from durable_graph.errors import UnknownNodeError
from durable_graph.records import Address, Frontier
from durable_graph.types import MISSING, START, Send

ORIGIN = ("t", Address(1, 3, 7))


def program(*specs, joins=(), **more):
    nodes = {spec.name: spec for spec in (NodeSpec(START, None, hidden=True), *specs)}
    return Program("g", nodes, {join.name: join for join in joins}, {}, (), (), "f", **more)


def ran(spec, *routes):
    task = Task(spec, spec.name, ORIGIN)
    task.writes, task.routes = (), routes
    return task


def test_tasks_are_nodes_by_name_then_sends_as_they_were_sent():
    graph = program(NodeSpec("a", None), NodeSpec("b", None))
    tasks = plan(graph, Frontier(("a", "b"), (Send("b", 1), Send("a", 2))), ORIGIN)
    assert [task.path for task in tasks] == ["a", "b", "b#0", "a#1"]
    assert [task.arg for task in tasks] == [MISSING, MISSING, 1, 2]
    assert [task.name for task in tasks] == ["a", "b", "b", "a"]


def test_every_task_of_every_checkpoint_of_every_thread_has_an_id_of_its_own():
    graph = program(NodeSpec("a", None))
    frontier = Frontier(("a",), (Send("a", 1), Send("a", 1)))
    origins = [ORIGIN, ("u", Address(1, 3, 7)), *(("t", place) for place in [(1, 4, 7), (2, 3, 7), (1, 3, 8)])]
    ids = [task.id for origin in origins for task in plan(graph, frontier, (origin[0], Address(*origin[1])))]
    assert len(set(ids)) == 15
    assert ids[:3] == [task.id for task in plan(graph, frontier, ORIGIN)]


@pytest.mark.parametrize("frontier", [Frontier(("gone",)), Frontier((), (Send("gone", 1),))])
def test_a_stored_node_that_the_graph_lacks_is_named_with_those_it_has(frontier):
    graph = program(NodeSpec("a", None), NodeSpec("b", None))
    with pytest.raises(UnknownNodeError, match=r"thread 't' goes on at node 'gone'.*'g'.*it has 'a', 'b'.*untouched"):
        plan(graph, frontier, ORIGIN)


def test_a_task_shows_its_path_and_attempt():
    assert repr(Task(NodeSpec("a", None), "a#2", ORIGIN)) == "Task('a#2', attempt=1)"


def test_finished_tasks_lead_along_edges_and_routes():
    a, b = NodeSpec("a", None, edges=("c", "d")), NodeSpec("b", None)
    found = follow(program(a, b), [ran(a, "x"), ran(b, Send("y", 1), "c", Send("z", 2))], Frontier())
    assert found == Frontier(("c", "d", "x"), (Send("y", 1), Send("z", 2)))


JOIN = Join("a+b->c", ("a", "b"), "c")
A, B = NodeSpec("a", None, joins=(JOIN.name,)), NodeSpec("b", None, joins=(JOIN.name,))
GRAPH = program(A, B, joins=[JOIN])


def test_a_barrier_opens_when_all_sources_ran_in_one_step():
    assert follow(GRAPH, [ran(A), ran(B)], Frontier()) == Frontier(("c",))


def test_a_barrier_remembers_over_steps_which_sources_ran():
    first = follow(GRAPH, [ran(B)], Frontier())
    assert first == Frontier(arrived={JOIN.name: ("b",)})
    assert follow(GRAPH, [ran(B)], first) == first
    assert follow(GRAPH, [ran(A)], first) == Frontier(("c",))


def test_a_barrier_that_opened_waits_for_all_sources_anew():
    opened = follow(GRAPH, [ran(A), ran(B)], Frontier())
    assert follow(GRAPH, [ran(A)], opened) == Frontier(arrived={JOIN.name: ("a",)})


def test_a_source_that_ran_twice_in_the_step_that_opens_a_barrier_counts_once():
    assert follow(GRAPH, [ran(A), ran(B), ran(A)], Frontier()) == Frontier(("c",))


def test_what_a_barrier_remembered_before_stays_as_it_was():
    before = Frontier(arrived={JOIN.name: ("a",)})
    follow(GRAPH, [ran(B)], before)
    assert before == Frontier(arrived={JOIN.name: ("a",)})


def test_deferred_nodes_wait_until_nothing_else_would_run():
    late = NodeSpec("late", None)
    a, b = NodeSpec("a", None, edges=("late", "b")), NodeSpec("b", None)
    graph = program(a, b, late, deferred=frozenset({"late"}))
    first = follow(graph, [ran(a)], Frontier())
    assert first == Frontier(("b",), deferred=("late",))
    assert follow(graph, [ran(b, Send("b", 1))], first) == Frontier((), (Send("b", 1),), deferred=("late",))
    assert follow(graph, [ran(b)], first) == Frontier(("late",))


def test_a_star_breakpoint_means_every_visible_node():
    hidden, seen = NodeSpec(START, None, hidden=True), NodeSpec("a", None)
    assert matches("*", seen)
    assert not matches("*", hidden)
    assert matches(frozenset({"a"}), seen)
    assert not breakpoint_hit(frozenset(), [ran(seen)])
    assert not breakpoint_hit(frozenset({"b"}), [ran(seen)])
    assert breakpoint_hit(frozenset({"b", "a"}), [ran(hidden), ran(seen)])
