"""Short ways to the graphs that behaviour tests are about."""

import operator
from typing import Annotated, Any, TypedDict

from durable_graph import END, START, StateGraph

THREAD = {"configurable": {"thread_id": "1"}}


class Log(TypedDict):
    """A state that remembers, in order, what was written to it."""

    log: Annotated[list[Any], operator.add]


class Number(TypedDict, total=False):
    """A state with one plain key."""

    x: int


def says(*words):
    """A node that adds words to the log."""
    return lambda state: {"log": list(words)}


def line(schema, nodes, **compile_arguments):
    """The compiled graph that runs `nodes` (functions, or name → function) one after the other."""
    named = nodes if isinstance(nodes, dict) else {node.__name__: node for node in nodes}
    builder = StateGraph(schema).add_sequence(list(named.items()))
    builder.add_edge(START, next(iter(named)))
    return builder.compile(**compile_arguments)


def fan(schema, nodes, after=None, **compile_arguments):
    """The compiled graph that runs `nodes` (name → function) in one superstep, then `after` once they all ran."""
    builder = StateGraph(schema)
    for name, node in nodes.items():
        builder.add_node(name, node).add_edge(START, name)
    if after is not None:
        builder.add_node("after", after).add_edge(list(nodes), "after").add_edge("after", END)
    return builder.compile(**compile_arguments)
