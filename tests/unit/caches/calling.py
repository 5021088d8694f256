"""What the tests of single flight do all the time: look, compute when nothing is found, and keep; on both faces."""

import asyncio
import threading
import time

from durable_graph.caches import CacheAccess
from durable_graph.types import MISSING

NS = ("writes", "node")


def access_to(cache, key="key", **options):
    return CacheAccess(cache, NS, key, None, cache.flights, **options)


def call(cache, compute, key="key"):
    """The value of `compute()`, by way of the cache."""
    access = access_to(cache, key)
    found = access.look()
    if found is not MISSING:
        return found
    try:
        value = compute()
    except BaseException:
        access.give_up()
        raise
    access.keep(value)
    return value


async def acall(cache, compute, key="key"):
    """Async `call`; `compute` is an async function."""
    access = access_to(cache, key)
    found = await access.alook()
    if found is not MISSING:
        return found
    try:
        value = await compute()
    except BaseException:
        access.give_up()
        raise
    await access.akeep(value)
    return value


def never():
    raise AssertionError("computed, though the value is there")


async def anever():
    never()


def waiting(cache, key="key"):
    """How many callers wait for the key."""
    flight = cache.flights._flying.get((NS, key))
    return 0 if flight is None else len(flight.waiters)


def until(condition):
    """Wait for something that is certain to happen, or for the test's timeout."""
    while not condition():
        time.sleep(0.001)


async def auntil(condition):
    while not condition():  # noqa: ASYNC110 - what other OS threads do sets no asyncio.Event
        await asyncio.sleep(0.001)


class Outcome(threading.Thread):
    """An OS thread that runs `work()`; `join` gives its result or raises its error."""

    def __init__(self, work):
        super().__init__(daemon=True)
        self._work = work
        self._result = None
        self._error = None
        self.start()

    def run(self):
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - raised again by `join`
            self._error = error

    def join(self):
        super().join()
        if self._error is not None:
            raise self._error
        return self._result


class Gate:
    """A computation that begins, and goes on when it is told to."""

    def __init__(self, value="value", error=None):
        self.began = threading.Event()
        self.opened = threading.Event()
        self.count = 0
        self._value, self._error = value, error

    def __call__(self):
        self.count += 1
        self.began.set()
        self.opened.wait()
        if self._error is not None:
            raise self._error
        return self._value

    async def acall(self):
        self.count += 1
        self.began.set()
        await auntil(self.opened.is_set)
        if self._error is not None:
            raise self._error
        return self._value


class Leader:
    """Somebody else who leads: an OS thread with a context of its own, that ends its lead when it is told to."""

    def __init__(self, cache, key="key"):
        self._end = threading.Event()
        self._kept = MISSING
        self.access = access_to(cache, key)
        led = threading.Event()
        self._thread = Outcome(lambda: self._work(led))
        led.wait()

    def _work(self, led):
        try:
            assert self.access.look() is MISSING
        finally:
            led.set()
        self._end.wait()
        if self.access is not None:
            if self._kept is MISSING:
                self.access.give_up()
            else:
                self.access.keep(self._kept)

    def give_up(self):
        self._end.set()
        self._thread.join()

    def keep(self, value):
        self._kept = value
        self.give_up()

    def drop(self):
        """Neither keep nor give up."""
        self.access = None
