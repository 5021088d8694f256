"""What can be a node, and which names it may have."""

import functools

import pytest

from durable_graph import END, START, StateGraph
from durable_graph.errors import InvalidGraphError
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, chain


def add_one(state):
    return {"log": ["add_one"]}


async def add_async(state):
    return {"log": ["add_async"]}


def add_word(word, state):
    return {"log": [word]}


class Adder:
    def __call__(self, state):
        return {"log": ["called"]}


class AsyncAdder:
    async def __call__(self, state):
        return {"log": ["called async"]}


class Invokable:
    """As a chain of LangChain's looks from outside."""

    def invoke(self, state, config=None):
        return {"log": ["invoke"]}

    async def ainvoke(self, state, config=None):
        return {"log": ["ainvoke"]}

    def get_name(self):
        return "named_by_itself"


def run(face, builder, name):
    return face.invoke(builder.add_edge(START, name).compile(), {"log": []})["log"]


@pytest.mark.parametrize(
    ("node", "name", "said"),
    [
        (add_one, "add_one", "add_one"),
        (add_async, "add_async", "add_async"),
        (functools.partial(add_word, "partial"), "add_word", "partial"),
        (Adder(), "Adder", "called"),
        (AsyncAdder(), "AsyncAdder", "called async"),
    ],
)
def test_a_callable_alone_is_a_node_under_its_own_name(face, node, name, said):
    assert run(face, StateGraph(Log).add_node(node), name) == [said]


@pytest.mark.parametrize(
    ("node", "said"), [(add_one, "add_one"), (functools.partial(add_word, "p"), "p"), (Adder(), "called")]
)
def test_a_node_can_have_a_name_of_its_own(face, node, said):
    assert run(face, StateGraph(Log).add_node("mine", node), "mine") == [said]


def test_an_object_with_invoke_and_ainvoke_is_called_by_the_form_that_suits_the_face(face):
    said = {"sync": ["invoke"], "async": ["ainvoke"]}[face.name]
    assert run(face, StateGraph(Log).add_node(Invokable()), "named_by_itself") == said


def test_an_object_with_ainvoke_only_runs_on_both_faces(face):
    class OnlyAsync:
        async def ainvoke(self, state):
            return {"log": ["ainvoke"]}

    assert run(face, StateGraph(Log).add_node("n", OnlyAsync()), "n") == ["ainvoke"]


def test_an_object_with_invoke_only_runs_on_both_faces(face):
    class OnlySync:
        def invoke(self, state):
            return {"log": ["invoke"]}

    assert run(face, StateGraph(Log).add_node("n", OnlySync()), "n") == ["invoke"]


def test_a_node_may_have_a_sync_and_an_async_body(face):
    said = {"sync": ["add_one"], "async": ["add_async"]}[face.name]
    assert run(face, StateGraph(Log).add_node("n", add_one, afunc=add_async), "n") == said


def test_a_compiled_graph_can_be_a_node(face):
    inner = chain(inner=says("inner")).compile()
    assert run(face, StateGraph(Log).add_node("outer", inner), "outer") == ["inner"]


def test_a_method_and_a_builtin_can_be_nodes(face):
    class Holder:
        def work(self, state):
            return {"log": ["method"]}

    assert run(face, StateGraph(Log).add_node(Holder().work), "work") == ["method"]
    assert run(face, StateGraph(Log).add_node("n", dict), "n") == []


def test_a_node_without_parameters_is_called_without_arguments(face):
    assert run(face, StateGraph(Log).add_node("n", lambda: {"log": ["none"]}), "n") == ["none"]


@pytest.mark.parametrize("name", ["state", "s", "whatever", "_"])
def test_the_first_parameter_may_have_any_name(face, name):
    node = eval(f"lambda {name}: {{'log': [type({name}).__name__ != 'x']}}")  # noqa: S307 - a name can't be a variable
    assert run(face, StateGraph(Log).add_node("n", node), "n") == [True]


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_name_can_be_given_once_only():
    builder = StateGraph(Log).add_node("twin", add_one)
    with pytest.raises(InvalidGraphError, match=r"node 'twin' is already present(.|\n)*another name"):
        builder.add_node("twin", add_one)


@pytest.mark.parametrize("name", [START, END])
def test_the_names_of_start_and_end_are_reserved(name):
    with pytest.raises(InvalidGraphError, match=f"{name!r} is reserved"):
        StateGraph(Log).add_node(name, add_one)


@pytest.mark.parametrize("sign", ["|", ":", "#"])
def test_signs_that_addresses_are_made_of_are_refused_in_names(sign):
    with pytest.raises(InvalidGraphError) as caught:
        StateGraph(Log).add_node(f"a{sign}b", add_one)
    assert repr(f"a{sign}b") in str(caught.value)
    assert repr(sign) in str(caught.value)


def test_an_empty_name_is_refused():
    with pytest.raises(InvalidGraphError, match="empty"):
        StateGraph(Log).add_node("", add_one)


def test_a_name_without_anything_to_run_is_refused_with_the_call_to_write():
    with pytest.raises(InvalidGraphError, match=r"add_node\('alone', function\)"):
        StateGraph(Log).add_node("alone")


def test_something_that_cannot_be_called_is_refused():
    with pytest.raises(InvalidGraphError, match=r"42 cannot be called"):
        StateGraph(Log).add_node("n", 42)


def test_a_name_may_hold_any_other_text(face):
    name = "Überprüfung 1, (neu)/ü"
    assert run(face, StateGraph(Log).add_node(name, add_one), name) == ["add_one"]


# --- sequences and sugar ----------------------------------------------------------------------------------------------


def test_a_sequence_runs_in_its_order_and_takes_functions_and_pairs(face):
    builder = StateGraph(Log).add_sequence([add_one, ("second", says("second")), add_async])
    assert run(face, builder, "add_one") == ["add_one", "second", "add_async"]


def test_an_empty_sequence_is_refused():
    with pytest.raises(InvalidGraphError, match="no nodes"):
        StateGraph(Log).add_sequence([])


def test_a_name_that_comes_twice_in_a_sequence_is_refused():
    with pytest.raises(InvalidGraphError, match="'add_one' is already present"):
        StateGraph(Log).add_sequence([add_one, add_one])


def test_entry_and_finish_points_are_edges_from_start_and_to_end(face):
    builder = StateGraph(Log).add_node(add_one).set_entry_point("add_one").set_finish_point("add_one")
    assert builder.edges == {(START, "add_one"), ("add_one", END)}
    assert face.invoke(builder.compile(), {"log": []}) == {"log": ["add_one"]}


def test_a_conditional_entry_point_chooses_the_first_node(face):
    builder = StateGraph(Log).add_node("a", says("a")).add_node("b", says("b"))
    builder.set_conditional_entry_point(lambda state: state["log"][0], {"to a": "a", "to b": "b"})
    assert face.invoke(builder.compile(), {"log": ["to b"]}) == {"log": ["to b", "b"]}


def test_every_building_call_gives_the_builder_back():
    builder = StateGraph(Log)
    assert builder.add_node("a", add_one) is builder
    assert builder.add_edge(START, "a") is builder
    assert builder.add_conditional_edges("a", lambda state: END) is builder
    assert builder.add_sequence([add_async]) is builder
    assert builder.set_entry_point("a") is builder
    assert builder.set_finish_point("a") is builder
    assert builder.set_conditional_entry_point(lambda state: "a") is builder
    assert builder.validate() is builder


# --- compiling --------------------------------------------------------------------------------------------------------


def test_a_graph_can_be_compiled_twice_and_both_work(face):
    builder = StateGraph(Log).add_node(add_one).add_edge(START, "add_one")
    first, second = builder.compile(), builder.compile(name="other")
    assert face.invoke(first, {"log": []}) == face.invoke(second, {"log": []}) == {"log": ["add_one"]}
    assert (first.name, second.name) == ("LangGraph", "other")


def test_what_is_added_after_compiling_reaches_only_the_next_compile(face):
    builder = StateGraph(Log).add_node(add_one).add_edge(START, "add_one")
    before = builder.compile()
    builder.add_node("late", says("late")).add_edge("add_one", "late")
    assert face.invoke(before, {"log": []}) == {"log": ["add_one"]}
    assert face.invoke(builder.compile(), {"log": []}) == {"log": ["add_one", "late"]}


def test_compiling_leaves_the_builder_as_it_was():
    builder = StateGraph(Log).add_node(add_one, metadata={"team": "a"}).add_edge(START, "add_one")
    builder.compile(interrupt_before=["add_one"], name="x")
    assert list(builder.nodes) == ["add_one"]
    assert builder.edges == {(START, "add_one")}
    assert (builder.nodes["add_one"].metadata, builder.nodes["add_one"].retry) == ({"team": "a"}, ())


def test_a_compiled_graph_can_be_called_like_a_function():
    assert chain(add_one=add_one).compile()({"log": ["in"]}) == {"log": ["in", "add_one"]}
