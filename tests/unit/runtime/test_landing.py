"""Waiting on an event loop for what OS threads do."""

import asyncio
import threading
import time
from concurrent.futures import Future

import pytest

from durable_graph.runtime.landing import landed, result_of, settled


def elsewhere(work):
    """Run `work` in another OS thread, and hold the event loop until it is done."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_futures_that_land_before_the_loop_looks_wake_it_once():
    async def main():
        loop = asyncio.get_running_loop()
        futures = [Future() for _ in range(50)]
        tasks = [asyncio.create_task(result_of(future)) for future in futures]
        await asyncio.sleep(0)
        woken, wake = [], loop.call_soon_threadsafe

        def noting(*args, **options):
            woken.append(args)
            return wake(*args, **options)

        loop.call_soon_threadsafe = noting
        elsewhere(lambda: [future.set_result(number) for number, future in enumerate(futures)])
        assert await asyncio.gather(*tasks) == list(range(50))
        assert len(woken) == 1
        again = Future()
        waiting = asyncio.create_task(result_of(again))
        await asyncio.sleep(0)
        elsewhere(lambda: again.set_result("again"))
        assert await waiting == "again"
        assert len(woken) == 2

    asyncio.run(main())


@pytest.mark.parametrize("wait", [result_of, landed])
@pytest.mark.parametrize("late", [False, True], ids=["done before", "done while it waits"])
def test_the_result_or_the_error_comes(wait, late):
    async def main():
        good, bad = Future(), Future()
        tasks = [asyncio.create_task(wait(good)), asyncio.create_task(wait(bad)), asyncio.create_task(settled(bad))]
        if late:
            await asyncio.sleep(0)
        elsewhere(lambda: (good.set_result(1), bad.set_exception(ValueError("no"))))
        result, error, nothing = await asyncio.gather(*tasks, return_exceptions=True)
        assert (result, repr(error), nothing) == (1, "ValueError('no')", None)

    asyncio.run(main())


def test_who_is_cancelled_waits_for_storage_and_for_nothing_else():
    async def main():
        stored, other = Future(), Future()
        storing, waiting = asyncio.create_task(landed(stored)), asyncio.create_task(result_of(other))
        await asyncio.sleep(0)
        for _ in range(3):
            storing.cancel()
            waiting.cancel()
            await asyncio.sleep(0.001)
        assert waiting.cancelled()
        assert not storing.done()
        elsewhere(lambda: stored.set_result("written"))
        await asyncio.wait([storing])
        assert storing.cancelled()
        other.set_result(None)  # nobody waits any more

    asyncio.run(main())


def test_what_lands_after_its_loop_was_closed_harms_nobody(caplog):
    future = Future()

    async def leave():
        task = asyncio.create_task(result_of(future))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(leave())
    future.set_result(None)
    assert caplog.text == ""


def test_loops_in_several_os_threads_are_woken_each():
    futures = [Future() for _ in range(4)]
    found = []

    def run(future):
        found.append(asyncio.run(result_of(future)))

    threads = [threading.Thread(target=run, args=(future,)) for future in futures]
    for thread in threads:
        thread.start()
    time.sleep(0.01)
    for number, future in enumerate(futures):
        future.set_result(number)
    for thread in threads:
        thread.join(10)
    assert sorted(found) == [0, 1, 2, 3]
