"""How many function calls the engine makes: the part of its speed that no noisy machine changes."""

import asyncio
import itertools

import durable_graph
from checkpointers import InMemorySaver
from durable_graph.runtime import pool
from tests.performance import graphs
from tests.performance.counting import calls_of, counted_calls, growth, slope

WITHOUT_CHECKPOINTER = 90
WITH_MEMORY = 120
PER_SEND = 50
LINEAR = 1.1
FLAT = 0.1


def calls(face, graph, given=lambda n: {"n": n}):
    """A function that tells the calls of one run of size n, on a thread of its own."""
    numbers = itertools.count()

    def measure(n):
        pool._pool = pool._Pool()  # its OS threads start while calls are counted, so what they do is counted too
        return calls_of(face.invoke, graph, given(n), graphs.config(f"thread-{next(numbers)}"))

    return measure


def make(which, face, **options):
    return which(durable_graph, asynchronous=face.name == "async", **options)


def test_a_superstep_without_checkpointer_makes_at_most_90_calls(face):
    assert slope(calls(face, make(graphs.loop, face)), 20, 220) <= WITHOUT_CHECKPOINTER


def test_a_superstep_with_the_memory_checkpointer_makes_at_most_120_calls(face):
    graph = make(graphs.loop, face, checkpointer=InMemorySaver())
    assert slope(calls(face, graph), 20, 220) <= WITH_MEMORY


def test_a_send_makes_at_most_50_calls(face):
    ours = slope(calls(face, make(graphs.fan_out, face)), 100, 600)
    # An async node needs an asyncio task, whatever engine starts it: what that costs is not ours.
    tasks = slope(lambda n: calls_of(asyncio.run, bare_tasks(n)), 100, 600) if face.name == "async" else 0
    assert ours - tasks <= PER_SEND


async def bare_tasks(n):
    """n asyncio tasks, started and waited for by hand."""

    async def work():
        pass

    running = [asyncio.get_running_loop().create_task(work()) for _ in range(n)]
    for task in running:
        await task


def test_calls_are_in_proportion_to_the_supersteps(face, backend):
    graph = make(graphs.loop, face, checkpointer=backend.make())
    assert growth(calls(face, graph), (50, 150, 450)) <= LINEAR


def test_calls_are_in_proportion_to_the_messages_of_a_chat(face, backend):
    graph = make(graphs.chat, face, checkpointer=backend.make())
    assert growth(calls(face, graph, lambda n: {"n": n, "messages": []}), (50, 150, 450)) <= LINEAR


def test_calls_are_in_proportion_to_the_sends_of_a_fan_out(face):
    graph = make(graphs.fan_out, face, checkpointer=InMemorySaver())
    assert growth(calls(face, graph), (100, 300, 900)) <= LINEAR


def test_a_superstep_does_not_cost_more_in_a_graph_of_more_nodes(face):
    def superstep(nodes):
        graph = make(graphs.ring, face, nodes=nodes, checkpointer=InMemorySaver())
        return slope(calls(face, graph, graphs.ring_input), 310, 620)

    assert growth(superstep, (3, 30, 300)) <= FLAT


def test_a_superstep_does_not_cost_more_in_a_state_of_more_keys(face):
    def superstep(channels):
        graph = make(graphs.ring, face, channels=channels, checkpointer=InMemorySaver())
        return slope(calls(face, graph, lambda n: graphs.ring_input(n, channels)), 10, 60)

    assert growth(superstep, (3, 30, 300)) <= FLAT


def test_a_step_that_adds_to_a_long_list_costs_what_it_cost_when_the_list_was_short(backend):
    marks = []

    def step(state):
        marks.append(so_far())
        return {"n": state["n"] - 1, "messages": [{"role": "user", "content": "more"}]}

    graph = graphs.countdown(durable_graph, graphs.Chat, step, asynchronous=False, checkpointer=backend.make())
    with counted_calls() as so_far:
        graph.invoke({"n": 1000, "messages": []}, graphs.config("thread"))
    first, last = marks[20] - marks[0], marks[-1] - marks[-21]
    assert last <= 1.5 * first
