"""What the rows of a lane add up to: for every key its version and where its bytes are.

`Line` is the one fold over rows of part 0. The reader feeds it the rows it loads, the writer the rows it
made, so the two cannot disagree. The structures it takes (`layout` says what they mean):

    BASE      [parent, record, entries, top, words, blobs]
    DELTA     [gap, record, changes, names, words, blobs]
    PENDING   [gap, tasks, answers, calls, words, blobs]
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

from durable_graph.errors import CorruptDataError
from durable_graph.records import BASE, PENDING

__all__ = ["SAME", "Apart", "Channel", "Form", "Line", "Log", "Place", "Said", "Span", "advance", "entry_of"]

_tuple: Any = tuple  # untyped: its `__new__` makes a Said without the call in Python that is `Said.__new__`

SMALLEST_LIMIT: Final = 2048
"""A new BASE is due when the rows since the last one weigh more than this, and more than that base."""

READ_LIMIT: Final = 512
"""The same for a line that was loaded: where runs are short, a thread is read as often as it is written."""

_ENTRY_WEIGHT: Final = 16
"""About how many bytes a key takes in a BASE, besides its name and value."""

_SAID_FROM: Final = 6
_SAID_TO: Final = 10
"""A record's fields from `_SAID_FROM` to `_SAID_TO` are those of `Said`."""

_METADATA: Final = 2
"""Which field of `Said` is a blob."""

SAME: Final = True
"""The entry of a key that was written and has the same bytes as before."""


class Span(NamedTuple):
    """Chunks of a log: the rows of the channel's part in lane `lane` with `first <= seq <= last`."""

    lane: int
    first: int
    last: int


class Log(NamedTuple):
    """A list kept as chunks of encoded elements, `length` elements in all."""

    length: int
    spans: tuple[Span, ...]


class Apart(NamedTuple):
    """A value in a row of its own. `digest` is of its encoding: it tells whether a new value is the same."""

    lane: int
    seq: int
    digest: bytes


Form: TypeAlias = bytes | Log | Apart
"""How a value is stored: its encoding itself, or where it is."""


Channel: TypeAlias = tuple[int, int, Form | None]
"""One key: its number (the part of its rows apart), the seq of its last change, its form (None: holds nothing)."""

Place: TypeAlias = tuple[int, int, int]
"""Lane, seq and epoch of a checkpoint. Plain tuples, like channels, as each step makes some."""


class Said(NamedTuple):
    """What a row need not repeat when it is the same as in the checkpoint before."""

    run_id: str
    fingerprint: str
    metadata: bytes
    epoch: int


def advance(form: Form | None, entry: Any, lane: int, seq: int) -> Form | None:
    """A value's form after a row of lane `lane` and seq `seq` that says `entry` about it.

    entry: True the same bytes were written again · None removed · bytes a new value apart with this digest · [n] n
    elements appended · [n, 0] a new log of n elements. An int, most often, is the number of the blob that is the
    form from now on: callers look that up themselves.
    """
    if entry is SAME:
        return form
    if entry is None:
        return None
    if type(entry) is bytes:
        return Apart(lane, seq, entry)
    added, *fresh = entry
    if fresh:
        return Log(added, (Span(lane, seq, seq),))
    if not isinstance(form, Log):
        raise TypeError(f"elements appended to something that is no log: {form!r}")
    *before, last = form.spans
    # Between `last.last` and `seq` this lane's part holds nothing else, or the form would not be this log.
    tail = (Span(lane, last.first, seq),) if last.lane == lane else (last, Span(lane, seq, seq))
    return Log(form.length + added, (*before, *tail))


def entry_of(form: Form, blob: int | None) -> Any:
    """What a BASE says about a form; the inverse of `_form_of`. `blob`: the number of the inline value's blob."""
    if isinstance(form, Log):
        return [form.length, *(number for span in form.spans for number in span)]
    return blob if isinstance(form, bytes) else [form.lane, form.seq, form.digest]


def _form_of(entry: Any, blobs: list[bytes]) -> Form:
    if isinstance(entry, int):
        return blobs[entry]
    if isinstance(entry[-1], bytes):
        return Apart(*entry)
    count, *spans = entry
    return Log(count, tuple(Span(*spans[at : at + 3]) for at in range(0, len(spans), 3)))


def _said_in(record: list[Any], blobs: list[bytes], before: Said | None) -> Said:
    """What holds after a record, given what held before; a BASE repeats everything."""
    said: list[Any] = [None] * (_SAID_TO - _SAID_FROM) if before is None else [*before]
    for at, found in enumerate(record[_SAID_FROM:_SAID_TO]):
        if found is not None:
            said[at] = blobs[found] if at == _METADATA else found
    return _tuple.__new__(Said, said)


class Line:
    """The rows of one lane, added up to the newest one seen. An empty line's first row must be a BASE.

    seq: of the newest row. place: of the newest checkpoint. parent: of the checkpoint before it. created_at: the
    newest checkpoint's. base_due: whether the next checkpoint must be a BASE; bases are written so that loads stay
    short, and so seldom that they cost no more than the rows between them.
    channels: key -> Channel, in order of their numbers. top: the highest channel number ever given.
    words: texts that rows name by number (`numbers` is the inverse); they start afresh in each BASE, so that what is
    not used any more is forgotten. The list only grows or is replaced as a whole: who holds it can look up what
    older rows meant.
    """

    __slots__ = (
        "_keys", "_room", "_weight", "base_due", "channels", "created_at", "lane", "numbers", "parent", "place", "said",
        "seq", "top", "words",
    )  # fmt: skip

    def __init__(self, lane: int) -> None:
        self.lane = lane
        self.seq = 0
        self.place: Place | None = None
        self.parent: Place | None = None
        self.created_at = 0
        self.base_due = True
        self.channels: dict[str, Channel] = {}
        self.top = 0
        self.words: list[str] = []
        self.numbers: dict[str, int] = {}
        self.said: Said | None = None
        self._keys: dict[int, str] = {}
        self._room = 0
        self._weight = 0

    def loaded(self) -> None:
        """The rows came from the store, to go on from: a BASE is due earlier, so that the next load is short."""
        limit = max(SMALLEST_LIMIT, self._weight)
        if limit - self._room > max(READ_LIMIT, self._weight):
            self._room, self.base_due = -1, True

    def copy(self) -> Line:
        """The line as it is now; the two go on independently."""
        other = Line(self.lane)
        other.seq, other.place, other.parent, other.created_at = self.seq, self.place, self.parent, self.created_at
        other.base_due, other._room, other._weight = self.base_due, self._room, self._weight
        other.said, other.top = self.said, self.top
        other.channels, other._keys = {**self.channels}, {**self._keys}
        other.words, other.numbers = [*self.words], {**self.numbers}
        return other

    def branch(self, lane: int, *, sibling: bool = False) -> Line:
        """An empty line that starts from this one's newest checkpoint, as its child or its sibling."""
        other = Line(lane)
        other.channels, other.top = self.channels.copy(), self.top
        other.place = self.parent if sibling else self.place
        return other

    def apply(self, kind: int, seq: int, body: list[Any], size: int) -> None:
        """Add one row: its kind, seq, structure, and how many bytes it has.

        Raises CorruptDataError when a row before it is missing.
        """
        if kind == BASE:
            self._start(seq, body)
            return
        gap, record, changes, names, words, blobs = body
        said = self.said
        if said is None or seq - gap != self.seq:
            what = f"Lane {self.lane} has a row with seq {seq}, but the row with seq {seq - gap} is missing"
            raise CorruptDataError(what)
        if words:
            self._learn(words)
        self._room -= size
        self.base_due = self._room < 0
        self.seq = seq
        if kind == PENDING:
            return
        lane, channels, keys = self.lane, self.channels, self._keys
        for key in names or ():
            self.top += 1
            keys[self.top] = key
            channels[key] = (self.top, seq, None)
        for number in changes:
            key, entry = keys[number], changes[number]
            form = blobs[entry] if type(entry) is int else advance(channels[key][2], entry, lane, seq)
            channels[key] = (number, seq, form)
        self.parent = self.place
        self.created_at += record[1]
        if record[_SAID_FROM:]:
            self.said = said = _said_in(record, blobs, said)
        self.place = (lane, seq, said.epoch)

    def _start(self, seq: int, body: list[Any]) -> None:
        parent, record, entries, self.top, words, blobs = body
        self.channels, self._keys = {}, {}
        weight = 0
        for at in range(0, len(entries), 4):
            key, number, version, entry = entries[at : at + 4]
            form = _form_of(entry, blobs)
            self.channels[key] = (number, version, form)
            self._keys[number] = key
            weight += len(key) + _ENTRY_WEIGHT + (len(form) if isinstance(form, bytes) else 0)
        self._weight = weight
        self._room = max(SMALLEST_LIMIT, weight)
        self.base_due = False
        self.words, self.numbers = [], {}
        self._learn(words)
        self.parent = None if parent is None else tuple(parent)
        self.created_at = record[1]
        self.said = said = _said_in(record, blobs, None)
        self.place = (self.lane, seq, said.epoch)
        self.seq = seq

    def _learn(self, words: list[str]) -> None:
        for number, word in enumerate(words, len(self.words)):
            self.numbers[word] = number
        self.words += words
