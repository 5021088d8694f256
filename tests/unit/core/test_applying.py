"""From what tasks wrote to the next state."""

import operator

import pytest

from durable_graph.channels import BinaryOperatorAggregate, EphemeralValue, LastValue, Topic
from durable_graph.core.applying import Blamed, apply_tasks, apply_writes, merge_changes, preview
from durable_graph.core.planning import Task
from durable_graph.core.program import NodeSpec, Program
from durable_graph.errors import InvalidUpdateError, InvalidValueError
from durable_graph.persistence.isolation import own
from durable_graph.records import Address, Change, Write
from durable_graph.types import MISSING, Overwrite

CHANNELS = {
    "log": BinaryOperatorAggregate(list, operator.add),
    "total": BinaryOperatorAggregate(int, operator.add),
    "last": LastValue(object),
    "flash": EphemeralValue(object),
    "heard": Topic(str),
    "kept": Topic(str, accumulate=True),
}
for name, channel in CHANNELS.items():
    channel.key = name


class Checks:
    """Rules of a schema: no negative total (made whole where it is a float), no log with "bad" in it."""

    result_keys = frozenset({"total"})

    def __init__(self, *, checks_state=False):
        self.checks_state = checks_state

    def validate_result(self, key, value, values, *, added=None):
        if value < 0:
            raise InvalidValueError(f"{key} is negative")
        return int(value) if isinstance(value, float) else value

    def validate_state(self, values):
        if "bad" in values.get("log", ()):
            raise ValueError("the log is bad")


def program(checks=None):
    transient = tuple(key for key, channel in CHANNELS.items() if channel.transient)
    return Program("g", {}, {}, CHANNELS, tuple(CHANNELS), tuple(CHANNELS), "f", transient=transient, checks=checks)


def task(path, *writes):
    found = Task(NodeSpec(path.partition("#")[0], None), path, ("t", Address(1, 1, 1)))
    found.writes = [Write(*write) for write in writes]
    return found


def applied(values, *tasks, checks=None):
    changes = apply_tasks(program(checks), values, tasks)
    return values, changes


def test_writes_are_folded_in_the_order_of_the_tasks():
    values, changes = applied({"log": [0]}, task("a", ("log", [1]), ("log", [2])), task("b"), task("c", ("log", [3])))
    assert values == {"log": [0, 1, 2, 3]}
    assert changes == {"log": Change([0, 1, 2, 3], [1, 2, 3])}


def test_a_key_that_nobody_wrote_did_not_change():
    values, changes = applied({"log": [0], "last": 1}, task("a", ("last", 2)))
    assert values == {"log": [0], "last": 2}
    assert changes == {"last": Change(2)}


def test_a_known_encoding_travels_with_the_change_it_encodes():
    _, changes = applied(
        {}, task("a", ("last", 2, b"2"), ("log", [1], b"[1]"), ("flash", 3, b"3"), ("total", 5000, b"5"))
    )
    assert changes["last"] == Change(2, None, b"2")
    assert changes["log"] == Change([1], [1], b"[1]")
    assert changes["flash"] == Change(3, None, b"3")
    assert changes["total"] == Change(5000)


def test_the_encoding_of_one_write_does_not_stand_for_two():
    _, changes = applied({}, task("a", ("log", [1], b"[1]")), task("b", ("log", [2], b"[2]")))
    assert changes["log"] == Change([1, 2], [1, 2], None)


def test_one_string_in_a_topic_is_a_suffix_whose_encoding_is_another():
    values, changes = applied({}, task("a", ("kept", "x", b"x")))
    assert values == {"kept": ["x"]}
    assert changes["kept"] == Change(["x"], ["x"], None)


def test_an_overwrite_replaces_and_drops_the_plain_updates_of_its_step():
    values, changes = applied({"log": [0]}, task("a", ("log", [1])), task("b", ("log", Overwrite([9]))))
    assert values == {"log": [9]}
    assert changes["log"].suffix is None
    values, _ = applied({"last": 0}, task("a", ("last", Overwrite(7))))
    assert values == {"last": 7}


def test_a_transient_key_is_gone_after_a_step_that_did_not_write_it():
    values, changes = applied({"flash": 1, "heard": ["x"]}, task("a", ("flash", 2)))
    assert values == {"flash": 2}
    assert changes == {"flash": Change(2), "heard": Change(MISSING)}
    values, changes = applied({"last": 1}, task("a", ("last", 2)))
    assert values == {"last": 2}
    assert "flash" not in changes


def test_a_channel_that_passes_its_value_on_changes_only_by_what_it_makes_of_it(monkeypatch):
    monkeypatch.setattr(EphemeralValue, "passed", lambda channel, value: value)
    assert applied({"flash": 1}, task("a")) == ({"flash": 1}, {})
    monkeypatch.setattr(EphemeralValue, "passed", lambda channel, value: value + 1)
    assert applied({"flash": 1}, task("a")) == ({"flash": 2}, {"flash": Change(2)})


def test_an_update_to_nothing_takes_the_key_away():
    values, changes = applied({"heard": ["x"]}, task("a", ("heard", [])))
    assert values == {}
    assert changes == {"heard": Change(MISSING)}


def test_a_conflict_blames_the_tasks_that_took_part_and_names_their_nodes():
    tasks = [task("a", ("last", 1)), task("b", ("log", [1])), task("c#0", ("last", 2))]
    with pytest.raises(Blamed) as caught:
        applied({}, *tasks)
    assert caught.value.paths == ("a", "c#0")
    assert isinstance(caught.value.error, InvalidUpdateError)
    assert "'a', 'c'" in str(caught.value.error)


def test_what_a_reducer_raises_keeps_its_class_and_tells_the_node_in_a_note():
    with pytest.raises(Blamed) as caught:
        applied({"total": 1}, task("a", ("total", "x")))
    assert isinstance(caught.value.error, TypeError)
    assert "While the writes of 'a' were applied to key 'total'." in caught.value.error.__notes__


def test_the_result_of_a_reducer_is_checked_and_coerced():
    values, changes = applied({"total": 1}, task("a", ("total", 2.0)), checks=Checks())
    assert values == {"total": 3}
    assert changes == {"total": Change(3)}
    values, _ = applied({"total": 1}, task("a", ("total", 2)), checks=Checks())
    assert values == {"total": 3}
    with pytest.raises(Blamed, match="total is negative"):
        applied({"total": 1}, task("a", ("total", -2)), checks=Checks())


def test_a_state_that_breaks_the_rules_blames_all_who_wrote():
    checks = Checks(checks_state=True)
    assert applied({}, task("a"), checks=checks) == ({}, {})
    applied({}, task("a", ("log", ["good"])), checks=checks)
    with pytest.raises(Blamed, match="the log is bad") as caught:
        applied({}, task("a", ("log", ["bad"])), task("b"), task("c", ("last", 1)), checks=checks)
    assert caught.value.paths == ("a", "c")
    assert "While the writes of 'a', 'c' were applied." in caught.value.error.__notes__


def test_writes_that_belong_to_no_task_are_folded_alike():
    values = {"log": [0]}
    changes = apply_writes(program(), values, [Write("log", [1]), Write("last", 2), Write("log", [2])])
    assert values == {"log": [0, 1, 2], "last": 2}
    assert changes == {"log": Change([0, 1, 2], [1, 2]), "last": Change(2)}


# --- previews --------------------------------------------------------------------------------------------------------


def test_a_preview_leaves_the_values_as_they_are():
    values = {"log": [0], "heard": ["x"], "total": 1}
    writes = [Write("log", [1]), Write("last", 3), Write("total", 2), Write("heard", []), Write("kept", "y")]
    assert preview(CHANNELS, values, writes, own) == {"log": [0, 1], "last": 3, "total": 3, "kept": ["y"]}
    assert values == {"log": [0], "heard": ["x"], "total": 1}


def test_a_reducer_that_works_in_place_does_not_reach_the_values_of_a_preview():
    def extend(left, right):
        left.extend(right)
        return left

    channels = {"log": BinaryOperatorAggregate(list, extend)}
    values = {"log": [0]}
    assert preview(channels, values, [Write("log", [1])], list) == {"log": [0, 1]}
    assert values == {"log": [0]}


# --- merged changes --------------------------------------------------------------------------------------------------


def test_two_appends_are_one():
    merged = merge_changes({"log": Change([1], [1])}, {"log": Change([1, 2], [2])})
    assert merged == {"log": Change([1, 2], [1, 2])}


def test_an_append_to_a_new_value_is_a_new_value():
    assert merge_changes({"log": Change([1])}, {"log": Change([1, 2], [2])}) == {"log": Change([1, 2])}


def test_a_new_value_wins_over_what_was_before():
    before = {"log": Change([1], [1]), "last": Change(1)}
    assert merge_changes(before, {"log": Change([9])}) == {"log": Change([9]), "last": Change(1)}
    assert before["log"] == Change([1], [1])


def test_the_first_change_of_a_key_is_taken_as_it_is():
    assert merge_changes({}, {"log": Change([0, 1], [1], b"1")}) == {"log": Change([0, 1], [1], b"1")}
