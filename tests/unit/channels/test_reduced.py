"""Fields with a reducer."""

from __future__ import annotations

import collections
import copy
import operator
import typing
from collections import abc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_graph.channels import BaseChannel, BinaryOperatorAggregate
from durable_graph.errors import InvalidUpdateError
from durable_graph.types import MISSING, Overwrite

LISTS = st.lists(st.integers(), max_size=4)


def reduced(typ=list, op=operator.add):
    channel = BinaryOperatorAggregate(typ, op)
    channel.key = "log"
    return channel


def in_place(current, update):
    current.extend(update)
    return current


class NeedsArguments:
    def __init__(self, name):
        self.name = name


@pytest.mark.parametrize(
    ("typ", "start"),
    [
        (list, []),
        (list[int], []),
        (typing.List[int], []),  # noqa: UP006 - old spellings must work too
        (dict[str, int], {}),
        (set, set()),
        (int, 0),
        (float, 0.0),
        (str, ""),
        (bool, False),
        (tuple[int, ...], ()),
        (collections.Counter, collections.Counter()),
        (abc.Sequence, []),
        (typing.Sequence[int], []),
        (abc.MutableSequence[int], []),
        (abc.Set, set()),
        (abc.MutableSet[int], set()),
        (abc.Mapping[str, int], {}),
        (abc.MutableMapping, {}),
    ],
)
def test_a_reduced_key_starts_as_its_type(typ, start):
    first, second = reduced(typ).initial(), reduced(typ).initial()
    assert (first, type(first)) == (start, type(start))
    assert second == start


def test_each_initial_value_is_an_object_of_its_own():
    channel = reduced(list)
    assert channel.initial() is not channel.initial()


@pytest.mark.parametrize("typ", [typing.Any, NeedsArguments, list | None, object, typing.TypeVar("T")])
def test_where_no_first_value_can_be_made_the_first_write_becomes_the_value(typ):
    channel = reduced(typ)
    assert channel.initial() is MISSING
    assert channel.update(MISSING, [3]) == 3
    assert channel.update(MISSING, [3, 4]) == 7


def test_a_key_that_an_old_thread_does_not_hold_starts_like_a_new_one():
    assert reduced(int, lambda current, update: current * 10 + update).update(MISSING, [1, 2]) == 12


def test_writes_are_folded_in_their_order():
    assert reduced(str).update("a", ["b", "c"]) == "abc"
    assert reduced(int, operator.sub).update(10, [1, 2]) == 7


def test_a_reducer_may_return_anything():
    assert reduced(list, lambda current, update: None).update([1], [2]) is None


# --- overwrite ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [Overwrite([9]), {"__overwrite__": [9]}, {"type": "__overwrite__", "value": [9]}])
@pytest.mark.parametrize("op", [operator.add, lambda current, update: current + update])
def test_an_overwrite_replaces_the_value_and_drops_the_other_updates_of_the_step(form, op):
    channel = reduced(list, op)
    assert channel.update([1], [[2], form, [3]]) == [9]
    assert channel.update(MISSING, [form]) == [9]
    assert channel.appended([1], [[2], form]) is None


def test_two_overwrites_in_a_step_are_refused_naming_the_key():
    with pytest.raises(InvalidUpdateError) as caught:
        reduced().update([1], [Overwrite([2]), {"__overwrite__": [3]}])
    assert caught.value.what == "At key 'log': can receive only one Overwrite per step, got 2"


def test_overwriting_with_none_is_possible():
    assert reduced().update([1], [Overwrite(None)]) is None


# --- failing reducers ---------------------------------------------------------------------------------------


def test_what_a_reducer_raises_comes_out_unchanged_with_a_note_on_key_and_types():
    with pytest.raises(TypeError, match="unsupported operand") as caught:
        reduced(int).update(1, ["oops"])
    assert caught.value.__notes__ == [
        "while reducing key 'log' with operator.add: the current value is of type int, the update str"
    ]


# --- nothing is changed in place ----------------------------------------------------------------------------


@pytest.mark.parametrize("op", [operator.add, operator.iadd, operator.concat, operator.iconcat])
def test_known_reducers_leave_value_and_writes_alone(op):
    value, writes = [1], [[2], [3]]
    result = reduced(list, op).update(value, writes)
    assert result == [1, 2, 3]
    result.append(4)
    assert (value, writes) == ([1], [[2], [3]])


def test_an_in_place_operator_from_the_standard_library_gets_a_copy():
    value = {"a": 1}
    assert reduced(dict, operator.ior).update(value, [{"b": 2}]) == {"a": 1, "b": 2}
    assert value == {"a": 1}


def test_the_first_write_is_not_changed_by_a_reducer_that_works_in_place():
    writes = [[1], [2]]
    assert reduced(typing.Any, in_place).update(MISSING, writes) == [1, 2]
    assert writes == [[1], [2]]


def test_a_reducer_gets_the_value_itself_which_the_run_owns():
    value = [1]
    assert reduced(list, in_place).update(value, [[2]]) is value


# --- what was appended --------------------------------------------------------------------------------------


@given(value=LISTS, writes=st.lists(LISTS, min_size=1, max_size=4))
def test_the_reported_elements_are_what_the_update_adds(value, writes):
    channel = reduced()
    before = copy.deepcopy((value, writes))
    added = channel.appended(value, writes)
    assert value + added == channel.update(value, writes) == value + [one for write in writes for one in write]
    assert (value, writes) == before


@pytest.mark.parametrize("op", [operator.add, operator.iadd, operator.concat, operator.iconcat])
def test_adding_lists_reports_what_was_appended(op):
    assert reduced(list, op).appended([1], [[2], [], [3]]) == [2, 3]
    assert reduced(list, op).appended(MISSING, [[1]]) == [1]
    assert reduced(typing.Any, op).appended(MISSING, [[1]]) == [1]


def test_the_report_is_a_list_of_its_own():
    write = [2]
    reduced().appended([1], [write]).append(3)
    assert write == [2]


class Sub(list):
    pass


@pytest.mark.parametrize(
    ("typ", "value", "writes"),
    [
        (list, [1], [(2,)]),
        (list, (1,), [[2]]),
        (list, Sub([1]), [[2]]),
        (list, [1], [Sub([2])]),
        (int, 1, [2]),
        (int, MISSING, [[2]]),
        (list, None, [[2]]),
    ],
)
def test_anything_but_exact_lists_is_not_reported(typ, value, writes):
    assert reduced(typ).appended(value, writes) is None


def test_an_unknown_reducer_reports_nothing():
    assert reduced(list, lambda current, update: current + update).appended([1], [[2]]) is None


def keep_new(current, update):
    return current + [item for item in update if item not in current]


def keep_new_appended(value, writes):
    if any(item == "stop" for write in writes for item in write):
        return None
    known = [] if value is MISSING else value
    added: list[object] = []
    for write in writes:
        added += [item for item in write if item not in known and item not in added]
    return added


keep_new.appended = keep_new_appended


def test_a_reducer_can_report_for_itself_and_is_then_applied_at_once():
    channel = reduced(list, keep_new)
    assert channel.appended(["a"], [["a", "b"], ["b", "c"]]) == ["b", "c"]
    assert channel.update(["a"], [["a", "b"], ["b", "c"]]) == ["a", "b", "c"]
    assert channel.update(MISSING, [["b"]]) == ["b"]


def test_a_report_of_none_falls_back_to_the_reducer():
    channel = reduced(list, keep_new)
    assert channel.appended(["a"], [["stop"]]) is None
    assert channel.update(["a"], [["stop"]]) == ["a", "stop"]


def test_a_report_that_raises_names_the_key_too():
    with pytest.raises(TypeError) as caught:
        reduced(list, keep_new).update(["a"], [3])
    assert "while reducing key 'log'" in caught.value.__notes__[0]


# --- equality -----------------------------------------------------------------------------------------------


class Merger:
    def merge(self, current, update):
        return current + update


def test_channels_are_equal_when_the_reducer_is_the_same_object():
    assert reduced(list, keep_new) == reduced(list[int], keep_new)
    assert reduced(list, keep_new) != reduced(list, operator.add)
    assert reduced(list, lambda a, b: a) != reduced(list, lambda a, b: a)
    assert len({reduced(), reduced()}) == 1


def test_a_bound_method_is_the_same_reducer_at_each_access():
    merger = Merger()
    assert reduced(list, merger.merge) == reduced(list, merger.merge)
    assert reduced(list, merger.merge) != reduced(list, Merger().merge)


def test_the_same_reducer_from_another_start_is_another_channel():
    assert reduced(list) != reduced(int)
    assert reduced(list) == reduced(abc.Sequence)
    assert reduced(list) == reduced(typing.Any)


def test_a_reduced_channel_reads_like_its_declaration():
    assert repr(reduced(list[int])) == "BinaryOperatorAggregate(list[int], operator.add)"


def test_a_channel_of_ones_own_needs_only_update():
    class Longest(BaseChannel):
        __slots__ = ()

        def update(self, value, writes):
            return max([*([] if value is MISSING else [value]), *writes], key=len)

    assert Longest(str).update(MISSING, ["a", "bb"]) == "bb"
    assert Longest(str).initial() is MISSING
    assert Longest(str).passed("a") == "a"
    with pytest.raises(NotImplementedError):
        BaseChannel(str).update(MISSING, ["a"])
