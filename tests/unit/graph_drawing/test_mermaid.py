"""Mermaid text: whatever names are, it parses and says the same."""

import pytest

from durable_graph import END, START, StateGraph
from durable_graph.errors import InvalidConfigError
from durable_graph.graph.drawing import DrawnEdge, DrawnGraph, DrawnNode
from durable_graph.graph.drawing.labels import clean
from tests.unit.graph_drawing.pictures import (
    HARD_LABELS,
    HARD_NAMES,
    Mermaid,
    builder,
    drawn,
    nested_builder,
    nothing,
    star,
)


def name_of(lines):
    return "".join(lines)


def test_a_plain_graph_reads_as_one_would_write_it():
    graph = builder("agent", "tools").add_edge(START, "agent").add_edge("tools", "agent")
    graph.add_conditional_edges("agent", nothing, {"continue": "tools", "done": END})
    assert drawn(graph).draw_mermaid(with_styles=False) == (
        "flowchart TD\n"
        '  __start__(["START"])\n'
        '  agent["agent"]\n'
        '  tools["tools"]\n'
        '  __end__(["END"])\n'
        "  __start__ --> agent\n"
        '  agent -.->|"continue"| tools\n'
        '  agent -.->|"done"| __end__\n'
        "  tools --> agent\n"
    )


def test_hard_names_come_out_right():
    found = Mermaid(drawn(star(HARD_NAMES)).draw_mermaid())
    labels = {name_of(lines).replace(" ", "") for lines in found.labels.values()}
    assert labels >= {clean(name).replace(" ", "") for name in HARD_NAMES}
    assert len(found.labels) == len(HARD_NAMES) + 2
    assert {label for _, _, label, _ in found.edges if label} == {clean(f"to {name}") for name in HARD_NAMES}


def test_hard_labels_come_out_right():
    graph = builder("first", "second").add_edge(START, "first")
    graph.add_conditional_edges("first", nothing, dict.fromkeys(HARD_LABELS, "second"))
    found = Mermaid(drawn(graph).draw_mermaid())
    assert [label for _, _, label, _ in found.edges if label] == list(map(clean, HARD_LABELS))


def test_names_that_differ_in_signs_only_keep_ids_of_their_own():
    names = ["a b", "a-b", "a_b", "a.b", "n_a_b", "n_a_b_2", "日", "本"]
    found = Mermaid(drawn(star(names)).draw_mermaid())
    assert {name_of(lines) for lines in found.labels.values()} == {*names, "START", "END"}


@pytest.mark.parametrize("seed", range(40))
def test_nodes_edges_and_clusters_are_those_of_the_graph(seed):
    graph = drawn(nested_builder(seed, 2), xray=True)
    found = Mermaid(graph.draw_mermaid())
    ids = dict(zip(_in_order(graph), found.labels, strict=True))
    assert {ids[node.id]: ids.get(node.parent) for node in graph.nodes.values()} == found.parents
    ends = {node.id: node.id for node in graph.nodes.values()}
    clusters = [node.id for node in graph.nodes.values() if node.kind == "cluster"]
    leaving = ends | {cluster: f"{cluster}:{END}" for cluster in clusters}
    entering = ends | {cluster: f"{cluster}:{START}" for cluster in clusters}
    assert [(ids[leaving[e.source]], e.label, ids[entering[e.target]]) for e in graph.edges] == [
        (source, label, target) for source, _, label, target in found.edges
    ]


def _in_order(graph, parent=None):
    for node in graph.nodes.values():
        if node.parent == parent:
            yield node.id
            yield from _in_order(graph, node.id)


def test_kinds_of_edges_look_different():
    nodes = {name: DrawnNode(name, name) for name in ("aa", "bb")}
    kinds = ("edge", "barrier", "route", "undeclared", "error")
    graph = DrawnGraph("g", nodes, [DrawnEdge("aa", "bb", kind, kind=kind) for kind in kinds])
    arrows = {label: arrow for _, arrow, label, _ in Mermaid(graph.draw_mermaid()).edges}
    assert arrows == {"edge": "-->", "barrier": "==>", "route": "-.->", "undeclared": "-.->", "error": "-.->"}


def test_styles_are_declared_or_left_out():
    child = builder("x").add_edge(START, "x").compile()
    graph = drawn(StateGraph(dict).add_node("kid", child).add_edge(START, "kid").add_edge("kid", "gone"))
    text = graph.draw_mermaid()
    assert {"first", "last", "nested", "missing"} <= Mermaid(text).classes | {"last"}
    assert "classDef" not in graph.draw_mermaid(with_styles=False)
    assert ":::" not in graph.draw_mermaid(with_styles=False)


def test_notes_stand_below_the_name():
    graph = builder("a").add_edge(START, "a")
    found = Mermaid(drawn(graph, interrupt_before=["a"], interrupt_after="*").draw_mermaid())
    assert ["a", "(interrupt before and after)"] in found.labels.values()


@pytest.mark.parametrize("direction", ["TD", "TB", "BT", "LR", "RL"])
def test_edges_lead_where_they_were_told_to(direction):
    text = drawn(star(["a"])).draw_mermaid(direction=direction)
    assert Mermaid(text).direction == direction


def test_an_unknown_direction_is_refused_with_those_that_are_known():
    with pytest.raises(InvalidConfigError, match=r"'down'.*\n.*'TD', 'TB', 'BT', 'LR', 'RL'"):
        drawn(star(["a"])).draw_mermaid(direction="down")
