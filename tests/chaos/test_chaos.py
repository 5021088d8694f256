"""The short chaos: workers killed, frozen and told to stop, the database restarted, and every promise kept.

The long one is `make chaos`. What happens when comes from the seed, and a failure names it.
"""

import os

import pytest

from tests.chaos.harness import SHORT, Chaos

pytestmark = [
    pytest.mark.crash,
    pytest.mark.timeout(150),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX processes"),
]


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_every_run_is_done_once_whatever_happens_to_the_workers_and_the_database(backend, tmp_path):
    summary = Chaos(SHORT._replace(backend=backend), tmp_path).run()
    assert summary.violations == [], f"{summary}\n" + "\n".join(summary.violations)
    assert summary.blows["killed"] >= 3
    assert summary.blows["restarts"] == (backend == "postgres")
