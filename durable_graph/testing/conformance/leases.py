"""Promises about leases: signs of life of who has a claim."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from durable_graph.records import Beat
from durable_graph.testing.conformance.acting import check, create, expect, loaded, start, step, take_over, won
from durable_graph.testing.conformance.promise import promise

if TYPE_CHECKING:
    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.records import Lease
    from durable_graph.testing.conformance.acting import Face
    from durable_graph.testing.conformance.promise import Backend

__all__: list[str] = []

_SHORT = 400
"""Milliseconds of a lease that is waited for."""
_LONG = 60_000


def _lease(face: Face, checkpointer: Checkpointer) -> Lease:
    found = loaded(face, checkpointer).thread.lease
    if found is None:
        raise AssertionError("a thread that somebody holds has no lease")
    return found


@promise("leases")
def a_claim_is_good_for_the_time_it_asks_for(backend: Backend, face: Face) -> None:
    """A claim begins a lease of `lease` milliseconds, which ends by itself; the thread stays as it is."""
    checkpointer = backend.fresh()
    check("it says how long leases are", checkpointer.lease is not None and checkpointer.lease > 0)
    _ = won(checkpointer.claim(create("thread", "me")._replace(lease=_SHORT)))
    first = _lease(face, checkpointer)
    check("it is good", 0 < first.left <= _SHORT)
    check("held, silent and still began together", first.held == first.silent == first.still)
    time.sleep((_SHORT + 50) / 1000)
    last = _lease(face, backend.reopen(checkpointer))
    check("it is over", last.left <= 0)
    check("its owner has been silent for that long", last.silent >= _SHORT)
    expect("the owner", loaded(face, checkpointer).thread.owner, "me")


@promise("leases")
def a_sign_of_life_renews_the_lease(backend: Backend, face: Face) -> None:
    """After `renew` the lease is good for as long as the beat says; whether something was stored is told apart."""
    checkpointer = backend.fresh()
    claim = won(checkpointer.claim(create("thread", "me")._replace(lease=_SHORT)))
    time.sleep(0.1)
    checkpointer.renew([Beat(claim, moved=False, lease=_LONG)])
    found = _lease(face, checkpointer)
    check("it is good for as long as the beat says", _LONG - 10_000 < found.left <= _LONG)
    check("it is known that nothing was stored", found.still > found.silent)
    check("it is known since when", found.held >= found.still)
    checkpointer.renew([Beat(claim, moved=True, lease=_LONG)])
    found = _lease(face, checkpointer)
    check("it is known that something was stored", found.still == found.silent < found.held)


@promise("leases")
def one_sign_of_life_serves_many_claims(backend: Backend, face: Face) -> None:
    """`renew` takes the beats of many claims at once; each is for its own thread."""
    checkpointer = backend.fresh()
    claims = [won(checkpointer.claim(create(f"{n}", "me")._replace(lease=_SHORT))) for n in range(20)]
    checkpointer.renew([Beat(claim, moved=False, lease=_LONG + n) for n, claim in enumerate(claims[:10])])
    for n in range(20):
        lease = loaded(face, checkpointer, f"{n}").thread.lease
        expect(f"whether thread {n} was renewed", lease is not None and lease.left > _SHORT, n < 10)  # noqa: PLR2004 - those above


@promise("leases")
def a_sign_of_life_of_who_lost_its_claim_changes_nothing(backend: Backend, face: Face) -> None:
    """A beat under an old epoch does not renew the lease of who has the thread now."""
    checkpointer = backend.fresh()
    old = start(checkpointer)
    new = won(take_over(checkpointer, old, seen=1))
    before = _lease(face, checkpointer)
    checkpointer.renew([Beat(old, moved=True, lease=_LONG)])
    after = _lease(face, checkpointer)
    check("that the lease did not grow", after.left <= before.left)
    expect("the outcome of a step of the new owner", checkpointer.commit([step(new, 2)]), ["written"])


@promise("leases")
def a_thread_that_nobody_holds_has_no_lease(backend: Backend, face: Face) -> None:
    """A thread that was given back shows no lease."""
    checkpointer = backend.fresh()
    claim = start(checkpointer)
    expect("the outcome", checkpointer.commit([step(claim, 2, status="done")]), ["written"])
    expect("the lease", loaded(face, checkpointer).thread.lease, None)
    checkpointer.renew([Beat(claim, moved=True, lease=_LONG)])
    expect("the lease after a late sign of life", loaded(face, checkpointer).thread.lease, None)
