"""Names that stay the same."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_graph.core.identity import (
    INTERRUPT_PREFIX,
    checkpoint_id,
    interrupt_id,
    is_interrupt_id,
    parse_checkpoint_id,
    path_order,
    push_path,
    task_id,
)
from durable_graph.errors import InvalidConfigError
from durable_graph.records import Address

NUMBERS = st.integers(0, 10**12 - 1)
PLACES = st.builds(Address, st.integers(1, 10**6), NUMBERS, st.integers(0, 1 << 62))


@settings(derandomize=True, database=None, deadline=None)
@given(PLACES)
def test_a_checkpoint_id_reads_back_as_its_address(place):
    assert parse_checkpoint_id(checkpoint_id(place)) == place


@settings(derandomize=True, database=None, deadline=None)
@given(PLACES, PLACES)
def test_checkpoint_ids_sort_as_their_seqs_do(one, other):
    if one.seq < other.seq:
        assert checkpoint_id(one) < checkpoint_id(other)


@pytest.mark.parametrize("text", ["", "x", "1.2", "1.2.3.4", "a.1.1", "1.1.g", "1f05-44aa", None])
def test_a_foreign_checkpoint_id_is_refused_with_the_cure(text):
    with pytest.raises(InvalidConfigError, match="is not a checkpoint id") as caught:
        parse_checkpoint_id(text)
    assert "snapshot.config" in caught.value.cure


def test_the_form_of_ids_is_kept_for_ever():
    place = Address(1, 12, 0x7F3A)
    assert checkpoint_id(place) == "000000000012.1.7f3a"
    assert task_id("thread", place, "node#3") == "1694dee9-512a-3df9-1e83-1dd865ee6001"
    assert interrupt_id("task", "question", 0) == "intr_e85205cdcacd844c0c4b7e51eeaa9ab6"
    assert push_path("node", 3) == "node#3"


def test_paths_sort_as_a_step_applies_them():
    paths = ["b#10", "a#2", "c", "", "b"]
    assert sorted(paths, key=path_order) == ["", "b", "c", "a#2", "b#10"]


def test_interrupt_ids_differ_by_task_question_and_occurrence():
    ids = {interrupt_id(*asked) for asked in product(["t", "t\ud800"], ["", "q", "\ud800"], [0, 1])}
    assert len(ids) == 12
    assert all(map(is_interrupt_id, ids))


@pytest.mark.parametrize(
    "key", ["intr_", "intr_" + "g" * 32, "intr_" + "a" * 31, "x" * 37, "INTR_" + "a" * 32, 5, None]
)
def test_other_keys_have_not_the_form_of_an_interrupt_id(key):
    assert not is_interrupt_id(key)
    assert is_interrupt_id(INTERRUPT_PREFIX + "a" * 32)
