"""What a drawing shows of a graph, and that nothing of the user's runs for it."""

import json
import operator
from typing import Annotated, Literal, TypedDict

import pytest

from durable_graph import END, START, Command, Send, StateGraph
from durable_graph.errors import InvalidConfigError, UsageError
from durable_graph.graph.drawing import DrawnEdge, DrawnNode, read_graph


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def nothing(state):
    raise AssertionError("drawing must not run this")


def builder(*names):
    made = StateGraph(Log)
    for name in names:
        made.add_node(name, nothing)
    return made


def edges(graph, **how):
    return [(edge.source, edge.target) for edge in read_graph(graph, **how).edges]


def kinds(graph, **how):
    return {(edge.source, edge.target): (edge.kind, edge.data) for edge in read_graph(graph, **how).edges}


# --- edges ------------------------------------------------------------------------------------------------------------


def test_plain_edges_come_in_the_order_in_which_nodes_were_added():
    graph = builder("z", "a").add_edge(START, "z").add_edge(START, "a").add_edge("a", END).add_edge("z", "a")
    assert read_graph(graph).edges == [
        DrawnEdge(START, "z"),
        DrawnEdge(START, "a"),
        DrawnEdge("z", "a"),
        DrawnEdge("a", END),
    ]


def test_a_node_without_a_way_out_ends_the_run():
    assert edges(builder("a").add_edge(START, "a")) == [(START, "a"), ("a", END)]


def test_labels_of_a_path_map_are_kept_where_they_say_more_than_the_target():
    graph = builder("a", "b").add_edge(START, "a").add_conditional_edges("a", nothing, {"again": "a", "b": "b", 1: END})
    assert [edge for edge in read_graph(graph).edges if edge.source == "a"] == [
        DrawnEdge("a", "a", "again", conditional=True, kind="route"),
        DrawnEdge("a", "b", None, conditional=True, kind="route"),
        DrawnEdge("a", END, "1", conditional=True, kind="route"),
    ]


def test_a_list_of_targets_has_no_labels():
    graph = builder("a", "b").add_edge(START, "a").add_conditional_edges("a", nothing, ["b", END])
    assert kinds(graph) == {
        (START, "a"): ("edge", None),
        ("a", "b"): ("route", None),
        ("a", END): ("route", None),
        ("b", END): ("edge", None),
    }


def by_literal(state) -> Literal["a", "__end__"]:
    raise AssertionError


def by_list(state) -> list[Literal["a", "b"]]:
    raise AssertionError


def by_send(state) -> list[Send]:
    raise AssertionError


def test_routes_are_taken_from_a_literal_return_hint():
    graph = builder("a", "b", "c").add_conditional_edges(START, by_literal).add_conditional_edges("a", by_list)
    assert [pair for pair in edges(graph) if pair[0] in (START, "a")] == [
        (START, "a"),
        (START, END),
        ("a", "a"),
        ("a", "b"),
    ]


@pytest.mark.parametrize("router", [nothing, by_send], ids=["no hint", "Send"])
def test_a_router_that_says_nothing_may_lead_anywhere_and_is_marked(router):
    graph = builder("a", "b").add_edge(START, "a").add_conditional_edges("a", router).add_edge("b", END)
    assert [edge for edge in read_graph(graph).edges if edge.source == "a"] == [
        DrawnEdge("a", target, "undeclared", conditional=True, kind="undeclared") for target in ("a", "b", END)
    ]


def commands(state) -> Command[Literal["b", "__end__"]]:
    raise AssertionError


def silent(state) -> Command:
    raise AssertionError


def in_text(state) -> "dict | Command":
    raise AssertionError


def test_routes_of_commands_are_taken_from_the_return_hint():
    graph = builder("b").add_node("a", commands).add_edge(START, "a")
    assert kinds(graph) == {
        (START, "a"): ("edge", None),
        ("b", END): ("edge", None),
        ("a", "b"): ("route", None),
        ("a", END): ("route", None),
    }


def test_destinations_are_routes():
    graph = builder("b").add_node("a", nothing, destinations=["b", END]).add_edge(START, "a")
    assert {pair for pair in edges(graph) if pair[0] == "a"} == {("a", "b"), ("a", END)}


def test_labels_of_destinations_are_kept():
    graph = builder("b").add_node("a", nothing, destinations={"b": "when ready", END: "__end__"}).add_edge(START, "a")
    assert [edge.data for edge in read_graph(graph).edges if edge.source == "a"] == ["when ready", None]


@pytest.mark.parametrize("action", [silent, in_text])
def test_a_node_that_returns_commands_without_saying_where_to_may_lead_anywhere(action):
    graph = builder("b").add_node("a", action).add_edge(START, "a")
    assert {edge.target for edge in read_graph(graph).edges if edge.kind == "undeclared"} == {"a", "b", END}


def test_where_such_a_node_has_edges_too_it_is_only_noted():
    graph = builder("b").add_node("a", silent).add_edge(START, "a").add_edge("a", "b")
    found = read_graph(graph)
    assert [(edge.source, edge.target) for edge in found.edges if edge.source == "a"] == [("a", "b")]
    assert found.nodes["a"].notes == ("undeclared routes",)


def test_barrier_edges_are_told_from_plain_ones():
    graph = builder("a", "b", "c").add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "c")
    graph.add_edge(["c"], END)
    assert kinds(graph)["a", "c"] == kinds(graph)["b", "c"] == ("barrier", None)
    assert kinds(graph)["c", END] == ("edge", None)


def test_two_barriers_before_one_node_are_told_apart():
    graph = builder("a", "b", "c", "d").add_edge(START, "a").add_edge(["a", "b"], "d").add_edge(["a", "c"], "d")
    found = [edge for edge in read_graph(graph).edges if edge.kind == "barrier"]
    assert [(edge.source, edge.data) for edge in found] == [
        ("a", "barrier 1"),
        ("a", "barrier 2"),
        ("b", "barrier 1"),
        ("c", "barrier 2"),
    ]


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_start_and_end_are_the_first_and_the_last_node():
    found = read_graph(builder("a").add_edge(START, "a"))
    assert list(found.nodes) == [START, "a", END]
    assert found.first_node() == DrawnNode(START, START, {}, "start")
    assert found.last_node() == DrawnNode(END, END, {}, "end")


def test_a_graph_that_never_ends_has_no_end():
    found = read_graph(builder("a").add_edge(START, "a").add_edge("a", "a"))
    assert found.last_node() is None
    assert list(found.nodes) == [START, "a"]


def test_breakpoints_are_visible():
    graph = builder("a", "b", "c").add_edge(START, "a").add_edge("a", "b").add_edge("b", "c")
    found = read_graph(graph, interrupt_before=["a", "b"], interrupt_after=frozenset({"b"})).nodes
    assert [found[name].metadata.get("__interrupt") for name in "abc"] == ["before", "before,after", None]
    assert [found[name].notes for name in "abc"] == [("interrupt before",), ("interrupt before and after",), ()]


def test_a_star_means_every_node():
    found = read_graph(builder("a").add_edge(START, "a"), interrupt_before="*").nodes
    assert found["a"].metadata == {"__interrupt": "before"}
    assert found[START].metadata == {}


def test_deferred_nodes_are_visible_and_metadata_is_kept():
    graph = StateGraph(Log).add_node("a", nothing, metadata={"team": "x"}, defer=True).add_edge(START, "a")
    found = read_graph(graph).nodes["a"]
    assert found.metadata == {"team": "x", "defer": True}
    assert found.notes == ("deferred",)


def repair(state) -> Command[Literal["b"]]:
    raise AssertionError


def give_up(state):
    raise AssertionError


@pytest.mark.parametrize(
    ("handler", "leads", "name"), [(repair, "b", "repair"), (give_up, END, "give_up")], ids=["command", "plain"]
)
def test_error_handlers_are_nodes_that_failing_leads_to(handler, leads, name):
    graph = builder("b").add_node("a", nothing, error_handler=handler).add_edge(START, "a").add_edge("a", "b")
    found = read_graph(graph)
    handling = found.nodes["__error_handler__a"]
    assert (handling.name, handling.kind) == (name, "handler")
    assert DrawnEdge("a", handling.id, "on error", conditional=True, kind="error") in found.edges
    assert [edge.target for edge in found.edges if edge.source == handling.id] == [leads]
    assert [edge.target for edge in found.edges if edge.kind == "error"] == [handling.id]


def test_nodes_that_share_an_error_handler_share_its_node():
    graph = builder("a", "b").add_node("c", nothing, error_handler=repair).set_node_defaults(error_handler=give_up)
    found = read_graph(graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c"))
    failing = [(edge.source, edge.target) for edge in found.edges if edge.kind == "error"]
    assert failing == [("a", "__error_handler__a"), ("b", "__error_handler__a"), ("c", "__error_handler__c")]


def test_an_unfinished_graph_is_drawn_with_what_it_lacks():
    graph = builder("a").add_edge(START, "a").add_edge("a", "later").add_edge("before", "a")
    found = read_graph(graph)
    assert [node.id for node in found.nodes.values() if node.kind == "missing"] == ["before", "later"]
    assert "(missing)" in found.draw_text()


# --- nested graphs ----------------------------------------------------------------------------------------------------


def nested():
    inner = builder("x", "y").add_edge(START, "x").add_edge("x", "y").compile(name="inner", interrupt_before=["y"])
    middle = StateGraph(Log).add_node("inner", inner).add_edge(START, "inner").compile(name="middle")
    return StateGraph(Log).add_node("outer", middle).add_node("a", nothing).add_edge(START, "outer")


def test_a_nested_graph_is_one_node_until_it_is_looked_into():
    found = read_graph(nested())
    assert list(found.nodes) == [START, "outer", "a", END]
    assert found.nodes["outer"].kind == "graph"


@pytest.mark.parametrize(
    ("xray", "inside"),
    [
        (False, []),
        (0, []),
        (1, ["outer:__start__", "outer:inner", "outer:__end__"]),
        (
            True,
            [
                "outer:__start__",
                "outer:inner",
                "outer:inner:__start__",
                "outer:inner:x",
                "outer:inner:y",
                "outer:inner:__end__",
                "outer:__end__",
            ],
        ),
    ],
)
def test_xray_looks_as_deep_as_it_is_told_to(xray, inside):
    found = read_graph(nested(), xray=xray)
    assert [name for name in found.nodes if ":" in name] == inside
    assert read_graph(nested(), xray=2).nodes.keys() == read_graph(nested(), xray=True).nodes.keys()


def test_nodes_of_a_nested_graph_lie_in_its_cluster_and_keep_its_breakpoints():
    found = read_graph(nested(), xray=True)
    assert {found.nodes[name].kind for name in ("outer", "outer:inner")} == {"cluster"}
    assert found.nodes["outer:inner:x"].parent == "outer:inner"
    assert found.nodes["outer:inner:x"].name == "x"
    assert found.nodes["outer:inner:y"].metadata == {"__interrupt": "before"}
    assert found.first_node().id == START
    assert found.last_node().id == END


def test_edges_of_a_nested_graph_are_those_of_its_nodes():
    found = edges(nested(), xray=True)
    assert (START, "outer") in found
    assert ("outer", END) in found
    assert ("outer:inner:x", "outer:inner:y") in found


def test_a_graph_that_somehow_holds_itself_ends():
    graph = builder("a").add_edge(START, "a")
    graph.nodes["a"].body = StateGraph(Log).add_node("me", graph.compile()).nodes["me"].body
    assert read_graph(graph, xray=True).nodes["a"].kind == "graph"


# --- as data and as files ---------------------------------------------------------------------------------------------


class Secret:
    def __repr__(self):
        raise AssertionError("drawing must not run this")


def test_json_holds_nodes_and_edges_and_takes_any_metadata():
    graph = StateGraph(Log).add_node("a", nothing, metadata={"n": 1, "s": Secret(), "l": [float("nan"), (1,)], 2: {}})
    graph.add_edge(START, "a").add_conditional_edges("a", nothing, {"done": END})
    found = json.loads(json.dumps(read_graph(graph, interrupt_before="*").to_json(), allow_nan=False))
    assert found == {
        "nodes": [
            {"id": START, "type": "start", "data": {"name": START}},
            {
                "id": "a",
                "type": "node",
                "data": {"name": "a"},
                "metadata": {"n": 1, "s": "<Secret>", "l": ["<float>", [1]], "2": {}, "__interrupt": "before"},
                "notes": ["interrupt before"],
            },
            {"id": END, "type": "end", "data": {"name": END}},
        ],
        "edges": [
            {"source": START, "target": "a", "type": "edge"},
            {"source": "a", "target": END, "type": "route", "data": "done", "conditional": True},
        ],
    }


def test_json_says_in_which_cluster_a_node_lies():
    found = {node["id"]: node.get("parent") for node in read_graph(nested(), xray=1).to_json()["nodes"]}
    assert found["outer:inner"] == "outer"
    assert found["outer"] is None


@pytest.mark.parametrize(
    ("ending", "begins"), [(".svg", "<svg "), (".SVG", "<svg "), (".mmd", "flowchart TD\n"), (".txt", " ")]
)
def test_the_ending_of_a_path_says_what_is_saved(tmp_path, ending, begins):
    graph = read_graph(nested(), xray=True)
    path = tmp_path / f"graph{ending}"
    graph.save(path)
    graph.save(str(path))
    text = path.read_text("utf-8")
    assert text.startswith(begins)
    assert text.endswith("\n")


@pytest.mark.parametrize("name", ["graph.png", "graph"])
def test_another_ending_is_refused_with_those_that_work(tmp_path, name):
    with pytest.raises(InvalidConfigError, match=r"\.svg, \.mmd, \.txt"):
        read_graph(builder("a").add_edge(START, "a")).save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("method", ["draw_png", "draw_mermaid_png"])
def test_there_is_no_png_and_the_error_says_what_to_use(method):
    graph = read_graph(builder("a").add_edge(START, "a"))
    with pytest.raises(UsageError, match=r"draw_svg\(\)"):
        getattr(graph, method)(output_file_path="graph.png")


def test_ascii_is_the_text_by_the_name_people_know(capsys):
    graph = read_graph(builder("a").add_edge(START, "a"))
    assert graph.draw_ascii() == graph.draw_text()
    graph.print_ascii()
    assert capsys.readouterr().out == graph.draw_text() + "\n"


# --- nothing runs -----------------------------------------------------------------------------------------------------


class Watched:
    """A node and router that fails when anything of it but its type is used."""

    armed = False

    def __call__(self, state):
        raise AssertionError

    def __getattribute__(self, name):
        if object.__getattribute__(self, "__class__").armed:
            raise AssertionError(name)
        return object.__getattribute__(self, name)


def test_no_node_no_router_and_no_attribute_of_them_is_used(monkeypatch):
    graph = StateGraph(Log).add_node("a", Watched()).add_node("b", Watched()).add_edge(START, "a")
    graph.add_conditional_edges("a", Watched()).add_conditional_edges("b", Watched(), {Secret(): "a"})
    monkeypatch.setattr(Watched, "armed", True)
    found = read_graph(graph, xray=True)
    assert found.draw_text()
    assert found.draw_svg()
    assert found.draw_mermaid()
    assert found.to_json()
