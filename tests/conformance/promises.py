"""What every checkpointer promises, as plain functions over a factory; they need no pytest.

`make()` gives another checkpointer over the same data (for memory: the same object). `face` gives the reading verbs,
sync or async, under one set of names.
"""

import asyncio
import threading
from contextlib import suppress

from durable_graph.errors import InternalError
from durable_graph.records import (
    BASE,
    DELTA,
    MAIN,
    PENDING,
    VALUE,
    Claim,
    ClaimRequest,
    CommitItem,
    LaneInfo,
    Row,
    RowRange,
)
from tests.conformance.acting import FIRST_LANE, create, refusal, seqs, start, step, take_over, together

# --- claims --------------------------------------------------------------------------------------------------------


def an_unknown_thread_is_none(make, face):
    assert face.load(make(), "nobody") is None


def a_claim_makes_the_thread_with_its_lanes_and_rows(make, face):
    claim = start(make())
    loaded = face.load(make(), "thread")
    assert loaded.thread == (claim.no, "thread", claim.epoch, "first owner", "running")
    assert loaded.lanes == (LaneInfo(1, "", 0, 0, 1),)
    assert (loaded.lane, loaded.rows) == (1, (Row(1, MAIN, 1, BASE, b"base"),))


def the_first_epoch_is_the_one_asked_for(make, face):
    request = create("thread", "me")._replace(new_epoch=2**62)
    assert make().claim(request).epoch == 2**62
    assert face.load(make(), "thread").thread.epoch == 2**62


def numbers_of_threads_differ(make, face):
    checkpointer = make()
    assert len({start(checkpointer, key=f"thread {n}").no for n in range(5)}) == 5


def a_thread_that_exists_is_not_made_again(make, face):
    checkpointer = make()
    start(checkpointer)
    assert checkpointer.claim(create("thread", "other")) is None
    assert face.load(checkpointer, "thread").thread.owner == "first owner"


def a_claim_raises_the_epoch_by_one(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    assert take_over(checkpointer, claim, seen=1) == Claim(claim.no, claim.epoch + 1)


def a_claim_of_an_unknown_thread_by_epoch_is_refused(make, face):
    assert make().claim(ClaimRequest("nobody", "me", 5, 6, 1, 0, (), ())) is None


def a_claim_by_an_old_epoch_is_refused(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    take_over(checkpointer, claim, seen=1)
    assert take_over(checkpointer, claim, seen=1, owner="third owner") is None
    assert face.load(checkpointer, "thread").thread.owner == "second owner"


def a_claim_that_has_not_seen_the_newest_row_is_refused(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    checkpointer.commit([step(claim, 2)])
    assert take_over(checkpointer, claim, seen=1) is None
    assert take_over(checkpointer, claim, seen=2) is not None


def a_claim_over_stored_rows_changes_nothing(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    request = ClaimRequest(
        "thread", "other", claim.epoch, claim.epoch + 1, 2, 0, (), (Row(1, MAIN, 1, BASE, b"other"),)
    )
    assert "lane 1, seq 1" in refusal(lambda: checkpointer.claim(request))
    assert face.load(checkpointer, "thread").thread.epoch == claim.epoch


# --- fencing -------------------------------------------------------------------------------------------------------


def a_stale_item_is_refused(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    take_over(checkpointer, claim, seen=1)
    assert checkpointer.commit([step(claim, 2)]) == ["stale"]
    assert seqs(face, checkpointer) == [1]


def a_group_of_a_zombie_is_refused_as_a_whole(make, face):
    checkpointer = make()
    old = start(checkpointer)
    new = take_over(checkpointer, old, seen=1)
    assert checkpointer.commit([step(new, 11)]) == ["written"]
    assert checkpointer.commit([step(old, seq, b"zombie") for seq in (11, 12, 13)]) == ["stale"] * 3
    assert seqs(face, checkpointer) == [1, 11]


def a_stale_item_does_not_hurt_its_group(make, face):
    checkpointer = make()
    lost, kept = start(checkpointer, key="lost"), start(checkpointer, key="kept")
    take_over(checkpointer, lost, seen=1, key="lost")
    items = [step(kept, 2), step(lost, 2), step(kept, 3), step(lost, 3, status="done")]
    assert checkpointer.commit(items) == ["written", "stale", "written", "stale"]
    assert seqs(face, checkpointer, "kept") == [1, 2, 3]
    assert seqs(face, checkpointer, "lost") == [1]
    assert face.load(checkpointer, "lost").thread.owner == "second owner"


def a_claim_on_a_thread_that_never_was_is_stale(make, face):
    checkpointer = make()
    start(checkpointer)
    assert checkpointer.commit([step(Claim(77, 5), 1)]) == ["stale"]
    assert checkpointer.commit([step(Claim(0, 5), 1)]) == ["stale"]


def a_stale_item_brings_neither_lanes_nor_status(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    take_over(checkpointer, claim, seen=1)
    item = CommitItem(claim, (Row(2, MAIN, 2, BASE, b""),), (LaneInfo(2, "child", 1, 1, 0),), "done")
    assert checkpointer.commit([item]) == ["stale"]
    loaded = face.load(checkpointer, "thread")
    assert (loaded.lanes, loaded.thread.status) == ((LaneInfo(1, "", 0, 0, 1),), "running")


# --- sending again -------------------------------------------------------------------------------------------------


def the_same_item_again_is_already_mine(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    large = CommitItem(
        claim,
        (Row(2, MAIN, 3, BASE, b"a"), Row(2, 7, 3, VALUE, b"b")),
        (LaneInfo(2, "child", 1, 1, 0),),
        "done",
    )
    for item in (step(claim, 2), large):
        assert checkpointer.commit([item]) == ["written"]
        assert checkpointer.commit([item]) == ["already mine"]
    assert checkpointer.commit([step(claim, 2), large, step(claim, 4)]) == ["already mine", "already mine", "written"]


def other_bytes_at_the_same_place_are_a_bug(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    checkpointer.commit([step(claim, 2)])
    pair = (Row(1, MAIN, 2, DELTA, b"step"), Row(1, MAIN, 3, DELTA, b"step"))  # only half of it is stored
    for item in (
        step(claim, 2, b"other"),
        CommitItem(claim, (pair[0]._replace(kind=PENDING),)),
        CommitItem(claim, pair),
    ):
        text = refusal(lambda item=item: checkpointer.commit([item]))
        assert f"Thread number {claim.no}, lane 1, seq" in text
    assert seqs(face, checkpointer) == [1, 2]


def a_lane_sent_again_with_another_parent_is_a_bug(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    item = CommitItem(claim, (Row(2, MAIN, 2, BASE, b""),), (LaneInfo(2, "child", 1, 1, 0),))
    checkpointer.commit([item])
    for lane in (LaneInfo(2, "child", 1, 9, 0), LaneInfo(2, "other", 1, 1, 0)):
        assert "lane 2" in refusal(lambda lane=lane: checkpointer.commit([item._replace(new_lanes=(lane,))]))
    only_lane = item._replace(rows=())
    assert checkpointer.commit([item, only_lane]) == ["already mine", "already mine"]
    assert face.load(checkpointer, "thread").lanes[1] == LaneInfo(2, "child", 1, 1, 2)


def an_item_whose_lane_is_there_and_whose_row_is_not_is_a_bug(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    lane = LaneInfo(2, "child", 1, 1, 0)
    assert checkpointer.commit([CommitItem(claim, (), (lane,))]) == ["written"]
    assert "lane 2" in refusal(lambda: checkpointer.commit([CommitItem(claim, (Row(2, MAIN, 2, BASE, b""),), (lane,))]))
    assert face.load(checkpointer, "thread", lane=2).rows == ()


def an_item_with_nothing_in_it_says_whether_the_claim_holds(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    empty = CommitItem(claim, ())
    assert checkpointer.commit([empty]) == ["already mine"]
    assert checkpointer.commit([empty._replace(claim=Claim(claim.no, claim.epoch + 1))]) == ["stale"]


def a_claim_of_lanes_that_are_there_changes_nothing(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    for row in (Row(1, MAIN, 2, DELTA, b""), Row(1, MAIN, 1, BASE, b"base")):
        request = ClaimRequest("thread", "other", claim.epoch, claim.epoch + 1, 1, 1, (FIRST_LANE,), (row,))
        assert f"Thread number {claim.no}" in refusal(lambda request=request: checkpointer.claim(request))
    assert face.load(checkpointer, "thread").thread[2:4] == (claim.epoch, "first owner")
    assert seqs(face, checkpointer) == [1]


def an_item_is_stored_whole_or_not_at_all(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    checkpointer.commit([step(claim, 3)])
    lane = LaneInfo(2, "child", 1, 1, 0)
    clash = CommitItem(claim, (Row(2, MAIN, 2, BASE, b""), Row(1, MAIN, 3, DELTA, b"other")), (lane,), "done")
    with suppress(InternalError):
        assert checkpointer.commit([clash]) == ["never"]
    loaded = face.load(checkpointer, "thread")
    assert [info.lane for info in loaded.lanes] == [1]
    assert loaded.thread.owner == "first owner"
    assert face.read(checkpointer, claim.no, [RowRange(2, MAIN, 0, 9)]) == [[]]


def giving_back_frees_the_thread_and_keeps_the_epoch(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    assert checkpointer.commit([step(claim, 2, status="done")]) == ["written"]
    assert face.load(checkpointer, "thread").thread == (claim.no, "thread", claim.epoch, None, "done")
    assert take_over(checkpointer, claim, seen=2) == Claim(claim.no, claim.epoch + 1)
    assert face.load(checkpointer, "thread").thread.status == "running"


def giving_back_needs_no_row(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    release = CommitItem(claim, (), (), "waiting")
    assert checkpointer.commit([release]) == ["written"]
    assert checkpointer.commit([release]) == ["already mine"]
    assert checkpointer.commit([release._replace(claim=Claim(claim.no, claim.epoch + 1))]) == ["stale"]
    assert face.load(checkpointer, "thread").thread.status == "waiting"


def no_items_are_no_outcomes(make, face):
    assert make().commit([]) == []


# --- reading -------------------------------------------------------------------------------------------------------


def rows_come_in_order_of_seq(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    for seq in (9, 3, 7, 5):
        checkpointer.commit([step(claim, seq)])
    assert seqs(face, checkpointer) == [1, 3, 5, 7, 9]
    [rows] = face.read(checkpointer, claim.no, [RowRange(1, MAIN, 2, 8)])
    assert [row.seq for row in rows] == [3, 5, 7]


def a_load_starts_at_the_last_base(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    for seq in range(2, 8):
        kind = BASE if seq in {3, 6} else DELTA
        checkpointer.commit([CommitItem(claim, (Row(1, MAIN, seq, kind, b""), Row(1, 4, seq, VALUE, b"apart")))])
    first = {upto: face.load(checkpointer, "thread", upto=upto).rows[0].seq for upto in (None, 7, 6, 5, 3, 2, 1, 0)}
    assert first == {None: 6, 7: 6, 6: 6, 5: 3, 3: 3, 2: 1, 1: 1, 0: 1}
    loaded = face.load(checkpointer, "thread", upto=5)
    assert [(row.part, row.seq) for row in loaded.rows] == [(MAIN, seq) for seq in (3, 4, 5, 6, 7)]


def the_newest_lane_of_a_namespace_is_loaded(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    lanes = (LaneInfo(2, "child", 1, 1, 0), LaneInfo(3, "", 1, 1, 0), LaneInfo(4, "child", 1, 2, 0))
    rows = (Row(2, MAIN, 4, BASE, b"2"), Row(3, MAIN, 2, BASE, b"3"), Row(4, MAIN, 3, BASE, b"4"))
    checkpointer.commit([CommitItem(claim, rows, lanes)])
    loaded = face.load(checkpointer, "thread")
    assert loaded.lanes == (
        LaneInfo(1, "", 0, 0, 1),
        LaneInfo(2, "child", 1, 1, 4),
        LaneInfo(3, "", 1, 1, 2),
        LaneInfo(4, "child", 1, 2, 3),
    )
    assert (loaded.lane, loaded.rows) == (3, (rows[1],))
    assert face.load(checkpointer, "thread", ns="child").rows == (rows[0],)
    assert face.load(checkpointer, "thread", lane=4).rows == (rows[2],)


def an_unknown_lane_or_namespace_has_no_rows(make, face):
    checkpointer = make()
    start(checkpointer)
    assert face.load(checkpointer, "thread", lane=9).rows == ()
    loaded = face.load(checkpointer, "thread", ns="nothing")
    assert (loaded.lane, loaded.rows) == (0, ())


def ranges_come_in_the_order_asked_for(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    rows = tuple(Row(1, part, seq, VALUE, b"%d.%d" % (part, seq)) for part in (0, 1, 2) for seq in range(2, 6))
    checkpointer.commit([CommitItem(claim, rows)])
    wanted = [RowRange(1, 2, 3, 4), RowRange(1, 1, 5, 2**62), RowRange(1, 2, 3, 3), RowRange(3, 1, 0, 9)]
    found = face.read(checkpointer, claim.no, wanted)
    assert [[row.data for row in part] for part in found] == [[b"2.3", b"2.4"], [b"1.5"], [b"2.3"], []]
    assert all(type(row) is Row for part in found for row in part)
    assert face.read(checkpointer, claim.no, []) == []
    assert face.read(checkpointer, 99, wanted) == [[], [], [], []]


def many_ranges_are_read_at_once(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    checkpointer.commit([CommitItem(claim, tuple(Row(1, 1, seq, VALUE, b"%d" % seq) for seq in range(2, 3002)))])
    found = face.read(checkpointer, claim.no, [RowRange(1, 1, seq, seq) for seq in range(2, 3002)])
    assert [part[0].seq for part in found] == list(range(2, 3002))


def odd_text_is_text(make, face):
    checkpointer = make()
    odd = [
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
    ]
    for n, key in enumerate(odd):
        claim = start(checkpointer, key=key, rows=(Row(1, MAIN, 1, BASE, b"%d" % n),))
        lane = LaneInfo(2, key, 1, 1, 0)
        assert checkpointer.commit([CommitItem(claim, (Row(2, MAIN, 2, BASE, b"child"),), (lane,))]) == ["written"]
    for n, key in enumerate(odd):
        loaded = face.load(make(), key, lane=1)
        assert (loaded.thread.key, loaded.rows[0].data) == (key, b"%d" % n)
        assert loaded.lanes[1].ns == key
        assert face.load(checkpointer, key, ns=key).rows[-1].data == b"child" or key == ""


def a_row_of_20_megabytes_comes_back(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    data = bytes(range(256)) * (20 * 4096)
    assert checkpointer.commit([CommitItem(claim, (Row(1, 3, 2, VALUE, data), Row(1, MAIN, 2, DELTA, b"")))]) == [
        "written"
    ]
    assert face.read(make(), claim.no, [RowRange(1, 3, 2, 2)])[0][0].data == data


def empty_and_binary_data_come_back(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    for seq, data in enumerate((b"", b"\0", b"\xff\xfe", b"text"), start=2):
        checkpointer.commit([step(claim, seq, data)])
    assert [row.data for row in face.load(checkpointer, "thread").rows[1:]] == [b"", b"\0", b"\xff\xfe", b"text"]


# --- at the same time ----------------------------------------------------------------------------------------------


def of_many_claims_exactly_one_wins_each_epoch(make, face):
    checkpointers = [make() for _ in range(8)]
    claims = together(8, lambda n: checkpointers[n].claim(create("thread", f"{n}")))
    for _ in range(10):
        [winner] = [claim for claim in claims if claim is not None]
        thread = face.load(checkpointers[0], "thread").thread
        assert (thread.epoch, thread.owner) == (winner.epoch, f"{claims.index(winner)}")
        claims = together(8, lambda n, old=winner: take_over(checkpointers[n], old, seen=0, owner=f"{n}"))


def commits_of_many_os_threads_are_all_kept(make, face):
    checkpointer = make()
    claims = [start(checkpointer, key=f"{n}") for n in range(8)]

    def work(n):
        outcomes = []
        for seq in range(2, 52, 5):
            outcomes += checkpointer.commit([step(claims[n], seq, b"%d" % seq)])
            outcomes += checkpointer.commit([step(claims[n], seq + more, b"%d" % n) for more in range(1, 5)])
        return outcomes

    assert together(8, work) == [["written"] * 50] * 8
    for n in range(8):
        assert seqs(face, checkpointer, f"{n}") == list(range(1, 52))


def reading_goes_on_while_others_write(make, face):
    checkpointer = make()
    claim = start(checkpointer)
    done = threading.Event()

    def work(n):
        if n == 0:
            for seq in range(2, 202, 2):
                checkpointer.commit(
                    [CommitItem(claim, (Row(1, MAIN, seq, DELTA, b""), Row(1, MAIN, seq + 1, DELTA, b"")))]
                )
            done.set()
            return None
        seen = [1]
        while not done.is_set():
            loaded = face.load(checkpointer, "thread")
            assert [row.seq for row in loaded.rows] == list(range(1, len(loaded.rows) + 1))
            assert len(loaded.rows) % 2 == 1  # an item is seen whole
            assert loaded.lanes[0].last == loaded.rows[-1].seq  # one state of the database
            seen.append(len(loaded.rows))
        return seen

    for seen in together(3, work)[1:]:
        assert seen == sorted(seen)
    assert len(seqs(face, checkpointer)) == 201


def one_object_serves_several_event_loops(make, face):
    checkpointer = make()
    claim = start(checkpointer)

    async def use(seq):
        await checkpointer.asetup()
        await asyncio.gather(*(checkpointer.aload("thread") for _ in range(10)))
        checkpointer.commit([step(claim, seq)])
        long = await checkpointer.aread(claim.no, [RowRange(1, MAIN, 0, 2**40)])
        return [row.seq for row in long[0]]

    assert asyncio.run(use(2)) == [1, 2]
    assert asyncio.run(use(3)) == [1, 2, 3]


def closing_does_not_end_the_object(make, face):
    checkpointer = make()
    with checkpointer as same:
        assert same is checkpointer
        checkpointer.setup()
    checkpointer.close()

    async def use():
        async with checkpointer as same:
            assert same is checkpointer
            return await checkpointer.aload("nobody")

    assert asyncio.run(use()) is None
    claim = start(checkpointer)
    assert checkpointer.commit([step(claim, 2)]) == ["written"]


def identity_says_who_shares_data(make, face):
    checkpointer = make()
    assert checkpointer.identity == make().identity
    assert hash(checkpointer.identity) == hash(make().identity)


PROMISES = {name: value for name, value in list(globals().items()) if getattr(value, "__module__", "") == __name__}
