"""A step that is refused while its writes are applied leaves the state of the step before it, in every durability."""

import operator
from typing import Annotated, TypedDict

import pytest

from durable_graph import END, START, StateGraph
from tests.behaviour.small_graphs import thread


def merged(old, new):
    """A reducer that changes its left argument in place."""
    old.update(new)
    return old


class Refused(Exception):
    """What the last key raises."""


def picky(old, new):
    if isinstance(new, str) and new != "fine":
        raise {"wrong": Refused, "Ctrl-C": KeyboardInterrupt}[new]
    return new


class State(TypedDict, total=False):
    """Keys that are folded before the one that refuses."""

    log: Annotated[list, operator.add]
    seen: Annotated[dict, merged]
    verdict: Annotated[str, picky]


def graph(backend, verdicts):
    def step(name):
        return lambda _: {"log": [name], "seen": {name: True}, "verdict": verdicts[name]}

    builder = StateGraph(State)
    for name in "abc":
        builder.add_node(name, step(name))
    for source, target in ((START, "a"), ("a", "b"), ("b", "c"), ("c", END)):
        builder.add_edge(source, target)
    return builder.compile(checkpointer=backend.make())


@pytest.mark.parametrize("refused", ["b", "c"])
@pytest.mark.parametrize(("verdict", "error"), [("wrong", Refused), ("Ctrl-C", KeyboardInterrupt)])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_what_a_refused_step_changed_in_place_is_not_stored(face, backend, durability, verdict, error, refused):
    verdicts = dict.fromkeys("abc", "fine") | {refused: verdict}
    app = graph(backend, verdicts)
    config = thread()
    with pytest.raises(error):
        face.invoke(app, {"log": ["start"], "seen": {"start": True}}, config, durability=durability)

    before = "abc"[: "abc".index(refused)]
    snapshot = face.get_state(app, config)
    assert snapshot.next == (refused,)
    assert snapshot.values["log"] == ["start", *before]
    assert snapshot.values["seen"] == dict.fromkeys(["start", *before], True)

    verdicts[refused] = "fine"
    result = face.invoke(app, None, config, durability=durability)
    assert result["log"] == ["start", "a", "b", "c"]
    assert result["seen"] == dict.fromkeys(["start", *"abc"], True)
