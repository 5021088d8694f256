"""SVG: valid XML in one piece, nothing overlaps, every line ends at borders."""

import re
from itertools import combinations, pairwise
from xml.etree import ElementTree as ET

import pytest

from durable_graph import START
from durable_graph.graph.drawing.labels import clean
from durable_graph.graph.drawing.svg import picture_of, text_width
from tests.unit.graph_drawing.pictures import HARD_NAMES, builder, drawn, nested_builder, pairs, random_builder, star

SVG = "{http://www.w3.org/2000/svg}"


class Svg:
    """The boxes and lines of an SVG, in pixels: boxes as (left, top, right, bottom)."""

    def __init__(self, text):
        self.root = ET.fromstring(text)  # noqa: S314 - our own text
        self.boxes, self.edges, self.texts = {}, [], {}
        for group in self.root.iter(f"{SVG}g"):
            kinds = group.get("class", "").split()
            if "dg-node" in kinds:
                shape = group.find(f"{SVG}rect")
                left, top, wide, high = (float(shape.get(name)) for name in ("x", "y", "width", "height"))
                self.boxes[group.get("data-id")] = (left, top, left + wide, top + high)
                self.texts[group.get("data-id")] = list(group.iter(f"{SVG}text"))
            elif "dg-edge" in kinds:
                line, arrow = group.find(f"{SVG}path").get("d"), group.find(f"{SVG}polygon").get("points")
                start = tuple(map(float, re.match(r"M(\S+?) (\S+?)(?=[A-Z])", line).groups()))
                end = tuple(map(float, arrow.split()[0].split(",")))
                self.edges.append((group.get("data-source"), group.get("data-target"), start, end))


def on_border(box, point):
    (left, top, right, bottom), (x, y) = box, point
    return (x in (left, right) and top <= y <= bottom) or (y in (top, bottom) and left <= x <= right)


def overlap(one, two):
    return one[0] < two[2] and two[0] < one[2] and one[1] < two[3] and two[1] < one[3]


def within(inner, outer):
    return outer[0] < inner[0] and outer[1] < inner[1] and inner[2] < outer[2] and inner[3] < outer[3]


def check(graph):
    """What is true of every drawing."""
    svg = Svg(graph.draw_svg())
    assert svg.boxes.keys() == set(map(clean, graph.nodes))
    assert {(source, target) for source, target, _, _ in svg.edges} == {
        (clean(source), clean(target)) for source, target in pairs(graph)
    }
    for source, target, start, end in svg.edges:
        assert on_border(svg.boxes[source], start)
        assert on_border(svg.boxes[target], end)
    inside = {clean(node.id): node.parent and clean(node.parent) for node in graph.nodes.values()}
    for one, two in combinations(svg.boxes, 2):
        if inside[one] == inside[two]:
            assert not overlap(svg.boxes[one], svg.boxes[two])
    for name, parent in inside.items():
        assert parent is None or within(svg.boxes[name], svg.boxes[parent])
    return svg


@pytest.mark.parametrize("seed", range(200))
def test_boxes_do_not_overlap_and_lines_end_at_borders(seed):
    check(drawn(random_builder(seed)))


@pytest.mark.parametrize("seed", range(30))
def test_the_same_is_true_of_nested_graphs(seed):
    check(drawn(nested_builder(seed, 2), xray=True))


def parts(route):
    """The straight parts of a line as (left, top, right, bottom); its own ends are not counted."""
    for one, two in pairwise(route.points):
        yield min(one[0], two[0]), min(one[1], two[1]), max(one[0], two[0]), max(one[1], two[1])


def lie_on_each_other(one, two):
    """Whether two straight parts share more than a crossing point."""
    if one[0] == one[2] == two[0] == two[2]:
        return one[1] < two[3] and two[1] < one[3]
    if one[1] == one[3] == two[1] == two[3]:
        return one[0] < two[2] and two[0] < one[2]
    return False


def crosses(part, box):
    """Whether a straight part runs through the inside of a box or a label."""
    left, top, right, bottom = box
    return (
        part[0] < right
        and left < part[2] + (part[0] == part[2])
        and part[1] < bottom
        and top < part[3] + (part[1] == part[3])
    )


@pytest.mark.parametrize("seed", range(200))
def test_no_line_lies_on_another_or_runs_through_a_box(seed):
    picture = picture_of(drawn(random_builder(seed)))
    routes = [(route, list(parts(route))) for route in picture.routes]
    for (_, first), (_, second) in combinations(routes, 2):
        assert not any(lie_on_each_other(one, two) for one in first for two in second)
    boxes = [(box.left, box.top, box.right, box.top + box.height) for box in picture.boxes]
    assert not any(crosses(part, box) for _, found in routes for part in found for box in boxes)


@pytest.mark.parametrize("seed", range(100))
def test_labels_overlap_neither_boxes_nor_each_other_nor_other_lines(seed):
    picture = picture_of(drawn(random_builder(seed)))
    labels = [
        (route, (found.left, found.top, found.left + found.slots - 1, found.top + found.height))
        for route in picture.routes
        if (found := route.label) is not None
    ]
    boxes = [(box.left, box.top, box.right, box.top + box.height) for box in picture.boxes]
    assert not any(overlap(label, box) for _, label in labels for box in boxes)
    assert not any(overlap(one, two) for (_, one), (_, two) in combinations(labels, 2))
    for own, label in labels:
        for route in picture.routes:
            assert route is own or not any(crosses(part, label) for part in parts(route))


@pytest.mark.parametrize("index", range(len(HARD_NAMES)))
def test_a_hard_name_fits_its_box(index):
    name = HARD_NAMES[index]
    svg = check(drawn(builder(name).add_edge(START, name)))
    left, top, right, bottom = svg.boxes[clean(name)]
    lines = svg.texts[clean(name)]
    assert "".join(line.text for line in lines).replace(" ", "") == clean(name).replace(" ", "")
    for line in lines:
        assert text_width(line.text, 14) <= right - left
        assert top < float(line.get("y")) - 10
        assert float(line.get("y")) < bottom


def test_all_hard_names_in_one_drawing():
    check(drawn(star(HARD_NAMES)))


@pytest.mark.parametrize(
    ("text", "least"),
    [("iiii", 4 * 0.28), ("MMMM", 4 * 0.87), ("WWWW", 4 * 0.99), ("mmmm", 4 * 0.98), ("0123", 4 * 0.64), ("日本", 2)],
)
def test_text_is_measured_no_narrower_than_wide_fonts_draw_it(text, least):
    assert text_width(text, 10) >= least * 10


def test_it_needs_nothing_from_outside_and_follows_light_and_dark():
    text = drawn(star(["a", "b"])).draw_svg()
    assert "prefers-color-scheme:dark" in text
    assert re.findall(r"(?:href|src|url|@import|<script|<image)", text) == []
    assert re.findall(r"https?://\S+?(?=\")", text) == ["http://www.w3.org/2000/svg"]


def test_notebooks_show_the_svg():
    graph = drawn(star(["a"]))
    assert graph._repr_svg_() == graph.draw_svg()


@pytest.mark.parametrize("seed", range(20))
def test_drawing_twice_gives_the_same(seed):
    graph = nested_builder(seed, 2)
    assert drawn(graph, xray=True).draw_svg() == drawn(graph, xray=True).draw_svg()
