"""What is stored per step, in bytes; and that a step's work does not grow with what is stored already."""

from random import Random

import pytest

from durable_graph.persistence.codec import Codec
from durable_graph.records import BASE, MAIN, Change, Frontier, PendingRecord, StepRecord, TaskRecord, Write
from tests.performance.counting import counted_calls
from tests.rowstore import RowStore

METADATA = {"user_id": "user-1", "tags": ["x"]}
EPOCH = 0x3FFF_1234_5678


@pytest.fixture
def random():
    return Random(7)


@pytest.fixture
def store():
    return RowStore(Codec())


def step(number, random, changes, writes):
    """A step as a real run makes it: ids, times, fingerprint and metadata included."""
    task = TaskRecord("node", "node", random.randbytes(16).hex(), 1, 1.7e9 + number, 0.0125, tuple(writes))
    return StepRecord(
        step=number,
        source="loop",
        changes=changes,
        frontier=Frontier(("node",)),
        tasks=(task,),
        created_at=1_700_000_000_000 + 37 * number,
        run_id="3f0b5a4e-9f0e-4f0a-8f3d-0a8e5f7f3b11",
        fingerprint="d41d8cd98f00b204",
        metadata=METADATA,
    )


def test_a_tiny_state_takes_at_most_150_bytes_a_step(store, random):
    writer = store.writer()
    for n in range(1000):
        store.add(writer.checkpoint(step(n, random, {"n": Change(n)}, [Write("n", n)]), n + 1, EPOCH))
    assert store.size() <= 150 * 1000


def test_one_of_300_keys_takes_at_most_400_bytes_a_step(store, random):
    writer = store.writer()
    keys = [f"channel_{number}" for number in range(300)]
    store.add(writer.checkpoint(step(0, random, {key: Change(0) for key in keys}, []), 1, EPOCH))
    for n in range(1, 1000):
        changes = {random.choice(keys): Change(n)}
        writes = [Write(key, change.value) for key, change in changes.items()]
        store.add(writer.checkpoint(step(n, random, changes, writes), n + 1, EPOCH))
    assert store.size() <= 400 * 1000


@pytest.mark.parametrize("reported", [True, False], ids=["reported", "items + [x]"])
def test_200_appends_of_1_kb_take_at_most_1_2_times_their_bytes(store, random, reported):
    writer = store.writer()
    items = []
    for n in range(200):
        new = [random.randbytes(500).hex()]
        items = items + new
        change = Change(items, suffix=new) if reported else Change(items)
        store.add(
            writer.checkpoint(
                step(n, random, {"items": change}, [Write("items", change.suffix or items)]), n + 1, EPOCH
            )
        )
    assert store.size() <= 1.2 * len(store.codec.encode(items))
    assert store.head()[0].values == {"items": items}


def test_a_chat_of_3000_steps_is_stored_in_linear_space(store, random):
    writer = store.writer()
    items = []
    for n in range(3000):
        new = [{"role": role, "content": random.randbytes(235).hex()} for role in ("user", "assistant")]
        items += new
        change = {"messages": Change(items, suffix=new)}
        store.add(writer.checkpoint(step(n, random, change, [Write("messages", new)]), n + 1, EPOCH))
    assert store.size() <= 1.2 * len(store.codec.encode(items)) + 300 * 3000


@pytest.mark.parametrize("size", [1_000, 1_000_000])
def test_a_large_value_that_is_not_touched_is_stored_once(store, random, size):
    writer = store.writer()
    large = random.randbytes(size)
    store.add(writer.checkpoint(step(0, random, {"large": Change(large), "n": Change(0)}, []), 1, EPOCH))
    for n in range(1, 50):
        store.add(writer.checkpoint(step(n, random, {"n": Change(n)}, [Write("n", n)]), n + 1, EPOCH))
    assert store.size() <= size + 50 * 200
    assert store.head()[0].values == {"large": large, "n": 49}


@pytest.mark.parametrize("keys", [1, 300])
def test_bases_at_most_double_the_bytes_and_keep_loads_short(store, random, keys):
    writer = store.writer()
    for n in range(1000):
        changes = {f"channel_{n % keys}": Change(n)}
        store.add(writer.checkpoint(step(n, random, changes, []), n + 1, EPOCH))
    line = [row for row in store.rows.values() if row.part == MAIN]
    bases = sum(len(row.data) for row in line if row.kind == BASE)
    assert bases <= sum(len(row.data) for row in line) / 2
    loaded = store.load()
    assert sum(len(row.data) for row in loaded.rows[1:]) <= max(2048, 2 * len(loaded.rows[0].data)) + 200


@pytest.mark.parametrize("keys", [1, 300])
def test_bases_of_a_lane_that_is_loaded_for_each_step_at_most_double_its_bytes_and_keep_loads_shorter(
    store, random, keys
):
    store.add(
        store.writer().checkpoint(step(0, random, {f"channel_{n}": Change(n) for n in range(keys)}, []), 1, EPOCH)
    )
    for n in range(1, 1000):
        stored, writer = store.head()
        assert stored.values[f"channel_{n % keys}"] == n % keys
        store.add(writer.checkpoint(step(n, random, {f"channel_{n % keys}": Change(n % keys)}, []), n + 1, EPOCH))
    line = [row for row in store.rows.values() if row.part == MAIN]
    bases = sum(len(row.data) for row in line if row.kind == BASE)
    assert bases <= sum(len(row.data) for row in line) / 2
    loaded = store.load()
    assert sum(len(row.data) for row in loaded.rows[1:]) <= max(512, 2 * len(loaded.rows[0].data)) + 200


def test_a_base_that_is_due_for_a_loaded_lane_stays_due_behind_pending_rows(store, random):
    writer = store.writer()
    for n in range(10):
        store.add(writer.checkpoint(step(n, random, {"n": Change(n)}, []), n + 1, EPOCH))
    writer = store.head()[1]
    store.add(writer.pending(PendingRecord(answers={"i": 1}), 11, EPOCH))
    store.add(writer.checkpoint(step(10, random, {"n": Change(10)}, []), 12, EPOCH))
    assert [row.kind for row in store.load().rows] == [BASE]
    assert store.head()[0].values == {"n": 10}


def test_many_pending_rows_bring_the_next_base_nearer(store, random):
    writer = store.writer()
    store.add(writer.checkpoint(step(0, random, {"n": Change(0)}, []), 1, EPOCH))
    for seq in range(2, 40):
        store.add(writer.pending(PendingRecord(answers={"i": "x" * 100}), seq, EPOCH))
    assert writer.checkpoint(step(1, random, {"n": Change(1)}, []), 40, EPOCH)[-1].kind == BASE


def test_words_of_nodes_that_run_no_more_are_forgotten(store, random):
    writer = store.writer()
    for n in range(500):
        record = step(n, random, {"n": Change(n)}, [])
        record.frontier = Frontier((f"a node with a long name {n}",))
        store.add(writer.checkpoint(record, n + 1, EPOCH))
    assert max(len(row.data) for row in store.rows.values()) < 500


# --- work ---


class Meter(Codec):
    """Counts the bytes that go through the codec."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def encode(self, value):
        data = super().encode(value)
        self.bytes += len(data)
        return data


def counted_checkpoints(writer, records):
    """Writes each record as a checkpoint; gives the calls that took, and its rows."""
    with counted_calls() as so_far:
        for seq, record in enumerate(records, 1):
            before = so_far()
            rows = writer.checkpoint(record, seq, EPOCH)
            yield so_far() - before, rows


def test_a_reported_append_costs_the_same_after_100_and_after_2000_steps(random):
    meter = Meter()
    store = RowStore(meter)
    writer = store.writer()
    work = []

    def records():
        items = []
        for n in range(2001):
            new = [{"role": "user", "content": random.randbytes(100).hex()}]
            items += new
            yield step(n, random, {"messages": Change(items, suffix=new)}, [Write("messages", new)])

    before = meter.bytes
    for calls, rows in counted_checkpoints(writer, records()):
        store.add(rows)
        work.append((calls, meter.bytes - before, rows[-1].kind))
        before = meter.bytes
    first, last = ([one for one in part if one[2] != BASE] for part in (work[95:105], work[1996:2001]))
    assert {one[1] for one in first} == {one[1] for one in last}
    assert max(one[0] for one in last) <= max(one[0] for one in first)


def test_a_tiny_step_takes_few_calls(store, random):
    writer = store.writer()
    records = (step(n, random, {"n": Change(n)}, [Write("n", n)]) for n in range(50))
    counts = [calls for calls, _ in counted_checkpoints(writer, records)]
    assert sorted(counts)[25] <= 50
