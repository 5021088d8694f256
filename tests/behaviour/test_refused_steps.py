"""A step that is refused while its writes are applied leaves the state of the step before it, in every durability."""

import operator
from typing import Annotated, TypedDict

import pytest

from durable_graph import END, START, StateGraph


def merged(old, new):
    """A reducer that changes its left argument in place."""
    old.update(new)
    return old


def picky(old, new):
    if new == "refused":
        raise ValueError(new)
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
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_what_a_refused_step_changed_in_place_is_not_stored(face, backend, durability, error, refused, monkeypatch):
    if error is KeyboardInterrupt and face.name == "async":
        pytest.skip("asyncio.run turns it into a cancellation")
    verdicts = dict.fromkeys("abc", "fine") | {refused: "refused"}
    app = graph(backend, verdicts)
    config = {"configurable": {"thread_id": "t"}}
    if error is KeyboardInterrupt:
        monkeypatch.setitem(picky.__globals__, "ValueError", KeyboardInterrupt)
    with pytest.raises(error):
        face.invoke(app, {"log": ["start"], "seen": {"start": True}}, config, durability=durability)
    monkeypatch.undo()

    before = "abc"[: "abc".index(refused)]
    snapshot = face.get_state(app, config)
    assert snapshot.next == (refused,)
    assert snapshot.values["log"] == ["start", *before]
    assert snapshot.values["seen"] == dict.fromkeys(["start", *before], True)

    verdicts[refused] = "fine"
    result = face.invoke(app, None, config, durability=durability)
    assert result["log"] == ["start", "a", "b", "c"]
    assert result["seen"] == dict.fromkeys(["start", *"abc"], True)
