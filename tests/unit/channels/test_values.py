"""Channels whose value is what was written last."""

from __future__ import annotations

import pytest

from durable_graph.channels import AnyValue, EphemeralValue, LastValue, NamedBarrierValue, Topic, UntrackedValue
from durable_graph.errors import InvalidUpdateError
from durable_graph.types import MISSING, Overwrite


def keyed(channel, key="answer"):
    channel.key = key
    return channel


def test_a_key_is_absent_before_anything_was_written():
    for channel in (LastValue(int), AnyValue(int), EphemeralValue(int), UntrackedValue(int), Topic(int)):
        assert channel.initial() is MISSING


@pytest.mark.parametrize("value", [0, None, [], {"a": 1}])
def test_a_last_value_is_the_very_object_that_was_written(value):
    assert LastValue(object).update(1, [value]) is value


def test_two_writes_to_a_last_value_are_refused_naming_key_and_cure():
    with pytest.raises(InvalidUpdateError) as caught:
        keyed(LastValue(list)).update(MISSING, [[1], [2]])
    assert caught.value.what == "At key 'answer': can receive only one value per step, got 2"
    assert "Annotated[list, reducer]" in str(caught.value)


def test_whoever_catches_the_error_can_add_the_writers():
    with pytest.raises(InvalidUpdateError) as caught:
        keyed(LastValue(int)).update(MISSING, [1, 2])
    caught.value.what += ", from nodes a and b"
    assert "got 2, from nodes a and b" in str(caught.value)


@pytest.mark.parametrize("write", [Overwrite(5), {"__overwrite__": 5}, {"type": "__overwrite__", "value": 5}])
@pytest.mark.parametrize("channel", [LastValue(int), AnyValue(int), EphemeralValue(int), UntrackedValue(int)])
def test_an_overwrite_is_unwrapped(channel, write):
    assert channel.update(1, [write]) == 5


@pytest.mark.parametrize(
    "value", [{"__overwrite__": 1, "more": 2}, {"type": "__overwrite__"}, {"type": "x", "value": 1}]
)
def test_a_dict_that_only_looks_like_an_overwrite_is_a_value(value):
    assert LastValue(dict).update(MISSING, [value]) is value


def test_any_value_takes_the_last_write_and_is_gone_after_a_step_without_one():
    channel = AnyValue(int)
    assert channel.update(1, [2, 3]) == 3
    assert channel.transient
    assert channel.passed(3) is MISSING


def test_an_ephemeral_value_is_gone_after_a_step_without_a_write():
    channel = EphemeralValue(int)
    assert channel.update(MISSING, [1]) == 1
    assert channel.transient
    assert channel.passed(1) is MISSING


@pytest.mark.parametrize("kind", [EphemeralValue, UntrackedValue])
def test_a_guard_refuses_two_writes_and_can_be_taken_off(kind):
    with pytest.raises(InvalidUpdateError, match="At key 'answer'"):
        keyed(kind(int)).update(MISSING, [1, 2])
    assert kind(int, guard=False).update(MISSING, [1, 2]) == 2


def test_only_untracked_values_stay_out_of_checkpoints():
    assert not UntrackedValue(int).stored
    assert not UntrackedValue(int).transient
    assert all(channel.stored for channel in (LastValue(int), AnyValue(int), EphemeralValue(int), Topic(int)))


def test_a_value_channel_reports_nothing_as_appended():
    assert LastValue(list).appended([1], [[1, 2]]) is None


def test_equality_is_class_and_options_whatever_key_and_type():
    assert keyed(LastValue(int), "a") == keyed(LastValue(str), "b")
    assert LastValue(int) != AnyValue(int)
    assert EphemeralValue(int) != EphemeralValue(int, guard=False)
    assert Topic(int) != Topic(int, accumulate=True)
    assert NamedBarrierValue(str, ["a", "b"]) == NamedBarrierValue(str, {"b", "a"})
    assert NamedBarrierValue(str, ["a"]) != NamedBarrierValue(str, ["a", "b"])
    assert LastValue(int) != "LastValue(int)"
    assert len({LastValue(int), LastValue(str)}) == 1


def test_a_channel_reads_like_its_declaration():
    assert repr(LastValue(list[int])) == "LastValue(list[int])"
    assert repr(EphemeralValue(int, guard=False)) == "EphemeralValue(int, False)"


# --- topic --------------------------------------------------------------------------------------------------


def test_a_topic_flattens_lists_and_forgets_the_step_before():
    topic = Topic(str)
    assert topic.update(["old"], ["a", ["b", "c"], ("d",)]) == ["a", "b", "c", ("d",)]
    assert topic.transient
    assert topic.passed(["a"]) is MISSING


def test_an_accumulating_topic_keeps_everything():
    topic = Topic(str, accumulate=True)
    assert topic.update(["a"], ["b", ["c"]]) == ["a", "b", "c"]
    assert topic.update(MISSING, ["b"]) == ["b"]
    assert not topic.transient
    assert topic.passed(["a"]) == ["a"]


def test_an_accumulating_topic_reports_what_was_appended():
    assert Topic(str, accumulate=True).appended(["a"], ["b", ["c"]]) == ["b", "c"]
    assert Topic(str, accumulate=True).appended(MISSING, ["b"]) == ["b"]
    assert Topic(str, accumulate=True).appended(["a"], [Overwrite(["b"])]) is None
    assert Topic(str).appended(["a"], ["b"]) is None


def test_an_empty_topic_is_an_absent_key():
    assert Topic(str).update(["old"], [[]]) is MISSING
    assert Topic(str, accumulate=True).update(MISSING, [[]]) is MISSING


def test_a_topic_leaves_value_and_writes_alone():
    value, write = ["a"], ["b"]
    result = Topic(str, accumulate=True).update(value, [write])
    result.append("c")
    assert (value, write) == (["a"], ["b"])


def test_an_overwrite_replaces_a_topic():
    topic = keyed(Topic(str, accumulate=True))
    assert topic.update(["a"], ["b", Overwrite(["c"])]) == ["c"]
    assert topic.update(["a"], [Overwrite([])]) is MISSING
    with pytest.raises(InvalidUpdateError, match="needs a list"):
        topic.update(["a"], [Overwrite("c")])


# --- barrier ------------------------------------------------------------------------------------------------


def test_a_barrier_is_complete_once_every_name_was_written_in_any_order():
    barrier = NamedBarrierValue(str, ["a", "b", "c"])
    assert barrier.initial() is MISSING
    assert not barrier.complete(MISSING)
    seen = barrier.update(MISSING, ["c", "a"])
    assert seen == ("a", "c")
    assert not barrier.complete(seen)
    seen = barrier.update(seen, ["b", "a"])
    assert seen == ("a", "b", "c")
    assert barrier.complete(seen)


def test_a_barrier_refuses_a_foreign_name():
    with pytest.raises(InvalidUpdateError, match="At key 'answer': 'z' is none of the awaited names"):
        keyed(NamedBarrierValue(str, ["a", "b"])).update(("a",), ["b", "z"])
