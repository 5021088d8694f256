"""Backends that break one promise each: `BROKEN[name]` opens one that breaks the promise of that name and no other.

Each is a working backend with one narrow fault, so that a promise that is asked carelessly (and would be kept, or
blamed, for another reason) is found.
"""

import asyncio
import os
import time

from checkpointers import InMemorySaver, SqliteSaver
from durable_graph import Checkpointer
from durable_graph.errors import InternalError
from durable_graph.records import Claim, LoadedThread, RowRange, ThreadInfo
from durable_graph.testing.conformance import CAPABILITIES

BROKEN = {}


def breaks(name):
    """The backend of this class breaks the promise `name`."""

    def register(cls):
        assert name not in BROKEN
        BROKEN[name] = cls
        return cls

    return register


class Sound(Checkpointer):
    """A backend in memory with a place for faults: it knows the claims, and can be asked what is stored."""

    instant = True
    offers = frozenset({"survives_fork", "lists_threads"})

    def __init__(self, folder=None):
        self.inner = InMemorySaver()
        self.keys = {}
        self.epochs = {}

    @property
    def identity(self):
        return self.inner.identity

    def load(self, key, **options):
        return self.inner.load(key, **options)

    def read(self, no, ranges):
        return self.inner.read(no, ranges)

    def threads(self, after=0, limit=1000):
        return self.inner.threads(after, limit)

    def claim(self, request):
        claim = self.inner.claim(request)
        if claim is not None:
            self.keys[claim.no], self.epochs[claim.no] = request.key, claim.epoch
        return claim

    def commit(self, items):
        return [self.commit_one(item) for item in items]

    def commit_one(self, item):
        return self.inner.commit([item])[0]

    def current(self, item):
        """The item under whatever claim holds now."""
        return item._replace(claim=Claim(item.claim.no, self.epochs[item.claim.no]))

    def stored(self, item, row):
        found = self.inner.read(item.claim.no, [RowRange(row.lane, row.part, row.seq, row.seq)])[0]
        return found[0] if found else None

    def lanes(self, item):
        return [lane.lane for lane in self.inner.load(self.keys[item.claim.no]).lanes]


# --- claims ----------------------------------------------------------------------------------------------------------


@breaks("an_unknown_thread_is_none")
class Inventive(Sound):
    def load(self, key, **options):
        known = super().load(key, **options)
        return LoadedThread(ThreadInfo(0, key, 0, None, ""), (), 0, ()) if known is None and key == "nobody" else known


@breaks("a_claim_makes_the_thread_with_its_lanes_and_rows")
class NewStatus(Sound):
    def load(self, key, **options):
        found = super().load(key, **options)
        new = found is not None and found.thread.owner == "first owner" and found.thread.status == "running"
        return found._replace(thread=found.thread._replace(status="new")) if new else found


@breaks("the_first_epoch_is_the_one_asked_for")
class ShortEpochs(Sound):
    def claim(self, request):
        return super().claim(request._replace(new_epoch=min(request.new_epoch, 2**32 - 1)))


@breaks("numbers_of_threads_differ")
class NumbersUsedAgain(Sound):
    def claim(self, request):
        claim = super().claim(request)
        return claim._replace(no=1) if request.key == "thread 4" else claim


@breaks("a_thread_that_exists_is_not_made_again")
class MakesAgain(Sound):
    def claim(self, request):
        claim = super().claim(request)
        if claim is None and request.epoch is None and request.owner == "other":
            thread = self.load(request.key).thread
            taken = request._replace(epoch=thread.epoch, new_epoch=thread.epoch + 1, new_lanes=(), seen=9)
            return super().claim(taken)
        return claim


@breaks("a_claim_brings_the_epoch_it_asks_for")
class LongSteps(Sound):
    def claim(self, request):
        return super().claim(request._replace(new_epoch=request.new_epoch + (request.epoch is not None)))


@breaks("a_claim_of_an_unknown_thread_by_epoch_is_refused")
class MakesByEpoch(Sound):
    def claim(self, request):
        unknown = request.epoch is not None and self.load(request.key) is None
        return super().claim(request._replace(epoch=None) if unknown else request)


@breaks("a_claim_by_an_old_epoch_is_refused")
class ForgivesOldEpochs(Sound):
    def claim(self, request):
        if request.owner == "third owner":
            epoch = self.load(request.key).thread.epoch
            request = request._replace(epoch=epoch, new_epoch=epoch + 1)
        return super().claim(request)


@breaks("a_claim_that_has_not_seen_the_newest_row_is_refused")
class ForgivesBlindness(Sound):
    def claim(self, request):
        blind = request.epoch is not None and not request.rows and request.seen > 0
        return super().claim(request._replace(seen=2**40) if blind else request)


class ClaimsInTwoSteps(Sound):
    """Takes the thread over before it looks at what the claim brings."""

    def two_steps(self, request):
        try:
            return super().claim(request)
        except InternalError:
            super().claim(request._replace(rows=(), new_lanes=(), seen=9))
            raise


@breaks("a_claim_over_stored_rows_changes_nothing")
class ClaimsThenRows(ClaimsInTwoSteps):
    def claim(self, request):
        return Sound.claim(self, request) if request.new_lanes else self.two_steps(request)


@breaks("a_claim_of_lanes_that_are_there_changes_nothing")
class ClaimsThenLanes(ClaimsInTwoSteps):
    def claim(self, request):
        return self.two_steps(request) if request.new_lanes else Sound.claim(self, request)


# --- commits ---------------------------------------------------------------------------------------------------------


@breaks("a_stale_item_is_refused")
class FastPathWithoutFence(Sound):
    def commit(self, items):
        outcomes = super().commit(items)
        small = outcomes == ["stale"] and items[0].claim.no in self.keys and items[0].status is None
        if small and items[0].rows and items[0].rows[0].data == b"step":
            return super().commit([self.current(items[0])])
        return outcomes


@breaks("a_group_of_a_zombie_is_refused_as_a_whole")
class FenceOfTheFirstItem(Sound):
    def commit(self, items):
        outcomes = super().commit(items)
        if outcomes[1:] and set(outcomes) == {"stale"}:
            outcomes[1:] = super().commit([self.current(item) for item in items[1:]])
        return outcomes


@breaks("a_stale_item_does_not_hurt_its_group")
class AllOrNoGroup(Sound):
    def commit(self, items):
        lost = any(self.inner.commit([item._replace(rows=(), status=None)]) == ["stale"] for item in items[1:])
        return ["stale"] * len(items) if lost else super().commit(items)


@breaks("a_claim_on_a_thread_that_never_was_is_stale")
class NeedsTheThread(Sound):
    def commit_one(self, item):
        return super().commit_one(item) if self.keys[item.claim.no] is not None else "stale"


@breaks("a_stale_item_brings_neither_lanes_nor_status")
class LanesWithoutFence(Sound):
    def commit_one(self, item):
        outcome = super().commit_one(item)
        if outcome == "stale" and item.new_lanes:
            super().commit_one(self.current(item)._replace(rows=(), status=None))
        return outcome


@breaks("the_same_item_again_is_already_mine")
class WritesAgain(Sound):
    def commit_one(self, item):
        outcome = super().commit_one(item)
        small = len(item.rows) == 1 and item.rows[0].data == b"step" and not item.new_lanes
        return "written" if outcome == "already mine" and small else outcome


@breaks("other_bytes_at_the_same_place_are_a_bug")
class FirstRowWins(Sound):
    def commit_one(self, item):
        try:
            return super().commit_one(item)
        except InternalError:
            if item.new_lanes or len(item.rows) != 1 or item.rows[0].seq == 4711:
                raise
            return "already mine"


@breaks("a_refused_item_is_named_in_the_error")
class SaysNothing(Sound):
    def commit_one(self, item):
        try:
            return super().commit_one(item)
        except InternalError:
            raise InternalError("refused") from None


@breaks("a_lane_sent_again_with_another_parent_is_a_bug")
class LanesAreNotCompared(Sound):
    def commit_one(self, item):
        try:
            return super().commit_one(item)
        except InternalError:
            if item.new_lanes and all(self.stored(item, row) == row for row in item.rows):
                return "already mine"
            raise


@breaks("an_item_whose_lane_is_there_and_whose_row_is_not_is_a_bug")
class FillsGaps(Sound):
    def commit_one(self, item):
        try:
            return super().commit_one(item)
        except InternalError:
            if item.new_lanes and all(self.stored(item, row) is None for row in item.rows):
                return super().commit_one(item._replace(new_lanes=()))
            raise


@breaks("an_item_is_stored_whole_or_not_at_all")
class LanesOutsideOfTheTransaction(Sound):
    def commit_one(self, item):
        try:
            return super().commit_one(item)
        except InternalError:
            if item.new_lanes and item.new_lanes[0].lane not in self.lanes(item):
                super().commit_one(item._replace(rows=(), status=None))
            raise


@breaks("an_item_with_nothing_in_it_says_whether_the_claim_holds")
class NothingIsWritten(Sound):
    def commit_one(self, item):
        outcome = super().commit_one(item)
        return "written" if item[1:] == ((), (), None) and outcome == "already mine" else outcome


@breaks("no_items_are_no_outcomes")
class NeedsItems(Sound):
    def commit(self, items):
        return super().commit(items) or [super().commit_one(items[0])]


@breaks("giving_back_frees_the_thread_and_keeps_the_epoch")
class EmptyOwner(Sound):
    def load(self, key, **options):
        found = super().load(key, **options)
        free = found is not None and found.thread.owner is None and found.thread.status == "done"
        return found._replace(thread=found.thread._replace(owner="")) if free else found


@breaks("giving_back_needs_no_row")
class NeedsRowsToGiveBack(Sound):
    def commit_one(self, item):
        if item.status is not None and not item.rows and super().commit_one(item._replace(status=None)) != "stale":
            return "written"
        return super().commit_one(item)


# --- reading ---------------------------------------------------------------------------------------------------------


@breaks("rows_come_in_order_of_seq")
class OrderOfArrival(Sound):
    def __init__(self, folder=None):
        super().__init__()
        self.arrived = []

    def commit_one(self, item):
        self.arrived += item.rows
        return super().commit_one(item)

    def load(self, key, **options):
        found = super().load(key, **options)
        if found is None or len(found.rows) != 5:
            return found
        rows = sorted(found.rows, key=lambda row: self.arrived.index(row) if row in self.arrived else -1)
        return found._replace(rows=tuple(rows))


@breaks("a_load_starts_at_the_last_base")
class BeforeUpto(Sound):
    def load(self, key, *, upto=None, **options):
        return super().load(key, upto=None if upto is None else upto - 1, **options)


@breaks("the_newest_lane_of_a_namespace_is_loaded")
class HighestLane(Sound):
    def load(self, key, *, ns="", lane=None, upto=None):
        found = super().load(key, ns=ns, lane=lane, upto=upto)
        numbers = [] if found is None or lane is not None else [info.lane for info in found.lanes if info.ns == ns]
        return super().load(key, lane=max(numbers), upto=upto) if numbers else found


@breaks("an_unknown_lane_or_namespace_has_no_rows")
class NoThreadWithoutLane(Sound):
    def load(self, key, *, lane=None, **options):
        found = super().load(key, lane=lane, **options)
        unknown = found is not None and lane is not None and lane not in [info.lane for info in found.lanes]
        return None if unknown else found


@breaks("ranges_come_in_the_order_asked_for")
class SortsRanges(Sound):
    def read(self, no, ranges):
        return super().read(no, sorted(ranges))


@breaks("many_ranges_are_read_at_once")
class FewVariables(Sound):
    def read(self, no, ranges):
        return super().read(no, ranges[:1000]) + [[] for _ in ranges[1000:]]


@breaks("odd_text_is_text")
class TextEndsAtNul(Sound):
    def claim(self, request):
        return super().claim(request._replace(key=request.key.partition("\0")[0]))


@breaks("a_row_of_20_megabytes_comes_back")
class SixteenMegabytes(Sound):
    def commit_one(self, item):
        return super().commit_one(
            item._replace(rows=tuple(row._replace(data=row.data[: 2**24]) for row in item.rows)),
        )


@breaks("empty_and_binary_data_come_back")
class DataIsText(Sound):
    def commit_one(self, item):
        as_text = lambda data: data if len(data) > 100 else data.decode("utf-8", "replace").encode()
        return super().commit_one(
            item._replace(rows=tuple(row._replace(data=as_text(row.data)) for row in item.rows)),
        )


# --- sharing ---------------------------------------------------------------------------------------------------------


@breaks("of_many_claims_exactly_one_wins_each_epoch")
class ChecksThenActs(Sound):
    def claim(self, request):
        claim = super().claim(request)
        if claim is None and request.owner.isdigit():  # a racer that looked before the winner wrote
            thread = self.load(request.key).thread
            return Claim(thread.no, thread.epoch)
        return claim


@breaks("commits_of_many_os_threads_are_all_kept")
class LosesTheEndOfGroups(Sound):
    def commit(self, items):
        if len(items) == 4 and len({item.claim for item in items}) == 1:
            return [*super().commit(items[:3]), "written"]
        return super().commit(items)


@breaks("reading_goes_on_while_others_write")
class RowByRow(Sound):
    def commit_one(self, item):
        if len(item.rows) == 2 and not any(row.data for row in item.rows):
            super().commit_one(item._replace(rows=item.rows[:1]))
            time.sleep(0.002)
            return super().commit_one(item._replace(rows=item.rows[1:]))
        return super().commit_one(item)


@breaks("one_object_serves_several_event_loops")
class BoundToALoop(Sound):
    loop = None

    async def aload(self, key, **options):
        self.loop = self.loop or asyncio.get_running_loop()
        assert self.loop is asyncio.get_running_loop(), "bound to another event loop"
        return self.load(key, **options)


@breaks("closing_does_not_end_the_object")
class ClosedForGood(Sound):
    closed = False

    def close(self):
        self.closed = True

    def claim(self, request):
        assert not self.closed, "closed"
        return super().claim(request)


@breaks("identity_says_who_shares_data")
class OneIdentity(Sound):
    identity = ("all of us",)


# --- what needs a file -----------------------------------------------------------------------------------------------


class OnDisk(SqliteSaver):
    """SQLite in a folder, as `Backend` opens it."""

    offers = frozenset(CAPABILITIES)

    def __init__(self, folder):
        self.folder = folder
        super().__init__(folder / "runs.db", synchronous="NORMAL", busy_timeout=30)


@breaks("what_was_written_is_there_when_it_is_opened_again")
class Volatile(OnDisk):
    offers = frozenset({"durable"})

    def commit(self, items):
        return ["written"] if items and items[0].rows and items[0].rows[0].data == b"kept" else super().commit(items)


@breaks("of_many_processes_exactly_one_wins_each_epoch")
class EveryProcessWins(OnDisk):
    def claim(self, request):
        claim = super().claim(request)
        if claim is None and request.owner.startswith("process"):
            thread = self.load(request.key).thread
            return Claim(thread.no, thread.epoch)
        return claim


@breaks("commits_of_many_processes_are_all_kept")
class LosesWhatOthersWrote(OnDisk):
    def commit(self, items):
        if items and items[0].rows and items[0].rows[0][2:5:2] == (101, b"process 1"):
            return ["written"]
        return super().commit(items)


@breaks("what_a_killed_process_was_told_is_written_is_there")
class WritesLater(OnDisk):
    def commit(self, items):
        if items and items[0].rows and items[0].rows[0].data == b"killed" and items[0].rows[0].seq > 10:
            return ["written"]  # it would have written them at the end of the process
        return super().commit(items)


@breaks("both_sides_of_a_fork_go_on")
class OfOneProcess(OnDisk):
    offers = frozenset({"durable", "survives_fork"})

    def __init__(self, folder):
        super().__init__(folder)
        self.pid = os.getpid()

    def commit(self, items):
        assert os.getpid() == self.pid, "made by another process"
        return super().commit(items)
