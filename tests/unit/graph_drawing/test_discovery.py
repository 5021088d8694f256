"""Compiled graphs that a node refers to are found, and nothing of the user's runs."""

import functools

import pytest

from durable_graph.graph.discovery import is_compiled, plain_function, subgraphs_of
from tests.unit.graph_drawing.pictures import builder

KID = builder("kid").add_edge("__start__", "kid").compile(name="kid")
OTHER = builder("other").add_edge("__start__", "other").compile(name="other")
GRAPHS = {"first": KID, "second": OTHER}
PAIR = [KID, OTHER]


class Holder:
    graph = KID


HOLDER = Holder()


def helper(state):
    return KID.invoke(state)


def names_a_global(state):
    return KID.invoke(state)


def names_two(state):
    return OTHER.invoke(KID.invoke(state))


async def asynchronous(state):
    return await KID.ainvoke(state)


def names_an_attribute(state):
    return HOLDER.graph.invoke(state)


def calls_a_helper(state):
    return helper(state)


def names_a_dict(state):
    return GRAPHS[state["which"]].invoke(state)


def names_a_list(state):
    return [graph.invoke(state) for graph in PAIR]


def nested_function(state):
    def inner(one):
        return KID.invoke(one)

    return [inner(one) for one in state["many"]]


def in_a_lambda(state):
    return sorted(state["many"], key=lambda one: KID.invoke(one)["x"])


def with_default(state, graph=KID):
    return graph.invoke(state)


def names_nothing(state):
    return len(state)


def only_uses_a_string(state):
    return "KID"


def closure():
    graph = builder("inner").add_edge("__start__", "inner").compile(name="inner")
    return lambda state: graph.invoke(state)["x"]


def decorated():
    def wrap(function):
        @functools.wraps(function)
        def wrapper(state):
            return function(state)

        return wrapper

    return wrap(names_a_global)


class Service:
    def __init__(self):
        self.child = KID
        self.unused = OTHER

    def node(self, state):
        return self.child.invoke(state)

    def through_another_method(self, state):
        return self.node(state)

    def __call__(self, state):
        return self.child.invoke(state)


class Slotted:
    __slots__ = ("child", "empty")

    def __init__(self):
        self.child = KID

    def node(self, state):
        return self.child.invoke(state) or self.empty


class Chain:
    """A chain as LangChain makes them: it holds its steps and runs them."""

    def __init__(self, *steps):
        self.steps = list(steps)

    def invoke(self, state):
        for step in self.steps:
            state = step.invoke(state)
        return state


CHAIN = Chain(KID, Chain(OTHER))


def names_a_chain(state):
    return CHAIN.invoke(state)


def names(action):
    return [reference for reference, _ in subgraphs_of(action)]


@pytest.mark.parametrize(
    ("action", "references"),
    [
        pytest.param(KID, ["kid"], id="the graph itself"),
        pytest.param(KID.invoke, ["kid"], id="its method"),
        pytest.param(names_a_global, ["KID"], id="a global"),
        pytest.param(names_two, ["OTHER", "KID"], id="two globals"),
        pytest.param(asynchronous, ["KID"], id="an async function"),
        pytest.param(names_an_attribute, ["HOLDER.graph"], id="an attribute"),
        pytest.param(calls_a_helper, ["KID"], id="a helper of the same module"),
        pytest.param(names_a_dict, ["GRAPHS['first']", "GRAPHS['second']"], id="a dict"),
        pytest.param(names_a_list, ["PAIR[0]", "PAIR[1]"], id="a list"),
        pytest.param(nested_function, ["KID"], id="a nested function"),
        pytest.param(in_a_lambda, ["KID"], id="a lambda in it"),
        pytest.param(with_default, ["kid"], id="a default"),
        pytest.param(closure(), ["graph"], id="a closure"),
        pytest.param(decorated(), ["KID"], id="a decorated function"),
        pytest.param(functools.partial(with_default, graph=OTHER), ["other", "kid"], id="a partial"),
        pytest.param(Service().node, ["self.child"], id="a method"),
        pytest.param(Service().through_another_method, ["self.child"], id="a method that calls another"),
        pytest.param(Slotted().node, ["self.child"], id="a slot"),
        pytest.param(CHAIN, ["self.steps[0]", "self.steps[1].steps[0]"], id="a chain"),
        pytest.param(names_a_chain, ["CHAIN.steps[0]", "CHAIN.steps[1].steps[0]"], id="a global chain"),
        pytest.param(names_nothing, [], id="nothing"),
        pytest.param(only_uses_a_string, [], id="only a string"),
        pytest.param(len, [], id="a builtin"),
        pytest.param(object(), [], id="a plain object"),
        pytest.param(None, [], id="None"),
    ],
)
def test_graphs_are_found_by_the_way_the_code_reaches_them(action, references):
    assert names(action) == references


def test_an_object_that_is_called_counts_with_all_that_it_holds():
    assert subgraphs_of(Service()) == [("self.child", KID), ("unused", OTHER)]


def test_a_graph_is_found_once_however_often_it_is_named():
    service = Service()
    service.child = service.other = KID
    assert [graph for _, graph in subgraphs_of(lambda state: (service.child, service.other, KID))] == [KID]


def test_an_unfilled_closure_cell_is_no_error():
    def make():
        def node(state):
            return later.invoke(state)

        found = subgraphs_of(node)
        later = KID
        return found, subgraphs_of(node), later

    before, after, _ = make()
    assert before == []
    assert after == [("later", KID)]


def test_cycles_end():
    ring = []
    ring.append(ring)
    ring.append(KID)
    assert names(lambda state: ring) == ["ring[1]"]


class Trap:
    """Fails when anything of it is run."""

    def __getattr__(self, name):
        raise AssertionError(name)

    @property
    def graph(self):
        raise AssertionError("a property was run")

    def __len__(self):
        raise AssertionError("a method was run")

    __bool__ = __iter__ = __eq__ = __len__
    __hash__ = None


TRAP = Trap()


def names_a_trap(state):
    return TRAP.graph.invoke(TRAP.missing, KID)


def test_nothing_of_the_users_is_run():
    assert names(names_a_trap) == ["KID"]
    assert names(TRAP) == []
    assert not is_compiled(TRAP)


def test_a_class_is_no_graph():
    assert not is_compiled(type(KID))
    assert is_compiled(KID)
    assert is_compiled(KID.with_config({"tags": ["a"]}))


def test_the_function_behind_an_action_is_found():
    assert plain_function(functools.partial(functools.partial(helper, 1), 2)) is helper
    assert plain_function(Service().node) is Service.node
    assert plain_function(Service()) is Service.__call__
    assert plain_function(len) is None
