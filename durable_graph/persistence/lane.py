"""The writer: turns the records of one lane into rows, each value encoded once and stored once.

What it does with the new value of a key:

    at most 256 bytes         inline in the row
    a list                    a log: an append stores a chunk with the new elements, anything else starts a new log
    another large value       a row of its own
    the same bytes as before  nothing; the key counts as written, so its version is the new checkpoint's

An append is known because the reducer reported it, or because the new encoding starts with the old one.
Encodings are compared, never values: [0.0] == [-0.0] and [1] == [True], and a reducer may have edited the old
list in place. For that the encoding of a list is kept as long as its changes are not reported; reported
appends keep nothing and cost what is added, however long the list is.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, cast

from durable_graph.errors import InternalError
from durable_graph.persistence.line import SAME, Apart, Line, Log, advance, entry_of
from durable_graph.persistence.packing import Draft, pack_call, pack_frontier, pack_task
from durable_graph.persistence.rows import EMPTY_MAP, is_list, join_list, new_pack, pack_chunk, seal, split_list, trim
from durable_graph.records import BASE, DELTA, LOG, MAIN, PENDING, VALUE, Address
from durable_graph.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from durable_graph.persistence.codec import Codec
    from durable_graph.persistence.line import Form, Said
    from durable_graph.records import Change, PendingRecord, Row, StepRecord

__all__ = ["INLINE_LIMIT", "LaneWriter"]

INLINE_LIMIT: Final = 256
"""Encodings of at most this many bytes stay in the row of their checkpoint."""

_RECORD_LENGTH: Final = 10
"""Fields of a record before its origin, which few have."""


class LaneWriter:
    """What must be known of one lane to append to it. One per running run, used by one OS thread at a time.

    lane: its number.

    The rows of every call must be committed, in order, before or together with those of later calls. A call
    that raises changes nothing: the writer can go on, with the same seq too.
    """

    __slots__ = ("_codec", "_kept", "_line", "_metadata", "_pack", "_tip", "lane")

    def __init__(
        self,
        codec: Codec,
        lane: int,
        *,
        line: Line | None = None,
        kept: Mapping[str, tuple[bytes, ...]] | None = None,
        tip: bool = True,
    ) -> None:
        """A writer for an empty lane, whose first row will be a BASE; with `line`, for what that line says.

        kept: the encoded elements of lists stored as logs, by key. tip: False when the lane has checkpoints
        behind `line`, so that only `branch` is allowed.
        """
        self._codec = codec
        self.lane = lane
        self._line = Line(lane) if line is None else line
        self._kept = dict(kept or {})
        self._metadata: dict[str, Any] | None = None
        self._pack = new_pack()
        self._tip = tip

    @property
    def seq(self) -> int:
        """The seq of the lane's newest row known here; 0 when it has none."""
        return self._line.seq

    @property
    def at_tip(self) -> bool:
        """Whether nothing follows the newest checkpoint known here, so that it can be appended to."""
        return self._tip

    @property
    def address(self) -> Address | None:
        """Where the newest checkpoint is; for a new branch, the one it starts from; None when there is none."""
        return None if self._line.place is None else Address(*self._line.place)

    def branch(self, lane: int, *, sibling: bool = False) -> LaneWriter:
        """A writer for the new lane `lane` that starts from this one's newest checkpoint.

        Its first row is a BASE with all keys of that checkpoint; large values are shared, not copied. Its parent is
        that checkpoint; of a sibling the checkpoint before it.
        """
        return LaneWriter(self._codec, lane, line=self._line.branch(lane, sibling=sibling), kept=self._kept)

    def checkpoint(self, record: StepRecord, seq: int, epoch: int) -> tuple[Row, ...]:
        """The rows of one checkpoint: its BASE or DELTA, and before it one row per key stored apart.

        A metadata dict that was handed over is not changed afterwards: a run hands over the same one each time.

        Raises UnserializableValueError (naming key and node) when a value cannot be stored; the writer is as before.
        """
        line = self._line
        if seq <= line.seq or not self._tip:
            raise self._refusal(seq)
        kind = BASE if line.base_due else DELTA
        draft = Draft(self._codec, {} if kind == BASE else line.numbers)
        # Writes first: when a value does not encode, the error can name the node that wrote it.
        for task in record.tasks:
            for key, value, data in task.writes or ():
                if data is None:
                    draft.encode(value, "key", key, task.node)
        for key, change in record.changes.items():
            form = line.channels[key][2] if key in line.channels else None
            if change.value is not MISSING:
                self._plan(draft, key, change, form)
            elif form is not None:
                draft.entries[key] = None
        body = self._base(draft, record, seq, epoch) if kind == BASE else self._delta(draft, record, seq, epoch)
        main = seal(line.lane, MAIN, seq, kind, self._pack(body))
        line.apply(kind, seq, body, len(main.data))  # nothing fails from here on
        self._metadata = record.metadata
        if not draft.apart and not self._kept:
            return (main,)
        return (*self._rows_apart(draft, seq), main)

    def pending(self, record: PendingRecord, seq: int, epoch: int) -> tuple[Row, ...]:  # noqa: ARG002 - see below
        """The row that keeps what became known after the newest checkpoint.

        `epoch` is not stored, as a pending record has no address of its own; the two calls are alike so that one
        place can make either.

        Raises UnserializableValueError as `checkpoint` does.
        """
        line = self._line
        if seq <= line.seq or not self._tip or line.said is None:
            raise self._refusal(seq)
        draft = Draft(self._codec, line.numbers)
        tasks = [pack_task(draft, task) for task in record.tasks]
        answers = {
            asked: draft.blob(draft.encode(answer, "the answer to interrupt", asked))
            for asked, answer in record.answers.items()
        }
        calls = [pack_call(draft, call) for call in record.calls] or None
        body = [seq - line.seq, tasks, answers, calls, list(draft.words), list(draft.blobs)]
        row = seal(line.lane, MAIN, seq, PENDING, self._pack(body))
        line.apply(PENDING, seq, body, len(row.data))
        return (row,)

    def _refusal(self, seq: int) -> InternalError:
        if not self._tip:
            return InternalError(f"A row for lane {self.lane} behind seq {self.seq}, where checkpoints follow")
        if seq <= self.seq:
            return InternalError(f"Seq {seq} for lane {self.lane}, which is at {self.seq} already")
        return InternalError(f"A pending record for lane {self.lane}, which has no checkpoint yet")

    # --- what becomes of one key ----------------------------------------------------------------------------

    def _plan(self, draft: Draft, key: str, change: Change, form: Form | None) -> None:
        """Say in the draft what becomes of a key that has a new value."""
        data = change.data
        if change.suffix is not None:
            if _is_append(form, change.value, change.suffix):
                _plan_append(draft, key, form, draft.encode(change.suffix, "key", key) if data is None else data)
                return
            data = None
        if data is None:
            data = draft.encode(change.value, "key", key)
        draft.wholes[key] = data
        if len(data) <= INLINE_LIMIT:
            if form == data:
                draft.entries[key] = SAME
            else:
                draft.entries[key] = draft.blob(data)
                draft.pieces[key] = (data, 0)
        elif is_list(data):
            self._plan_list(draft, key, form, data)
        else:
            digest = blake2b(data, digest_size=16).digest()
            if isinstance(form, Apart) and form.digest == digest:
                draft.entries[key] = SAME
            else:
                draft.entries[key] = digest
                draft.pieces[key] = (data, 0)
                draft.apart[key] = (VALUE, data, None)

    def _plan_list(self, draft: Draft, key: str, form: Form | None, data: bytes) -> None:
        """A list whose reducer did not report what it did: an append if the old encoding is a prefix of the new."""
        count, start = split_list(data)
        kept = self._kept.get(key)
        end = _prefix_end(data, start, kept) if isinstance(form, Log) and kept is not None else None
        if end is None or not isinstance(form, Log):
            added, body = count, data[start:]
            draft.entries[key] = [count, 0]
        elif end < len(data):
            added, body = count - form.length, data[end:]
            draft.entries[key] = [added]
        else:
            draft.entries[key] = SAME
            return
        draft.pieces[key] = (body, 0)
        draft.apart[key] = (LOG, pack_chunk(added, body), (data[start:],))

    # --- rows -----------------------------------------------------------------------------------------------

    def _record(self, draft: Draft, record: StepRecord, epoch: int, said: Said | None) -> list[Any]:
        """A checkpoint's structure. said: what need not be repeated when it is still the same; None in a BASE."""
        numbers, source, stop = draft.numbers, record.source, record.stop
        tasks: list[Any] = []
        for task in record.tasks:
            tasks += (pack_task(draft, task),)
        packed: list[Any] = [
            record.step,
            record.created_at - (0 if said is None else self._line.created_at),
            numbers[source] if source in numbers else draft.word(source),
            pack_frontier(draft, record.frontier),
            None if stop is None else draft.word(stop),
            tasks or None,
        ]
        if said is not None and record.metadata is self._metadata:
            metadata = said.metadata
        else:
            metadata = draft.encode(record.metadata, "the run's metadata") if record.metadata else EMPTY_MAP
        if said is None:
            packed += (record.run_id, record.fingerprint, draft.blob(metadata), epoch)
        elif said != (record.run_id, record.fingerprint, metadata, epoch):
            packed += (
                None if said.run_id == record.run_id else record.run_id,
                None if said.fingerprint == record.fingerprint else record.fingerprint,
                None if said.metadata == metadata else draft.blob(metadata),
                None if said.epoch == epoch else epoch,
            )
        if record.origin is not None:
            origin = [*record.origin, dict(record.names)] if record.names else list(record.origin)
            return [*packed, *[None] * (_RECORD_LENGTH - len(packed)), origin]
        return packed if packed[-1] is not None else trim(packed)

    def _delta(self, draft: Draft, record: StepRecord, seq: int, epoch: int) -> list[Any]:
        line = self._line
        packed = self._record(draft, record, epoch, line.said)
        channels = line.channels
        names: list[str] = []
        changes: dict[int, Any] = {}
        for key, entry in draft.entries.items():
            if key in channels:
                changes[channels[key][0]] = entry
            else:
                names += (key,)
                changes[line.top + len(names)] = entry
        return [seq - line.seq, packed, changes, names or None, list(draft.words) or None, list(draft.blobs)]

    def _base(self, draft: Draft, record: StepRecord, seq: int, epoch: int) -> list[Any]:
        line = self._line
        packed = self._record(draft, record, epoch, None)
        entries: list[Any] = []
        top, blobs = line.top, list(draft.blobs)
        for key in {**line.channels, **draft.entries}:
            number, version, form = line.channels.get(key, (0, seq, None))
            if not number:
                number = top = top + 1
            if key in draft.entries:
                entry, version = draft.entries[key], seq
                form = blobs[entry] if type(entry) is int else advance(form, entry, line.lane, seq)
            if form is not None:
                blob = draft.blob(form) if isinstance(form, bytes) else None
                entries += (key, number, version, entry_of(form, blob))
        return [line.place, packed, entries, top, list(draft.words), list(draft.blobs)]

    def _rows_apart(self, draft: Draft, seq: int) -> list[Row]:
        """The rows of values apart; also keeps or drops what is needed to recognise the next append."""
        line, kept = self._line, self._kept
        for key, entry in draft.entries.items():
            if entry is not SAME:
                kept.pop(key, None)
        rows: list[Row] = []
        for key, (kind, payload, elements) in draft.apart.items():
            if elements is not None:
                kept[key] = elements
            rows += (seal(line.lane, line.channels[key][0], seq, kind, payload),)
        return rows


def _is_append(form: Form | None, value: Any, suffix: list[Any]) -> bool:
    """Whether a reported append can be one: what is stored is a list, and the lengths add up."""
    if isinstance(form, Log):
        count = form.length
    elif form is None:
        count = 0
    elif isinstance(form, bytes) and is_list(form):
        count = split_list(form)[0]
    else:
        return False
    return type(value) is list and len(cast("list[Any]", value)) == count + len(suffix)


def _plan_append(draft: Draft, key: str, form: Form | None, data: bytes) -> None:
    """A reported append; `data` encodes the new elements as a list."""
    added, start = split_list(data)
    if added == 0 and form is not None:
        draft.entries[key] = SAME
        return
    body = data[start:]
    if isinstance(form, Log):
        draft.entries[key] = [added]
        draft.pieces[key] = (body, 0)
        draft.apart[key] = (LOG, pack_chunk(added, body), None)
        return
    old = form if isinstance(form, bytes) else b"\x90"
    count, skip = split_list(old)
    draft.wholes[key] = whole = join_list(count + added, (old[skip:], body))
    if len(whole) <= INLINE_LIMIT:
        draft.entries[key] = draft.blob(whole)
        draft.pieces[key] = (whole, len(whole) - len(body))
    else:
        elements = old[skip:] + body
        draft.entries[key] = [count + added, 0]
        draft.pieces[key] = (elements, len(elements) - len(body))
        draft.apart[key] = (LOG, pack_chunk(count + added, elements), None)


def _prefix_end(data: bytes, start: int, kept: tuple[bytes, ...]) -> int | None:
    """Where the kept encodings end in `data` when they are what its elements start with; else None."""
    for body in kept:
        if not data.startswith(body, start):
            return None
        start += len(body)
    return start
