"""Nobody waits for itself: recursion, rings of callers, coroutines of a loop that is blocked."""

import asyncio
import threading

import pytest

from durable_graph.types import MISSING
from tests.unit.caches.calling import Gate, Outcome, acall, access_to, auntil, call, never, until, waiting


def test_a_caller_that_computes_the_same_key_further_up_computes_by_itself(cache):
    def nested():
        return [call(cache, lambda: "inner")]

    assert call(cache, nested) == ["inner"]
    assert call(cache, never) == ["inner"]


@pytest.mark.parametrize("own_task", [False, True], ids=["same task", "task of its own"])
def test_an_async_caller_that_computes_the_same_key_further_up_computes_by_itself(cache, own_task):
    async def inner():
        return "inner"

    async def nested():
        below = acall(cache, inner)
        return [await (asyncio.create_task(below) if own_task else below)]

    assert asyncio.run(acall(cache, nested)) == ["inner"]


def test_a_caller_in_a_worker_thread_knows_what_its_event_loop_computes(cache):
    async def nested():
        return [await asyncio.to_thread(call, cache, lambda: "inner")]

    assert asyncio.run(acall(cache, nested)) == ["inner"]


def test_two_callers_that_compute_what_the_other_one_needs_do_not_wait_for_ever(cache):
    both = threading.Barrier(2)

    def first():
        both.wait()
        return ["first", call(cache, lambda: "second alone", "second")]

    def second():
        both.wait()
        return ["second", call(cache, lambda: "first alone", "first")]

    threads = [Outcome(lambda: call(cache, first, "first")), Outcome(lambda: call(cache, second, "second"))]
    one, two = (thread.join() for thread in threads)
    assert (one[1] == "second alone") != (two[1] == "first alone")  # one went alone, the other one waited for it


def test_a_ring_of_three_does_not_wait_for_ever_across_os_threads_and_loops(cache):
    keys = ["a", "b", "c"]
    together = threading.Barrier(3)

    def work(n):
        together.wait()
        return [keys[n], call(cache, lambda: "alone", keys[(n + 1) % 3])]

    async def awork():
        together.wait()
        return [keys[1], await acall(cache, lambda: asyncio.sleep(0, "alone"), keys[2])]

    threads = [Outcome(lambda n=n: call(cache, lambda: work(n), keys[n])) for n in (0, 2)]
    threads.append(Outcome(lambda: asyncio.run(acall(cache, awork, keys[1]))))
    found = [thread.join() for thread in threads]
    assert sum(value[1] == "alone" for value in found) == 1


def test_a_blocking_caller_does_not_wait_for_a_coroutine_of_the_loop_it_blocks(cache):
    gate = Gate()

    async def main():
        leader = asyncio.create_task(acall(cache, gate.acall))
        await auntil(gate.began.is_set)
        found = call(cache, lambda: "alone")  # blocks this very loop
        gate.opened.set()
        return found, await leader

    assert asyncio.run(main()) == ("alone", "value")


def test_a_blocking_caller_does_not_wait_for_what_waits_for_a_coroutine_of_its_loop(cache):
    gate = Gate()

    async def main():
        leader = asyncio.create_task(acall(cache, gate.acall, "here"))
        await auntil(gate.began.is_set)
        elsewhere = Outcome(lambda: call(cache, lambda: call(cache, never, "here"), "elsewhere"))
        await auntil(lambda: waiting(cache, "here") == 1)
        found = call(cache, lambda: "alone", "elsewhere")
        gate.opened.set()
        return found, await leader, await asyncio.to_thread(elsewhere.join)

    assert asyncio.run(main()) == ("alone", "value", "value")


def test_who_waits_below_a_computation_of_another_key_still_waits(cache):
    gate = Gate()
    leader = Outcome(lambda: call(cache, gate, "inner"))
    gate.began.wait()
    outer = Outcome(lambda: call(cache, lambda: ["outer", call(cache, never, "inner")], "outer"))
    until(lambda: waiting(cache, "inner") == 1)
    gate.opened.set()
    assert (leader.join(), outer.join()) == ("value", ["outer", "value"])


def test_a_lead_that_is_over_is_not_remembered(cache):
    def work():
        for number in range(50):
            call(cache, lambda number=number: number, str(number))
            leader = access_to(cache, f"given up {number}")
            assert leader.look() is MISSING
            leader.give_up()

    Outcome(work).join()
    gate = Gate()
    leader = Outcome(lambda: call(cache, gate, "0 again"))
    gate.began.wait()
    waiter = Outcome(lambda: call(cache, never, "0 again"))
    until(lambda: waiting(cache, "0 again") == 1)
    gate.opened.set()
    assert (leader.join(), waiter.join()) == ("value", "value")
