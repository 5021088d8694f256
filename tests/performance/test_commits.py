"""How many transactions a run commits to its SQLite file: on a slow disk nothing else counts."""

import pytest

import durable_graph
from durable_graph import Command
from tests.performance import graphs
from tests.performance.counting import Commits, slope


def make(which, face, saver):
    return which(durable_graph, asynchronous=face.name == "async", checkpointer=saver)


def commits(face, database, durability, which=graphs.loop):
    """A function that tells the commits of one run of size n, on a thread of its own."""
    file, saver = database
    graph = make(which, face, saver)

    def measure(n):
        with Commits(file) as count:
            face.invoke(graph, {"n": n}, graphs.config(f"thread-{count.before}-{n}"), durability=durability)
            return count.so_far()

    return measure


def test_a_superstep_of_one_task_is_one_commit(face, database):
    assert slope(commits(face, database, "sync"), 10, 60) == 1


def test_async_durability_makes_no_more_commits_than_supersteps(face, database):
    assert 0 < commits(face, database, "async")(100) <= 101


def test_exit_durability_commits_as_often_for_many_supersteps_as_for_few(face, database):
    measure = commits(face, database, "exit")
    assert measure(5) == measure(100) <= 2


@pytest.mark.parametrize("n", [64, 1280])
def test_a_fan_out_commits_many_results_at_once(face, database, n):
    assert commits(face, database, "async", graphs.fan_out)(n) <= 2 + n / 64


def test_a_round_trip_to_a_human_is_at_most_three_commits(face, database):
    file, saver = database
    graph = make(graphs.ask, face, saver)

    def measure(n):
        with Commits(file) as count:
            config = graphs.config(f"thread-{count.before}-{n}")
            result = face.invoke(graph, {"n": n}, config)
            for _ in range(n):
                result = face.invoke(graph, Command(resume=True), config)
            assert result == {"n": 0}
            return count.so_far()

    assert slope(measure, 5, 25) <= 3
