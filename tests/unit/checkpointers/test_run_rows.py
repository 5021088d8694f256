"""What the tables say of runs, where the order of things inside one transaction shows."""

import time

import pytest

from durable_graph.persistence.run_rows import Taking
from tests.backends import BACKENDS
from tests.behaviour.queued import chain, given, note


@pytest.mark.parametrize("name", ["sqlite", "postgres"])
def test_a_run_starts_when_it_is_taken_and_not_when_its_worker_looked_at_the_clock(name, tmp_path):
    """Between the two the run before it may have ended, and it cannot have begun before that."""
    backend = BACKENDS[name](tmp_path)
    saver = backend.make()
    chain(saver, note("a")).submit(given("1"))
    before = saver.with_runs(lambda rows: rows.clock(), reads=True)
    time.sleep(0.05)
    [row] = saver.with_runs(lambda rows: rows.take(Taking("somebody", ["chain"], 1, 1000), before))
    assert row.started >= before.wall + 50
    assert row.expires == row.beat + 1000 >= before.steady + 1050
    backend.close()
