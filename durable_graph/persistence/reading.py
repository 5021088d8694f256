"""The reader: turns the rows of a lane back into checkpoints.

Generators, so that sync and async callers share them: each yields lists of `RowRange` and is sent the rows of
each range (`Checkpointer.read`). One yield asks for everything that is apart.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from durable_graph.errors import CorruptDataError, InternalError, StorageError
from durable_graph.persistence.lane import LaneWriter
from durable_graph.persistence.line import Line, Log
from durable_graph.persistence.packing import Page, sources_of, unpack_call, unpack_frontier, unpack_task
from durable_graph.persistence.rows import EMPTY_MAP, cut_chunk, extend, join_list, open_row, place, unpack, untrim
from durable_graph.records import (
    BASE,
    LOG,
    PENDING,
    Address,
    CallRecord,
    Row,
    RowRange,
    StepRecord,
    StoredCheckpoint,
    TaskRecord,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from durable_graph.persistence.codec import Codec
    from durable_graph.persistence.line import Channel, Form, Said
    from durable_graph.records import LoadedThread

__all__ = ["Reading", "read_at", "read_head", "read_history"]

T = TypeVar("T")
Head: TypeAlias = "tuple[StoredCheckpoint | None, LaneWriter]"


def read_head(
    loaded: LoadedThread, codec: Codec, *, tasks: bool = True
) -> Generator[list[RowRange], list[list[Row]], Head]:
    """The newest checkpoint of `loaded.lane` with what is pending, and the writer to go on with.

    (None, a writer for an empty lane) when the lane has no rows. tasks: False leaves out the values that the
    tasks of the checkpoint itself wrote (they are MISSING; the step is over, and going on does not need
    them).

    Raises CorruptDataError, NewerDatabaseError, UnknownStoredTypeError, each naming the place.
    """
    reading = Reading(loaded, codec)
    seq = max(reading.checkpoints, default=0)
    return (yield from _read_one(reading, seq, tasks=tasks))


def read_at(loaded: LoadedThread, seq: int, codec: Codec) -> Generator[list[RowRange], list[list[Row]], Head]:
    """The checkpoint with exactly this seq in `loaded.lane`, what is known of the step after it, and a writer.

    The writer can be branched; it can be appended to if no checkpoint follows this one. (None, a writer for an
    empty lane) when there is no such checkpoint. `loaded.rows` start at a BASE with a seq of at most `seq`.
    *Raises* like `read_head`.
    """
    reading = Reading(loaded, codec)
    return (yield from _read_one(reading, seq, tasks=True))


def read_history(
    loaded: LoadedThread,
    codec: Codec,
    *,
    before: int | None = None,
    limit: int | None = None,
    values: bool = True,
) -> Generator[list[RowRange], list[list[Row]], list[StoredCheckpoint]]:
    """At most `limit` checkpoints of `loaded.lane` with a seq below `before` (None: all), newest first.

    Only checkpoints among `loaded.rows` are seen; the rows start at a BASE. When fewer than `limit` come back
    and the last one has a `parent` in the same lane, load with `upto=parent.seq` and ask for those before the
    last one; a `parent` in another lane says where that lane branched off, None is the end.

    values: False leaves `values` empty, and writes of tasks MISSING: no value of a key is read or decoded.
    *Raises* like `read_head`.
    """
    reading = Reading(loaded, codec)
    wanted = [seq for seq in reading.checkpoints if before is None or seq < before][::-1][:limit]
    reading.fold(wanted)
    yield from reading.fetch(wanted, values=values, tasks=values)
    return [reading.checkpoint(seq, values=values, tasks=values) for seq in wanted]


def _read_one(reading: Reading, seq: int, *, tasks: bool) -> Generator[list[RowRange], list[list[Row]], Head]:
    if seq not in reading.checkpoints:
        return None, LaneWriter(reading.codec, reading.lane)
    reading.fold([seq])
    yield from reading.fetch([seq], values=True, tasks=tasks)
    return reading.checkpoint(seq, values=True, tasks=tasks), reading.writer(seq)


class Point:
    """One checkpoint among the rows.

    line: what the lane's rows add up to there. body, words: of its row. pending: (body, words) of the PENDING
    rows behind it. follower: the next checkpoint, when it is among the rows.
    """

    __slots__ = ("body", "follower", "line", "pending", "words")

    def __init__(self, line: Line, body: list[Any], words: list[str]) -> None:
        self.line = line
        self.body = body
        self.words = words
        self.pending: list[tuple[list[Any], list[str]]] = []
        self.follower: Point | None = None

    @property
    def seq(self) -> int:
        return self.line.seq

    @property
    def address(self) -> Address:
        return Address(*_known(self.line.place))

    @property
    def said(self) -> Said:
        return _known(self.line.said)

    @property
    def tasks(self) -> list[list[Any]]:
        *_, tasks = untrim(self.body[1], 6)
        return tasks or []


class Reading:
    """One reading of a lane: fold its rows, fetch what is apart, then build checkpoints."""

    def __init__(self, loaded: LoadedThread, codec: Codec) -> None:
        self.codec = codec
        self.lane = loaded.lane
        self._thread = loaded.thread.key
        self._rows = loaded.rows
        self.checkpoints = [row.seq for row in loaded.rows if row.kind != PENDING]
        self._line = Line(loaded.lane)
        self._points: dict[int, Point] = {}
        self._shelf = Shelf(loaded.thread.key)
        if loaded.rows and loaded.rows[0].kind != BASE:
            raise CorruptDataError(f"{place(loaded.rows[0], self._thread)} follows a BASE that is missing")

    # --- rows to points -------------------------------------------------------------------------------------

    def fold(self, wanted: Iterable[int]) -> None:
        """Read the rows up to the last wanted checkpoint and the one behind it; hold on to the wanted ones."""
        line, points = self._line, self._points
        keep = set(wanted)
        last = max(keep, default=0)
        current: Point | None = None
        for row in self._rows:
            if row.kind != PENDING and row.seq > last and current is None:
                break
            body = unpack(row, self._thread)
            try:
                line.apply(row.kind, row.seq, body, len(row.data))
            except CorruptDataError as error:
                extend(error, f"in thread {self._thread!r}")
                raise
            if row.kind == PENDING:
                if current is not None:
                    current.pending.append((body, line.words))
                continue
            before, current = current, None
            if row.seq in keep or before is not None:
                point = Point(line.copy(), body, line.words)
                if before is not None:
                    before.follower = point
                if row.seq in keep:
                    points[row.seq] = current = point

    # --- what is apart --------------------------------------------------------------------------------------

    def fetch(
        self, wanted: Iterable[int], *, values: bool, tasks: bool
    ) -> Generator[list[RowRange], list[list[Row]], None]:
        """Ask for all rows apart that the wanted checkpoints need, each once."""
        ranges: list[RowRange] = []
        for seq in wanted:
            point = self._points[seq]
            if values:
                for channel in point.line.channels.values():
                    if type(channel[2]) is not bytes:  # most values are in the row itself
                        ranges += ranges_of(channel)
            if tasks:
                ranges += self._task_ranges(point)
            if values and point.follower is not None:
                ranges += self._task_ranges(point.follower)
        if ranges:
            asked = merge(ranges)
            self._shelf.put(asked, (yield asked))

    def _task_ranges(self, point: Point) -> Iterator[RowRange]:
        page = self._page(point, point.body, point.words)
        for task in point.tasks:
            for key, source in sources_of(page, task):
                if source is True or isinstance(source, list):
                    yield from ranges_of(point.line.channels[key])

    # --- points to checkpoints ------------------------------------------------------------------------------

    def checkpoint(self, seq: int, *, values: bool, tasks: bool) -> StoredCheckpoint:
        """One of the wanted checkpoints; every value in it is a fresh object."""
        point = self._points[seq]
        line = point.line
        held = {key: channel for key, channel in line.channels.items() if channel[2] is not None}
        pending, answers = self._pending(point, values=values) if point.pending or point.follower else ({}, {})
        calls = self._calls(point) if point.pending else ()
        found = {key: self._value(point, key, channel) for key, channel in held.items()} if values else {}
        step = self._step(point, tasks=tasks)
        return StoredCheckpoint(
            address=point.address,
            parent=None if line.parent is None else Address(*line.parent),
            values=found,
            versions={key: version for key, (_, version, _) in held.items()},
            step=step,
            pending=pending,
            answers=answers,
            calls=calls,
            renamed=step.names,
        )

    def writer(self, seq: int) -> LaneWriter:
        """A writer for what follows checkpoint `seq`: on this lane if it is the newest, else only on branches."""
        point = self._points[seq]
        kept = {
            key: tuple(self._shelf.chunks(number, form))
            for key, (number, _, form) in point.line.channels.items()
            if isinstance(form, Log)
        }
        tip = point.follower is None
        self._line.loaded()
        return LaneWriter(self.codec, self.lane, line=self._line if tip else point.line, kept=kept, tip=tip)

    def _step(self, point: Point, *, tasks: bool) -> StepRecord:
        source: int
        stop: int | None
        step, _, source, frontier, stop, packed, *_, origin = untrim(point.body[1], 11)
        said = point.said
        page = self._page(point, point.body, point.words)
        find = self._finder(point) if tasks else None
        return StepRecord(
            step=step,
            source=point.words[source],
            changes={},
            frontier=unpack_frontier(page, frontier),
            tasks=tuple([unpack_task(page, task, find) for task in packed or ()]),
            stop=None if stop is None else point.words[stop],
            created_at=point.line.created_at,
            run_id=said.run_id,
            fingerprint=said.fingerprint,
            metadata={} if said.metadata == EMPTY_MAP else page.decode(said.metadata, "the run's metadata"),
            origin=None if origin is None else Address(*origin[:3]),
            names=origin[3] if origin is not None and origin[3:] else {},
        )

    def _calls(self, point: Point) -> tuple[CallRecord, ...]:
        found: dict[Any, CallRecord] = {}
        for body, words in point.pending:
            for packed in body[3] or ():
                call = unpack_call(self._page(point, body, words), packed)
                found[call.place] = call
        return tuple(found.values())

    def _pending(self, point: Point, *, values: bool) -> tuple[dict[str, TaskRecord], dict[str, Any]]:
        tasks: dict[str, TaskRecord] = {}
        answers: dict[str, Any] = {}

        def settle(page: Page, packed: list[list[Any]], finder: Callable[[str, Any], bytes]) -> None:
            for task in packed:
                record = unpack_task(page, task, finder if values else None)
                earlier = tasks.get(record.path)
                if record.writes is not None and earlier is not None:
                    record.interrupts = record.interrupts or earlier.interrupts  # what it asked on the way here
                tasks[record.path] = record
                for asked in record.rejected:
                    answers.pop(asked, None)

        for body, words in point.pending:
            page = self._page(point, body, words)
            settle(page, body[1], self._finder(point))
            for asked, blob in body[2].items():
                answers[asked] = page.value(blob, f"the answer to interrupt {asked!r}")
        if (follower := point.follower) is not None:
            settle(self._page(follower, follower.body, follower.words), follower.tasks, self._finder(follower))
        return tasks, answers

    def _value(self, point: Point, key: str, channel: Channel) -> Any:
        number, _, form = channel
        data = form if type(form) is bytes else self._shelf.whole(number, form)
        return self._decode(data, f"key {key!r}", point.seq)

    def _finder(self, point: Point) -> Callable[[str, Any], bytes]:
        def find(key: str, source: Any) -> bytes:
            number, _, form = point.line.channels[key]
            if source is True:
                return self._shelf.whole(number, form)
            piece = self._shelf.piece(number, form)
            start, length, *count = source
            data = piece[start : start + length]
            return join_list(count[0], (data,)) if count else data

        return find

    # --- decoding -------------------------------------------------------------------------------------------

    def _page(self, point: Point, body: list[Any], words: list[str]) -> Page:
        def decode(data: bytes, what: str) -> Any:
            return self._decode(data, what, point.seq)

        return Page(words, body[5] or [], decode)

    def _decode(self, data: bytes, what: str, seq: int) -> Any:
        try:
            return self.codec.decode(data)
        except StorageError as error:
            extend(error, f"in {what} of checkpoint {seq} (lane {self.lane}) of thread {self._thread!r}")
            raise
        except Exception as error:  # from the user's own class: theirs to catch, ours to say where
            error.add_note(f"Raised while reading {what} of checkpoint {seq} (lane {self.lane}), {self._thread!r}")
            raise


class Shelf:
    """The rows apart that were fetched: per (lane, part) their seqs, in order, with element counts and bytes."""

    def __init__(self, thread: str) -> None:
        self._thread = thread
        self._parts: dict[tuple[int, int], tuple[list[int], list[int], list[bytes]]] = {}

    def put(self, ranges: list[RowRange], answers: list[list[Row]]) -> None:
        """Check and keep the rows of ranges, which come in order. *Raises* like `open_row`."""
        for asked, rows in zip(ranges, answers, strict=True):
            seqs, counts, bodies = self._parts.setdefault((asked.lane, asked.part), ([], [], []))
            for row in rows:
                payload = open_row(row, self._thread)
                count, body = cut_chunk(payload) if row.kind == LOG else (0, payload)
                seqs.append(row.seq)
                counts.append(count)
                bodies.append(body)

    def chunks(self, number: int, log: Log) -> list[bytes]:
        """The encoded elements of a log, chunk by chunk.

        Raises CorruptDataError when a chunk is missing.
        """
        bodies: list[bytes] = []
        count = 0
        for lane, first, last in log.spans:
            seqs, counts, stored = self._parts.get((lane, number), ([], [], []))
            low, high = bisect_left(seqs, first), bisect_right(seqs, last)
            bodies += stored[low:high]
            count += sum(counts[low:high])
        if count != log.length:
            what = (
                f"A list of thread {self._thread!r} (part {number}, {log.spans}) has {count} of {log.length} elements"
            )
            raise CorruptDataError(what)
        return bodies

    def whole(self, number: int, form: Form | None) -> bytes:
        """The encoding of a whole value."""
        if isinstance(form, Log):
            return join_list(form.length, self.chunks(number, form))
        return self.piece(number, form)

    def piece(self, number: int, form: Form | None) -> bytes:
        """What the row that changed a value last stores for it."""
        if isinstance(form, bytes):
            return form
        lane, *_, seq = form.spans[-1] if isinstance(form, Log) else _known(form)[:2]
        seqs, _, bodies = self._parts.get((lane, number), ([], [], []))
        at = bisect_left(seqs, seq)
        if at == len(seqs) or seqs[at] != seq:
            raise CorruptDataError(
                f"A value of thread {self._thread!r} is missing (lane {lane}, part {number}, seq {seq})"
            )
        return bodies[at]


def _known(found: T | None) -> T:
    if found is None:
        raise InternalError("A row says that a key changed, and the key holds nothing")
    return found


def ranges_of(channel: Channel) -> Iterator[RowRange]:
    """The rows apart that hold a value."""
    number, _, form = channel
    if isinstance(form, Log):
        for lane, first, last in form.spans:
            yield RowRange(lane, number, first, last)
    elif form is not None and not isinstance(form, bytes):
        yield RowRange(form.lane, number, form.seq, form.seq)


def merge(ranges: Iterable[RowRange]) -> list[RowRange]:
    """The same rows in as few ranges as possible, in order, none of them twice."""
    merged: list[RowRange] = []
    for lane, part, first, last in sorted(ranges):
        before = merged[-1] if merged else None
        if before is not None and before[:2] == (lane, part) and first <= before.last + 1:
            merged[-1] = RowRange(lane, part, before.first, max(before.last, last))
        else:
            merged.append(RowRange(lane, part, first, last))
    return merged
