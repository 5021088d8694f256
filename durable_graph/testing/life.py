"""One process's life in a crash sweep: a checkpointer that counts what is asked of it, and the moment of death.

In the tester's process a death is an exception. From that moment on the dead life's checkpointer refuses everything, so
nothing that its code still does (clean up, go on in another OS thread) reaches the store: as if the process was gone.
In a child process it is SIGKILL.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

from typing_extensions import override

from durable_graph.persistence.checkpointer import Checkpointer
from durable_graph.records import BASE, MAIN, RowRange

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from durable_graph.persistence.run_rows import RunRows
    from durable_graph.records import Beat, Claim, ClaimRequest, CommitItem, LoadedThread, Outcome, Row, ThreadInfo

__all__ = ["EVERYTHING", "LIFE", "WRITES", "Crashed", "Life", "WatchedCheckpointer", "kill_this_process"]

T = TypeVar("T")

WRITES: Final = frozenset({"claim", "commit"})
EVERYTHING: Final = WRITES | {"load", "read", "effect"}

_END: Final = 2**62
"""A seq above all others."""


class Crashed(BaseException):
    """The process died here. No Exception: code that handles errors must not handle this."""


class Life:
    """One process from its start to its end, or to the moment at which it dies.

    number: 1 for the life that is cut short, 2 for the one that goes on.
    dies_at: at which moment it dies, counted from 1; None: it does not.
    counted: verbs whose moments count; each has a moment before and one after it, an effect only one after it.
    die: how; by default `Crashed` is raised.
    moments, writes: how many moments passed and how many writes returned. A life that goes on in another process
        begins with the figures of the one before.
    where: at what it died, as a person reads it.
    """

    def __init__(
        self,
        number: int,
        *,
        dies_at: int | None = None,
        counted: frozenset[str] = EVERYTHING,
        die: Callable[[], None] | None = None,
        moments: int = 0,
        writes: int = 0,
    ) -> None:
        self.number = number
        self.moments = moments
        self.writes = writes
        self.dead = False
        self.where = ""
        self._dies_at = dies_at
        self._counted = counted
        self._die = die
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def check(self) -> None:
        """Refuse the dead.

        Raises:
            Crashed: this life is over.
        """
        if self.dead:
            raise Crashed

    def before(self, verb: str) -> int:
        """A verb is about to be performed; the answer says how many of its kind there were, with this one.

        Raises:
            Crashed: this life ends here, or has ended.
        """
        with self._lock:
            self.check()
            self._counts[verb] += 1
            nth = self._counts[verb]
            fatal = self._passes(f"before {verb} {nth}", verb)
        if fatal:
            self._end()
        return nth

    def after(self, verb: str, nth: int, what: str = "") -> None:
        """A verb was performed, or the effect `what` happened.

        Raises:
            Crashed: this life ends here, or has ended.
        """
        with self._lock:
            self.check()
            self.writes += verb in WRITES
            fatal = self._passes(f"after {verb} {nth}{what and f' ({what})'}", verb)
        if fatal:
            self._end()

    def effect(self, what: str) -> None:
        """A side effect happened.

        Raises:
            Crashed: this life ends here, or has ended.
        """
        with self._lock:
            self._counts["effect"] += 1
            nth = self._counts["effect"]
        self.after("effect", nth, what)

    def _passes(self, where: str, verb: str) -> bool:
        if verb not in self._counted:
            return False
        self.moments += 1
        if self.moments != self._dies_at:
            return False
        self.where = where
        self.dead = True
        return True

    def _end(self) -> None:
        if self._die is not None:
            self._die()
        raise Crashed


LIFE: ContextVar[Life | None] = ContextVar("durable_graph_testing_life", default=None)
"""The life in which the code that runs here runs. The engine hands the caller's context on to every node."""


def kill_this_process() -> None:
    """SIGKILL: no handler, no clean-up, no flush."""
    os.kill(os.getpid(), signal.SIGKILL)


class WatchedCheckpointer(Checkpointer):
    """A checkpointer as one life sees it; asks another one, and remembers what that acknowledged.

    Its identity is its own: no two processes share an object, so no two lives may share anything that hangs on one.
    """

    def __init__(self, inner: Checkpointer, life: Life) -> None:
        self.instant = inner.instant
        self.one_host = inner.one_host
        self._inner = inner
        self._life = life
        self._token = object()
        self._keys: dict[int, str] = {}
        self._acknowledged: dict[str, dict[Row, str]] = {}
        self._strange = False

    def __getattr__(self, name: str) -> Any:
        """Whatever else the backend offers; it is no point to crash at."""
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def verb(*args: Any, **keywords: Any) -> Any:
            self._life.check()
            self._strange = True  # it may have taken rows away
            return found(*args, **keywords)

        return verb

    @property
    @override
    def identity(self) -> tuple[Any, ...]:
        return ("watched", self._token)

    # --- verbs ------------------------------------------------------------------------------------------------------

    @override
    def load(self, key: str, *, ns: str = "", lane: int | None = None, upto: int | None = None) -> LoadedThread | None:
        return self._watch("load", lambda: self._inner.load(key, ns=ns, lane=lane, upto=upto))

    @override
    def read(self, no: int, ranges: Sequence[RowRange]) -> list[list[Row]]:
        return self._watch("read", lambda: self._inner.read(no, ranges))

    @override
    def threads(self, after: int = 0, limit: int = 1000) -> list[ThreadInfo]:
        return self._watch("threads", lambda: self._inner.threads(after, limit))

    @override
    def claim(self, request: ClaimRequest) -> Claim | None:
        nth = self._life.before("claim")
        claim = self._inner.claim(request)
        if claim is not None:
            self._keys[claim.no] = request.key
            self._keep(request.key, request.rows, f"claim {nth}")
        self._life.after("claim", nth)
        return claim

    @override
    def renew(self, beats: Sequence[Beat]) -> None:
        """No point to crash at: nothing a run does depends on when it gives signs of life."""
        self._life.check()
        self._inner.renew(beats)

    @override
    def commit(self, items: Sequence[CommitItem]) -> list[Outcome]:
        nth = self._life.before("commit")
        outcomes = self._inner.commit(items)
        for item, outcome in zip(items, outcomes, strict=True):
            key = self._keys.get(item.claim.no)
            if outcome != "stale" and key is not None:
                self._keep(key, item.rows, f"commit {nth}")
        self._life.after("commit", nth)
        return outcomes

    @override
    def with_runs(self, work: Callable[[RunRows], T], *, reads: bool = False) -> T:
        """No point to crash at: workers look at the queue by the clock, so no two sweeps would count alike."""
        self._life.check()
        return self._inner.with_runs(work, reads=reads)

    @override
    async def awith_runs(self, work: Callable[[RunRows], T], *, reads: bool = False) -> T:
        self._life.check()
        return await self._inner.awith_runs(work, reads=reads)

    @override
    def listen(self, heard: Callable[[], object], over: Callable[[], bool]) -> None:
        """Until `over()`, or until this life is."""
        self._life.check()
        self._inner.listen(heard, lambda: self._life.dead or over())

    @override
    async def aload(
        self, key: str, *, ns: str = "", lane: int | None = None, upto: int | None = None
    ) -> LoadedThread | None:
        return await self._awatch("load", lambda: self._inner.aload(key, ns=ns, lane=lane, upto=upto))

    @override
    async def aread(self, no: int, ranges: Sequence[RowRange]) -> list[list[Row]]:
        return await self._awatch("read", lambda: self._inner.aread(no, ranges))

    @override
    async def athreads(self, after: int = 0, limit: int = 1000) -> list[ThreadInfo]:
        return await self._awatch("threads", lambda: self._inner.athreads(after, limit))

    @override
    def setup(self) -> None:
        self._life.check()
        self._inner.setup()

    @override
    async def asetup(self) -> None:
        self._life.check()
        await self._inner.asetup()

    @override
    def close(self) -> None:
        self._inner.close()

    @override
    async def aclose(self) -> None:
        await self._inner.aclose()

    def _watch(self, verb: str, job: Callable[[], T]) -> T:
        nth = self._life.before(verb)
        answer = job()
        self._life.after(verb, nth)
        return answer

    async def _awatch(self, verb: str, job: Callable[[], Awaitable[T]]) -> T:
        nth = self._life.before(verb)
        answer = await job()
        self._life.after(verb, nth)
        return answer

    # --- what was acknowledged --------------------------------------------------------------------------------------

    def _keep(self, key: str, rows: Sequence[Row], when: str) -> None:
        self._acknowledged.setdefault(key, {}).update(dict.fromkeys(rows, when))

    def lost(self, store: Checkpointer) -> list[str]:
        """What the backend acknowledged and `store`, the same data opened anew, does not hold: a line for each lane and
        part.
        """
        if self._strange:
            return []
        found: list[str] = []
        for key, rows in self._acknowledged.items():
            loaded = store.load(key)
            if loaded is None:
                found.append(f"thread {key!r} was acknowledged by {next(iter(rows.values()), 'a claim')} and is gone")
                continue
            for lane, part in sorted({(row.lane, row.part) for row in rows}):
                [stored] = store.read(loaded.thread.no, [RowRange(lane, part, 0, _END)])
                gone = [row for row in rows if (row.lane, row.part) == (lane, part) and row not in stored]
                if gone:
                    first = min(gone, key=lambda row: row.seq)
                    found.append(f"what {rows[first]} acknowledged is gone: {_place(key, first)}")
                elif part == MAIN and (missing := _unseen(store, key, lane, stored)):
                    found.append(f"load() does not show what read() shows: {_place(key, missing[0])}")
        return found


def _place(key: str, row: Row) -> str:
    return f"thread {key!r}, lane {row.lane}, part {row.part}, seq {row.seq}"


def _unseen(store: Checkpointer, key: str, lane: int, stored: Sequence[Row]) -> list[Row]:
    """Rows of a line, from its last BASE on, that a load of the lane leaves out."""
    loaded = store.load(key, lane=lane)
    seen = loaded.rows if loaded is not None else ()
    base = max((at for at, row in enumerate(stored) if row.kind == BASE), default=0)
    return [row for row in stored[base:] if row not in seen]
