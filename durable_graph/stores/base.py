"""`BaseStore`: what every store offers; and `RowStore`, which gives all of it to a backend that keeps rows.

A store of somebody else's derives from BaseStore and gives `batch` and `abatch`. Ours derive from RowStore, so that
what an operation means exists once, and all of them answer the same.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from typing_extensions import override

from durable_graph.errors import InvalidConfigError
from durable_graph.persistence.closing import Closing
from durable_graph.stores.embedding import Index, IndexConfig
from durable_graph.stores.lifetimes import Lifetimes, TTLConfig, now
from durable_graph.stores.ops import (
    NOT_PROVIDED,
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    NotProvided,
    PutOp,
    SearchOp,
)
from durable_graph.stores.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from durable_graph.stores.ops import Item, Op, SearchItem
    from durable_graph.stores.plan import Performed
    from durable_graph.stores.rows import Rows

__all__ = ["BaseStore", "RowStore"]

T = TypeVar("T")


class BaseStore(Closing, ABC):
    """Long-term memory, shared by all threads: dicts under a namespace (a tuple of labels) and a key.

    `batch` and `abatch` are all that a store must give. In a batch reads see the state before its puts, of several
    puts to one place the last wins, and a value of None deletes.
    """

    supports_ttl: ClassVar[bool] = False
    """Whether items can be put with a time to live."""

    ttl_config: TTLConfig | None = None
    """How items expire, as it was given."""

    @abstractmethod
    def batch(self, ops: Iterable[Op]) -> list[Any]:
        """Perform operations together; their results, in order."""

    @abstractmethod
    async def abatch(self, ops: Iterable[Op]) -> list[Any]:
        """Async `batch`."""

    # --- one operation -----------------------------------------------------------------------------------------------

    def get(self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """One item; None when there is none, or it has expired.

        refresh_ttl: whether its time to live begins anew; None is what the store's TTLConfig says.

        Raises:
            InvalidNamespaceError: nothing can be stored under such a namespace.
        """
        return self.batch([GetOp(namespace, key, refresh_ttl)])[0]

    async def aget(self, namespace: tuple[str, ...], key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """Async `get`."""
        return (await self.abatch([GetOp(namespace, key, refresh_ttl)]))[0]

    def search(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """Items below a namespace, in order of namespace and key; with a query the nearest first.

        query: a text that items are compared with; items that are not embedded come last, without a score.
        filter: what their values must have, e.g. {"kind": "note", "size": {"$gt": 3}, "meta.lang": "en"}; see
            `durable_graph.stores.filters`.
        limit, offset: which part of the result is given.
        refresh_ttl: whether the time to live of what is given begins anew; None is what the TTLConfig says.

        Raises:
            InvalidConfigError: a query and no index, an unknown operator, or a wrong number.
            InvalidNamespaceError: the prefix is no sequence of labels.
        """
        return self.batch([SearchOp(namespace_prefix, filter, limit, offset, query, refresh_ttl)])[0]

    async def asearch(
        self,
        namespace_prefix: tuple[str, ...],
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """Async `search`."""
        return (await self.abatch([SearchOp(namespace_prefix, filter, limit, offset, query, refresh_ttl)]))[0]

    def put(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: dict[str, Any],
        index: Literal[False] | Sequence[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Store an item. One that is there is replaced, and keeps its `created_at`.

        value: a dict; what the checkpointers can store, a store can too.
        index: which fields are embedded: None is what the IndexConfig says, False is none, a list is paths.
        ttl: minutes to live; None is for ever.

        Raises:
            InvalidNamespaceError: nothing can be stored under this namespace.
            InvalidConfigError: the value is no dict, or another argument is wrong.
            UnserializableValueError: the value cannot be stored.
            NotImplementedError: a ttl, and this store has none.
        """
        self.batch([self._put_op(namespace, key, value, index, ttl)])

    async def aput(
        self,
        namespace: tuple[str, ...],
        key: str,
        value: dict[str, Any],
        index: Literal[False] | Sequence[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Async `put`."""
        await self.abatch([self._put_op(namespace, key, value, index, ttl)])

    def _put_op(self, namespace: tuple[str, ...], key: str, value: dict[str, Any], index: Any, ttl: Any) -> PutOp:
        if ttl is not NOT_PROVIDED and ttl is not None and not self.supports_ttl:
            name = type(self).__name__
            raise NotImplementedError(f"{name} has no time to live; leave out ttl, or use a store that supports it.")
        if value is None:  # pyright: ignore[reportUnnecessaryComparison] - callers may be untyped
            # Only an operation deletes like this; here it is more likely a mistake.
            raise InvalidConfigError(
                f"put({namespace!r}, {key!r}, None): no value.", cure="Call delete(namespace, key)."
            )
        return PutOp(namespace, key, value, index, ttl)

    def delete(self, namespace: tuple[str, ...], key: str) -> None:
        """Remove an item, if it is there.

        Raises:
            InvalidNamespaceError: nothing can be stored under such a namespace.
        """
        self.batch([PutOp(namespace, key, None)])

    async def adelete(self, namespace: tuple[str, ...], key: str) -> None:
        """Async `delete`."""
        await self.abatch([PutOp(namespace, key, None)])

    def list_namespaces(
        self,
        *,
        prefix: tuple[str, ...] | None = None,
        suffix: tuple[str, ...] | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """Namespaces that hold items, in order.

        prefix, suffix: how they begin and end; "*" stands for any one label.
        max_depth: longer ones are cut to this many labels, and shown once.
        limit, offset: which part of the result is given.

        Raises:
            InvalidNamespaceError: prefix or suffix is no sequence of labels.
            InvalidConfigError: a number is wrong.
        """
        return self.batch([_listing(prefix, suffix, max_depth, limit, offset)])[0]

    async def alist_namespaces(
        self,
        *,
        prefix: tuple[str, ...] | None = None,
        suffix: tuple[str, ...] | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """Async `list_namespaces`."""
        return (await self.abatch([_listing(prefix, suffix, max_depth, limit, offset)]))[0]

    # --- the store as a whole ------------------------------------------------------------------------------------

    def setup(self) -> None:
        """Make the database ready. Never needed: first use does it."""

    async def asetup(self) -> None:
        """Async `setup`."""
        await asyncio.to_thread(self.setup)


def _listing(prefix: Any, suffix: Any, max_depth: int | None, limit: int, offset: int) -> ListNamespacesOp:
    given: tuple[tuple[Literal["prefix", "suffix"], Any], ...] = (("prefix", prefix), ("suffix", suffix))
    conditions = [MatchCondition(match, path) for match, path in given if path is not None]
    return ListNamespacesOp(conditions, max_depth, limit, offset)


class RowStore(BaseStore):
    """A store over rows. A backend gives two verbs: `read` and `write`, each one transaction.

    Raises:
        InvalidConfigError: `index` or `ttl` is wrong.
    """

    supports_ttl: ClassVar[bool] = True
    instant: ClassVar[bool] = False
    """True when both verbs return without waiting for anything: async calls then need no OS thread."""

    def __init__(self, *, index: IndexConfig | None = None, ttl: TTLConfig | None = None) -> None:
        self.ttl_config = ttl
        self._index = None if index is None else Index(index)
        self._lifetimes = Lifetimes(ttl)
        self._swept = time.monotonic()

    @abstractmethod
    def read(self, work: Callable[[Rows], T]) -> T:
        """The result of `work` on one state of the rows; it may be called several times, and only reads."""

    @abstractmethod
    def write(self, work: Callable[[Rows], T]) -> T:
        """The result of `work`, whose changes are kept when this returns, or not at all when it raises.

        `work` may be called several times; only the last one counts.
        """

    @override
    def batch(self, ops: Iterable[Op]) -> list[Any]:
        plan = Plan(ops, self._index, self._lifetimes)
        if self._index is not None and (plan.texts or plan.queries):
            plan.vectors = self._index.embed(plan.texts, plan.queries)
        return self._perform(plan)

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Any]:
        plan = Plan(ops, self._index, self._lifetimes)
        if self._index is not None and (plan.texts or plan.queries):
            plan.vectors = await self._index.aembed(plan.texts, plan.queries)
        return self._perform(plan) if self.instant else await asyncio.to_thread(self._perform, plan)

    def sweep_ttl(self) -> int:
        """Remove all expired items now; how many there were. Never needed: nobody sees them, and puts remove them."""
        self._swept = time.monotonic()
        return self.write(lambda rows: rows.sweep(now()))

    async def asweep_ttl(self) -> int:
        """Async `sweep_ttl`."""
        return self.sweep_ttl() if self.instant else await asyncio.to_thread(self.sweep_ttl)

    def _perform(self, plan: Plan) -> list[Any]:
        if not plan.count:
            return []
        if plan.writes:
            done = self.write(self._and_sweeping(plan.perform) if self._sweep_is_due() else plan.perform)
        else:
            done = self.read(plan.perform)
        if done.to_refresh:
            # Apart, so that reading what never expires stays a read: that waits for nobody.
            self.write(lambda rows: [rows.refresh(namespace, key, now()) for namespace, key in done.to_refresh])
        return done.results

    def _sweep_is_due(self) -> bool:
        interval = self._lifetimes.sweep_interval
        if interval is None or (time.monotonic() - self._swept) * 1000 < interval:
            return False
        self._swept = time.monotonic()
        return True

    @staticmethod
    def _and_sweeping(perform: Callable[[Rows], Performed]) -> Callable[[Rows], Performed]:
        def perform_and_sweep(rows: Rows) -> Performed:
            done = perform(rows)
            rows.sweep(now())  # last: it takes what it can get, and holds up nobody whom `perform` waits for
            return done

        return perform_and_sweep
