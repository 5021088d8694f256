"""Backends that break one promise each about lost answers, writers that meet, and what outlasts them."""

import sys
import time

from durable_graph.records import Claim
from tests.conformance.broken import OnDisk, Sound, breaks

# --- lost answers ----------------------------------------------------------------------------------------------------


@breaks("a_claim_sent_again_changes_nothing")
class OwnersComeBack(Sound):
    """Grants a claim to who has the thread already, under a new epoch."""

    def claim(self, request):
        claim = super().claim(request)
        found = self.load(request.key) if claim is None else None
        if found is not None and (request.owner, request.new_epoch) == (found.thread.owner, found.thread.epoch):
            again = request._replace(epoch=found.thread.epoch, new_epoch=found.thread.epoch + 1, seen=2**40)
            return super().claim(again._replace(rows=(), new_lanes=()))
        return claim


@breaks("an_item_sent_again_after_a_takeover_changes_nothing")
class GivesBackAgain(Sound):
    def commit_one(self, item):
        outcome = super().commit_one(item)
        small = item.status is not None and item.rows and not item.new_lanes
        if outcome == "stale" and small and all(self.stored(item, row) == row for row in item.rows):
            super().commit_one(self.current(item))
            return "already mine"
        return outcome


# --- writers that meet -----------------------------------------------------------------------------------------------


@breaks("nothing_is_written_under_a_claim_once_another_was_granted")
class LooksThenWrites(Sound):
    def commit_one(self, item):
        if item.rows and item.rows[0].data == b"until stale":
            if super().commit_one(item._replace(rows=())) == "stale":
                return "stale"
            time.sleep(0.001)
            return super().commit_one(self.current(item))
        return super().commit_one(item)


@breaks("an_item_sent_twice_at_once_is_written_once")
class WritesTwice(Sound):
    def commit_one(self, item):
        outcome = super().commit_one(item)
        return "written" if item.rows and item.rows[0].data == b"twice" else outcome


@breaks("a_process_writes_until_another_takes_over_and_no_further")
class TakesWhatItLost(OnDisk):
    """A process of it that lost a thread takes its next epoch for its own, once."""

    taken = False

    def commit(self, items):
        outcomes = super().commit(items)
        elsewhere = "tests.conformance.test_promises" not in sys.modules
        if outcomes == ["stale"] and elsewhere and not self.taken and items[0].rows[0].data == b"until stale":
            self.taken = True
            claim = items[0].claim
            return super().commit([items[0]._replace(claim=Claim(claim.no, claim.epoch + 1))])
        return outcomes


# --- what outlasts them ----------------------------------------------------------------------------------------------


@breaks("fences_and_numbers_outlast_the_object")
class CountsInMemory(OnDisk):
    offers = frozenset({"durable"})

    def claim(self, request):
        claim = super().claim(request)
        return claim._replace(no=1) if request.key == "born later" else claim


@breaks("an_item_is_known_again_when_the_data_are_opened_again")
class RemembersInMemory(OnDisk):
    offers = frozenset({"durable"})

    def commit(self, items):
        outcomes = super().commit(items)
        if items and items[0].rows and items[0].rows[0].data == b"asked again":
            outcomes[0] = "written"
        return outcomes


@breaks("what_a_kill_cuts_short_is_there_whole_or_not_at_all")
class StatementByStatement(OnDisk):
    def commit(self, items):
        [rows] = [item.rows for item in items] if len(items) == 1 else [()]
        if len(rows) > 1 and rows[0].data == b"cut":
            for row in rows[:-1]:
                super().commit([items[0]._replace(rows=(row,), new_lanes=(), status=None)])
            return super().commit([items[0]._replace(rows=rows[-1:])])
        return super().commit(items)


# --- which threads there are -----------------------------------------------------------------------------------------


@breaks("threads_are_listed_as_they_are_loaded")
class OnlyThoseThatRun(Sound):
    def threads(self, after=0, limit=1000):
        return [thread for thread in super().threads(after, limit) if thread.owner is not None]


@breaks("a_list_of_threads_comes_page_by_page")
class StartsAtAfter(Sound):
    def threads(self, after=0, limit=1000):
        return super().threads(max(0, after - 1), limit)
