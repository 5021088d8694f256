"""Reading back: heads, any checkpoint, history, branches, pending records."""

import pytest

from durable_graph.errors import InternalError
from durable_graph.persistence.codec import Codec
from durable_graph.persistence.layout import LaneWriter
from durable_graph.records import (
    BASE,
    MAIN,
    PENDING,
    Change,
    ErrorRecord,
    Frontier,
    PendingRecord,
    RowRange,
    StepRecord,
    TaskRecord,
    Write,
)
from durable_graph.types import MISSING, Interrupt, Send
from tests.rowstore import RowStore

EPOCH = 9


@pytest.fixture
def store():
    return RowStore(Codec())


def record(*tasks, **changes):
    return StepRecord(0, "loop", {key: Change(value) for key, value in changes.items()}, Frontier(), tasks)


def done(path, *, node=None, **writes):
    node = node or path.partition("#")[0]
    return TaskRecord(path, node, f"id of {path}", writes=tuple(Write(key, value) for key, value in writes.items()))


def run(writer, store, count, first=1):
    """Checkpoints that append 100 bytes to a log, so that each has a value apart."""
    items = []
    for seq in range(first, first + count):
        items = [*items, f"{seq:03}" * 100]
        store.add(writer.checkpoint(record(done("node", items=items), items=items, n=seq), seq, EPOCH))


# --- heads ---


def test_a_lane_without_rows_has_no_head_and_a_writer(store):
    checkpoint, writer = store.head(4)
    assert (checkpoint, writer.lane, writer.seq, writer.address) == (None, 4, 0, None)
    assert store.asked == []


def test_everything_of_a_record_comes_back(store):
    step = StepRecord(
        step=-1,
        source="input",
        changes={},
        frontier=Frontier(("a", "b"), (Send("c", {"big": "x" * 1000}), Send("c", None)), {"a+b": ("a",), "c": ()}),
        tasks=(
            TaskRecord(
                path="c#12",
                node="c",
                id="t",
                attempt=3,
                started=1.5,
                duration=0.25,
                writes=(),
                routes=("a", Send("b", (1,))),
                error=ErrorRecord("builtins.ValueError", "no", "Traceback"),
                interrupts=(Interrupt({"q": 1}, "i1", {"type": "string"}),),
                answered=("i1", "i2"),
                rejected=("i3",),
            ),
            TaskRecord("odd path", "d", "u"),
        ),
        stop="before",
        created_at=1_700_000_000_000,
        run_id="run",
        fingerprint="print",
        metadata={"user": ("ann",)},
    )
    store.add(store.writer().checkpoint(step, 7, EPOCH))
    checkpoint = store.head()[0]
    assert checkpoint.step == step
    assert (checkpoint.address, checkpoint.parent) == ((1, 7, EPOCH), None)


def test_what_stays_the_same_comes_back_with_every_checkpoint(store):
    writer = store.writer()
    runs = [("r1", "f", {"a": 1}, 5), ("r1", "f", {"a": 1}, 5), ("r2", "f", {}, 6), ("r2", "g", {"a": 2}, 6)]
    for seq, (run_id, fingerprint, metadata, epoch) in enumerate(runs, 1):
        step = record(n=seq)
        step.run_id, step.fingerprint, step.metadata, step.created_at = run_id, fingerprint, metadata, 1000 - seq
        store.add(writer.checkpoint(step, seq, epoch))
    read = [store.at(seq)[0] for seq in range(1, 5)]
    assert [(c.step.run_id, c.step.fingerprint, c.step.metadata, c.address.epoch) for c in read] == runs
    assert [c.step.created_at for c in read] == [999, 998, 997, 996]


def test_times_are_right_behind_every_base(store):
    writer = store.writer()
    for seq in range(1, 301):
        step = record(n=seq)
        step.created_at = 1_700_000_000_000 + seq * seq
        store.add(writer.checkpoint(step, seq, EPOCH))
    assert sum(row.kind == BASE for row in store.rows.values()) > 1
    assert store.head()[0].step.created_at == 1_700_000_090_000


def test_everything_apart_is_asked_for_at_once(store):
    writer = store.writer()
    run(writer, store, 5)
    store.add(writer.checkpoint(record(large="x" * 1000), 6, EPOCH))
    store.head()
    assert store.asked == [[RowRange(1, 1, 1, 5), RowRange(1, 3, 6, 6)]]


def test_values_that_the_heads_tasks_wrote_can_be_left_out(store):
    run(store.writer(), store, 3)
    checkpoint = store.head(tasks=False)[0]
    assert checkpoint.step.tasks[0].writes == (Write("items", MISSING),)
    assert len(checkpoint.values["items"]) == 3


# --- any checkpoint ---


def test_any_checkpoint_can_be_read(store):
    run(store.writer(), store, 60)
    for seq in (1, 2, 30, 60):
        checkpoint = store.at(seq)[0]
        assert (checkpoint.values["n"], len(checkpoint.values["items"])) == (seq, seq)
        assert checkpoint.versions == {"items": seq, "n": seq}
        assert checkpoint.parent == ((1, seq - 1, EPOCH) if seq > 1 else None)


def test_a_seq_that_is_no_checkpoint_is_none(store):
    writer = store.writer()
    run(writer, store, 2)
    store.add(writer.pending(PendingRecord(), 3, EPOCH))
    assert store.at(3)[0] is None
    assert store.at(99)[0] is None


def test_a_writer_behind_the_lanes_end_can_only_be_branched(store):
    run(store.writer(), store, 3)
    writer = store.at(2)[1]
    with pytest.raises(InternalError, match="where checkpoints follow"):
        writer.checkpoint(record(n=9), 9, EPOCH)
    with pytest.raises(InternalError, match="where checkpoints follow"):
        writer.pending(PendingRecord(), 9, EPOCH)
    assert writer.branch(2).checkpoint(record(n=9), 9, EPOCH)[-1].kind == BASE


# --- branches ---


def test_a_branch_starts_with_a_base_and_shares_what_is_apart(store):
    writer = store.writer()
    run(writer, store, 10)
    branch = store.at(5)[1].branch(2)
    assert (branch.lane, branch.seq, branch.address) == (2, 0, (1, 5, EPOCH))
    rows = branch.checkpoint(record(n="branch"), 11, EPOCH)
    assert [(row.part, row.kind) for row in rows] == [(MAIN, BASE)]
    store.add(rows)
    checkpoint = store.head(2)[0]
    assert checkpoint.parent == (1, 5, EPOCH)
    assert checkpoint.values == {**store.at(5)[0].values, "n": "branch"}
    assert checkpoint.versions == {"items": 5, "n": 11}


def test_both_sides_of_a_branch_go_on_and_do_not_see_each_other(store):
    writer = store.writer()
    run(writer, store, 3)
    base = store.head()[0].values["items"]
    branch = writer.branch(2)
    for seq in range(4, 10):
        lane, who = [(1, writer), (2, branch)][seq % 2]
        items = [*store.head(lane)[0].values["items"], f"{lane}"] if lane == 1 or seq > 5 else [*base, "2"]
        store.add(who.checkpoint(record(items=items), seq, EPOCH))
    assert store.head(1)[0].values["items"] == [*base, "1", "1", "1"]
    assert store.head(2)[0].values["items"] == [*base, "2", "2", "2"]
    assert sum(len(row.data) for row in store.rows.values() if row.part != MAIN) < 1100


def test_new_keys_on_both_sides_of_a_branch_do_not_meet(store):
    writer = store.writer()
    run(writer, store, 2)
    branch = writer.branch(2)
    store.add(writer.checkpoint(record(mine="x" * 300), 3, EPOCH))
    store.add(branch.checkpoint(record(n=0), 4, EPOCH))
    store.add(branch.checkpoint(record(yours="y" * 300), 5, EPOCH))
    assert store.head(1)[0].values == {**store.at(2)[0].values, "mine": "x" * 300}
    assert store.head(2)[0].values == {**store.at(2)[0].values, "n": 0, "yours": "y" * 300}


def test_a_branch_does_not_see_what_was_pending(store):
    writer = store.writer()
    run(writer, store, 1)
    store.add(writer.pending(PendingRecord((done("node", n=1),), {"i": 1}), 2, EPOCH))
    store.add(store.at(1)[1].branch(2).checkpoint(record(n=2), 3, EPOCH))
    checkpoint = store.head(2)[0]
    assert (checkpoint.pending, checkpoint.answers) == ({}, {})
    assert list(store.head(1)[0].pending) == ["node"]


def test_a_branch_of_a_branch_of_a_branch_reads_all_their_chunks(store):
    writer, seq, items = store.writer(), 0, []
    for lane in range(1, 6):
        for _ in range(3):
            seq += 1
            items = [*items, f"{seq:03}" * 100]
            store.add(writer.checkpoint(record(items=items), seq, EPOCH))
        writer = store.head(lane)[1].branch(lane + 1)
    assert store.head(5)[0].values["items"] == items
    assert [len(asked) for asked in store.asked] == [5]


# --- pending ---


def test_pending_records_follow_their_checkpoint(store):
    writer = store.writer()
    run(writer, store, 1)
    failed = TaskRecord("b", "b", "2", error=ErrorRecord("E", "m", "t"))
    store.add(writer.pending(PendingRecord((done("a#0", items=["x" * 300]), failed), {"i": 1, "j": 2}), 2, EPOCH))
    store.add(writer.pending(PendingRecord((done("b", n=1),), {"j": 3}), 3, EPOCH))
    checkpoint, writer = store.head()
    assert writer.seq == 3
    assert checkpoint.pending == {"a#0": done("a#0", items=["x" * 300]), "b": done("b", n=1)}
    assert checkpoint.answers == {"i": 1, "j": 3}
    assert store.at(1)[0].pending == checkpoint.pending


def test_a_rejected_answer_is_void_until_it_is_given_again(store):
    writer = store.writer()
    run(writer, store, 1)
    rejecting = TaskRecord("a", "a", "1", interrupts=(Interrupt("again?", "i"),), rejected=("i",))
    store.add(writer.pending(PendingRecord(answers={"i": "bad", "j": "good"}), 2, EPOCH))
    store.add(writer.pending(PendingRecord((rejecting,)), 3, EPOCH))
    assert store.head()[0].answers == {"j": "good"}
    store.add(writer.pending(PendingRecord(answers={"i": "better"}), 4, EPOCH))
    assert store.head()[0].answers == {"j": "good", "i": "better"}


def test_tasks_that_came_with_the_next_checkpoint_are_what_followed(store):
    writer = store.writer()
    run(writer, store, 1)
    store.add(writer.pending(PendingRecord((done("a", n=1),)), 2, EPOCH))
    items = ["y" * 300]
    store.add(writer.checkpoint(record(done("b", items=items), items=items), 3, EPOCH))
    assert store.at(1)[0].pending == {"a": done("a", n=1), "b": done("b", items=items)}
    assert store.head()[0].pending == {}


def test_a_path_that_only_looks_like_a_sends_is_kept_to_the_letter(store):
    paths = ["a", "a#0", "a#07", "a#-1", "a#", "a#٣", "b#1", "a#1#2"]
    tasks = [done(path, node="a") for path in paths]
    store.add(store.writer().checkpoint(record(*tasks), 1, EPOCH))
    assert [task.path for task in store.head()[0].step.tasks] == paths


def test_nothing_is_pending_before_the_first_checkpoint(store):
    with pytest.raises(InternalError, match="no checkpoint yet"):
        store.writer().pending(PendingRecord(), 1, EPOCH)


def test_a_run_goes_on_from_its_pending_rows(store):
    writer = store.writer()
    run(writer, store, 1)
    store.add(writer.pending(PendingRecord((done("new node"),)), 2, EPOCH))
    writer = store.head()[1]
    store.add(writer.checkpoint(record(done("other"), done("new node")), 3, EPOCH))
    assert [task.node for task in store.head()[0].step.tasks] == ["other", "new node"]


# --- history ---


def test_history_comes_newest_first_in_pages(store):
    writer = store.writer()
    run(writer, store, 30)
    store.add(writer.pending(PendingRecord((done("a"),)), 31, EPOCH))
    whole = store.history()
    assert [checkpoint.address.seq for checkpoint in whole] == list(range(30, 0, -1))
    assert [len(checkpoint.values["items"]) for checkpoint in whole] == list(range(30, 0, -1))
    assert [list(checkpoint.pending) for checkpoint in whole[:2]] == [["a"], ["node"]]
    assert store.asked == [[RowRange(1, 1, 1, 30)]]
    assert store.history(before=21, limit=5) == whole[10:15]
    assert store.history(before=1) == []
    assert store.history(limit=0) == []


def test_history_says_where_it_goes_on(store):
    writer = store.writer()
    run(writer, store, 100)
    pages, before, upto = [], None, None
    while upto != 0:
        page = store.history(upto=upto, before=before, limit=7)
        pages += page
        before, upto = page[-1].address.seq, page[-1].parent.seq if page[-1].parent else 0
    assert [checkpoint.address.seq for checkpoint in pages] == list(range(100, 0, -1))


def test_history_without_values_reads_nothing_apart(store):
    run(store.writer(), store, 3)
    found = store.history(values=False)
    assert store.asked == []
    assert [checkpoint.values for checkpoint in found] == [{}, {}, {}]
    assert [checkpoint.versions for checkpoint in found] == [{"items": n, "n": n} for n in (3, 2, 1)]
    assert found[1].pending["node"].writes == (Write("items", MISSING),)


def test_two_checkpoints_of_a_history_share_no_value(store):
    writer = store.writer()
    store.add(writer.checkpoint(record(items=[[1]]), 1, EPOCH))
    store.add(writer.checkpoint(record(n=1), 2, EPOCH))
    newer, older = store.history()
    newer.values["items"][0].append(2)
    assert older.values["items"] == [[1]]


def test_a_writer_for_an_empty_lane_needs_nothing_else():
    codec = Codec()
    assert LaneWriter(codec, 3).checkpoint(record(n=1), 1, EPOCH)[-1].kind == BASE
    assert PENDING not in {row.kind for row in LaneWriter(codec, 3).checkpoint(record(), 1, EPOCH)}
