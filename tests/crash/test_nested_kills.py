"""Graphs inside nodes, crashed at every point: what finished inside does not happen again."""

import pytest

from durable_graph.testing import crash_sweep
from tests.crash.nested_shapes import ALONE, LEDGER, SHAPES

shapes = pytest.mark.parametrize("graph", SHAPES, ids=lambda graph: graph.__name__)


def swept(graph, **options):
    options = {"ledger": LEDGER, "recorded": ALONE, "report": None, **options}
    return crash_sweep(graph, {"log": ["in"]}, resumes=SHAPES[graph], **options).check()


@shapes
@pytest.mark.parametrize(
    ("durability", "most"),
    [
        ("sync", None),
        ("async", 24),
        ("exit", 24),
        pytest.param("async", None, marks=pytest.mark.slow),
        pytest.param("exit", None, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("backend", ["memory", pytest.param("sqlite", marks=pytest.mark.slow)])
def test_a_graph_with_graphs_inside_ends_the_same_wherever_it_crashed(graph, durability, most, backend):
    options = {} if durability == "sync" else {"recorded": ()}
    assert swept(graph, durability=durability, max_points=most, backend=backend, **options).points


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.timeout(120)
@shapes
def test_a_graph_with_graphs_inside_ends_the_same_wherever_it_was_killed(graph):
    assert swept(graph, kill=True).points
