"""Of several callers that miss the same key at once, one computes: OS threads, event loops, failures, cancellation."""

import asyncio
import threading

import pytest

from durable_graph.caches import InMemoryCache
from durable_graph.caches.flights import BlockingCaller, Flights, Seat
from durable_graph.types import MISSING
from tests.conformance.processes import python, result
from tests.unit.caches.calling import (
    NS,
    Gate,
    Leader,
    Outcome,
    acall,
    access_to,
    anever,
    auntil,
    call,
    never,
    until,
    waiting,
)

PLACE = (NS, "key")


# --- who computes ----------------------------------------------------------------------------------------------------


def test_os_threads_and_event_loops_share_one_computation(cache):
    gate = Gate(["value"])
    leader = Outcome(lambda: call(cache, gate))
    gate.began.wait()
    threads = [Outcome(lambda: call(cache, never)) for _ in range(4)]

    async def several():
        return await asyncio.gather(*(acall(cache, anever) for _ in range(5)))

    loops = [Outcome(lambda: asyncio.run(several())) for _ in range(2)]
    until(lambda: waiting(cache) == 14)
    gate.opened.set()
    found = [leader.join(), *(thread.join() for thread in threads), *loops[0].join(), *loops[1].join()]
    assert found == [["value"]] * 15
    assert len({id(value) for value in found}) == 15  # everybody has objects of their own
    assert gate.count == 1


def test_an_async_leader_serves_os_threads_and_other_loops(cache):
    gate = Gate()
    leader = Outcome(lambda: asyncio.run(acall(cache, gate.acall)))
    gate.began.wait()
    others = [Outcome(lambda: call(cache, never)), Outcome(lambda: asyncio.run(acall(cache, anever)))]
    until(lambda: waiting(cache) == 2)
    gate.opened.set()
    assert [leader.join(), *(other.join() for other in others)] == ["value"] * 3


def test_none_and_false_are_values_and_not_misses(cache):
    for key, value in (("none", None), ("false", False), ("empty", [])):
        assert call(cache, lambda value=value: value, key) == value
        assert call(cache, never, key) == value
        assert asyncio.run(acall(cache, anever, key)) == value


def test_different_keys_do_not_wait_for_each_other(cache):
    gate = Gate()
    leader = Outcome(lambda: call(cache, gate, "slow"))
    gate.began.wait()
    assert call(cache, lambda: 1, "quick") == 1
    gate.opened.set()
    assert leader.join() == "value"


def test_a_value_that_lands_between_looking_and_joining_is_never_computed_again(cache):
    counts = dict.fromkeys(range(200), 0)

    def work():
        for key in counts:

            def compute(key=key):
                counts[key] += 1
                return key

            assert call(cache, compute, str(key)) == key

    for thread in [Outcome(work) for _ in range(4)]:
        thread.join()
    assert set(counts.values()) == {1}


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)], ids=["error", "ctrl-c", "exit"]
)
def test_the_failure_of_a_leader_stays_its_own_and_one_waiter_computes(cache, error):
    failing, second = Gate(error=error), Gate("second")
    leader = Outcome(lambda: call(cache, failing))
    failing.began.wait()
    waiters = [Outcome(lambda: call(cache, second)) for _ in range(3)]
    waiters.append(Outcome(lambda: asyncio.run(acall(cache, second.acall))))
    until(lambda: waiting(cache) == 4)
    failing.opened.set()
    with pytest.raises(type(error)):
        leader.join()
    second.began.wait()
    until(lambda: waiting(cache) == 3)
    second.opened.set()
    assert [waiter.join() for waiter in waiters] == ["second"] * 4
    assert second.count == 1


def test_when_all_fail_each_has_its_own_error(cache):
    gate = Gate(error=RuntimeError("first"))
    leader = Outcome(lambda: call(cache, gate))
    gate.began.wait()

    def fail(number):
        raise RuntimeError(number)

    async def afail(number):
        raise RuntimeError(number)

    waiters = [Outcome(lambda n=n: call(cache, lambda: fail(n))) for n in range(5)]
    waiters += [Outcome(lambda n=n: asyncio.run(acall(cache, lambda: afail(n)))) for n in range(5, 10)]
    until(lambda: waiting(cache) == 10)
    gate.opened.set()
    for expected, thread in [("first", leader), *enumerate(waiters)]:
        with pytest.raises(RuntimeError) as caught:
            thread.join()
        assert caught.value.args == (expected,)


# --- cancellation ----------------------------------------------------------------------------------------------------


def test_a_cancelled_leader_hands_its_lead_on(cache):
    gate = Gate()

    async def main():
        leader = asyncio.create_task(acall(cache, gate.acall))
        await auntil(gate.began.is_set)
        same_loop = asyncio.create_task(acall(cache, gate.acall))
        await auntil(lambda: waiting(cache) == 1)
        other = Outcome(lambda: call(cache, never))
        await auntil(lambda: waiting(cache) == 2)
        leader.cancel()
        await auntil(lambda: gate.count == 2)
        gate.opened.set()
        found = [await same_loop, await asyncio.to_thread(other.join)]
        with pytest.raises(asyncio.CancelledError):
            await leader
        return found

    assert asyncio.run(main()) == ["value"] * 2


def test_a_cancelled_waiter_leaves_the_others_waiting(cache):
    gate = Gate()
    leader = Outcome(lambda: call(cache, gate))
    gate.began.wait()

    async def main():
        tasks = [asyncio.create_task(acall(cache, anever)) for _ in range(3)]
        await auntil(lambda: waiting(cache) == 3)
        tasks[1].cancel()
        await auntil(tasks[1].done)
        assert waiting(cache) == 2
        gate.opened.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, cancelled, last = asyncio.run(main())
    assert (first, last, leader.join()) == ("value",) * 3
    assert isinstance(cancelled, asyncio.CancelledError)


def test_a_waiter_that_is_cancelled_while_it_is_offered_the_lead_passes_it_on(cache):
    leader = Leader(cache)

    async def second_one():
        return "second"

    async def main():
        first = asyncio.create_task(access_to(cache).alook())
        await auntil(lambda: waiting(cache) == 1)
        second = asyncio.create_task(acall(cache, second_one))
        await auntil(lambda: waiting(cache) == 2)
        leader.give_up()  # the offer is on its way to `first`, which this loop has not run since
        first.cancel()
        return await asyncio.gather(first, second, return_exceptions=True)

    first, second = asyncio.run(main())
    assert isinstance(first, asyncio.CancelledError)
    assert second == "second"


def test_the_lead_goes_past_a_waiter_whose_event_loop_is_closed(cache):
    leader = Leader(cache)
    loop = asyncio.new_event_loop()
    abandoned = loop.create_task(acall(cache, anever))
    loop.run_until_complete(asyncio.sleep(0.01))
    abandoned._log_destroy_pending = False  # its being abandoned is the test
    loop.close()
    other = Outcome(lambda: call(cache, lambda: "other"))
    until(lambda: waiting(cache) == 2)
    leader.give_up()
    assert other.join() == "other"
    del abandoned


def test_a_newcomer_takes_the_lead_from_a_waiter_whose_event_loop_stands_still(cache):
    leader = Leader(cache)
    loop = asyncio.new_event_loop()
    standing = loop.create_task(acall(cache, anever))
    loop.run_until_complete(asyncio.sleep(0.01))
    assert waiting(cache) == 1
    leader.give_up()
    assert call(cache, lambda: "newcomer") == "newcomer"
    assert loop.run_until_complete(standing) == "newcomer"
    loop.close()


def test_a_waiter_that_is_woken_and_finds_a_newcomer_leading_waits_on(cache):
    leader = Leader(cache)
    loop = asyncio.new_event_loop()
    standing = loop.create_task(acall(cache, anever))
    loop.run_until_complete(asyncio.sleep(0.01))
    leader.give_up()
    newcomer = Leader(cache)
    loop.run_until_complete(asyncio.sleep(0.01))
    assert waiting(cache) == 1
    newcomer.keep("late")
    assert loop.run_until_complete(standing) == "late"
    loop.close()


def test_an_access_that_is_dropped_without_a_word_gives_its_lead_up(cache):
    leader = Leader(cache)
    other = Outcome(lambda: call(cache, lambda: "other"))
    until(lambda: waiting(cache) == 1)
    leader.drop()
    assert other.join() == "other"
    leader.give_up()


CTRL_C = """
import threading
from durable_graph.caches import InMemoryCache
from tests.conformance.processes import strike
from tests.unit.caches.calling import Gate, Outcome, call, never, until, waiting
cache, gate, landed = InMemoryCache(), Gate(), threading.Event()
leader = Outcome(lambda: call(cache, gate))
gate.began.wait()
def strike_the_waiter():
    until(lambda: waiting(cache) == 1)
    strike(landed)
Outcome(strike_the_waiter)
try:
    call(cache, never)
except KeyboardInterrupt:
    landed.set()
    print("struck", waiting(cache))
other = Outcome(lambda: call(cache, never))
until(lambda: waiting(cache) == 1)
gate.opened.set()
print(leader.join(), other.join(), len(cache.flights))
"""


def test_ctrl_c_ends_a_wait_and_leaves_nothing_behind():
    assert result(python(CTRL_C)) == "struck 0\nvalue value 0"


def test_giving_up_is_harmless_at_any_time(cache):
    access = access_to(cache)
    access.give_up()
    assert access.look() is MISSING
    access.give_up()
    access.give_up()
    assert call(cache, lambda: 1) == 1
    access.give_up()
    hit = access_to(cache)
    assert hit.look() == 1
    hit.give_up()
    assert call(cache, never) == 1


# --- waiting ---------------------------------------------------------------------------------------------------------


def test_a_blocked_os_thread_is_lent_while_it_waits_and_only_then(cache):
    states = []

    class Lending:
        def __enter__(self):
            states.append("lent")

        def __exit__(self, *_):
            states.append("back")

    assert access_to(cache, "free", while_waiting=Lending).look() is MISSING
    assert states == []
    gate = Gate()
    leader = Outcome(lambda: call(cache, gate))
    gate.began.wait()
    waiter = Outcome(lambda: access_to(cache, while_waiting=Lending).look())
    until(lambda: waiting(cache) == 1)
    assert states == ["lent"]
    gate.opened.set()
    assert (leader.join(), waiter.join()) == ("value", "value")
    assert states == ["lent", "back"]


def test_a_clear_gives_newcomers_a_flight_of_their_own_and_keeps_nothing_of_the_old_one(cache):
    old = Gate("old")
    leader = Outcome(lambda: call(cache, old))
    old.began.wait()
    waiter = Outcome(lambda: call(cache, never))
    until(lambda: waiting(cache) == 1)
    cache.clear([("another",)])
    assert waiting(cache) == 1
    cache.clear([NS])
    assert call(cache, lambda: "new") == "new"
    old.opened.set()
    assert (leader.join(), waiter.join()) == ("old", "old")
    assert cache.get([PLACE]) == {PLACE: "new"}


class Slow(InMemoryCache):
    """A cache whose disk begins to store, and goes on when it is told to."""

    instant = False

    def __init__(self):
        super().__init__()
        self.storing, self.go_on = threading.Event(), threading.Event()

    def store(self, entries):
        self.storing.set()
        self.go_on.wait()
        super().store(entries)


def test_a_clear_while_a_value_is_being_stored_takes_it_out(face):
    slow = Slow()
    access = access_to(slow)
    leader = Outcome(lambda: (face.call(access, "look"), face.call(access, "keep", "old")))
    slow.storing.wait()
    face.call(slow, "clear")
    slow.go_on.set()
    assert leader.join() == (MISSING, None)
    assert slow.get([PLACE]) == {}


def test_who_waits_does_not_wait_for_the_disk_and_who_comes_then_does_not_compute():
    slow = Slow()
    gate = Gate()
    leader = Outcome(lambda: call(slow, gate))
    gate.began.wait()
    waiter = Outcome(lambda: call(slow, never))
    until(lambda: waiting(slow) == 1)
    gate.opened.set()
    slow.storing.wait()
    assert waiter.join() == "value"
    assert call(slow, never) == "value"
    assert asyncio.run(acall(slow, anever)) == "value"
    slow.go_on.set()
    assert leader.join() == "value"


def test_the_lock_can_be_entered_by_a_finalizer_of_the_same_os_thread():
    flights = Flights()
    first, second = BlockingCaller(), BlockingCaller()
    assert flights.join(PLACE, first) is Seat.LEAD
    with flights._lock:
        assert flights.join(PLACE, second) is Seat.ALONE  # the same OS thread
        flights.leave(first)
    assert len(flights) == 0
    assert flights
