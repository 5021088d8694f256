"""How the values of keys are stored: inline, as logs, apart, once."""

import pytest

from durable_graph.errors import InternalError, UnserializableValueError
from durable_graph.persistence.codec import Codec
from durable_graph.persistence.layout import INLINE_LIMIT
from durable_graph.records import BASE, DELTA, LOG, MAIN, VALUE, Change, Frontier, StepRecord, TaskRecord, Write
from durable_graph.types import MISSING, Send
from tests.rowstore import RowStore

EPOCH = 77


class CountingCodec(Codec):
    """Counts the values it encodes and the bytes that come out."""

    def __init__(self):
        super().__init__()
        self.values = []
        self.bytes = 0

    def encode(self, value):
        data = super().encode(value)
        self.values.append(value)
        self.bytes += len(data)
        return data


@pytest.fixture
def store():
    return RowStore(CountingCodec())


def record(tasks=(), **changes):
    changes = {key: value if isinstance(value, Change) else Change(value) for key, value in changes.items()}
    return StepRecord(0, "loop", changes, Frontier(), tuple(tasks))


def task(**writes):
    return TaskRecord("node", "node", "id", writes=tuple(Write(key, value) for key, value in writes.items()))


def apart(rows):
    return [row for row in rows if row.part != MAIN]


def append(items, *new, data=None):
    return Change([*items, *new], suffix=list(new), data=data)


# --- where a value goes ---


def test_a_value_of_256_bytes_is_inline_and_one_of_257_is_apart(store):
    limit = "x" * (INLINE_LIMIT - 2)
    rows = store.writer().checkpoint(record(inline=limit, apart=limit + "x"), 1, EPOCH)
    assert [(row.part, row.kind) for row in rows] == [(2, VALUE), (MAIN, BASE)]
    store.add(rows)
    assert store.head()[0].values == {"inline": limit, "apart": limit + "x"}


def test_the_first_row_of_a_lane_is_a_base_and_the_next_one_a_delta(store):
    writer = store.writer()
    kinds = [writer.checkpoint(record(n=seq), seq, EPOCH)[-1].kind for seq in (1, 2)]
    assert kinds == [BASE, DELTA]


def test_a_reported_append_stores_only_what_was_added(store):
    writer = store.writer()
    items = ["x" * 100] * 5
    store.add(writer.checkpoint(record(items=Change(items, suffix=items)), 1, EPOCH))
    rows = writer.checkpoint(record(items=append(items, "y" * 100)), 2, EPOCH)
    (chunk,) = apart(rows)
    assert chunk.kind == LOG
    assert len(chunk.data) < 120
    store.add(rows)
    assert store.head()[0].values == {"items": [*items, "y" * 100]}


def test_an_append_that_nobody_reported_is_found_by_its_bytes(store):
    writer = store.writer()
    items = ["x" * 100] * 5
    store.add(writer.checkpoint(record(items=items), 1, EPOCH))
    store.add(rows := writer.checkpoint(record(items=[*items, "y"]), 2, EPOCH))
    assert len(apart(rows)[0].data) < 20
    assert store.head()[0].values == {"items": [*items, "y"]}


def test_an_append_after_a_restart_is_still_found_by_its_bytes(store):
    items = ["x" * 100] * 5
    store.add(store.writer().checkpoint(record(items=items), 1, EPOCH))
    checkpoint, writer = store.head()
    store.add(rows := writer.checkpoint(record(items=[*checkpoint.values["items"], "y"]), 2, EPOCH))
    assert len(apart(rows)[0].data) < 20


@pytest.mark.parametrize(
    ("old", "new"), [([1] * 300, [True] * 301), ([0.0] * 300, [-0.0] * 301), ([(1,)] * 300, [[1]] * 301)]
)
def test_equal_values_of_other_types_are_not_taken_for_an_append(store, old, new):
    writer = store.writer()
    store.add(writer.checkpoint(record(items=old), 1, EPOCH))
    store.add(writer.checkpoint(record(items=new), 2, EPOCH))
    assert repr(store.head()[0].values["items"]) == repr(new)


def test_a_list_edited_in_place_is_stored_as_it_is_now_and_as_it_was(store):
    writer = store.writer()
    items = ["x" * 100] * 5
    store.add(writer.checkpoint(record(items=items), 1, EPOCH))
    items[0] = "edited"
    items.append("new")
    store.add(writer.checkpoint(record(items=items), 2, EPOCH))
    assert store.at(1)[0].values["items"] == ["x" * 100] * 5
    assert store.at(2)[0].values["items"] == items


def test_what_was_reported_is_never_lost_when_the_next_change_is_not_reported(store):
    writer = store.writer()
    items = ["x" * 100] * 5
    store.add(writer.checkpoint(record(items=items), 1, EPOCH))
    store.add(writer.checkpoint(record(items=append(items, "reported")), 2, EPOCH))
    store.add(writer.checkpoint(record(items=[*items, "another", "end"]), 3, EPOCH))
    assert [store.at(seq)[0].values["items"][5:] for seq in (1, 2, 3)] == [[], ["reported"], ["another", "end"]]


def test_a_report_that_does_not_add_up_is_not_believed(store):
    writer = store.writer()
    store.add(writer.checkpoint(record(items=["x" * 100] * 5), 1, EPOCH))
    wrong = Change(["a", "b"], suffix=["b"], data=store.codec.encode(["b"]))
    store.add(writer.checkpoint(record(items=wrong), 2, EPOCH))
    assert store.head()[0].values == {"items": ["a", "b"]}


def test_a_list_crosses_the_inline_border_both_ways(store):
    writer = store.writer()
    states = [["a"], ["a", "b" * 300], ["a", "b" * 300, "c"], ["a"], [], ["d" * 300]]
    for seq, items in enumerate(states, 1):
        store.add(writer.checkpoint(record(items=items), seq, EPOCH))
    assert [store.at(seq)[0].values["items"] for seq in range(1, 7)] == states


def test_a_key_that_holds_nothing_any_more_is_gone_from_values_and_versions(store):
    writer = store.writer()
    store.add(writer.checkpoint(record(a=1, b="x" * 300), 1, EPOCH))
    store.add(writer.checkpoint(record(a=MISSING, b=MISSING, never=MISSING), 2, EPOCH))
    store.add(writer.checkpoint(record(b=3), 3, EPOCH))
    assert store.at(2)[0].values == store.at(2)[0].versions == {}
    assert (store.head()[0].values, store.head()[0].versions) == ({"b": 3}, {"b": 3})


def test_the_version_of_a_key_is_the_seq_of_its_last_change(store):
    writer = store.writer()
    store.add(writer.checkpoint(record(a=1, b=1), 10, EPOCH))
    store.add(writer.checkpoint(record(b=2), 20, EPOCH))
    assert store.head()[0].versions == {"a": 10, "b": 20}


@pytest.mark.parametrize("value", ["x", "x" * 300, ["x" * 100] * 5], ids=["inline", "apart", "log"])
def test_the_same_bytes_written_again_are_not_stored_again_but_count_as_written(store, value):
    writer = store.writer()
    store.add(writer.checkpoint(record(key=value), 1, EPOCH))
    store.add(rows := writer.checkpoint(record(key=store.codec.decode(store.codec.encode(value))), 2, EPOCH))
    assert apart(rows) == []
    assert len(rows[0].data) < 40
    checkpoint = store.head()[0]
    assert (checkpoint.values, checkpoint.versions) == ({"key": value}, {"key": 2})


# --- encoded once, stored once ---


def test_an_encoding_that_comes_with_a_value_is_used_as_it_is(store):
    writer, encode = store.writer(), Codec().encode
    written = TaskRecord("node", "node", "id", writes=(Write("b", 5, encode(5)),))
    store.add(writer.checkpoint(record([written], a=Change([1], data=encode([1]))), 1, EPOCH))
    store.add(writer.checkpoint(record(a=append([1], 2, data=encode([2]))), 2, EPOCH))
    assert store.codec.values == []
    assert store.head()[0].values == {"a": [1, 2]}


def test_metadata_that_is_handed_over_again_is_not_encoded_again(store):
    writer, metadata = store.writer(), {"user": "ann"}
    for seq in range(1, 5):
        step = record(n=seq)
        step.metadata = metadata
        store.add(writer.checkpoint(step, seq, EPOCH))
    assert store.codec.values.count(metadata) == 1
    assert store.head()[0].step.metadata == metadata


def test_a_value_that_is_also_a_write_is_encoded_once(store):
    value = {"text": "x" * 300}
    store.add(store.writer().checkpoint(record([task(key=value)], key=value), 1, EPOCH))
    assert store.codec.values.count(value) == 1


@pytest.mark.parametrize(
    ("old", "new", "written"),
    [
        (MISSING, "x" * 250, "x" * 250),
        (MISSING, "x" * 1000, "x" * 1000),
        (MISSING, ["x" * 200] * 5, ["x" * 200] * 5),
        (["y"], append(["y"], "x" * 200), ["x" * 200]),
        (["y"], append(["y"], "x" * 1000), ["x" * 1000]),
        (["y" * 300], append(["y" * 300], "x" * 1000), ["x" * 1000]),
        (["y" * 300], append(["y" * 300], "x" * 1000), "x" * 1000),
        (["y" * 300], ["y" * 300, "x" * 1000], ["y" * 300, "x" * 1000]),
        (["y" * 1000], ["y" * 1000], ["y" * 1000]),
        ("y" * 1000, "y" * 1000, "y" * 1000),
    ],
)
def test_what_a_task_wrote_is_not_stored_twice(store, old, new, written):
    sizes = []
    for tasks in [], [task(key=written)]:
        thread = RowStore(store.codec)
        writer = thread.writer()
        thread.add(writer.checkpoint(record(key=old), 1, EPOCH))
        sizes.append(thread.add(writer.checkpoint(record(tasks, key=new), 2, EPOCH)))
    assert sizes[1] - sizes[0] < 50
    (found,) = thread.head()[0].step.tasks
    assert found.writes == (Write("key", written),)


def test_the_writes_of_several_tasks_to_one_key_are_not_stored_twice(store):
    writer = store.writer()
    new = [f"{number}" * 500 for number in range(4)]
    tasks = [task(key=[text]) for text in new]
    for number, done in enumerate(tasks):
        done.path = f"node#{number}"
    rows = writer.checkpoint(record(tasks, key=Change(new, suffix=new)), 1, EPOCH)
    assert store.add(rows) < 2000 + 200
    assert [found.writes for found in store.head()[0].step.tasks] == [(Write("key", [text]),) for text in new]


def test_a_large_send_that_is_a_route_and_the_frontier_is_stored_once(store):
    send = Send("worker", "x" * 1000)
    step = record([task()])
    step.tasks[0].routes, step.frontier = ("node", send), Frontier(sends=(send,))
    assert store.add(store.writer().checkpoint(step, 1, EPOCH)) < 1200
    found = store.head()[0].step
    assert (found.tasks[0].routes, found.frontier.sends) == (("node", send), (send,))


def test_a_write_that_equals_nothing_stored_is_kept_as_it_was(store):
    store.add(store.writer().checkpoint(record([task(key="raw", other=[1])], key="reduced"), 1, EPOCH))
    assert store.head()[0].step.tasks[0].writes == (Write("key", "raw"), Write("other", [1]))


# --- all or nothing ---


@pytest.mark.parametrize("key", ["bad", "worse \x00"])
def test_an_error_names_the_key_that_cannot_be_stored(store, key):
    with pytest.raises(UnserializableValueError) as caught:
        store.writer().checkpoint(record(**{key: object()}), 1, EPOCH)
    assert repr(key) in str(caught.value)


def test_an_error_names_the_node_that_wrote_it(store):
    value = object()
    with pytest.raises(UnserializableValueError, match="key 'bad' of node 'node'"):
        store.writer().checkpoint(record([task(bad=value)], bad=value), 1, EPOCH)


def test_an_error_names_the_node_whose_send_cannot_be_stored(store):
    step = record()
    step.frontier = Frontier(sends=(Send("worker", object()),))
    with pytest.raises(UnserializableValueError, match="Send to 'worker'"):
        store.writer().checkpoint(step, 1, EPOCH)


def test_after_an_error_the_same_writer_goes_on_with_the_same_seq(store):
    writer = store.writer()
    items = ["x" * 100] * 5
    store.add(writer.checkpoint(record(items=items, n=1), 1, EPOCH))
    for _ in range(2):
        with pytest.raises(UnserializableValueError):
            writer.checkpoint(record(items=[*items, "lost"], new="name", n=9, bad=object()), 2, EPOCH)
    assert (writer.seq, writer.address) == (1, (1, 1, EPOCH))
    store.add(rows := writer.checkpoint(record(items=[*items, "kept"], other="key"), 2, EPOCH))
    assert len(apart(rows)[0].data) < 20
    assert store.head()[0].values == {"items": [*items, "kept"], "n": 1, "other": "key"}


def test_a_seq_is_never_used_twice(store):
    writer = store.writer()
    writer.checkpoint(record(n=1), 5, EPOCH)
    with pytest.raises(InternalError, match="at 5 already"):
        writer.checkpoint(record(n=2), 5, EPOCH)


def test_the_same_calls_give_the_same_bytes(store):
    def rows():
        writer = store.writer()
        states = [record([task(a=[1])], a=append([], 1), b="x" * 300), record(a=MISSING), record(c={"k": {1, 2}})]
        return [writer.checkpoint(step, seq, EPOCH) for seq, step in enumerate(states, 1)]

    assert rows() == rows()


def test_values_that_were_read_are_nobody_elses(store):
    store.add(store.writer().checkpoint(record([task(key=["x"] * 200)], key=["x"] * 200), 1, EPOCH))
    first, writer = store.head()
    first.values["key"].append("edited")
    first.step.tasks[0].writes[0].value.append("edited too")
    assert store.head()[0].values["key"] == ["x"] * 200
    store.add(writer.checkpoint(record(key=first.values["key"]), 2, EPOCH))
    assert store.at(1)[0].values["key"] == ["x"] * 200
    assert store.at(2)[0].values["key"] == [*["x"] * 200, "edited"]
