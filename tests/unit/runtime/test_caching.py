"""Where the results of a node are kept: under what its code is known by, in every process."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from durable_graph import START, StateGraph
from durable_graph.caches import CachePolicy
from durable_graph.runtime.caching import namespace_of
from tests.behaviour.small_graphs import Log

ROOT = Path(__file__).parents[3]


def kept_under(node, name="a"):
    builder = StateGraph(Log).add_node(name, node, cache_policy=CachePolicy()).add_edge(START, name)
    return namespace_of(builder.compile().nodes[name].work)


def plain(state):
    return {"log": [1]}


class Node:
    def __init__(self, word):
        self.word = word

    def __call__(self, state):
        return {"log": [self.word]}

    def method(self, state):
        return {"log": [self.word]}


class Other:
    def __call__(self, state):
        return {"log": ["other"]}


def made(word):
    def node(state):
        return {"log": [word]}

    return node


def test_it_names_the_node_and_the_function():
    kind, origin, node = kept_under(plain)
    assert (kind, node) == ("node", "a")
    assert origin.split()[0].endswith("test_caching.plain")


def test_the_same_function_is_known_again_and_each_node_has_its_own():
    assert kept_under(plain) == kept_under(plain)
    assert kept_under(plain) != kept_under(plain, "b")


def test_what_a_function_does_tells_it_from_others_of_its_name():
    lambdas = [
        lambda state: {"log": [1]},
        lambda state: {"log": [2]},
        lambda state: {"other": [1]},
        lambda state: {"log": [state["log"]]},
        lambda state: {"log": [len(state)]},
        lambda state: {"log": [abs(state)]},
        lambda state: {"log": [state in {1, 2}]},
        lambda state: {"log": [state in {1, 3}]},
        lambda state: {"log": [lambda: 1]},
        lambda state: {"log": [lambda: 2]},
    ]
    assert len({kept_under(one) for one in lambdas}) == len(lambdas)


def test_where_a_function_stands_does_not_matter():
    """A line more above it is no other function."""
    source = "def node(state):\n    return {'log': [1]}\n"
    found = set()
    for text in (source, "\n\n" + source):
        names = {"__name__": "somewhere"}
        exec(compile(text, "file.py", "exec"), names)  # noqa: S102 - two versions of a module
        found.add(kept_under(names["node"]))
    assert len(found) == 1


def test_what_a_function_takes_from_around_it_does_not_tell():
    assert kept_under(made("x")) == kept_under(made("y"))


def test_partials_methods_and_objects_go_by_their_code():
    assert kept_under(partial(plain)) == kept_under(plain)
    assert kept_under(Node("x")) == kept_under(Node("y"))
    assert kept_under(Node("x").method) == kept_under(Node("y").method)
    assert len({kept_under(node) for node in (plain, Node("x"), Node("x").method, Other())}) == 4


def test_a_graph_goes_by_its_name_and_shape():
    def inner(name, node):
        return StateGraph(Log).add_node(node, plain).add_edge(START, node).compile(name=name)

    assert kept_under(inner("g", "a")) == kept_under(inner("g", "a"))
    assert len({kept_under(inner(*one)) for one in (("g", "a"), ("h", "a"), ("g", "b"))}) == 3


def test_objects_with_invoke_go_by_their_class():
    class Chain:
        def invoke(self, state):
            return state

    assert "Chain" in kept_under(Chain())[1]


def test_every_process_says_the_same():
    program = (
        "from durable_graph import START, StateGraph\n"
        "from durable_graph.caches import CachePolicy\n"
        "from durable_graph.runtime.caching import namespace_of\n"
        "from tests.behaviour.small_graphs import Log\n"
        "def node(state):\n    return {'log': [state in {'a', 'b', 'c'}, lambda: {'d', 'e'}]}\n"
        "b = StateGraph(Log).add_node('a', node, cache_policy=CachePolicy()).add_edge(START, 'a')\n"
        "print(namespace_of(b.compile().nodes['a'].work))\n"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
        ).stdout
        for seed in "123"
    }
    assert len(said) == 1
