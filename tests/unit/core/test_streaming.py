"""What a stream shows: payloads as plain functions of tasks and values."""

from copy import deepcopy
from dataclasses import replace

import pytest

from durable_graph.channels import LastValue
from durable_graph.core.planning import Task
from durable_graph.core.program import NodeSpec, Program
from durable_graph.core.streaming import output, result_payload, start_payload, state, update_payload, written
from durable_graph.records import Address, Write
from durable_graph.types import ROOT, Interrupt

ORIGIN = ("t", Address(1, 3, 7))


def task(spec=None, **fields):
    found = Task(spec or NodeSpec("a", None), "a", ORIGIN)
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def program(*, root=False):
    return Program("g", {}, {}, {"a": LastValue(), "b": LastValue()}, ("a", "b"), ("a",), "f", root=root)


def test_the_output_is_the_output_keys_that_are_there():
    assert output(program(), {"a": [1], "b": 2}) == {"a": [1]}
    assert output(program(), {"b": 2}) == {}
    values = {"a": [1]}
    assert output(program(), values)["a"] is values["a"]


def test_the_state_is_all_keys_and_shares_nothing():
    values = {"b": 2, "a": [1], "gone": 0}
    shown = state(program(), values, deepcopy)
    assert shown == {"a": [1], "b": 2}
    assert shown["a"] is not values["a"]


def test_the_state_of_a_bare_value_is_the_value():
    bare = replace(program(root=True), channels={ROOT: LastValue()})
    values = {ROOT: [1]}
    shown = state(bare, values, deepcopy)
    assert shown == [1]
    assert shown is not values[ROOT]
    assert state(bare, {}, deepcopy) is None


def test_the_output_of_a_bare_state_is_its_value():
    values = {ROOT: [1]}
    assert output(program(root=True), values) is values[ROOT]
    assert output(program(root=True), {}) is None


@pytest.mark.parametrize(
    ("writes", "expected"),
    [
        ([], None),
        ([("a", 1), ("b", 2)], {"a": 1, "b": 2}),
        ([("a", 1), ("a", 2)], [{"a": 1}, {"a": 2}]),
        ([(ROOT, 1)], 1),
        ([(ROOT, 1), (ROOT, 2)], [1, 2]),
    ],
)
def test_writes_are_shown_as_the_update_a_node_returned(writes, expected):
    assert written([Write(*write) for write in writes]) == expected


def test_an_update_that_came_from_storage_says_so():
    done = task(writes=[Write("a", 1)])
    assert update_payload(done, deepcopy) == {"a": {"a": 1}}
    assert update_payload(done, deepcopy, cached=True) == {"a": {"a": 1}, "__metadata__": {"cached": True}}


def test_a_task_that_starts_shows_what_its_node_reads():
    values = {"a": [1], "b": 2}
    assert start_payload(task(), values, deepcopy)["input"] == values
    assert start_payload(task(NodeSpec("a", None, keys=("b", "c"))), values, deepcopy)["input"] == {"b": 2}
    assert start_payload(task(arg={"x": 1}), values, deepcopy)["input"] == {"x": 1}
    assert start_payload(task(), values, deepcopy)["input"]["a"] is not values["a"]


def test_a_task_that_starts_shows_its_id_and_the_metadata_of_its_node():
    plain = start_payload(task(), {}, deepcopy)
    assert (plain["id"], plain["name"], plain["triggers"]) == (task().id, "a", ("a",))
    assert "metadata" not in plain
    assert start_payload(task(NodeSpec("a", None, metadata={"x": 1})), {}, deepcopy)["metadata"] == {"x": 1}


def test_a_task_that_ended_shows_its_result_its_error_or_its_questions():
    done = result_payload(task(writes=[Write("a", 1), Write("b", 2), Write("b", 3)]), deepcopy)
    assert done["result"] == {"a": 1, "b": {"$writes": [2, 3]}}
    assert (done["error"], done["interrupts"]) == (None, [])
    failed = result_payload(task(error=ValueError("no")), deepcopy)
    assert (failed["error"], failed["result"]) == ("ValueError('no')", {})
    asked = result_payload(task(interrupts=(Interrupt("sure?", "intr_1"),)), deepcopy)
    assert asked["interrupts"] == [{"value": "sure?", "id": "intr_1", "response_schema": None}]
