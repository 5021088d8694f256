"""The program changed between two calls; the thread did not."""

import operator
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from pydantic import BaseModel

from durable_graph import END, START, Command, StateGraph, interrupt, register_type
from durable_graph.errors import (
    InvalidUpdateError,
    InvalidValueError,
    UnknownNodeError,
    UnknownStoredTypeError,
)
from durable_graph.persistence.type_registry import REGISTRY
from tests.behaviour.small_graphs import Log, Marks, asked, chain, dump, parallel, thread

CFG = thread()


def say(name, marks=None):
    def node(state):
        if marks is not None:
            marks(name)
        return {"log": [name]}

    return node


def cut_short(state):
    raise ConnectionAbortedError("cut short")


# --- nodes -----------------------------------------------------------------------------------------------------------


def test_a_thread_that_waits_on_a_removed_node_is_an_error_and_left_untouched(face, backend):
    saver = backend.make()
    old = chain(a=say("a"), gone=say("gone"), c=say("c"))
    face.invoke(old.compile(saver, interrupt_before=["gone"]), {}, CFG)
    rows = dump(saver)
    new = chain(a=say("a"), c=say("c")).compile(backend.reopen())
    with pytest.raises(UnknownNodeError, match=r"'t' goes on at node 'gone'.*'a', 'c'"):
        face.invoke(new, None, CFG)
    assert dump(saver) == rows
    assert face.get_state(new, CFG).next == ("gone",)
    assert face.invoke(old.compile(backend.reopen()), None, CFG)["log"] == ["a", "gone", "c"]


def test_a_question_of_a_removed_node_cannot_be_answered_but_is_still_shown(face, backend):
    saver = backend.make()
    face.invoke(chain(gone=lambda state: {"log": [interrupt("?")]}).compile(saver), {}, CFG)
    rows = dump(saver)
    new = chain(a=say("a")).compile(backend.reopen())
    assert list(asked(face.get_state(new, CFG))) == ["?"]
    with pytest.raises(UnknownNodeError, match="'gone'"):
        face.invoke(new, Command(resume="x"), CFG)
    assert dump(saver) == rows


def test_a_thread_on_a_removed_node_can_be_abandoned(face, backend):
    face.invoke(chain(gone=lambda state: {"log": [interrupt("?")]}).compile(backend.make()), {}, CFG)
    new = chain(a=say("a")).compile(backend.reopen())
    assert face.invoke(new, {}, CFG, on_unfinished="abandon")["log"] == ["a"]


def test_a_removed_node_that_nothing_waits_on_does_not_matter(face, backend):
    old = chain(gone=say("gone"), b=say("b"))
    face.invoke(old.compile(backend.make(), interrupt_before=["b"]), {}, CFG)
    new = chain(b=say("b")).compile(backend.reopen())
    assert face.invoke(new, None, CFG)["log"] == ["gone", "b"]
    assert face.invoke(new, {}, CFG)["log"] == ["gone", "b", "b"]


def test_new_nodes_and_edges_count_for_the_steps_that_come(face, backend):
    face.invoke(chain(a=say("a"), b=say("b")).compile(backend.make(), interrupt_before=["b"]), {}, CFG)
    new = chain(a=say("a"), b=say("b"), c=say("c")).compile(backend.reopen())
    assert face.invoke(new, None, CFG)["log"] == ["a", "b", "c"]


def test_the_fingerprint_tells_that_the_graph_changed(face, backend):
    graph = chain(a=say("a")).compile(backend.make())
    face.invoke(graph, {}, CFG)
    first = face.get_state(graph, CFG).metadata["fingerprint"]
    face.invoke(chain(a=say("a")).compile(backend.reopen()), {}, CFG)
    assert face.get_state(graph, CFG).metadata["fingerprint"] == first
    face.invoke(chain(a=say("a"), b=say("b")).compile(backend.reopen()), {}, CFG)
    assert face.get_state(graph, CFG).metadata["fingerprint"] != first


# --- keys ------------------------------------------------------------------------------------------------------------


def test_a_removed_key_is_neither_shown_nor_in_the_way(face, backend):
    class Old(TypedDict, total=False):
        log: Annotated[list, operator.add]
        gone: int

    old = chain(Old, a=lambda state: {"log": ["a"], "gone": 1}, b=say("b"))
    face.invoke(old.compile(backend.make(), interrupt_before=["b"]), {}, CFG)
    seen = []

    class New(TypedDict, total=False):
        log: Annotated[list, operator.add]

    def b(state):
        seen.append(dict(state))
        return {"log": ["b"]}

    new = chain(New, a=say("a"), b=b).compile(backend.reopen())
    assert face.get_state(new, CFG).values == {"log": ["a"]}
    assert face.invoke(new, None, CFG) == {"log": ["a", "b"]}
    assert seen == [{"log": ["a"]}]


def test_an_added_key_starts_as_it_would_on_a_fresh_thread(face, backend):
    face.invoke(chain(a=say("a"), b=say("b")).compile(backend.make(), interrupt_before=["b"]), {}, CFG)

    class New(Log, total=False):
        more: Annotated[list, operator.add]
        plain: int

    seen = []

    def b(state):
        seen.append(dict(state))
        return {"more": ["m"], "plain": 1}

    new = chain(New, a=say("a"), b=b).compile(backend.reopen())
    assert face.get_state(new, CFG).values == {"log": ["a"], "more": []}
    assert face.invoke(new, None, CFG) == {"log": ["a"], "more": ["m"], "plain": 1}
    assert seen == [{"log": ["a"], "more": []}]


def test_pending_results_with_a_removed_key_do_not_block_the_thread(face, backend):
    class Old(TypedDict, total=False):
        log: Annotated[list, operator.add]
        gone: int

    class New(TypedDict, total=False):
        log: Annotated[list, operator.add]

    ask = {"ask": lambda state: {"log": [interrupt("?")]}}
    old = parallel(Old, work=lambda state: {"log": ["work"], "gone": 1}, **ask)
    face.invoke(old.compile(backend.make()), {}, CFG)
    new = parallel(New, work=say("work"), **ask).compile(backend.reopen())
    assert face.get_state(new, CFG).values == {"log": ["work"]}
    assert face.invoke(new, Command(resume="yes"), CFG) == {"log": ["yes", "work"]}


# --- types -----------------------------------------------------------------------------------------------------------


@dataclass
class Parcel:
    weight: int


def forget(cls):
    """As in a process that never heard of the class."""
    key = REGISTRY._keys.pop(cls)
    del REGISTRY._classes[key]
    REGISTRY.kinds.pop(cls, None)


@pytest.fixture
def parcel():
    register_type(Parcel, name="shop:Parcel")
    yield Parcel
    register_type(Parcel, name="shop:Parcel")


def test_a_stored_type_that_is_not_registered_is_an_error_that_names_key_and_type(face, backend, parcel):
    saver = backend.make()
    graph = chain(a=lambda state: {"answer": parcel(3)}, b=say("b")).compile(saver, interrupt_before=["b"])
    face.invoke(graph, {}, CFG)
    rows = dump(saver)
    forget(parcel)
    elsewhere = chain(a=say("a"), b=say("b")).compile(backend.reopen())
    for call in (
        lambda: face.get_state(elsewhere, CFG),
        lambda: face.get_state_history(elsewhere, CFG),
        lambda: face.invoke(elsewhere, None, CFG),
    ):
        with pytest.raises(UnknownStoredTypeError, match="shop:Parcel") as caught:
            call()
        assert "'answer'" in str(caught.value)
        assert "'t'" in str(caught.value)
        assert "register_type" in str(caught.value)
    assert dump(saver) == rows
    register_type(parcel, name="shop:Parcel")
    assert face.invoke(elsewhere, None, CFG)["answer"] == Parcel(3)


def test_a_moved_class_is_found_by_its_alias(face, backend, parcel):
    face.invoke(chain(a=lambda state: {"answer": parcel(3)}).compile(backend.make()), {}, CFG)
    forget(parcel)

    @dataclass
    class Box:
        weight: int

    register_type(Box, name="shop:Box", aliases=["shop:Parcel"])
    try:
        elsewhere = chain(a=say("a")).compile(backend.reopen())
        assert face.get_state(elsewhere, CFG).values["answer"] == Box(3)
    finally:
        forget(Box)
        REGISTRY._classes.pop("shop:Parcel", None)


# --- steps that failed and code that was mended ----------------------------------------------------------------------


class Plain(TypedDict, total=False):
    value: Any
    log: Annotated[list, operator.add]


def both(marks, a, b, c):
    nodes = {}
    for name, update in {"a": a, "b": b, "c": c}.items():
        nodes[name] = lambda state, name=name, update=update: (marks(name), update)[1]
    return parallel(Plain, **nodes)


def test_two_writers_of_one_value_are_an_error_and_run_again_after_the_mend(face, backend):
    marks = Marks()
    broken = both(marks, {"value": 1}, {"value": 2}, {"log": ["c"]})
    with pytest.raises(InvalidUpdateError, match=r"'value'.*'a', 'b'"):
        face.invoke(broken.compile(backend.make()), {}, CFG)
    mended = both(marks, {"value": 1}, {"log": ["b"]}, {"log": ["c"]}).compile(backend.reopen())
    state = face.get_state(mended, CFG)
    assert state.next == ("a", "b")
    assert state.values == {"log": ["c"]}
    assert face.invoke(mended, None, CFG) == {"value": 1, "log": ["b", "c"]}
    assert [marks.count(name) for name in "abc"] == [2, 2, 1]


def test_a_write_that_a_reducer_refuses_is_blamed_on_its_node_which_runs_again(face, backend):
    marks = Marks()
    broken = both(marks, {"value": 1}, {"log": 7}, {})
    with pytest.raises(TypeError) as caught:
        face.invoke(broken.compile(backend.make()), {}, CFG)
    assert "'b'" in str(caught.value.__notes__)
    assert "'log'" in str(caught.value.__notes__)
    mended = both(marks, {"value": 1}, {"log": ["b"]}, {}).compile(backend.reopen())
    assert face.get_state(mended, CFG).next == ("b",)
    assert face.invoke(mended, None, CFG) == {"value": 1, "log": ["b"]}
    assert [marks.count(name) for name in "abc"] == [1, 2, 1]


class Basket(BaseModel):
    items: list[str] = []
    total: int = 0


def test_an_invalid_value_is_rejected_before_it_is_stored_and_its_node_runs_again(face, backend):
    marks = Marks()

    def basket(items):
        builder = StateGraph(Basket)
        builder.add_node("fill", lambda state: (marks("fill"), {"items": items})[1])
        builder.add_node("count", lambda state: (marks("count"), {"total": 3})[1])
        return builder.add_edge(START, "fill").add_edge(START, "count").add_edge("fill", END)

    with pytest.raises(InvalidValueError, match=r"'fill'.*items") as caught:
        face.invoke(basket(None).compile(backend.make()), {"items": ["old"]}, CFG)
    assert "list" in str(caught.value)
    mended = basket(["new"]).compile(backend.reopen())
    assert face.get_state(mended, CFG).values["items"] == ["old"]
    finished = [task.name for task in face.get_state(mended, CFG).tasks if task.result is not None]
    assert face.invoke(mended, None, CFG) == {"items": ["new"], "total": 3}
    assert marks.count("fill") == 2
    assert all(marks.count(name) == 1 for name in finished)


@pytest.mark.parametrize("update", [{"nope": 1}, 7, "text", Command(goto="nowhere")], ids=str)
def test_an_update_that_does_not_fit_is_rejected_and_its_node_runs_again(face, backend, update):
    builder = chain(a=say("a"), b=lambda state: update)
    with pytest.raises(InvalidUpdateError, match="'b'"):
        face.invoke(builder.compile(backend.make()), {}, CFG)
    mended = chain(a=say("a"), b=say("b")).compile(backend.reopen())
    assert face.get_state(mended, CFG).next == ("b",)
    assert face.invoke(mended, None, CFG)["log"] == ["a", "b"]


def test_a_router_that_answers_nonsense_is_an_error_and_its_node_runs_again(face, backend):
    marks = Marks()

    def routed(answer):
        builder = chain(a=say("a", marks)).add_node("b", say("b"))
        return builder.add_conditional_edges("a", lambda state: answer, {"good": "b"})

    with pytest.raises(InvalidUpdateError, match=r"'bad'.*'good'"):
        face.invoke(routed("bad").compile(backend.make()), {}, CFG)
    assert face.invoke(routed("good").compile(backend.reopen()), None, CFG)["log"] == ["a", "b"]
    assert marks.count("a") == 2
