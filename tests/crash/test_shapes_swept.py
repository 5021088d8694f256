"""Every shape of the engine, crashed at every point, ends as if nothing had happened (`pytest -rP` shows the points).

In this process at every verb of the checkpointer and after every effect; with SIGKILL in children at every write.
"""

import os
import sys

import pytest

from durable_graph.testing import crash_sweep
from tests.crash.swept_shapes import EMPTY, LEDGER, QUESTIONS, SHAPES, Shape, asking_in_a_loop

pytestmark = [pytest.mark.crash, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")]

every_shape = pytest.mark.parametrize("graph", SHAPES, ids=lambda graph: graph.__name__)


def swept(graph, **options):
    """The report of a sweep in which all is well; how many points each face had is printed."""
    shape = SHAPES.get(graph) or Shape(EMPTY, lambda asked: f"answer {asked.value}", ("step",))
    durable = options.get("durability", "sync") == "sync"  # else results may be stored later than by the next write
    report = crash_sweep(
        graph,
        shape.given,
        resumes=shape.resumes,
        ledger=shape.ledger,
        recorded=shape.recorded if durable else (),
        report=None,
        **options,
    )
    points = [f"{sum(one.face == face for one in report.points)} {face}" for face in ("sync", "async")]
    sys.stdout.write(f"{graph.__name__} {options}: points {', '.join(points)}\n{report}\n")
    return report.check()


@every_shape
def test_a_run_ends_the_same_wherever_it_crashed(graph):
    report = swept(graph)
    effects = report.uncrashed.effects
    assert effects
    assert all(times == 1 for (name, _), times in effects.items() if name in SHAPES[graph].recorded)
    for face in ("sync", "async"):
        places = {tuple(point.where.split()[:2]) for point in report.points if point.face == face}
        verbs = {(moment, verb) for moment in ("before", "after") for verb in ("load", "claim", "commit")}
        assert verbs | {("after", "effect")} <= places


@every_shape
def test_a_run_ends_the_same_where_it_was_killed(graph):
    report = swept(graph, kill=True, max_points=12)
    for face in ("sync", "async"):
        # Two siblings that end at the same moment share a write, so that a busy machine may have one write less.
        assert sum(point.face == face for point in report.points) in (10, 12)


@pytest.mark.slow
@pytest.mark.timeout(240)
@every_shape
def test_a_run_in_a_file_ends_the_same_wherever_it_crashed(graph):
    swept(graph, backend="sqlite")


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@every_shape
def test_a_run_ends_the_same_wherever_it_was_killed(graph, durability):
    swept(graph, kill=True, durability=durability)


# --- a loop of questions ---------------------------------------------------------------------------------------------


def test_a_node_that_asks_twenty_times_does_its_twenty_steps_wherever_it_crashed():
    report = swept(asking_in_a_loop, max_points=25)
    assert report.uncrashed.effects == {("step", str(number)): 1 for number in range(QUESTIONS)}
    assert report.uncrashed.values["log"] == [f"step {number}: answer {number}" for number in range(QUESTIONS)]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_node_that_asks_twenty_times_does_its_twenty_steps_wherever_it_was_killed():
    swept(asking_in_a_loop, kill=True, max_points=12)
    assert LEDGER.counts().keys() == {("step", str(number)) for number in range(QUESTIONS)}
