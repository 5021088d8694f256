"""Many callers at once that fail, are cancelled and clear the cache: every value that comes back is right."""

import asyncio
import random
import time

from tests.unit.caches.calling import Outcome, acall, call

_dice = random.Random(7)
PLANS = [(_dice.randrange(6), _dice.random()) for _ in range(400)]


def compute(key, chance):
    time.sleep(0.0003)  # others come meanwhile
    if chance < 0.3:
        raise ValueError(key)
    return key


def in_thread(cache):
    """What each call gave, or the argument of its error."""
    found = []
    for key, chance in PLANS:
        try:
            found.append(call(cache, lambda: compute(key, chance), str(key)))  # noqa: B023 - called at once
        except ValueError as error:
            found += error.args
        if chance > 0.9:
            cache.clear()
    return found


async def one(cache, key, chance):
    async def acompute():
        await asyncio.sleep(0)
        return compute(key, chance)

    try:
        return await acall(cache, acompute, str(key))
    except ValueError as error:
        return error.args[0]


async def in_loop(cache):
    tasks = []
    for key, chance in PLANS:
        tasks.append(asyncio.create_task(one(cache, key, chance)))
        if chance > 0.9:
            tasks[-1].cancel()  # before its first step
        elif chance > 0.6:
            await asyncio.sleep(0)
            tasks[-1].cancel()  # while it waits or computes, if it is not over
    return await asyncio.gather(*tasks, return_exceptions=True)


def test_a_crowd_ends_with_every_value_right_and_no_flight_left(cache):
    threads = [Outcome(lambda: in_thread(cache)) for _ in range(3)]
    loops = [Outcome(lambda: asyncio.run(in_loop(cache))) for _ in range(2)]
    keys = [key for key, _ in PLANS]
    assert [thread.join() for thread in threads] == [keys] * 3
    for loop in loops:
        found = loop.join()
        cancelled = [isinstance(value, asyncio.CancelledError) for value in found]
        assert [key for key, out in zip(keys, cancelled, strict=True) if not out] == [
            value for value, out in zip(found, cancelled, strict=True) if not out
        ]
        assert 0 < sum(cancelled) < len(found) / 2
