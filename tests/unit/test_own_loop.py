"""A loop in an OS thread of its own. Its users' tests have the rest: async nodes, async embedding functions."""

import asyncio
import sys
import threading

import pytest

from durable_graph import own_loop
from durable_graph.own_loop import OwnLoop

CODE = (own_loop.__file__, asyncio.base_events.__file__)


class Strike:
    """KeyboardInterrupt at the n-th line that this OS thread executes in the loop's code, as Ctrl-C would raise it."""

    def __init__(self, at):
        self.left = at

    def __call__(self, frame, event, _argument):
        if frame.f_code.co_filename not in CODE:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self)

    def __exit__(self, *_):
        sys.settrace(self.before)


async def tasks():
    """What runs on the loop besides this, when it has come to rest."""
    for _ in range(5):
        await asyncio.sleep(0)
    return asyncio.all_tasks() - {asyncio.current_task()}


@pytest.fixture
def loop():
    loop = OwnLoop("under test")
    loop.run(tasks())
    yield loop
    loop._loop.call_soon_threadsafe(loop._loop.stop)
    loop._thread.join()
    loop._loop.close()


def struck(loop, at):
    """Whether a wait for an endless coroutine was broken off at its n-th line; it has fewer before it sleeps."""
    strike = Strike(at)

    def end():
        for task in asyncio.all_tasks(loop._loop):
            task.cancel()

    ending = threading.Timer(1, loop._loop.call_soon_threadsafe, [end])
    ending.start()
    with pytest.raises((KeyboardInterrupt, asyncio.CancelledError)), strike:
        loop.run(asyncio.sleep(600))
    ending.cancel()
    return strike.left <= 0


@pytest.mark.filterwarnings("ignore:coroutine 'sleep' was never awaited:RuntimeWarning")
def test_wherever_ctrl_c_strikes_nothing_goes_on_and_the_loop_stays_usable(loop):
    at = 1
    while struck(loop, at):
        assert loop.run(tasks()) == set()
        at += 1
    assert at > 10


def test_it_knows_who_runs_on_it(loop):
    async def runs_here():
        return loop.runs_here()

    assert loop.run(runs_here())
    assert not loop.runs_here()
