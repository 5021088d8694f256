"""Whose next step a checkpoint's is: origins and names of tasks, across bases, deltas, branches and copies."""

import pytest

from durable_graph.persistence.codec import Codec
from durable_graph.records import Address, CallRecord, Change, Frontier, PendingRecord, StepRecord, TaskRecord, Write
from durable_graph.types import Interrupt, Send
from tests.rowstore import RowStore

EPOCH = 9


@pytest.fixture
def store():
    return RowStore(Codec())


def record(step=0, source="update", *, origin=None, names=None, run_id="r", **changes):
    made = {key: Change(value) for key, value in changes.items()}
    found = StepRecord(step, source, made, Frontier(("b",)), run_id=run_id, origin=origin)
    found.names = names or {}
    return found


def test_a_checkpoint_is_the_origin_of_its_own_tasks(store):
    store.add(store.writer().checkpoint(record(), 3, EPOCH))
    found, _ = store.head()
    assert (found.step.origin, found.origin, found.renamed) == (None, Address(1, 3, EPOCH), {})


@pytest.mark.parametrize("names", [{}, {"b": "a", "e#0": "e#2", "d": "d##4"}])
@pytest.mark.parametrize("run_id", ["r", "another run"], ids=["same run", "another run"])
def test_an_origin_and_names_come_back_from_a_base_and_from_a_delta(store, names, run_id):
    writer = store.writer()
    origin = Address(7, 2**40, 2**30)
    store.add(writer.checkpoint(record(0, origin=origin, names=names), 3, EPOCH))
    store.add(writer.checkpoint(record(1, origin=origin, names=names, run_id=run_id), 4, EPOCH))
    store.add(writer.checkpoint(record(2), 5, EPOCH))
    for seq in (3, 4):
        found, _ = store.at(seq)
        assert (found.origin, found.step.origin, found.step.names, found.renamed) == (origin, origin, names, names)
        assert found.step.run_id == (run_id if seq == 4 else "r")
    found, _ = store.at(5)
    assert (found.step.origin, found.renamed) == (None, {})
    assert [one.step.origin for one in store.history(upto=None)] == [None, origin, origin]


def test_names_take_room_only_where_there_are_some(store):
    writer = store.writer()
    store.add(writer.checkpoint(record(0), 1, EPOCH))
    plain = store.add(writer.checkpoint(record(1), 2, EPOCH))
    with_origin = store.add(writer.checkpoint(record(2, origin=Address(1, 1, EPOCH)), 3, EPOCH))
    named = store.add(writer.checkpoint(record(3, origin=Address(1, 1, EPOCH), names={"b": "b##3"}), 4, EPOCH))
    assert plain < with_origin < named
    assert named - plain < 40


def test_a_branch_has_its_parent_before_it_and_a_copy_the_parent_of_the_original(store):
    writer = store.writer()
    for seq in (1, 2, 3):
        store.add(writer.checkpoint(record(seq, "loop", log=[seq] * 200), seq, EPOCH))
    _, at_two = store.at(2)
    child, sibling = at_two.branch(2), at_two.branch(3, sibling=True)
    assert not at_two.at_tip
    store.add(child.checkpoint(record(3, "fork", origin=Address(1, 2, EPOCH)), 4, EPOCH + 1))
    store.add(sibling.checkpoint(record(2, "fork", origin=Address(1, 2, EPOCH)), 5, EPOCH + 2))
    for lane, parent in ((2, 2), (3, 1)):
        found, _ = store.head(lane)
        assert found.parent == Address(1, parent, EPOCH)
        assert found.origin == Address(1, 2, EPOCH)
        assert found.values == {"log": [2] * 200}


def test_a_branch_takes_no_pending_record_and_leaves_those_of_its_origin(store):
    writer = store.writer()
    store.add(writer.checkpoint(record(0, "loop", n=1), 1, EPOCH))
    asked = TaskRecord("b", "b", "", interrupts=(Interrupt("?", "id"),))
    calls = (CallRecord("b", "step", b"digest", 0, b"\x01"),)
    store.add(writer.pending(PendingRecord((asked,), {"id": "yes"}, calls), 2, EPOCH))
    _, at_one = store.at(1)
    branch = at_one.branch(2)
    store.add(branch.checkpoint(record(1, "fork", origin=Address(1, 1, EPOCH)), 3, EPOCH))
    fork, _ = store.head(2)
    assert (fork.pending, fork.answers, fork.calls) == ({}, {}, ())
    old, _ = store.at(1)
    assert (old.pending["b"].interrupts, old.answers, old.calls) == (asked.interrupts, {"id": "yes"}, calls)


def test_pending_records_without_tasks_keep_answers_and_recorded_steps(store):
    writer = store.writer()
    store.add(writer.checkpoint(record(), 1, EPOCH))
    started = CallRecord("b", "outer#0/inner", b"12345678", 3, None, None, 2, 1.5, 0.0)
    store.add(writer.pending(PendingRecord(calls=(started,)), 2, EPOCH))
    store.add(writer.pending(PendingRecord(answers={"id": None}), 3, EPOCH))
    ended = started._replace(data=b"\xc0", duration=0.25)
    found, _ = store.head()
    assert (found.calls, found.answers, found.pending) == ((started,), {"id": None}, {})
    store.add(writer.pending(PendingRecord(calls=(ended,)), 4, EPOCH))
    found, _ = store.head()
    assert found.calls == (ended,)


def test_what_took_the_place_of_a_task_is_its_result_in_history(store):
    writer = store.writer()
    store.add(writer.checkpoint(StepRecord(0, "loop", {}, Frontier(("b",), (Send("e", 1),))), 1, EPOCH))
    store.add(writer.pending(PendingRecord((TaskRecord("b", "b", "", interrupts=(Interrupt("?", "id"),)),)), 2, EPOCH))
    edit = record(1, x="edited")
    edit.tasks = (TaskRecord("b", "b", "", writes=(Write("x", "edited"),)),)
    store.add(writer.checkpoint(edit, 3, EPOCH))
    found, _ = store.at(1)
    [(path, task)] = found.pending.items()
    assert (path, [write[:2] for write in task.writes]) == ("b", [("x", "edited")])
    assert task.interrupts == (Interrupt("?", "id"),)
