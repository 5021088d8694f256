"""What a batch of operations means: checked first, then embedded, then performed on rows, all or nothing.

Reads see the state before the batch's puts. Of several puts to one place the last wins. Everything that can be wrong
with an operation is found before anything is read or stored: types, namespaces, filters, values that cannot be stored.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from durable_graph.errors import DurableGraphError, InvalidConfigError, UnserializableValueError, shortened
from durable_graph.persistence.codec import CODEC
from durable_graph.stores.embedding import Vectors
from durable_graph.stores.filters import check_filter, matches, must_contain
from durable_graph.stores.lifetimes import as_datetime, milliseconds, now
from durable_graph.stores.namespaces import (
    check_condition,
    check_namespace,
    check_place,
    check_writable,
    fits,
    known_head,
    known_tail,
)
from durable_graph.stores.ops import NOT_PROVIDED, GetOp, Item, ListNamespacesOp, PutOp, SearchItem, SearchOp
from durable_graph.stores.rows import StoredItem
from durable_graph.stores.scoring import nearest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from durable_graph.stores.embedding import Index
    from durable_graph.stores.lifetimes import Lifetimes
    from durable_graph.stores.rows import Place, Rows

__all__ = ["Performed", "Plan"]

_NO_INDEX: Final = 'Give the store an index: InMemoryStore(index={"dims": 1536, "embed": embed}).'


class _Put(NamedTuple):
    """A checked PutOp. value: encoded, or None to delete. ttl: in milliseconds."""

    value: bytes | None
    texts: tuple[str, ...] = ()
    ttl: int | None = None


class Performed(NamedTuple):
    """What a batch gave. to_refresh: places that were read and whose time begins anew, in order."""

    results: list[Any]
    to_refresh: list[Place]


class Plan:
    """A checked batch.

    texts, queries: to be embedded before it is performed; put the result into `vectors`.

    Raises:
        DurableGraphError: an operation is wrong (UsageError), or a value cannot be stored (UnserializableValueError).
    """

    def __init__(self, ops: Iterable[Any], index: Index | None, lifetimes: Lifetimes) -> None:
        self._index = index
        self._lifetimes = lifetimes
        self._reads: list[tuple[int, GetOp | SearchOp | ListNamespacesOp]] = []
        self._puts: dict[Place, _Put] = {}
        self.vectors = Vectors({}, {})
        self.count = 0
        for op in ops:
            self._add(self.count, op)
            self.count += 1
        self.texts = list(dict.fromkeys(text for put in self._puts.values() for text in put.texts))
        self.queries = list(
            dict.fromkeys(op.query for _, op in self._reads if isinstance(op, SearchOp) and op.query is not None)
        )

    @property
    def writes(self) -> bool:
        """Whether it puts or deletes something."""
        return bool(self._puts)

    # --- checking ----------------------------------------------------------------------------------------------------

    def _add(self, position: int, op: Any) -> None:
        if isinstance(op, PutOp):
            place, put = self._checked_put(op)
            self._puts[place] = put
        elif isinstance(op, GetOp):
            namespace = check_place(op.namespace)
            self._reads.append((position, GetOp(namespace, _key(op.key), self._refreshes(op.refresh_ttl))))
        elif isinstance(op, SearchOp):
            self._reads.append((position, self._checked_search(op)))
        elif isinstance(op, ListNamespacesOp):
            self._reads.append((position, _checked_listing(op)))
        else:
            raise InvalidConfigError(
                f"{shortened(op)} is no operation of a store.",
                cure="Pass GetOp, SearchOp, PutOp or ListNamespacesOp.",
            )

    def _checked_put(self, op: PutOp) -> tuple[Place, _Put]:
        key = _key(op.key)
        if op.value is None:
            return (check_place(op.namespace), key), _Put(None)
        place = (check_writable(op.namespace), key)
        value: Any = op.value
        if not isinstance(value, dict):
            raise InvalidConfigError(
                f"{_named(place)}: the value {shortened(value)} is not a dict.", cure='Pass a dict: {"value": ...}.'
            )
        fields = cast("dict[Any, Any]", value)
        for name in fields:
            if type(name) is not str:
                raise InvalidConfigError(
                    f"{_named(place)}: key {shortened(name)} of the value is not a str.",
                    cure="Use str keys on the first level of a value; below it, keys may be of any type.",
                )
        lives = self._lifetimes.default if op.ttl is NOT_PROVIDED else milliseconds(op.ttl, f"{_named(place)}: ttl")
        return place, _Put(_encoded(fields, place), self._texts(fields, op.index, place), lives)

    def _texts(self, value: dict[str, Any], index: Any, place: Place) -> tuple[str, ...]:
        if self._index is not None:
            return self._index.texts(value, index)
        if index is None or index is False:
            return ()
        raise InvalidConfigError(
            f"{_named(place)} names fields to embed ({shortened(index)}), and this store has no index.", cure=_NO_INDEX
        )

    def _checked_search(self, op: SearchOp) -> SearchOp:
        _check_page(op.limit, op.offset)
        if op.query is not None:
            if not isinstance(op.query, str) or not op.query:  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
                raise InvalidConfigError(
                    f"query is {shortened(op.query)}; it is a text that is not empty.",
                    cure="Leave it out to find items without a query.",
                )
            if self._index is None:
                raise InvalidConfigError(
                    f"search with query {shortened(op.query)}, and this store has no index.", cure=_NO_INDEX
                )
        wanted = None if op.filter is None else check_filter(op.filter)
        prefix = check_namespace(op.namespace_prefix)
        return SearchOp(prefix, wanted, op.limit, op.offset, op.query, self._refreshes(op.refresh_ttl))

    def _refreshes(self, asked: bool | None) -> bool:  # noqa: FBT001 - the value of an operation's field
        return self._lifetimes.refresh_on_read if asked is None else asked

    # --- performing --------------------------------------------------------------------------------------------------

    def perform(self, rows: Rows) -> Performed:
        """Do it, inside one transaction of the backend. May be called again when that is undone."""
        places = sorted(self._puts)  # everybody changes rows in this order, so that no two wait for each other
        if places:
            rows.hold(None if self._reads else places)
        moment = now()
        results: list[Any] = [None] * self.count
        to_refresh: dict[Place, None] = {}
        for position, op in self._reads:
            results[position], shown = self._read(rows, op, moment)
            to_refresh |= dict.fromkeys((row.namespace, row.key) for row in shown if row.ttl is not None)
        for namespace, key in places:
            put = self._puts[namespace, key]
            if put.value is None:
                rows.delete(namespace, key)
                continue
            before = rows.find(namespace, key, moment)
            created = moment if before is None else before.created_at
            expires = None if put.ttl is None else moment + put.ttl
            row = StoredItem(namespace, key, put.value, created, max(moment, created), expires, put.ttl)
            rows.put(row, [self.vectors.documents[text] for text in put.texts])
        return Performed(results, sorted(to_refresh))

    def _read(self, rows: Rows, op: GetOp | SearchOp | ListNamespacesOp, moment: int) -> tuple[Any, list[StoredItem]]:
        """What one operation gives, and the rows whose time begins anew if they have one."""
        if isinstance(op, ListNamespacesOp):
            return _listed(rows, op, moment), []
        if isinstance(op, GetOp):
            row = rows.find(op.namespace, op.key, moment)
            return (None, []) if row is None else (_item(row), [row] if op.refresh_ttl else [])
        found = self._searched(rows, op, moment)
        shown = [_search_item(row, score) for row, score in found]
        return shown, [row for row, _ in found] if op.refresh_ttl else []

    def _searched(self, rows: Rows, op: SearchOp, moment: int) -> list[tuple[StoredItem, float | None]]:
        end = op.offset + op.limit
        if op.query is None:
            with closing(_matching(rows, op, moment)) as found:
                return [(row, None) for row in islice(found, op.offset, end)]
        places = [(row.namespace, row.key) for row in _matching(rows, op, moment)]
        with_vectors, own_vectors = self._embedded(rows, op.namespace_prefix, places)
        best = nearest(self.vectors.queries[op.query], own_vectors, end)
        ranked: list[tuple[Place, float | None]] = [(with_vectors[place], score) for place, score in best]
        embedded = set(with_vectors)
        ranked += islice(((place, None) for place in places if place not in embedded), end - len(ranked))
        wanted = ((rows.find(*place, moment), score) for place, score in ranked[op.offset : end])
        return [(row, score) for row, score in wanted if row is not None]

    def _embedded(
        self, rows: Rows, prefix: tuple[str, ...], places: Sequence[Place]
    ) -> tuple[list[Place], list[list[bytes]]]:
        """Those of the places that have vectors, in order, and the vectors of each."""
        by_place: defaultdict[Place, list[bytes]] = defaultdict(list)
        wanted = set(places)
        for namespace, key, data in rows.vectors(prefix):
            if (namespace, key) in wanted:
                cast("Index", self._index).check_stored(data, namespace, key)
                by_place[namespace, key].append(data)
        have = [place for place in places if place in by_place]
        return have, [by_place[place] for place in have]


def _matching(rows: Rows, op: SearchOp, moment: int) -> Generator[StoredItem, None, None]:
    wanted = op.filter or {}
    with closing(rows.scan(op.namespace_prefix, must_contain(wanted), moment)) as found:
        for row in found:
            if not wanted or matches(_value(row), wanted):
                yield row


def _listed(rows: Rows, op: ListNamespacesOp, moment: int) -> list[tuple[str, ...]]:
    conditions = op.match_conditions or ()
    cut: dict[tuple[str, ...], None] = {}
    end = op.offset + op.limit
    with closing(rows.namespaces(known_head(conditions), known_tail(conditions), moment)) as found:
        for namespace in found:
            if len(cut) >= end:
                break
            if all(fits(namespace, condition) for condition in conditions):
                cut[namespace[: op.max_depth]] = None  # in order still: a cut keeps the order of tuples
    return list(islice(cut, op.offset, end))


# --- small parts -----------------------------------------------------------------------------------------------------


def _checked_listing(op: ListNamespacesOp) -> ListNamespacesOp:
    _check_page(op.limit, op.offset)
    depth: Any = op.max_depth
    if depth is not None and (isinstance(depth, bool) or not isinstance(depth, int) or depth < 1):
        raise InvalidConfigError(f"max_depth is {shortened(depth)}; it is a number of labels, 1 or more.")
    return op._replace(match_conditions=[check_condition(condition) for condition in op.match_conditions or ()])


def _check_page(limit: Any, offset: Any) -> None:
    for name, number in (("limit", limit), ("offset", offset)):
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise InvalidConfigError(f"{name} is {shortened(number)}; it is a whole number, 0 or more.")


def _key(key: Any) -> str:
    return str.__str__(key) if isinstance(key, str) else str(key)


def _named(place: Place) -> str:
    return f"item {shortened(place[1])} of namespace {place[0]!r}"


def _encoded(value: dict[str, Any], place: Place) -> bytes:
    try:
        return CODEC.encode(dict(value))
    except UnserializableValueError as error:
        cure = "Store a value of the plain types, or register the type with durable_graph.register_type(...)."
        raise UnserializableValueError(f"{_named(place)}: {error.what}", cure=cure) from error


def _value(row: StoredItem) -> dict[str, Any]:
    try:
        return CODEC.decode(row.value)
    except DurableGraphError as error:
        error.add_note(f"in {_named((row.namespace, row.key))}")
        raise


def _item(row: StoredItem) -> Item:
    return Item(_value(row), row.key, row.namespace, as_datetime(row.created_at), as_datetime(row.updated_at))


def _search_item(row: StoredItem, score: float | None) -> SearchItem:
    times = as_datetime(row.created_at), as_datetime(row.updated_at)
    return SearchItem(_value(row), row.key, row.namespace, *times, score)
