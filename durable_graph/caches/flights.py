"""Single flight: of callers that miss the same key at the same time, one computes and the others wait for its value.

    caller ── join ──► LEAD    nobody computes it: the caller does, and then lands or leaves
                  ├──► WAIT    somebody does: the caller waits until it is woken, then comes back (`rejoin`)
                  ├──► ALONE   waiting could never end: the caller computes for itself
                  └──► bytes   the value has just landed

Rules:

- The value travels as bytes, so each waiter makes objects of its own. Errors do not travel: a leader that fails or is
  interrupted leaves, and the lead is offered to one waiter after the other.
- An offer is not yet a lead. It is taken by whoever comes first, the waiter that was woken or a newcomer, so a waiter
  whose event loop stopped stands in nobody's way.
- Whoever is woken was taken off the list first, so it is woken once for each time it waits.
- `leave` may be called at any time and more than once: it ends every role a caller can have. A finalizer may call it
  while this OS thread is inside, so the lock is re-entrant, and all under it can bear that somebody leaves meanwhile.
- Nobody waits for itself. A caller knows the leads up its own call stack (a context variable, which worker threads and
  asyncio tasks inherit); one that blocks its OS thread also holds up all leads in that thread. From there it follows
  who waits for whom.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from contextvars import ContextVar
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from typing_extensions import override

from durable_graph.caches.forks import renew_in_children

if TYPE_CHECKING:
    from collections.abc import Collection

    from durable_graph.caches.base import FullKey, Namespace

__all__ = ["AwaitingCaller", "BlockingCaller", "Caller", "Flight", "Flights", "Seat"]


class Seat(Enum):
    """What a caller is to do; see the module's docstring."""

    LEAD = "lead"
    WAIT = "wait"
    ALONE = "alone"


Answer: TypeAlias = "bytes | Seat"

_leading: ContextVar[tuple[Caller, ...]] = ContextVar("durable_graph_leading", default=())
"""Those who lead up the call stack."""


class Caller(ABC):
    """One call that looks for a value."""

    __slots__ = ("flight", "holds_up", "os_thread")

    def __init__(self) -> None:
        self.flight: Flight | None = None
        self.os_thread = threading.get_ident()
        self.holds_up: frozenset[Flight] = frozenset()  # what cannot land while this caller waits

    @abstractmethod
    def wake(self) -> bool:
        """End its wait; False when it certainly waits no more. Called from any OS thread; never blocks."""

    def leads(self, flight: Flight | None) -> bool:
        """Whether it is this caller that computes the value of `flight`."""
        return flight is not None and flight.leader is self


class BlockingCaller(Caller):
    """A caller that waits by blocking its OS thread."""

    __slots__ = ("_signal",)

    def __init__(self) -> None:
        super().__init__()
        self._signal = threading.Lock()
        self._signal.acquire()

    @override
    def wake(self) -> bool:
        self._signal.release()
        return True

    def wait(self) -> None:
        """Block until woken."""
        self._signal.acquire()


class AwaitingCaller(Caller):
    """A caller that waits by awaiting, in the running event loop."""

    __slots__ = ("_loop", "_woken")

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._woken: asyncio.Future[None] = self._loop.create_future()

    @override
    def wake(self) -> bool:
        try:
            self._loop.call_soon_threadsafe(self._end_wait)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def _end_wait(self) -> None:
        if not self._woken.done():  # else it was cancelled
            self._woken.set_result(None)

    async def wait(self) -> None:
        """Suspend until woken."""
        await self._woken
        self._woken = self._loop.create_future()


class Flight:
    """A value that is being computed.

    leader: who computes it; None while the lead is on offer. offered: those who were woken to take it and did not come
    back yet. landed: its bytes, once they are there. forgotten: the cache was cleared meanwhile, so the value is not
    to be kept.
    """

    __slots__ = ("forgotten", "key", "landed", "leader", "offered", "waiters")

    def __init__(self, key: FullKey, leader: Caller) -> None:
        self.key = key
        self.leader: Caller | None = leader
        self.offered: set[Caller] = set()
        self.landed: bytes | None = None
        self.forgotten = False
        self.waiters: OrderedDict[Caller, None] = OrderedDict()


class Flights:
    """All flights of one cache in this process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._flying: dict[FullKey, Flight] = {}
        renew_in_children(self)

    def __len__(self) -> int:
        """How many values are being computed."""
        return len(self._flying)

    def __bool__(self) -> bool:
        """Flights are there, however many."""
        return True

    # --- a caller's way ----------------------------------------------------------------------------------------------

    def join(self, key: FullKey, caller: Caller) -> Answer:
        """Ask for the value of `key`; the caller has not joined anything yet."""
        with self._lock:
            flight = self._flying.get(key)
            if flight is None:
                caller.flight = flight = Flight(key, caller)  # the caller first: from here on `leave` ends it
                self._flying[key] = flight
                answer: Answer = Seat.LEAD
            else:
                caller.flight = flight
                answer = self._seat(flight, caller)
        if answer is Seat.LEAD:
            _note_lead(caller)
        return answer

    def rejoin(self, caller: Caller) -> Answer:
        """Ask again, after having been woken."""
        with self._lock:
            assert caller.flight is not None  # noqa: S101 - only who waited is woken; this tells the type checker
            answer = self._seat(caller.flight, caller)
        if answer is Seat.LEAD:
            _note_lead(caller)
        return answer

    def land(self, caller: Caller, data: bytes) -> None:
        """Hand the value to all who wait and to all who come until the leader leaves. Nothing, if it does not lead."""
        with self._lock:
            flight = caller.flight
            if flight is not None and flight.leader is caller:
                flight.landed = data
                _wake_all(flight)

    def leave(self, caller: Caller) -> None:
        """End what the caller does here: it leads, waits, was offered the lead, or does nothing any more."""
        with self._lock:
            flight = caller.flight
            if flight is not None:
                flight.waiters.pop(caller, None)
                flight.offered.discard(caller)
                if flight.leader is caller:
                    flight.leader = None
                if flight.leader is None:
                    self._pass_on(flight)
                caller.flight = None  # last: an interrupt may strike before, and then `leave` is called again
        _forget_lead(caller)

    def forget(self, namespaces: Collection[Namespace] | None) -> None:
        """What is being computed in these namespaces (None: in all) is not to be kept; who comes now computes anew."""
        with self._lock:
            for key, flight in list(self._flying.items()):
                if namespaces is None or key[0] in namespaces:
                    flight.forgotten = True
                    del self._flying[key]

    def renew(self) -> None:
        """Serve as hook of forks: those who compute and those who wait are OS threads of the parent."""
        self._lock = threading.RLock()
        for flight in self._flying.values():
            flight.waiters.clear()
            flight.offered.clear()
        self._flying = {}

    # --- under the lock ----------------------------------------------------------------------------------------------

    def _seat(self, flight: Flight, caller: Caller) -> Answer:
        flight.offered.discard(caller)
        if flight.landed is not None:
            return flight.landed
        if flight.leader is not None:
            caller.holds_up = self._held_up_by(caller)
            if _waits_for(caller.holds_up, flight):
                caller.flight = None
                return Seat.ALONE
            flight.waiters[caller] = None
        if flight.leader is not None:  # asked again: it may have left, and from here on who leaves wakes this caller
            return Seat.WAIT
        flight.waiters.pop(caller, None)
        flight.offered.discard(caller)
        flight.leader = caller
        return Seat.LEAD

    def _held_up_by(self, caller: Caller) -> frozenset[Flight]:
        """The flights that cannot land while the caller waits."""
        held = {leader.flight for leader in _leading.get() if leader.leads(leader.flight)}
        if isinstance(caller, BlockingCaller):
            # Up its call stack, or coroutines of the event loop that it blocks.
            held.update(
                flight
                for flight in tuple(self._flying.values())
                if flight.leader is not None and flight.leader.os_thread == caller.os_thread
            )
        return frozenset(flight for flight in held if flight is not None)

    def _pass_on(self, flight: Flight) -> None:
        """A flight without a leader: landed, to be offered to the next one, or over."""
        if flight.landed is not None:
            _wake_all(flight)  # what an interrupt inside `land` left
        elif self._offer(flight):
            return
        if self._flying.get(flight.key) is flight:
            del self._flying[flight.key]

    def _offer(self, flight: Flight) -> bool:
        """Whether somebody was asked to take the lead."""
        while flight.waiters:
            caller, _ = flight.waiters.popitem(last=False)
            flight.offered.add(caller)
            if caller.wake():
                return True
            flight.offered.discard(caller)
        return bool(flight.offered)


def _waits_for(held_up: Collection[Flight], wanted: Flight) -> bool:
    """Whether `wanted` cannot land before one of the flights that are held up."""
    known = set(held_up)
    to_see = list(held_up)
    while to_see:
        flight = to_see.pop()
        if flight is wanted:
            return True
        for waiter in tuple(flight.waiters):
            to_see += waiter.holds_up - known
            known |= waiter.holds_up
    return False


def _wake_all(flight: Flight) -> None:
    while flight.waiters:
        caller, _ = flight.waiters.popitem(last=False)
        caller.wake()


def _note_lead(caller: Caller) -> None:
    _leading.set((*(leader for leader in _leading.get() if leader.leads(leader.flight)), caller))


def _forget_lead(caller: Caller) -> None:
    leading = _leading.get()
    if caller in leading:  # not so when it leaves in another context than the one it joined in
        _leading.set(tuple(leader for leader in leading if leader is not caller))
