"""Where a run goes: edges, barriers, routers, Commands and Sends."""

import operator
import random
from typing import Annotated, Any, Literal, TypedDict

import pytest

from durable_graph import END, START, Command, Send, StateGraph
from durable_graph.errors import InvalidUpdateError
from tests.behaviour.making import both, builder, until
from tests.behaviour.small_graphs import Log, chain, parallel


def log(face, graph, given=()):
    return face.invoke(graph.compile(), {"log": list(given)})["log"]


# --- edges and barriers -----------------------------------------------------------------------------------------------


def test_nodes_without_an_edge_out_end_the_run(face):
    assert log(face, builder("a", "b").add_edge(START, "a").add_edge("a", "b")) == ["a", "b"]


def test_a_plain_edge_runs_its_target_once_for_several_sources_of_one_step(face):
    graph = builder("a", "b", "c").add_edge(START, "a").add_edge(START, "b").add_edge("a", "c").add_edge("b", "c")
    assert log(face, graph) == ["a", "b", "c"]


def test_a_barrier_waits_for_all_its_sources_whatever_step_they_run_in(face):
    graph = builder("a", "b", "b2", "c").add_edge(START, "a").add_edge(START, "b").add_edge("b", "b2")
    graph.add_edge(["a", "b2"], "c")
    assert log(face, graph) == ["a", "b", "b2", "c"]


def test_without_a_barrier_the_target_runs_after_each_source(face):
    graph = builder("a", "b", "b2", "c").add_edge(START, "a").add_edge(START, "b").add_edge("b", "b2")
    graph.add_edge("a", "c").add_edge("b2", "c")
    assert log(face, graph) == ["a", "b", "b2", "c", "c"]


def test_a_barrier_of_one_source_is_an_edge(face):
    assert log(face, builder("a", "b").add_edge(START, "a").add_edge(["a"], "b")) == ["a", "b"]


def test_a_barrier_starts_again_after_it_has_let_through(face):
    graph = builder("a", "b", "c").add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "c")
    graph.add_conditional_edges("c", lambda state: ["a", "b"] if len(state["log"]) < 6 else END, ["a", "b", END])
    assert log(face, graph) == ["a", "b", "c"] * 2


def test_a_barrier_whose_other_source_never_runs_lets_nothing_through(face):
    graph = builder("a", "b", "c").add_edge(START, "a").add_edge(["a", "b"], "c")
    graph.add_conditional_edges(START, lambda state: "a", ["a", "b"])
    assert log(face, graph) == ["a"]


# --- routers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("router", both(lambda state: "b"), ids=["sync", "async"])
def test_a_router_names_the_next_node(face, router):
    graph = builder("a", "b", "c").add_edge(START, "a").add_conditional_edges("a", router)
    assert log(face, graph) == ["a", "b"]


def test_a_router_sees_the_state_with_its_own_nodes_writes_but_not_its_siblings(face):
    seen = []

    def route(state):
        seen.append(list(state["log"]))
        return END

    graph = builder("a", "b").add_edge(START, "a").add_edge(START, "b").add_conditional_edges("a", route)
    assert log(face, graph, ["in"]) == ["in", "a", "b"]
    assert seen == [["in", "a"]]


@pytest.mark.parametrize("source", [START, "a"])
@pytest.mark.parametrize("targets", [{"go": "b"}, ["b"], {True: "b"}])
def test_a_map_turns_answers_into_nodes(face, source, targets):
    answer = next(iter(targets))
    graph = builder("a", "b").add_edge(START, "a").add_conditional_edges(source, lambda state: answer, targets)
    assert log(face, graph)[-1] == "b"


def test_a_literal_hint_is_as_good_as_a_map(face):
    def route(state) -> Literal["b", "__end__"]:
        return "b"

    assert log(face, builder("a", "b").add_edge(START, "a").add_conditional_edges("a", route)) == ["a", "b"]


def test_a_router_may_answer_several_nodes_and_each_runs_once(face):
    graph = builder("a", "b", "c").add_edge(START, "a").add_conditional_edges("a", lambda state: ["c", "b", "c"])
    assert log(face, graph) == ["a", "b", "c"]


@pytest.mark.parametrize("answer", [END, [], [END]])
def test_a_router_may_end_the_run(face, answer):
    graph = builder("a", "b").add_edge(START, "a").add_conditional_edges("a", lambda state: answer)
    assert log(face, graph) == ["a"]


def test_routers_add_to_static_edges(face):
    graph = builder("a", "b", "c").add_edge(START, "a").add_edge("a", "b")
    graph.add_conditional_edges("a", lambda state: "c")
    assert log(face, graph) == ["a", "b", "c"]


def test_an_object_with_invoke_can_be_a_router(face):
    class Route:
        def invoke(self, state, config=None):
            return "b"

    assert log(face, builder("a", "b").add_edge(START, "a").add_conditional_edges("a", Route())) == ["a", "b"]


def test_a_router_may_read_a_schema_of_its_own(face):
    class Short(TypedDict):
        log: list[Any]

    seen = []

    def route(state: Short):
        seen.append(dict(state))
        return END

    graph = builder("a").add_edge(START, "a").add_conditional_edges("a", route).compile()
    face.invoke(graph, {"log": [], "other": 1})
    assert seen == [{"log": ["a"]}]


@pytest.mark.parametrize("answer", [None, START, "zzz", 7, Send("zzz", {}), Send(END, {}), ["b", "zzz"]])
def test_an_answer_that_is_no_node_is_an_error_naming_router_node_and_choices(face, answer):
    graph = builder("a", "b").add_edge(START, "a").add_conditional_edges("a", lambda state: answer)
    with pytest.raises(InvalidUpdateError) as caught:
        log(face, graph)
    assert "'a'" in str(caught.value)
    assert "'b'" in str(caught.value) or "END" in str(caught.value)


def test_an_answer_that_the_map_lacks_is_an_error_naming_router_node_and_answers(face):
    def route(state):
        return "maybe"

    graph = builder("a", "b").add_edge(START, "a").add_conditional_edges("a", route, {"yes": "b", "no": END})
    with pytest.raises(InvalidUpdateError) as caught:
        log(face, graph)
    for part in ("'route'", "'a'", "'maybe'", "'yes'", "'no'"):
        assert part in str(caught.value)


# --- Commands and Sends from nodes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("goto", "expected"),
    [
        ("b", ["a", "b"]),
        (["c", "b"], ["a", "b", "c"]),
        (Send("b", {}), ["a", "b"]),
        ([Send("b", {}), "c", Send("b", {})], ["a", "c", "b", "b"]),
        (END, ["a"]),
        ((), ["a"]),
    ],
)
def test_a_command_updates_and_goes(face, goto, expected):
    graph = builder("b", "c").add_node("a", lambda state: Command(update={"log": ["a"]}, goto=goto))
    assert log(face, graph.add_edge(START, "a")) == expected


def test_a_commands_goto_adds_to_static_edges(face):
    graph = builder("b", "c").add_node("a", lambda state: Command(goto="c")).add_edge(START, "a").add_edge("a", "b")
    assert log(face, graph) == ["b", "c"]


def test_a_node_may_return_a_send(face):
    graph = StateGraph(Log).add_node("a", lambda state: Send("b", 5)).add_edge(START, "a")
    graph.add_node("b", lambda arg: {"log": [arg]})
    assert log(face, graph) == [5]


def test_a_list_of_commands_and_updates_is_applied_in_its_order(face):
    node = lambda state: [Command(update={"log": ["c1"]}, goto="b"), {"log": ["d"]}, Command(update={"log": ["c2"]})]
    assert log(face, builder("b").add_node("a", node).add_edge(START, "a")) == ["c1", "d", "c2", "b"]


@pytest.mark.parametrize("target", ["zzz", Send("zzz", 1)])
def test_a_command_to_an_unknown_node_is_an_error_naming_node_target_and_known_nodes(face, target):
    graph = builder("b").add_node("a", lambda state: Command(goto=target)).add_edge(START, "a")
    with pytest.raises(InvalidUpdateError) as caught:
        log(face, graph)
    for part in ("node 'a'", "'zzz'", "'b'"):
        assert part in str(caught.value)


def test_a_command_to_a_parent_that_is_not_there_is_an_error(face):
    graph = chain(a=lambda state: Command(graph=Command.PARENT, goto="b"))
    with pytest.raises(InvalidUpdateError, match="no parent"):
        log(face, graph)


def test_a_command_with_resume_from_a_node_is_an_error(face):
    with pytest.raises(InvalidUpdateError, match="node 'a' returned a Command with resume"):
        log(face, chain(a=lambda state: Command(resume=1)))


class Item:
    """Something that is neither dict nor state."""

    def __init__(self, value):
        self.value = value

    def __repr__(self):  # without an address: a test's name is the same in every process
        return f"Item({self.value!r})"


@pytest.mark.parametrize("arg", [5, None, "text", [1, 2], {"any": "thing"}, (1, (2,)), Item(3)], ids=repr)
def test_what_is_sent_is_delivered_as_it_is(face, arg):
    got = []
    graph = StateGraph(Log).add_node("worker", got.append)
    graph.add_conditional_edges(START, lambda state: Send("worker", arg), ["worker"])
    face.invoke(graph.compile(), {"log": []})
    assert type(got[0]) is type(arg)
    assert got == [arg] or got[0].value == arg.value


def test_the_state_itself_can_be_sent(face):
    graph = StateGraph(Log).add_node("worker", lambda given: {"log": [type(given).__name__, *given["log"]]})
    graph.add_conditional_edges(START, lambda state: Send("worker", state), ["worker"])
    assert log(face, graph, ["in"]) == ["in", "dict", "in"]


def test_sends_of_a_dataclass_state_are_not_turned_into_the_state(face):
    graph = StateGraph(Log).add_node("worker", lambda given: {"log": [given]}, input_schema=Log)
    graph.add_conditional_edges(START, lambda state: [Send("worker", n) for n in range(3)], ["worker"])
    assert log(face, graph) == [0, 1, 2]


# --- order ------------------------------------------------------------------------------------------------------------


class Order(TypedDict):
    seen: Annotated[list[str], operator.add]


def test_writes_are_applied_nodes_by_name_then_sends_in_their_order(face):
    graph = StateGraph(Order)
    for name in "zmaq":
        graph.add_node(name, lambda state, name=name: {"seen": [name]})
    graph.add_node("worker", lambda arg: {"seen": [f"send {arg}"]})

    def route(state):
        return [Send("worker", 0), "z", Send("worker", 1), "m", "q", Send("worker", 2), "a"]

    graph.add_conditional_edges(START, route, [*"zmaq", "worker"])
    expected = ["a", "m", "q", "z", "send 0", "send 1", "send 2"]
    assert face.invoke(graph.compile(), {"seen": []}) == {"seen": expected}


@pytest.mark.parametrize("asynchronous", [False, True])
def test_the_order_of_writes_does_not_depend_on_who_finishes_first(face, asynchronous):
    """Nodes hand a baton on in a random order, so that they finish in it."""
    import threading

    names = list("abcdef")
    finishing = random.sample(names, len(names))
    done = {name: threading.Event() for name in names}

    def before(name):
        at = finishing.index(name)
        return done[finishing[at - 1]] if at else None

    def make(name):
        def node(state):
            turn = before(name)
            assert turn is None or turn.wait(10)
            done[name].set()
            return {"log": [name]}

        async def anode(state):
            turn = before(name)
            if turn is not None:
                await until(turn.is_set)
            done[name].set()
            return {"log": [name]}

        return anode if asynchronous else node

    assert log(face, parallel(**{name: make(name) for name in names})) == names
