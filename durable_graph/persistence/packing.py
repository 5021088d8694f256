"""The structure of records inside rows: tasks, frontiers, and the words and blobs they name by number.

A record is a list without its trailing Nones:

    record    [step, created_at, source, frontier, stop, tasks, run_id, fingerprint, metadata, epoch, origin]
              created_at is the difference to the checkpoint before (in a BASE, to 0); run_id to epoch are None
              when they are the same as there; origin is [lane, seq, epoch]
    frontier  [nodes, sends, {edge: sources}, deferred]
    task      [node, path, id, started, duration, writes, routes, attempt, error, interrupts, answered, rejected,
              children]
              path is None for "node", 3 for "node#3", else the text; children are [namespace, lane, seq, ...]
    call      [task, name, digest, number, data, error, attempt, started, duration]
    writes    [key, source, key, source, ...]; a source says where the value's encoding is:
              int                 the blob with this number
              True                the key's whole value as of this row
              [start, length]     these bytes of what this row stores for the key
              [start, length, n]  the same, as the n elements of a list

Node names, keys, edges, sources, namespaces and stops are words; Sends, interrupts, answers and metadata are blobs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from durable_graph.errors import UnserializableValueError
from durable_graph.persistence.rows import extend, is_list, split_list, trim, untrim
from durable_graph.records import INPUT_LATER, CallRecord, ErrorRecord, Frontier, TaskRecord, Write
from durable_graph.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from durable_graph.persistence.codec import Codec
    from durable_graph.types import Command, Send

__all__ = [
    "Draft", "Page", "pack_call", "pack_frontier", "pack_task", "sources_of", "unpack_call", "unpack_frontier",
    "unpack_task",
]  # fmt: skip

SMALLEST_CUT: Final = 12
"""Encodings shorter than this are stored again: pointing to them would not save anything."""


class Draft:
    """A row being put together. It changes nothing but itself: when a value does not encode, it is dropped.

    numbers: the words known so far. words, blobs: the words that this row introduces and the encodings that it
    holds, with their numbers, in order.

    What becomes of keys in this row, by key:

    entries: what the row says about it (`line.advance`); every key that changes has one.
    wholes: the encoding of its whole value, where that is known.
    pieces: the bytes that are stored for it (of a log: the new elements), and from where on in them its next write
    is looked for.
    apart: kind and payload of the row apart that holds the piece; and the encoded elements of a list whose next
    append must be found by comparing, else None.
    """

    __slots__ = ("_encoded", "apart", "blobs", "codec", "entries", "numbers", "pieces", "wholes", "words")

    def __init__(self, codec: Codec, numbers: Mapping[str, int]) -> None:
        self.codec = codec
        self._encoded: dict[int, bytes] = {}
        self.numbers = numbers
        self.words: dict[str, int] = {}
        self.blobs: dict[bytes, int] = {}
        self.entries: dict[str, Any] = {}
        self.wholes: dict[str, bytes] = {}
        self.pieces: dict[str, tuple[bytes, int]] = {}
        self.apart: dict[str, tuple[int, bytes, tuple[bytes, ...] | None]] = {}

    def word(self, text: str) -> int:
        """The number of a word. Where it matters, callers look into `numbers` first and save the call."""
        if text in self.numbers:
            return self.numbers[text]
        words = self.words
        if text not in words:
            words[text] = len(self.numbers) + len(words)
        return words[text]

    def blob(self, data: bytes) -> int:
        """The number of the blob with these bytes."""
        blobs = self.blobs
        if data not in blobs:
            blobs[data] = len(blobs)
        return blobs[data]

    def encode(self, value: Any, what: str, key: str = "", node: str = "") -> bytes:
        """The value's encoding. One object is encoded once per row, be it a write and a value and a Send.

        Raises UnserializableValueError that says where the value is: `what`, and the key or the node, if given.
        """
        # By identity, never by equality (1 == True); what is asked for stays alive in the record meanwhile.
        # Encodings that came with the record do not go in here: a reducer may have changed the object since.
        identity = id(value)
        if identity not in self._encoded:
            try:
                self._encoded[identity] = self.codec.encode(value)
            except UnserializableValueError as error:
                extend(error, f"in {_where(what, key, node)}")
                raise
            except Exception as error:  # from an encode function of the user's: theirs, we say where
                error.add_note(f"Raised while storing {_where(what, key, node)}")
                raise
        return self._encoded[identity]


def _where(what: str, key: str, node: str) -> str:
    return what + (key and f" {key!r}") + (node and f" of node {node!r}")


# --- writing ------------------------------------------------------------------------------------------------


def pack_task(draft: Draft, task: TaskRecord) -> list[Any]:
    """A task's structure. What its writes can point to must be in the draft already."""
    numbers, wholes, node = draft.numbers, draft.wholes, task.node
    name = numbers[node] if node in numbers else draft.word(node)
    writes: list[Any] = []
    for key, value, known in task.writes or ():
        data = draft.encode(value, "key", key, node) if known is None else known
        source = True if key in wholes and wholes[key] == data else _find_piece(draft, key, data)
        writes += (numbers[key] if key in numbers else draft.word(key), source)
    packed: list[Any] = [
        name,
        None if task.path == node else _pack_path(task),
        task.id,
        task.started or None,
        task.duration or None,
        None if task.writes is None else writes,
    ]
    marked = task.routes or task.attempt != 1 or task.error or task.interrupts or task.answered or task.rejected
    if marked or task.children:
        packed += (
            [_pack_route(draft, route, node) for route in task.routes] or None,
            None if task.attempt == 1 else task.attempt,
            None if task.error is None else list(task.error),
            [draft.blob(draft.encode(asked, "an interrupt", node=node)) for asked in task.interrupts] or None,
            list(task.answered) or None,
            list(task.rejected) or None,
            [part for ns, at in task.children.items() for part in (draft.word(ns), *at)] or None,
        )
    return packed if packed[-1] is not None else trim(packed)


def _pack_path(task: TaskRecord) -> int | str:
    node, _, number = task.path.rpartition("#")
    # str(int(...)) so that "node#007" stays what it is.
    plain = node == task.node and number.isascii() and number.isdigit() and str(int(number)) == number
    return int(number) if plain else task.path


def _pack_route(draft: Draft, route: str | Send | Command[Any], node: str) -> int | list[int]:
    if isinstance(route, str):
        return draft.word(route)
    what = "a Send or Command"
    return [draft.blob(draft.encode(route, what, getattr(route, "node", ""), node))]


def pack_call(draft: Draft, call: CallRecord) -> list[Any]:
    """A recorded step's structure."""
    return trim(
        [
            draft.word(call.task),
            draft.word(call.name),
            call.digest,
            call.number or None,
            None if call.data is None else draft.blob(call.data),
            None if call.error is None else list(call.error),
            None if call.attempt == 1 else call.attempt,
            call.started or None,
            call.duration or None,
        ]
    )


def _find_piece(draft: Draft, key: str, data: bytes) -> int | list[int]:
    """Where in the bytes that the row stores for the key the written ones are; a blob when they are nowhere."""
    if key not in draft.pieces or len(data) < SMALLEST_CUT:
        return draft.blob(data)
    # Several writes of one key were appended one after the other: each is looked for behind the one before.
    piece, cursor = draft.pieces[key]
    count, skip = split_list(data) if is_list(data) else (None, 0)
    body = data[skip:]
    start = piece.find(body, cursor)
    if start < 0:
        return draft.blob(data)
    draft.pieces[key] = (piece, start + len(body))
    return [start, len(body)] if count is None else [start, len(body), count]


@lru_cache(maxsize=16)
def _input_later(codec: Codec) -> bytes:
    """The encoding of the one Send that nearly every run begins with."""
    return codec.encode(INPUT_LATER)


def pack_frontier(draft: Draft, frontier: Frontier) -> list[Any] | None:
    """A frontier's structure; None when nothing runs next."""
    numbers, word = draft.numbers, draft.word
    nodes: list[int] = []
    for node in frontier.nodes:
        nodes += (numbers[node] if node in numbers else word(node),)
    if not (frontier.sends or frontier.arrived or frontier.deferred):
        return [nodes] if nodes else None
    sends: list[int] = []
    for send in frontier.sends:
        data = _input_later(draft.codec) if send is INPUT_LATER else draft.encode(send, "a Send to", send.node)
        sends += (draft.blob(data),)
    arrived = frontier.arrived
    return [
        nodes,
        sends,
        {word(edge): [word(source) for source in arrived[edge]] for edge in arrived} if arrived else {},
        *([[word(node) for node in frontier.deferred]] if frontier.deferred else ()),
    ]


# --- reading ------------------------------------------------------------------------------------------------


class Page(NamedTuple):
    """What is needed to read one row's structure.

    decode: makes a user's value from its encoding; its second argument says what it is, for the text of errors.
    """

    words: list[str]
    blobs: list[bytes]
    decode: Callable[[bytes, str], Any]

    def word(self, number: int) -> str:
        """The word with this number."""
        return self.words[number]

    def value(self, blob: int, what: str) -> Any:
        """The value whose encoding is the blob with this number."""
        return self.decode(self.blobs[blob], what)


def sources_of(page: Page, task: list[Any]) -> Iterable[tuple[str, Any]]:
    """(key, source) of each write in a task's structure."""
    writes, words = untrim(task, 6)[5] or (), page.words
    return [(words[key], source) for key, source in zip(writes[::2], writes[1::2], strict=True)]


def unpack_task(page: Page, packed: list[Any], find: Callable[[str, Any], bytes] | None) -> TaskRecord:
    """The task again.

    find: gives the bytes of a key's source that is no blob; None leaves out the values of writes (they are
    MISSING).
    """
    node: int
    node, path, task_id, started, duration, writes, routes, *rest = untrim(packed, 13)
    attempt, error, interrupts, answered, rejected, children = rest
    name = page.words[node]
    return TaskRecord(
        path=name if path is None else f"{name}#{path}" if isinstance(path, int) else path,
        node=name,
        id=task_id,
        attempt=1 if attempt is None else attempt,
        started=started or 0.0,
        duration=duration or 0.0,
        writes=None if writes is None else tuple(_writes(page, packed, find, name)),
        routes=tuple([_route(page, route, name) for route in routes]) if routes else (),
        error=None if error is None else ErrorRecord(*error),
        interrupts=tuple([page.value(blob, f"an interrupt of node {name!r}") for blob in interrupts or ()]),
        answered=tuple(answered or ()),
        rejected=tuple(rejected or ()),
        children=_children(page, children) if children else {},
    )


def _children(page: Page, packed: Sequence[int]) -> dict[str, tuple[int, int]]:
    return {page.word(packed[at]): (packed[at + 1], packed[at + 2]) for at in range(0, len(packed), 3)}


def unpack_call(page: Page, packed: list[Any]) -> CallRecord:
    """The recorded step again; its result stays encoded until somebody wants it."""
    task, name, digest, number, data, error, attempt, started, duration = untrim(packed, 9)
    return CallRecord(
        page.word(task),
        page.word(name),
        digest,
        number or 0,
        None if data is None else page.blobs[data],
        None if error is None else ErrorRecord(*error),
        attempt or 1,
        started or 0.0,
        duration or 0.0,
    )


def _writes(page: Page, packed: list[Any], find: Callable[[str, Any], bytes] | None, node: str) -> list[Write]:
    sources = sources_of(page, packed)
    if find is None:
        return [Write(key, MISSING) for key, _ in sources]
    found: list[Write] = []
    for key, source in sources:
        inline = isinstance(source, int) and source is not True
        data = page.blobs[source] if inline else find(key, source)
        found.append(Write(key, page.decode(data, f"key {key!r} written by node {node!r}")))
    return found


def _route(page: Page, route: Any, node: str) -> Any:
    return page.word(route) if isinstance(route, int) else page.value(route[0], f"a Send by node {node!r}")


def unpack_frontier(page: Page, packed: list[Any] | None) -> Frontier:
    """The frontier again."""
    if packed is None:
        return Frontier()
    words = page.words
    nodes: list[int] | None
    deferred: list[int] | None
    arrived: dict[int, list[int]] | None
    nodes, sends, arrived, deferred = untrim(packed, 4)
    return Frontier(
        nodes=tuple([words[node] for node in nodes or ()]),
        sends=tuple([page.value(send, "a Send") for send in sends or ()]),
        arrived={words[edge]: tuple([words[one] for one in sources]) for edge, sources in (arrived or {}).items()},
        deferred=tuple([words[node] for node in deferred or ()]),
    )
