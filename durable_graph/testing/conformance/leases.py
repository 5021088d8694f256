"""Promises about leases: signs of life of who has a claim."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from unittest import mock

from durable_graph.records import Beat
from durable_graph.testing.conformance.acting import (
    FIRST_ROW,
    check,
    create,
    expect,
    loaded,
    start,
    step,
    take_over,
    won,
)
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


@promise("leases")
def a_lease_that_is_over_takes_nothing_away(backend: Backend, face: Face) -> None:
    """Only another claim ends a claim: what its owner writes after its lease is written."""
    checkpointer = backend.fresh()
    claim = won(checkpointer.claim(create("thread", "first owner", (FIRST_ROW,))._replace(lease=1)))
    time.sleep(0.02)
    check("the lease is over", _lease(face, checkpointer).left <= 0)
    expect("the outcome", checkpointer.commit([step(claim, 2)]), ["written"])
    checkpointer.renew([Beat(claim, moved=True, lease=_LONG)])
    check("a sign of life begins it anew", _lease(face, checkpointer).left > 0)


@promise("leases")
def a_clock_that_is_set_changes_no_lease(backend: Backend, face: Face) -> None:
    """Leases do not follow this process's clock when that is set: an hour back, an hour ahead."""
    checkpointer = backend.fresh()
    claim = won(checkpointer.claim(create("thread", "me")._replace(lease=_LONG)))
    for hours in (-1, 1):
        wrong = time.time_ns() + hours * 3_600_000_000_000
        with mock.patch("time.time", return_value=wrong / 1e9), mock.patch("time.time_ns", return_value=wrong):
            found = _lease(face, checkpointer)
            check("it is as good as before", 0 < found.left <= _LONG)
            check("its owner was heard of just now", 0 <= found.silent < _LONG)
            checkpointer.renew([Beat(claim, moved=True, lease=_LONG)])
        check("a sign of life from then is good too", 0 < _lease(face, checkpointer).left <= _LONG)
