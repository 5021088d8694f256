"""Mistakes in a graph are found before anything runs, all of them at once, and named."""

import warnings
from typing import Annotated, Any, Literal, TypedDict

import pytest

from durable_graph import END, START, Command, Send, StateGraph
from durable_graph.errors import GraphError, InvalidGraphError, InvalidSchemaError, NoCheckpointerError
from durable_graph.schema import RemainingSteps
from tests.behaviour.making import Number, builder, says
from tests.behaviour.small_graphs import Log, chain, thread


def test_all_mistakes_are_reported_together():
    graph = builder("parse", "report")
    graph.add_edge("pares", "report").add_edge("parse", "reprot").add_edge(["parse", "count"], "sum")
    graph.add_conditional_edges("parse", lambda state: "x", {"x": "nowhere"})
    graph.add_node("jumps", says(), destinations=("lost",))
    with pytest.raises(InvalidGraphError) as caught:
        graph.compile(interrupt_before=["stop"])
    text = str(caught.value)
    for part in (
        "8 mistakes",
        "starting at unknown node 'pares'",
        "did you mean 'parse'?",
        "ending at unknown node 'reprot'",
        "did you mean 'report'?",
        "barrier edge starting at unknown node 'count'",
        "barrier edge ending at unknown node 'sum'",
        "unknown target 'nowhere'",
        "node 'jumps' names unknown destination 'lost'",
        "must have an entrypoint",
        "interrupt node 'stop' was not found",
    ):
        assert part in text


def test_a_mistake_is_a_value_error_and_a_graph_error():
    with pytest.raises(ValueError, match="entrypoint") as caught:
        builder("a").compile()
    assert isinstance(caught.value, GraphError)
    assert "add at least one edge from START" in str(caught.value)


def test_a_graph_without_nodes_is_refused():
    with pytest.raises(InvalidGraphError, match="entrypoint"):
        StateGraph(Log).compile()


def test_a_graph_that_leads_from_start_to_end_returns_its_input(face):
    assert face.invoke(StateGraph(Log).add_edge(START, END).compile(), {"log": [1]}) == {"log": [1]}


def test_an_edge_from_end_is_refused():
    with pytest.raises(InvalidGraphError, match="starts at END"):
        builder("a").add_edge(END, "a")


def test_an_edge_to_start_is_refused():
    with pytest.raises(InvalidGraphError, match="leads to START"):
        builder("a").add_edge("a", START)


def test_a_barrier_without_sources_is_refused():
    with pytest.raises(InvalidGraphError, match="barrier edge to 'a' has no sources"):
        builder("a").add_edge([], "a")


def test_a_barrier_that_waits_for_start_is_no_silent_dead_end(face):
    """LangGraph refuses START in a list; a barrier with it must not wait for ever."""
    with pytest.raises(InvalidGraphError, match=START):
        builder("a").add_edge([START], "a").compile()


def test_a_router_of_an_unknown_node_is_a_mistake_found_when_the_graph_is_compiled():
    graph = builder("a").add_conditional_edges("b", lambda state: "a")
    with pytest.raises(InvalidGraphError, match=r"router \(condition\) of unknown node 'b' \(there are 'a'\)"):
        graph.compile()


def test_a_router_may_be_added_before_its_node():
    graph = StateGraph(Number).add_conditional_edges("a", lambda state: END, [END])
    assert graph.add_node("a", lambda state: None).add_edge(START, "a").compile().invoke({"x": 1}) == {"x": 1}


def test_the_same_router_twice_on_one_node_is_refused():
    def route(state):
        return END

    with pytest.raises(InvalidGraphError, match=r"node 'a' has a router 'route' already"):
        builder("a").add_conditional_edges("a", route).add_conditional_edges("a", route)


def test_two_lambdas_may_be_routers_of_one_node(face):
    graph = builder("a", "b", "c").add_edge(START, "a")
    graph.add_conditional_edges("a", lambda state: "b").add_conditional_edges("a", lambda state: "c")
    assert face.invoke(graph.compile(), {"log": []}) == {"log": ["a", "b", "c"]}


def test_a_literal_hint_with_an_unknown_target_is_a_mistake():
    def route(state) -> Literal["a", "gone"]:
        return "a"

    graph = builder("a").add_edge(START, "a").add_conditional_edges("a", route)
    with pytest.raises(InvalidGraphError, match="router 'route' of 'a' names unknown target 'gone'"):
        graph.compile()


def test_a_command_hint_with_an_unknown_target_is_a_mistake():
    def jump(state) -> Command[Literal["gone"]]:
        return Command(goto="gone")

    graph = StateGraph(Log).add_node(jump).add_edge(START, "jump")
    with pytest.raises(InvalidGraphError, match="node 'jump' names unknown destination 'gone'"):
        graph.compile()


# --- nodes that nothing leads to --------------------------------------------------------------------------------------


def silent(state) -> dict[str, Any]:
    return {}


def test_a_node_that_nothing_leads_to_is_a_warning():
    graph = StateGraph(Log).add_node("a", silent).add_node("lost", silent).add_edge(START, "a")
    with pytest.warns(UserWarning, match="nothing leads to node 'lost'"):
        graph.compile()


def unannotated(state):
    return {}


def with_command(state) -> Command:
    return Command(goto="lost")


def with_send(state) -> list[Send] | dict:
    return {}


def with_union(state) -> dict | Command:
    return {}


@pytest.mark.parametrize("node", [unannotated, with_command, with_send, with_union, lambda state: {}])
def test_a_node_that_may_go_anywhere_silences_the_warning(node):
    graph = StateGraph(Log).add_node("a", node).add_node("lost", silent).add_edge(START, "a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph.compile()


def test_a_node_that_names_its_targets_does_not_silence_the_warning():
    def there(state) -> Command[Literal["b"]]:
        return Command(goto="b")

    graph = StateGraph(Log).add_node("a", there).add_node("b", silent).add_node("lost", silent).add_edge(START, "a")
    with pytest.warns(UserWarning, match="'lost'"):
        graph.compile()


def test_destinations_and_router_maps_lead_somewhere():
    graph = StateGraph(Log).add_node("a", silent, destinations=("b",)).add_node("b", silent).add_node("c", silent)
    graph.add_edge(START, "a").add_conditional_edges("b", lambda state: "c", ["c", END])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph.compile()


def test_a_router_without_map_or_hint_may_lead_anywhere():
    graph = StateGraph(Log).add_node("a", silent).add_node("b", silent).add_edge(START, "a")
    graph.add_conditional_edges("a", lambda state: "b")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph.compile()


def test_an_unreachable_node_that_could_route_does_not_silence_the_warning():
    graph = StateGraph(Log).add_node("a", silent).add_node("lost", unannotated).add_edge(START, "a")
    with pytest.warns(UserWarning, match="'lost'"):
        graph.compile()


# --- schemas ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [None, 5, "State"])
def test_something_that_is_no_schema_is_refused(schema):
    with pytest.raises(InvalidSchemaError):
        StateGraph(schema)


def test_a_reducer_with_the_wrong_number_of_parameters_is_refused_with_its_key():
    class State(TypedDict):
        items: Annotated[list, lambda one: one]

    with pytest.raises(InvalidSchemaError, match="items"):
        StateGraph(State)


def test_a_computed_value_cannot_be_input_or_output():
    class Output(TypedDict):
        left: RemainingSteps

    with pytest.raises(InvalidSchemaError, match="left"):
        StateGraph(Number, output_schema=Output).add_node("a", silent).add_edge(START, "a").compile()


def test_two_schemas_that_contradict_each_other_are_refused_with_the_key():
    def first(old, new):
        return old

    def second(old, new):
        return new

    class One(TypedDict):
        items: Annotated[list, first]

    class Two(TypedDict):
        items: Annotated[list, second]

    graph = StateGraph(One).add_node("a", silent, input_schema=Two).add_edge(START, "a")
    with pytest.raises(InvalidSchemaError, match="items"):
        graph.compile()


def test_calls_that_need_a_checkpointer_say_how_to_get_one(face):
    graph = chain(a=says("a")).compile()
    with pytest.raises(NoCheckpointerError, match=r"compile|Compile"):
        face.get_state(graph, thread())
    with pytest.raises(NoCheckpointerError):
        face.invoke(graph, Command(resume=1), thread())


def test_something_that_is_no_checkpointer_is_refused():
    with pytest.raises((TypeError, ValueError), match="checkpointer"):
        builder("a").add_edge(START, "a").compile(checkpointer=object())
