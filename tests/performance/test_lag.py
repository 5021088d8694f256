"""With durability "async" a run may go ahead of its disk, but not far: what is ahead is lost in a crash."""

import sqlite3
import time
from contextlib import closing

import durable_graph
from checkpointers import SqliteSaver
from durable_graph.records import MAIN, PENDING
from tests.performance import graphs

COMMIT = 0.01
STEPS = 300
MAY_BE_BEHIND = 64


class SlowSaver(SqliteSaver):
    """On a disk that takes 10 ms for a commit."""

    def commit(self, items):
        time.sleep(COMMIT)
        return super().commit(items)


def test_a_run_is_at_most_64_supersteps_ahead_of_a_slow_disk(face, tmp_path):
    file = tmp_path / "runs.db"
    behind = []

    def step(state):
        stored = database.execute(
            "SELECT count(*) FROM record WHERE part = ? AND kind <> ?", (MAIN, PENDING)
        ).fetchone()[0]
        # Before the first task runs there are the checkpoints of the input and of START.
        closed = STEPS - state["n"] + 2
        behind.append(closed - stored)
        return {"n": state["n"] - 1}

    with SlowSaver(file) as saver:
        saver.setup()
        with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as database:
            graph = graphs.countdown(
                durable_graph, graphs.Counter, step, asynchronous=face.name == "async", checkpointer=saver
            )
            result = face.invoke(graph, {"n": STEPS}, graphs.config("thread"), durability="async")
    assert result == {"n": 0}
    assert 1 < max(behind) <= MAY_BE_BEHIND, "it goes ahead, but not far"
