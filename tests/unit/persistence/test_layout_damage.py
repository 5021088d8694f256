"""Damaged, missing, newer and unknown data: refused with an error that says where, never read as something else."""

from dataclasses import dataclass
from zlib import crc32

import pytest

from durable_graph.errors import CorruptDataError, NewerDatabaseError, StorageError, UnknownStoredTypeError
from durable_graph.persistence import rows as row_bytes
from durable_graph.persistence.codec import Codec
from durable_graph.persistence.type_registry import TypeRegistry
from durable_graph.records import MAIN, Change, Frontier, PendingRecord, StepRecord, TaskRecord, Write
from durable_graph.types import Interrupt
from tests.rowstore import RowStore

EPOCH = 3


def record(**changes):
    task = TaskRecord("node", "node", "id", writes=tuple(Write(key, value) for key, value in changes.items()))
    return StepRecord(0, "loop", {key: Change(value) for key, value in changes.items()}, Frontier(("node",)), (task,))


@pytest.fixture
def store():
    store = RowStore(Codec())
    writer = store.writer()
    store.add(writer.checkpoint(record(items=["x" * 200] * 2, large="y" * 300, n=1), 1, EPOCH))
    store.add(writer.checkpoint(record(items=["x" * 200] * 3), 2, EPOCH))
    store.add(writer.pending(PendingRecord(answers={"i": [1]}), 3, EPOCH))
    store.add(writer.checkpoint(record(items=["x" * 200] * 4), 4, EPOCH))
    return store


def test_no_flipped_bit_is_ever_read(store):
    good = dict(store.rows)
    for place, row in good.items():
        for at in range(len(row.data)):
            data = bytearray(row.data)
            data[at] ^= 1 << (at % 8)
            store.rows = {**good, place: row._replace(data=bytes(data))}
            with pytest.raises(CorruptDataError) as caught:
                store.head()
            assert f"lane {row.lane}, part {row.part}, seq {row.seq}" in str(caught.value)
            assert "'a thread'" in str(caught.value)


def test_no_cut_row_is_ever_read(store):
    good = dict(store.rows)
    for place, row in good.items():
        for size in range(len(row.data)):
            store.rows = {**good, place: row._replace(data=row.data[:size])}
            with pytest.raises(CorruptDataError):
                store.head()


def test_a_row_at_another_rows_place_is_not_read(store):
    good = dict(store.rows)
    for place, row in good.items():
        for other in good.values():
            if other is not row:
                store.rows = {**good, place: row._replace(data=other.data)}
                with pytest.raises(CorruptDataError, match="digest"):
                    store.head()


def test_a_missing_row_is_noticed(store):
    good = dict(store.rows)
    for place, row in good.items():
        if row.part == MAIN and row.seq == 4:
            continue  # the newest checkpoint: without it the lane simply ends before
        store.rows = {other: kept for other, kept in good.items() if other != place}
        with pytest.raises(CorruptDataError, match="a thread"):
            store.head()


def test_pending_rows_without_their_checkpoint_are_no_empty_lane(store):
    store.rows = {place: row for place, row in store.rows.items() if row.seq == 3}
    with pytest.raises(CorruptDataError, match="a BASE that is missing"):
        store.head()


def test_a_list_with_a_chunk_missing_says_how_much_is_left(store):
    del store.rows[1, 1, 2]
    with pytest.raises(CorruptDataError, match="3 of 4 elements"):
        store.head()


def test_a_newer_format_is_told_from_damage(store):
    *_, row = store.line(1)
    start = row.seq * row_bytes._BY_SEQ + row.lane * row_bytes._BY_LANE + row.kind * row_bytes._BY_KIND + 2
    digest = crc32(b"from the future", start & 0xFFFFFFFF)
    data = b"\x02" + digest.to_bytes(4, "little") + b"from the future"
    store.rows[row.lane, row.part, row.seq] = row._replace(data=data)
    with pytest.raises(NewerDatabaseError, match="format 2; this version reads up to 1"):
        store.head()


def test_a_row_whose_payload_is_no_structure_is_damage(store):
    *_, row = store.line(1)
    store.rows[row.lane, row.part, row.seq] = row_bytes.seal(row.lane, row.part, row.seq, row.kind, b"\xc1")
    with pytest.raises(CorruptDataError, match="cannot be read"):
        store.head()


@dataclass
class Ticket:
    name: str


@pytest.mark.parametrize("place", ["value", "apart", "write", "interrupt", "metadata", "answer"])
def test_an_unknown_type_is_named_with_its_key_and_checkpoint(place):
    knowing, ignorant = TypeRegistry(), TypeRegistry()
    knowing.register(Ticket)
    knowing.register(Interrupt)
    ignorant.register(Interrupt)
    store = RowStore(Codec(knowing))
    writer = store.writer()
    ticket = Ticket("x" * 300 if place == "apart" else "x")
    step, pending = StepRecord(0, "loop", {}, Frontier()), PendingRecord()
    if place in {"value", "apart"}:
        step.changes = {"ticket": Change(ticket)}
    elif place == "write":
        step.tasks = (TaskRecord("n", "n", "1", writes=(Write("ticket", ticket),)),)
    elif place == "interrupt":
        step.tasks = (TaskRecord("n", "n", "1", interrupts=(Interrupt(ticket, "i"),)),)
    elif place == "metadata":
        step.metadata = {"ticket": ticket}
    else:
        pending.answers = {"ticket": ticket}
    store.add(writer.checkpoint(step, 5, EPOCH))
    store.add(writer.pending(pending, 6, EPOCH))
    store.codec = Codec(ignorant)
    with pytest.raises(UnknownStoredTypeError) as caught:
        store.head()
    where = {"value": "key 'ticket'", "apart": "key 'ticket'", "write": "key 'ticket' written by node 'n'"}
    where |= {"interrupt": "an interrupt of node 'n'", "metadata": "metadata", "answer": "answer to interrupt 'ticket'"}
    for part in (where[place], "checkpoint 5 (lane 1)", "'a thread'", "Ticket"):
        assert part in str(caught.value)


def test_an_exception_of_a_users_decoder_says_where_it_came_from():
    def encode(ticket):
        return ticket.name

    def decode(name):
        raise ZeroDivisionError(name)

    registry = TypeRegistry()
    registry.register(Ticket, encode=encode, decode=decode)
    store = RowStore(Codec(registry))
    store.add(store.writer().checkpoint(record(ticket=Ticket("x")), 5, EPOCH))
    with pytest.raises(ZeroDivisionError) as caught:
        store.head()
    assert "key 'ticket' of checkpoint 5 (lane 1)" in "".join(caught.value.__notes__)


def test_an_exception_of_a_users_encoder_says_where_it_came_from():
    registry = TypeRegistry()
    registry.register(Ticket, encode=lambda ticket: ticket.missing, decode=Ticket)
    store = RowStore(Codec(registry))
    with pytest.raises(AttributeError) as caught:
        store.writer().checkpoint(record(ticket=Ticket("x")), 5, EPOCH)
    assert "key 'ticket' of node 'node'" in "".join(caught.value.__notes__)


def test_damage_is_a_storage_error():
    assert issubclass(CorruptDataError, StorageError)
