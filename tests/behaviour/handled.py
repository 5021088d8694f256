"""A node with an error handler: what tests of these share."""

from pathlib import Path

from durable_graph import (
    START,
    RetryPolicy,
    StateGraph,
)
from durable_graph.errors import (
    NodeError,
)
from tests.behaviour.making import says
from tests.behaviour.small_graphs import Log, thread

CFG = thread()
ROOT = Path(__file__).parents[2]
QUICK = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=ValueError)


def fails(state):
    text = "boom"
    raise ValueError(text)


def told(state, error: NodeError):
    """A handler that writes down what it was told."""
    return {"log": [f"{error.node} {type(error.error).__name__} {error.error}"]}


def guarded(node=fails, handler=told, **more):
    """START -> a, which has a handler, -> next."""
    builder = StateGraph(Log).add_node("a", node, error_handler=handler, **more).add_node("next", says("next"))
    return builder.add_node("plan b", says("plan b")).add_edge(START, "a").add_edge("a", "next")


def beside(builder, name, node, **more):
    """One more node in the first step."""
    return builder.add_node(name, node, **more).add_edge(START, name)


class Once:
    """A node that fails in its first run."""

    def __init__(self, word, error=None):
        self.word, self.error, self.runs = word, error or KeyError(word), 0

    def __call__(self, state):
        self.runs += 1
        if self.runs == 1:
            raise self.error
        return {"log": [self.word]}
