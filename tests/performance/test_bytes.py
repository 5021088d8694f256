"""How many bytes a run leaves in its SQLite file: the main file, after the write-ahead log was moved into it.

Texts are random and nothing is compressed, so that what counts is how often a value is stored.
"""

import pytest

import durable_graph
from checkpointers import SqliteSaver
from tests.performance import graphs
from tests.performance.counting import growth, slope, stored_bytes

LINEAR = 1.1


@pytest.fixture
def stored(tmp_path):
    """A function that runs a graph in a database of its own and tells the database's size."""
    runs = []

    def measure(which, given, **options):
        file = tmp_path / f"{len(runs)}.db"
        runs.append(file)
        with SqliteSaver(file, synchronous="NORMAL") as saver:
            graph = which(durable_graph, checkpointer=saver, **options)
            graph.invoke(given, graphs.config("thread"))
            return stored_bytes(file)

    return measure


@pytest.fixture
def empty(tmp_path):
    """The size of a database in which nothing is stored: its tables."""
    with SqliteSaver(tmp_path / "empty.db", synchronous="NORMAL") as saver:
        saver.setup()
        return stored_bytes(tmp_path / "empty.db")


def test_a_superstep_of_a_tiny_state_takes_at_most_300_bytes(stored):
    assert slope(lambda n: stored(graphs.loop, {"n": n}), 200, 2200) <= 300


@pytest.mark.parametrize("which", [graphs.append, graphs.rewrite], ids=["by a reducer", "by writing the list anew"])
def test_200_appends_of_1_kb_take_at_most_twice_their_size(stored, empty, which):
    assert stored(which, {"n": 200, "lines": []}, size=1000) - empty <= 2 * 200 * 1000


def test_a_large_value_that_a_node_wrote_is_stored_once(stored, empty):
    assert stored(graphs.carry, {"n": 50}, size=1_000_000) - empty <= 1.1 * 1_000_000


def test_a_large_value_that_was_the_input_is_stored_once(stored, empty):
    assert stored(graphs.carry, {"n": 50, "document": graphs.text(1_000_000, 0)}) - empty <= 1.1 * 1_000_000


def test_a_superstep_that_changes_one_of_300_keys_takes_at_most_400_bytes(stored):
    def size(n):
        return stored(graphs.ring, graphs.ring_input(n, 299), channels=299)

    assert slope(size, 100, 1100) <= 400


def test_a_chat_takes_at_most_its_messages_and_a_half_and_600_bytes_per_step(stored):
    steps, message = 3000, 500
    assert stored(graphs.chat, {"n": steps, "messages": []}, size=message) <= 1.5 * steps * 2 * message + 600 * steps


def test_bytes_are_in_proportion_to_the_steps_of_a_chat(stored):
    assert growth(lambda n: stored(graphs.chat, {"n": n, "messages": []}), (100, 300, 900)) <= LINEAR


def test_bytes_are_in_proportion_to_the_supersteps(stored):
    assert growth(lambda n: stored(graphs.loop, {"n": n}), (300, 900, 2700)) <= LINEAR


def test_bytes_are_in_proportion_to_the_sends_of_a_fan_out(stored):
    assert growth(lambda n: stored(graphs.fan_out, {"n": n}), (300, 900, 2700)) <= LINEAR
