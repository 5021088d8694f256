"""Compiled small graphs."""

from durable_graph import END
from tests.behaviour.small_graphs import Log, chain, parallel, thread

__all__ = ["Log", "fan", "line", "says", "thread"]


def says(*words):
    """A node that adds words to the log."""
    return lambda state: {"log": list(words)}


def line(nodes, schema=Log, **compile_arguments):
    """The graph that runs `nodes` (name → what runs) one after the other."""
    return chain(schema, **nodes).compile(**compile_arguments)


def fan(nodes, after=None, **compile_arguments):
    """The graph that runs `nodes` in one superstep, then `after` once they all ran."""
    builder = parallel(Log, **nodes)
    if after is not None:
        builder.add_node("after", after).add_edge(list(nodes), "after").add_edge("after", END)
    return builder.compile(**compile_arguments)
