"""The parts of the layout: distances, tracks, and lines that are as straight as there is room for."""

from itertools import pairwise

import pytest

from durable_graph import START
from durable_graph.graph.drawing.placing import spread
from durable_graph.graph.drawing.routing import Bend, assign_tracks
from durable_graph.graph.drawing.svg import picture_of
from tests.unit.graph_drawing.pictures import builder, drawn


@pytest.mark.parametrize(
    ("wanted", "apart", "placed"),
    [
        ([], [], []),
        ([3.2], [], [3]),
        ([0, 10], [2], [0, 10]),
        ([5, 5], [2], [4, 6]),
        ([9, 5, 1], [2, 2], [3, 5, 7]),
        ([0, 1, 20], [4, 4], [-1, 3, 20]),
    ],
)
def test_places_keep_their_order_and_distance_and_stay_near_to_what_was_wanted(wanted, apart, placed):
    assert spread(wanted, apart, [1.0] * len(wanted)) == placed


def test_who_insists_more_moves_less():
    assert spread([5, 5], [4], [9.0, 1.0]) == [5, 9]


@pytest.mark.parametrize(
    ("lines", "tracks"),
    [
        pytest.param([(0, 0), (4, 4)], 0, id="straight lines need none"),
        pytest.param([(0, 3), (6, 9)], 1, id="lines that do not meet share one"),
        pytest.param([(0, 6), (3, 9)], 2, id="lines that overlap do not"),
        pytest.param([(0, 5), (5, 0)], 3, id="lines that change places need a third"),
    ],
)
def test_tracks_are_as_few_as_the_lines_allow(lines, tracks):
    assert assign_tracks(lines)[1] == tracks


def test_a_line_that_leaves_where_another_enters_moves_below_it():
    (first, second), _ = assign_tracks([(8, 5), (5, 0)])
    assert first[0].track > second[0].track


def test_one_of_two_lines_that_change_places_steps_around_the_other():
    (first, second), _ = assign_tracks([(0, 5), (5, 0)])
    assert [(bend.start, bend.end) for bend in first] == [(0, 2), (2, 5)]
    assert first[0].track < second[0].track < first[1].track
    assert second == [Bend(5, 0, 1)]


def test_lines_that_fan_out_do_not_cross():
    routes, _ = assign_tracks([(4, 0), (5, 2), (6, 8), (7, 10)])
    assert [route[0].track for route in routes] == [0, 1, 1, 0]


def test_a_long_line_runs_straight_past_what_lies_between():
    names = [f"n{index}" + "wide" * (index % 3) for index in range(12)]
    graph = builder(*names, "side").add_edge(START, names[0])
    for before, after in pairwise(names):
        graph.add_edge(before, after)
    graph.add_edge(names[0], names[-1]).add_edge(names[0], "side").add_edge("side", names[3])
    graph.add_edge(names[4], names[9])
    picture = picture_of(drawn(graph))
    long = next(r for r in picture.routes if (r.source, r.target) == (names[0], names[-1]))
    across = [one for one, two in pairwise(long.points) if one[0] != two[0]]
    assert len(across) <= 2
