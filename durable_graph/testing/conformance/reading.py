"""Promises about reading: which rows come, in which order, and that they come back as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from durable_graph.records import BASE, DELTA, MAIN, VALUE, CommitItem, LaneInfo, Row, RowRange, ThreadInfo
from durable_graph.testing.conformance.acting import expect, loaded, seqs, start, step
from durable_graph.testing.conformance.promise import promise

if TYPE_CHECKING:
    from durable_graph.testing.conformance.acting import Face
    from durable_graph.testing.conformance.promise import Backend

__all__: list[str] = []

_MANY = 3_000
_MEGABYTES = 20

_ODD_TEXTS = (
    "",
    "a",
    "a\0",
    "a\0b",
    "\ud800",
    "\udc80",
    "\ud83d\ude00",
    "😀",
    "é",
    "e\u0301",
    "A",
    "a ",
    "%_'\"",
    "x" * 5000,
)


@promise()
def rows_come_in_order_of_seq(backend: Backend, face: Face) -> None:
    """Rows come in order of seq, in whichever order they were written."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    for seq in (9, 3, 7, 5):
        expect(f"the outcome of seq {seq}", checkpointer.commit([step(claim, seq)]), ["written"])
    expect("the seqs that load shows", seqs(face, checkpointer), [1, 3, 5, 7, 9])
    [rows] = face.read(checkpointer, claim.no, [RowRange(1, MAIN, 2, 8)])
    expect("the seqs from 2 to 8", [row.seq for row in rows], [3, 5, 7])


@promise()
def a_load_starts_at_the_last_base(backend: Backend, face: Face) -> None:
    """A load shows part 0 of the lane, from the last BASE with seq <= upto on; without one, from the first row."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    for seq in range(2, 8):
        rows = (Row(1, MAIN, seq, BASE if seq in {3, 6} else DELTA, b""), Row(1, 4, seq, VALUE, b"apart"))
        expect(f"the outcome of seq {seq}", checkpointer.commit([CommitItem(claim, rows)]), ["written"])
    for upto, first in {None: 6, 7: 6, 6: 6, 5: 3, 3: 3, 2: 1, 1: 1, 0: 1}.items():
        expect(f"the first row, upto {upto}", loaded(face, checkpointer, upto=upto).rows[0].seq, first)
    found = [(row.part, row.seq) for row in loaded(face, checkpointer, upto=5).rows]
    expect("the rows, upto 5", found, [(MAIN, seq) for seq in (3, 4, 5, 6, 7)])


@promise()
def the_newest_lane_of_a_namespace_is_loaded(backend: Backend, face: Face) -> None:
    """Without `lane`, a load shows the lane of the namespace with the highest newest seq; it lists all lanes."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    lanes = (LaneInfo(2, "child", 1, 1, 0), LaneInfo(3, "", 1, 1, 0), LaneInfo(4, "child", 1, 2, 0))
    rows = (Row(2, MAIN, 4, BASE, b"2"), Row(3, MAIN, 2, BASE, b"3"), Row(4, MAIN, 3, BASE, b"4"))
    expect("the outcome", checkpointer.commit([CommitItem(claim, rows, lanes)]), ["written"])
    found = loaded(face, checkpointer)
    listed = (LaneInfo(1, "", 0, 0, 1), *(lane._replace(last=row.seq) for lane, row in zip(lanes, rows, strict=True)))
    expect("the lanes", found.lanes, listed)
    expect("lane and rows of namespace ''", (found.lane, found.rows), (3, (rows[1],)))
    expect("rows of namespace 'child'", loaded(face, checkpointer, ns="child").rows, (rows[0],))
    expect("rows of lane 4", loaded(face, checkpointer, lane=4).rows, (rows[2],))


@promise()
def an_unknown_lane_or_namespace_has_no_rows(backend: Backend, face: Face) -> None:
    """A load of an unknown lane shows the thread without rows; so does an unknown namespace, as lane 0."""
    checkpointer = backend.fresh()
    _ = start(checkpointer)
    expect("the rows of lane 9", loaded(face, checkpointer, lane=9).rows, ())
    found = loaded(face, checkpointer, ns="nothing")
    expect("lane and rows of an unknown namespace", (found.lane, found.rows), (0, ()))


@promise()
def ranges_come_in_the_order_asked_for(backend: Backend, face: Face) -> None:
    """`read` answers a list for each range, in the order of the ranges; empty where nothing is, also for no thread."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    rows = tuple(Row(1, part, seq, VALUE, b"%d.%d" % (part, seq)) for part in (0, 1, 2) for seq in range(2, 6))
    expect("the outcome", checkpointer.commit([CommitItem(claim, rows)]), ["written"])
    wanted = [RowRange(1, 2, 3, 4), RowRange(1, 1, 5, 2**62), RowRange(1, 2, 3, 3), RowRange(3, 1, 0, 9)]
    found = face.read(checkpointer, claim.no, wanted)
    expect("the data", [[row.data for row in part] for part in found], [[b"2.3", b"2.4"], [b"1.5"], [b"2.3"], []])
    expect("the types of the rows", {type(row) for part in found for row in part}, {Row})
    expect("no ranges", face.read(checkpointer, claim.no, []), [])
    expect("ranges of an unknown thread", face.read(checkpointer, 99, wanted), list[list[Row]]([[], [], [], []]))


@promise()
def many_ranges_are_read_at_once(backend: Backend, face: Face) -> None:
    """3,000 ranges can be read in one call."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    places = range(2, _MANY + 2)
    item = CommitItem(claim, tuple(Row(1, 1, seq, VALUE, b"%d" % seq) for seq in places))
    expect("the outcome", checkpointer.commit([item]), ["written"])
    found = face.read(checkpointer, claim.no, [RowRange(1, 1, seq, seq) for seq in places])
    expect("the seqs", [row.seq for part in found for row in part], list(places))


@promise()
def odd_text_is_text(backend: Backend, face: Face) -> None:
    """Keys and namespaces may hold NUL, lone surrogates and anything else; no two are taken for one."""
    checkpointer = backend.fresh()
    for n, key in enumerate(_ODD_TEXTS):
        claim = start(checkpointer, key=key, rows=(Row(1, MAIN, 1, BASE, b"%d" % n),))
        child = CommitItem(claim, (Row(2, MAIN, 2, BASE, b"child"),), (LaneInfo(2, key, 1, 1, 0),))
        expect(f"the outcome for {key!r}", checkpointer.commit([child]), ["written"])
    for n, key in enumerate(_ODD_TEXTS):
        found = loaded(face, backend.reopen(checkpointer), key, lane=1)
        expect("key and data", (found.thread.key, found.rows[0].data), (key, b"%d" % n))
        expect("the namespace", found.lanes[1].ns, key)
        expect("the rows of that namespace", loaded(face, checkpointer, key, ns=key).rows[-1].data, b"child")


@promise()
def a_row_of_20_megabytes_comes_back(backend: Backend, face: Face) -> None:
    """A row may be large."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    data = bytes(range(256)) * (_MEGABYTES * 4096)
    item = CommitItem(claim, (Row(1, 3, 2, VALUE, data), Row(1, MAIN, 2, DELTA, b"")))
    expect("the outcome", checkpointer.commit([item]), ["written"])
    [[row]] = face.read(backend.reopen(checkpointer), claim.no, [RowRange(1, 3, 2, 2)])
    expect("how many bytes came back", len(row.data), len(data))
    expect("whether they are the same", row.data == data, wanted=True)


@promise()
def empty_and_binary_data_come_back(backend: Backend, face: Face) -> None:
    """The data of a row are bytes: none, NUL, no text at all."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    told = (b"", b"\0", b"\xff\xfe", b"text")
    for seq, data in enumerate(told, start=2):
        expect(f"the outcome for {data!r}", checkpointer.commit([step(claim, seq, data)]), ["written"])
    expect("the data", tuple(row.data for row in loaded(face, checkpointer).rows[1:]), told)


# --- which threads there are -----------------------------------------------------------------------------------------


@promise("lists_threads")
def threads_are_listed_as_they_are_loaded(backend: Backend, face: Face) -> None:
    """`threads` shows every thread as `load` does, in order of their numbers, whoever has them."""
    checkpointer = backend.fresh()
    expect("the threads of empty data", face.threads(checkpointer), list[ThreadInfo]())
    keys = [key for key in _ODD_TEXTS if "\0" not in key]
    claims = [start(checkpointer, key=key, owner=f"owner of {key!r}") for key in keys]
    expect("the outcome", checkpointer.commit([step(claims[1], 2, status="waiting")]), ["written"])
    found = [thread._replace(lease=None) for thread in face.threads(backend.reopen(checkpointer))]
    shown = [loaded(face, checkpointer, key).thread._replace(lease=None) for key in keys]
    expect("the threads", found, sorted(shown))


@promise("lists_threads")
def a_list_of_threads_comes_page_by_page(backend: Backend, face: Face) -> None:
    """`threads` shows at most `limit` threads, those with the lowest numbers above `after`."""
    checkpointer = backend.fresh()
    numbers = sorted(start(checkpointer, key=f"{n}").no for n in range(7))
    pages = [face.threads(checkpointer, after=after, limit=3) for after in (0, numbers[2], numbers[5], numbers[6])]
    found = [[thread.no for thread in page] for page in pages]
    expect("the numbers, page by page", found, [numbers[:3], numbers[3:6], numbers[6:], []])
