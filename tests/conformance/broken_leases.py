"""Backends that break one promise about leases each, as those in broken.py."""

import time

from durable_graph.records import Claim, Lease
from tests.conformance.broken import Sound, breaks


class Leased(Sound):
    """The sound one, with leases."""

    offers = Sound.offers | {"leases"}
    lease = 15.0

    def __init__(self, folder=None):
        super().__init__(folder)
        self.leases = {}

    def claim(self, request):
        claim = super().claim(request)
        if claim is not None:
            now = self.now()
            self.leases[claim] = [now, now, now, now + request.lease]
        return claim

    def now(self):
        return time.monotonic_ns() // 1_000_000

    def renew(self, beats):
        for claim, moved, lease in beats:
            since, _, still, _ = self.leases[claim]
            self.leases[claim] = [since, self.now(), self.now() if moved else still, self.now() + lease]

    def load(self, key, **options):
        found = super().load(key, **options)
        if found is None or found.thread.owner is None:
            return found
        return found._replace(thread=found.thread._replace(lease=self.lease_of(found.thread)))

    def lease_of(self, thread):
        since, beat, still, ends = self.leases[Claim(thread.no, thread.epoch)]
        return Lease(self.now() - since, self.now() - beat, self.now() - still, ends - self.now())


@breaks("a_claim_is_good_for_the_time_it_asks_for")
class ForEver(Leased):
    def lease_of(self, thread):
        lease = super().lease_of(thread)
        return lease._replace(left=max(lease.left, 1)) if (thread.key, thread.owner) == ("thread", "me") else lease


@breaks("a_sign_of_life_renews_the_lease")
class AlwaysMoved(Leased):
    def renew(self, beats):
        super().renew([beat._replace(moved=True) for beat in beats])


@breaks("one_sign_of_life_serves_many_claims")
class OneBeat(Leased):
    def renew(self, beats):
        super().renew(beats[:1])


@breaks("a_sign_of_life_of_who_lost_its_claim_changes_nothing")
class AnybodyBeats(Leased):
    def renew(self, beats):
        super().renew([beat._replace(claim=Claim(beat.claim.no, self.epochs[beat.claim.no])) for beat in beats])


@breaks("a_thread_that_nobody_holds_has_no_lease")
class HeldByNobody(Leased):
    def load(self, key, **options):
        found = super().load(key, **options)
        if found is None or found.thread.owner is not None:
            return found
        return found._replace(thread=found.thread._replace(lease=self.lease_of(found.thread)))


@breaks("a_lease_that_is_over_takes_nothing_away")
class FencedByTime(Leased):
    def commit_one(self, item):
        _, _, _, ends = self.leases.get(item.claim, (0, 0, 0, self.now() + 1))
        return "stale" if ends <= self.now() else super().commit_one(item)


@breaks("a_clock_that_is_set_changes_no_lease")
class WallClock(Leased):
    def now(self):
        return time.time_ns() // 1_000_000
