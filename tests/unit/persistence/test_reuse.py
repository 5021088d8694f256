"""Copies that serve again: only where nobody could tell them from new ones."""

import copy
import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_graph.messages import AIMessage, HumanMessage, ToolMessage
from durable_graph.persistence.reuse import FEW, Copies

KINDS = {
    "dicts": lambda n: {"role": "ai", "content": "x" * n, "tool_calls": [{"name": "f", "args": {"n": [n]}}]},
    "messages": lambda n: AIMessage(str(n), id=str(n), tool_calls=[{"name": "f", "args": {"n": [n]}, "id": str(n)}]),
    "lists": lambda n: [n, [n], {}],
}
KIND = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
MANY = FEW + 4


def source(make, count=MANY):
    return [make(n) for n in range(count)]


def containers(value):
    """The ids of all in a value that can change."""
    if isinstance(value, HumanMessage | AIMessage | ToolMessage):
        return {id(value)} | containers(value.__dict__)
    if isinstance(value, dict):
        return {id(value)}.union(*map(containers, value.values()))
    if isinstance(value, list):
        return {id(value)}.union(*map(containers, value))
    return set()


@KIND
def test_copies_that_nobody_has_any_more_serve_again(make):
    value, copies = source(make), Copies()
    first = copies.of("k", value)
    assert first == value
    assert containers(first).isdisjoint(containers(value))
    known = [id(one) for one in first]
    del first
    again = copies.of("k", [*value, make(99)])
    assert [id(one) for one in again[:-1]] == known
    assert again == [*value, make(99)]


@KIND
@pytest.mark.parametrize(
    "kept",
    [lambda found: found, lambda found: found[3], lambda found: part_of(found[3])],
    ids=["list", "element", "part"],
)
def test_copies_of_which_somebody_has_a_part_do_not(make, kept):
    value, copies = source(make), Copies()
    held = kept(copies.of("k", value))
    again = copies.of("k", value)
    assert containers(again).isdisjoint(containers(held))
    assert again == value


def part_of(element):
    """A list or dict deep inside."""
    if isinstance(element, list):
        return element[1]
    calls = element["tool_calls"] if isinstance(element, dict) else element.tool_calls
    return calls[0]["args"]


@KIND
def test_an_edit_in_place_is_seen_by_nobody(make):
    value, copies = source(make), Copies()
    before = copy.deepcopy(value)
    found = copies.of("k", value)
    part = part_of(found[2])
    part.clear()
    del found, part
    assert copies.of("k", value) == before == value


def test_an_element_that_was_replaced_is_copied_anew():
    value, copies = source(KINDS["dicts"]), Copies()
    known = [id(one) for one in copies.of("k", value)]
    changed = [*value[:5], {"role": "new"}, *value[6:]]
    again = copies.of("k", changed)
    assert again == changed
    assert [id(one) for one in again[:5]] == known[:5]


@pytest.mark.parametrize("odd", [{1, 2}, (1, [2]), object(), {(1, 2): 3}])
def test_values_of_other_kinds_are_copied_each_time(odd):
    value, copies = [*source(KINDS["dicts"]), {"odd": odd}], Copies()
    first = [id(one) for one in copies.of("k", value)]
    held = copies.of("k", value)
    assert held[:-1] == value[:-1]
    assert containers(held).isdisjoint(containers(value))
    assert first


def test_values_that_are_nested_deep_or_in_themselves_are_copied_each_time():
    deep, loop = {}, {}
    for _ in range(300):
        deep = {"in": deep}
    loop["itself"] = loop
    for odd in (deep, loop):
        found = Copies().of("k", [*source(KINDS["dicts"]), odd])
        assert found[-1] is not odd
        assert found[:-1] == source(KINDS["dicts"])
    assert found[-1]["itself"] is found[-1]


def test_keys_have_copies_of_their_own():
    value, copies = source(KINDS["dicts"]), Copies()
    one, other = copies.of("a", value), copies.of("b", value)
    assert containers(one).isdisjoint(containers(other))


@KIND
@given(data=st.data())
def test_whoever_has_copies_has_them_alone_and_as_they_were_made(make, data):
    """Readers come, keep, edit and go in any order."""
    value, copies, readers = source(make), Copies(), []
    for _ in range(data.draw(st.integers(1, 12))):
        action = data.draw(st.sampled_from(["read", "read", "keep a part", "edit", "go", "append", "replace"]))
        if action == "read":
            before = copy.deepcopy(value)
            readers.append(copies.of("k", value))
            assert readers[-1] == before == value
        elif action == "append":
            value = [*value, make(data.draw(st.integers(50, 99)))]
        elif action == "replace":
            at = data.draw(st.integers(0, len(value) - 1))
            value = [*value[:at], make(data.draw(st.integers(100, 120))), *value[at + 1 :]]
        elif readers:
            at = data.draw(st.integers(0, len(readers) - 1))
            if action == "go":
                del readers[at]
            elif action == "keep a part":
                readers[at] = [readers[at][-1]]
            elif not isinstance(readers[at], dict) and len(readers[at]) > 2:
                part = part_of(readers[at][1])
                (part.append if isinstance(part, list) else part.update)(
                    [] if isinstance(part, list) else {"edited": 1}
                )
                del part
        everybody = [containers(reader) for reader in (*readers, value)]
        assert sum(map(len, everybody)) == len(set().union(*everybody))


def test_what_is_in_a_cycle_of_garbage_is_in_use():
    value, copies = source(KINDS["dicts"]), Copies()
    loop = [copies.of("k", value)]
    loop.append(loop)
    held = containers(loop[0])
    del loop
    assert containers(copies.of("k", value)).isdisjoint(held)
    gc.collect()
    assert copies.of("k", value) == value
