"""What tests of time travel share: a graph to travel in, and a way to find a checkpoint."""

from durable_graph import interrupt
from tests.behaviour.making import says
from tests.behaviour.small_graphs import chain


def asking(marks):
    """a, b (asks), c."""

    def b(state):
        marks("b")
        return {"log": [f"b:{interrupt('go?')}"]}

    names = {"a": says("a"), "b": b, "c": says("c")}
    return chain(**{name: counted(marks, name, node) for name, node in names.items()})


def counted(marks, name, node):
    def run(state):
        if name != "b":
            marks(name)
        return node(state)

    return run


def where(shown, **wanted):
    """The first checkpoint with these attributes or metadata."""
    return next(
        one for one in shown if all(getattr(one, name, one.metadata.get(name)) == to for name, to in wanted.items())
    )
