"""Drawings of box characters: a reader who follows the lines finds the edges of the graph."""

import pytest

from durable_graph import END, START
from durable_graph.graph.drawing import DrawnGraph
from durable_graph.graph.drawing.labels import clean, columns
from tests.unit.graph_drawing.pictures import (
    HARD_NAMES,
    builder,
    drawn,
    edges_in,
    nested_builder,
    nothing,
    pairs,
    random_builder,
    star,
)


def loop():
    graph = builder("agent", "tools").add_edge(START, "agent").add_edge("tools", "agent")
    return graph.add_conditional_edges("agent", nothing, {"continue": "tools", "end": END})


def test_an_agent_loop():
    assert drawn(loop()).draw_text() == (
        """\
      ╭───────╮
      │ START │
      ╰───┬───╯
          ▼
      ┌───────┐
      │ agent │
      └─┬───┬─┘
        ╎ ▲ ╎
    ┌╌╌╌┘ │ └╌┐
 continue │  end
    ╎ ┌───┘   ╎
    ▼ │       ▼
┌─────┴─┐   ╭───────╮
│ tools │   │  END  │
└───────┘   ╰───────╯

╌╌▶ conditional
"""
    )


def test_a_fan_out_with_a_barrier():
    graph = builder("split", "a", "b", "c", "join").add_edge(START, "split")
    for name in "abc":
        graph.add_edge("split", name)
    assert drawn(graph.add_edge(["a", "b", "c"], "join")).draw_text() == (
        """\
      ╭───────╮
      │ START │
      ╰───┬───╯
          ▼
      ┌───────┐
      │ split │
      └─┬─┬─┬─┘
  ┌─────┘ │ └─────┐
  ▼       ▼       ▼
┌───┐   ┌───┐   ┌───┐
│ a │   │ b │   │ c │
└─┬─┘   └─┬─┘   └─┬─┘
  ┗━━━━━┓ ┃ ┏━━━━━┛
        ▼ ▼ ▼
      ┌───────┐
      │  join │
      └───┬───┘
          ▼
      ╭───────╮
      │  END  │
      ╰───────╯

━━▶ barrier: waits for all of them
"""
    )


def test_plain_ascii():
    text = drawn(loop()).draw_text(ascii_only=True)
    assert text.isascii()
    assert text == (
        """\
      +-------+
      | START |
      +-------+
          v
      +-------+
      | agent |
      +-------+
        : ^ :
    +...+ | +.+
 continue |  end
    : +---+   :
    v |       v
+-------+   +-------+
| tools |   |  END  |
+-------+   +-------+

..> conditional
"""
    )


def test_a_nested_graph_is_a_box_around_its_nodes():
    child = builder("x").add_edge(START, "x").compile(interrupt_before=["x"])
    graph = builder("first").add_node("kid", child).add_edge(START, "first").add_edge("first", "kid")
    assert drawn(graph).draw_text().count("║") == 2
    assert drawn(graph, xray=True).draw_text() == (
        """\
          ╭───────╮
          │ START │
          ╰───┬───╯
              ▼
          ┌───────┐
          │ first │
          └───┬───┘
              ▼
┌───────────────────────────┐
│ kid                       │
│         ╭───────╮         │
│         │ START │         │
│         ╰───┬───╯         │
│             ▼             │
│ ┌───────────────────────┐ │
│ │           x           │ │
│ │   (interrupt before)  │ │
│ └───────────┬───────────┘ │
│             ▼             │
│         ╭───────╮         │
│         │  END  │         │
│         ╰───────╯         │
└─────────────┬─────────────┘
              ▼
          ╭───────╮
          │  END  │
          ╰───────╯
"""
    )


@pytest.mark.parametrize("seed", range(200))
def test_following_the_lines_gives_the_edges(seed):
    graph = drawn(random_builder(seed))
    shown = {node.id: node.label for node in graph.nodes.values()}
    found = edges_in(graph.draw_text(), list(shown.values()))
    assert found == {(shown[source], shown[target]) for source, target in pairs(graph)}


@pytest.mark.parametrize("seed", range(20))
def test_drawing_twice_gives_the_same(seed):
    graph = nested_builder(seed, 2)
    assert drawn(graph, xray=True).draw_text() == drawn(graph, xray=True).draw_text()


@pytest.mark.parametrize("index", range(len(HARD_NAMES)))
def test_a_hard_name_stays_in_its_box(index):
    name = HARD_NAMES[index]
    rows = drawn(builder(name).add_edge(START, name)).draw_text().splitlines()
    top, bottom = (next(i for i, row in enumerate(rows) if row.lstrip().startswith(sign)) for sign in "┌└")
    box = rows[top + 1 : bottom]
    assert {columns(row) for row in rows[top : bottom + 1]} == {columns(rows[top])}
    inside = "".join(row.strip().strip("│").strip() for row in box)
    assert inside.replace(" ", "") == clean(name).replace(" ", "")


def test_ascii_shows_other_characters_as_escapes():
    text = drawn(star(["naïve", "日本"])).draw_text(ascii_only=True)
    assert text.isascii()
    assert r"na\xefve" in text
    assert r"\u65e5\u672c" in text


def test_a_drawing_of_nothing_is_empty():
    assert DrawnGraph().draw_text() == "\n"
    assert "<rect" in DrawnGraph().draw_svg()
    assert DrawnGraph().draw_mermaid(with_styles=False) == "flowchart TD\n"


def test_an_empty_graph_is_its_start():
    assert drawn(builder()).draw_text() == "╭───────╮\n│ START │\n╰───────╯\n"
