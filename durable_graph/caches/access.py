"""One call's way through a cache: look; when nothing is found compute, and keep or give up.

    access = CacheAccess(cache, ("writes", "fetch"), key, ttl, cache.flights, where="node 'fetch'")
    value = access.look()
    if value is MISSING:
        try:
            value = compute()
        except BaseException:
            access.give_up()
            raise
        access.keep(value)

The flight is joined before the cache is read: a hit costs one read, and nobody can miss a value that lands between
looking and joining. The value is handed to those who wait before it is stored: they do not wait for a disk.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from durable_graph.caches.base import check_ttl, decoded, encoded
from durable_graph.caches.flights import AwaitingCaller, BlockingCaller, Seat
from durable_graph.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from durable_graph.caches.base import BaseCache, Entries, Namespace
    from durable_graph.caches.flights import Caller, Flights

__all__ = ["CacheAccess"]


class CacheAccess:
    """The access of one attempt to one key. It is used once, by one OS thread or asyncio task at a time.

    ttl: seconds for which the value is kept; None is for ever.
    flights: the cache's (`cache.flights`), or other ones that are shared by all accesses to it.
    where: whose result it is, for the text of errors, such as "node 'fetch'".
    while_waiting: entered while `look` blocks its OS thread to wait for another caller; to lend it to a pool.

    After `look` or `alook` gave MISSING, exactly one of `keep`, `akeep` and `give_up` is to follow. `give_up` may be
    called at any other time too, and does nothing then.

    A caller that would wait for itself (it computes the same key further up its call stack, or what it waits for waits
    for it) gets MISSING at once and computes for itself. Call `alook` from the task that computes, not wrapped in one
    of its own: what is computed is known to what it calls by a context variable.

    Raises:
        InvalidConfigError: ttl is not above 0.
    """

    def __init__(
        self,
        cache: BaseCache,
        ns: Namespace,
        key: str,
        ttl: float | None,
        flights: Flights,
        *,
        where: str = "",
        while_waiting: Callable[[], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        self._caller: Caller | None = None
        self._cache = cache
        self._key = (ns, key)
        self._ttl = ttl
        self._flights = flights
        self._where = where
        self._while_waiting = while_waiting
        check_ttl(ttl, where or "CacheAccess")

    def look(self) -> Any:
        """The value, made anew, or MISSING: then the caller computes it. Waits while another caller does.

        Raises:
            StorageError: the cache cannot be read, or what it holds is damaged; nothing is left to be given up.
        """
        caller = BlockingCaller()
        try:
            steps = self._steps(caller)
            step = next(steps)
            while True:
                if step is Seat.WAIT:
                    with self._while_waiting():
                        caller.wait()
                    step = next(steps)
                else:
                    step = steps.send(self._cache.load((self._key,)).get(self._key))
        except StopIteration as found:
            return found.value
        except BaseException:
            self.give_up()
            raise

    async def alook(self) -> Any:
        """Async `look`."""
        caller = AwaitingCaller()
        try:
            steps = self._steps(caller)
            step = next(steps)
            while True:
                if step is Seat.WAIT:
                    await caller.wait()
                    step = next(steps)
                else:
                    step = steps.send((await self._cache.aload((self._key,))).get(self._key))
        except StopIteration as found:
            return found.value
        except BaseException:
            self.give_up()
            raise

    def keep(self, value: Any) -> None:
        """Hand the computed value to those who wait, and store it.

        Raises:
            UnserializableValueError: it cannot be stored; the text names node or task and key. One of those who wait
                computes then.
            StorageError: the cache cannot be written. Those who waited have the value all the same.
        """
        try:
            if entries := self._landed(value):
                self._cache.store(entries)
                if self._forgotten():
                    self._cache.drop((self._key[0],))
        finally:
            self.give_up()

    async def akeep(self, value: Any) -> None:
        """Async `keep`."""
        try:
            if entries := self._landed(value):
                await self._cache.astore(entries)
                if self._forgotten():
                    await self._cache.adrop((self._key[0],))
        finally:
            self.give_up()

    def give_up(self) -> None:
        """There will be no value: one of those who wait computes it. Never blocks."""
        if self._caller is not None:
            self._flights.leave(self._caller)

    def __del__(self) -> None:
        # An access that was dropped without a word, as by an event loop that closed, must not keep others waiting.
        caller = getattr(self, "_caller", None)
        if caller is not None and caller.flight is not None:
            self.give_up()

    # --- what both faces do ------------------------------------------------------------------------------------------

    def _steps(self, caller: Caller) -> Generator[Seat, bytes | None, Any]:
        """Find the value. Yields WAIT when the caller is to wait, and else what it is while it reads the cache."""
        self._caller = caller
        answer = self._flights.join(self._key, caller)
        while answer is Seat.WAIT:
            _ = yield answer
            answer = self._flights.rejoin(caller)
        if isinstance(answer, bytes):
            self.give_up()
            return decoded(answer, self._key, self._cache)
        data = yield answer
        if data is None:
            return MISSING
        value = decoded(data, self._key, self._cache)
        self._flights.land(caller, data)
        self.give_up()
        return value

    def _landed(self, value: Any) -> Entries:
        """Hand the value over; what is left to be stored, which is nothing when the cache was cleared meanwhile."""
        data = encoded(value, self._key, self._where)
        if self._caller is not None:
            self._flights.land(self._caller, data)
        return {} if self._forgotten() else {self._key: (data, self._ttl)}

    def _forgotten(self) -> bool:
        """Whether the cache was cleared since the caller took the lead."""
        caller = self._caller
        return caller is not None and caller.flight is not None and caller.flight.forgotten
