"""Replay, edit and answer otherwise from every checkpoint of a graph and of the graph inside it.

The graph is a -> sub -> z, and `sub` is a graph c1 -> c2 (asks) -> c3. Each cell says by hand which nodes must run and
what must come of it. `pytest -s` prints the table of all cells.
"""

import operator
from typing import Annotated, TypedDict

import pytest

from durable_graph import START, Command, StateGraph, interrupt
from durable_graph.errors import UnknownInterruptError
from tests.behaviour.small_graphs import Marks, thread

ROW = "{:<7} {:<28} {:<13} {:<14} {:<34} {}"
REST = ["c2", "c3", "z"]
"""What runs once the question is answered."""


class Inside(TypedDict):
    log: list
    said: Annotated[list, operator.add]


class Given(TypedDict):
    log: list


class Said(TypedDict):
    said: Annotated[list, operator.add]


class Outside(TypedDict):
    log: Annotated[list, operator.add]
    said: Annotated[list, operator.add]


# checkpoint, oldest first -> what runs from it until it asks, what runs then; None: it never asks
ROOT = [(["a", "c1", "c2"], REST), (["a", "c1", "c2"], REST), (["c1", "c2"], REST), (["z"], None), ([], None)]
CHILD = [(["c1", "c2"], REST), (["c1", "c2"], REST), (["c2"], REST), (["c3", "z"], None), (["z"], None)]
CELLS = [
    (where, at, way) for where in ("root", "child") for at in range(5) for way in ("replay", "edit", "other answer")
]


def graph_of(marks, saver):
    def says(name, key):
        def node(state):
            marks(name)
            return {key: [name]}

        return node

    def asks(state):
        marks("c2")
        return {"said": [f"c2:{interrupt('go?')}"]}

    inner = StateGraph(Inside, input_schema=Given, output_schema=Said)
    inner.add_node("c1", says("c1", "said")).add_node("c2", asks).add_node("c3", says("c3", "said"))
    inner.add_edge(START, "c1").add_edge("c1", "c2").add_edge("c2", "c3")
    outer = StateGraph(Outside).add_node("a", says("a", "log")).add_node("sub", inner.compile())
    outer.add_node("z", says("z", "log")).add_edge(START, "a").add_edge("a", "sub").add_edge("sub", "z")
    return outer.compile(saver)


def config_of(where):
    found = thread("t")
    return found if where == "root" else {"configurable": {**found["configurable"], "checkpoint_ns": "sub"}}


def history(face, graph, where):
    return face.get_state_history(graph, config_of(where))


def call(face, graph, marks, given, config):
    marks.seen.clear()
    values = face.invoke(graph, given, config)
    asked = [one.value for one in values.pop("__interrupt__", ())]
    return values, asked, [*marks.seen]


def answer_otherwise(face, graph, marks, place, where, at):
    """Only where the question was asked can it be answered otherwise; the graph inside does not begin anew."""
    if at != 2:
        with pytest.raises(UnknownInterruptError):
            call(face, graph, marks, Command(resume="other"), place)
        return "refused: nothing is asked there"
    values, asked, ran = call(face, graph, marks, Command(resume="other"), place)
    assert (values["said"], asked, ran) == (["c1", "c2:other", "c3"], [], REST), where
    return f"{ran} -> {values['said']}"


def go_on(face, graph, marks, place, where, at, way):
    first, then = (ROOT if where == "root" else CHILD)[at]
    edited = [] if way == "replay" else ["edited"]
    if way == "edit":
        marks.seen.clear()
        place = face.update_state(graph, place, {"said": edited})
        assert marks.seen == []
    values, asked, ran = call(face, graph, marks, None, place)
    assert (asked, ran) == (["go?"] if then else [], first)
    answer = "first" if then is None else "again"
    if then is not None:
        values, asked, ran_then = call(face, graph, marks, Command(resume="again"), config_of("root"))
        assert (asked, ran_then) == ([], then)
        ran = [*ran, "?", *ran_then]
    instead = where == "root" and at == 0 and way == "edit"  # an edit of the input stands in its place
    assert values["log"] == (["a", "z"] if instead else ["in", "a", "z"])
    # The words of the graph inside in their order; the edit stands behind what was said before its checkpoint.
    said = ["c1", f"c2:{answer}", "c3"]
    before = (3 if at > 2 else 0) if where == "root" else max(0, at - 1)
    assert values["said"] == [*said[:before], *edited, *said[before:]]
    return f"{ran} -> {values['said']}"


@pytest.mark.parametrize(("where", "at", "way"), CELLS)
def test_every_checkpoint_inside_and_outside_can_be_travelled_to(face, backend, where, at, way):
    marks = Marks()
    graph = graph_of(marks, backend.make())
    face.invoke(graph, {"log": ["in"]}, thread("t"))
    face.invoke(graph, Command(resume="first"), thread("t"))
    before = {one: history(face, graph, one) for one in ("root", "child")}
    place = before[where][::-1][at]
    if way == "other answer":
        came = answer_otherwise(face, graph, marks, place.config, where, at)
    else:
        came = go_on(face, graph, marks, place.config, where, at, way)
    for one, old in before.items():  # the old branch is whole
        now = history(face, graph, one)
        assert now[len(now) - len(old) :] == old
    head = face.get_state(graph, thread("t"))
    assert head.next == ()
    name = f"{at} (next {', '.join(place.next) or 'nothing'})"
    print(ROW.format(where, name, way, face.name, type(graph.checkpointer).__name__, came))  # noqa: T201 - the table
