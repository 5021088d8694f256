"""What every store promises, on each of them and through both faces."""

import asyncio
import random
from datetime import UTC, datetime, timedelta

import pytest

from durable_graph.errors import CorruptDataError, InvalidConfigError, UnserializableValueError
from durable_graph.stores import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from durable_graph.testing.conformance.acting import together
from tests.conformance.stores import (
    LETTERS,
    STORES,
    Model,
    calls,
    clock,
    each,
    index,
    keys,
    letters_async,
    make,
)

__all__ = ["calls", "clock", "each", "make"]  # fixtures


# --- items -----------------------------------------------------------------------------------------------------------


def test_what_is_put_comes_out_with_exact_types(calls):
    store = calls()
    value = {"tuple": (1, 2), "set": {1}, "time": datetime(2024, 1, 1, tzinfo=UTC), "big": 2**80, "odd": "\0\ud800"}
    store.put(("users", "ada"), "k", value)
    item = store.get(("users", "ada"), "k")
    assert (item.value, item.key, item.namespace) == (value, "k", ("users", "ada"))
    assert type(item.value["tuple"]) is tuple


def test_an_item_that_is_not_there_is_none(calls):
    store = calls()
    store.put(("a",), "k", {})
    assert store.get(("a",), "other") is None
    assert store.get(("a", "b"), "k") is None


def test_a_caller_holds_a_copy_of_its_own(calls):
    store = calls()
    value = {"tags": ["a"]}
    store.put(("a",), "k", value)
    value["tags"].append("b")
    store.get(("a",), "k").value["tags"].append("c")
    store.search(("a",))[0].value["tags"].append("d")
    assert store.get(("a",), "k").value == {"tags": ["a"]}


def test_created_at_survives_an_update(calls, clock):
    store = calls()
    store.put(("a",), "k", {"n": 1})
    first = store.get(("a",), "k")
    assert first.created_at == first.updated_at == datetime.fromtimestamp(clock.now / 1000, UTC)
    clock.forward(1)
    store.put(("a",), "k", {"n": 2})
    second = store.get(("a",), "k")
    assert (second.created_at, second.updated_at) == (first.created_at, first.created_at + timedelta(minutes=1))
    assert store.search(("a",))[0].created_at == first.created_at


def test_an_item_that_was_deleted_begins_anew(calls, clock):
    store = calls()
    store.put(("a",), "k", {})
    store.delete(("a",), "k")
    assert store.get(("a",), "k") is None
    clock.forward(1)
    store.put(("a",), "k", {})
    assert store.get(("a",), "k").created_at == datetime.fromtimestamp(clock.now / 1000, UTC)


def test_a_clock_that_goes_back_updates_nothing_before_it_was_created(calls, clock):
    store = calls()
    store.put(("a",), "k", {})
    clock.forward(-5)
    store.put(("a",), "k", {})
    item = store.get(("a",), "k")
    assert item.updated_at == item.created_at


def test_items_as_plain_data(calls, clock):
    store = calls()
    store.put(("a", "b"), "k", {"n": 1})
    times = {"created_at": "2023-11-14T22:13:20+00:00", "updated_at": "2023-11-14T22:13:20+00:00"}
    plain = {"namespace": ["a", "b"], "key": "k", "value": {"n": 1}, **times}
    assert store.get(("a", "b"), "k").dict() == plain
    assert store.search(("a",))[0].dict() == {**plain, "score": None}


@pytest.mark.parametrize("key", ["", "a.b", "nul \0", "\ud800", "é", "x" * 5000])
def test_any_text_is_a_key(calls, key):
    store = calls()
    store.put(("a",), key, {"n": 1})
    store.put(("a",), "another", {"n": 2})
    assert store.get(("a",), key).value == {"n": 1}
    assert key in keys(store.search(("a",)))
    store.delete(("a",), key)
    assert keys(store.search(("a",))) == ["another"]


def test_a_key_that_is_no_text_is_taken_as_its_text(calls):
    store = calls()
    store.put(("a",), 7, {"n": 1})
    assert store.get(("a",), "7").key == store.get(("a",), 7).key == "7"


# --- namespaces ------------------------------------------------------------------------------------------------------

WRONG = [("",), ("a.b",), ("a", "nul\0"), ("a", 1), "a", None]


@pytest.mark.parametrize("namespace", [*WRONG, (), ("langgraph",), ("langgraph", "a")], ids=repr)
def test_nothing_is_put_under_a_namespace_that_is_not_allowed(calls, namespace):
    store = calls()
    with pytest.raises(InvalidNamespaceError, match="Cure") as caught:
        store.put(namespace, "k", {})
    assert isinstance(caught.value, ValueError)
    assert store.search(()) == []


@pytest.mark.parametrize("namespace", WRONG, ids=repr)
def test_a_wrong_namespace_is_refused_by_every_verb(calls, namespace):
    store = calls()
    for verb in (
        lambda: store.get(namespace, "k"),
        lambda: store.delete(namespace, "k"),
        lambda: store.search(namespace),
        lambda: store.batch([ListNamespacesOp([MatchCondition("prefix", namespace)])]),
    ):
        with pytest.raises(InvalidNamespaceError):
            verb()


def test_namespaces_are_listed_in_order_with_prefix_suffix_and_depth(calls):
    store = calls()
    for namespace in [("b",), ("a", "x", "notes"), ("a",), ("a", "y", "notes"), ("a", "y"), ("ab", "notes")]:
        store.put(namespace, "k", {})
        store.put(namespace, "l", {})
    everything = [("a",), ("a", "x", "notes"), ("a", "y"), ("a", "y", "notes"), ("ab", "notes"), ("b",)]
    assert store.list_namespaces() == everything
    assert store.list_namespaces(prefix=("a",)) == everything[:4]
    assert store.list_namespaces(suffix=("notes",)) == [everything[1], everything[3], everything[4]]
    assert store.list_namespaces(prefix=("*", "y")) == everything[2:4]
    assert store.list_namespaces(suffix=("y", "*")) == [everything[3]]
    assert store.list_namespaces(prefix=("a",), suffix=("a",)) == [("a",)]
    assert store.list_namespaces(prefix=("a",), max_depth=2) == [("a",), ("a", "x"), ("a", "y")]
    assert store.list_namespaces(max_depth=1) == [("a",), ("ab",), ("b",)]
    assert store.list_namespaces(max_depth=1, limit=1, offset=1) == [("ab",)]
    assert store.list_namespaces(limit=0) == []


def test_the_end_of_a_label_is_not_the_label(calls):
    store = calls()
    store.put(("a", "xnotes"), "k", {})
    assert store.list_namespaces(suffix=("notes",)) == []
    assert store.list_namespaces(prefix=("a", "x")) == []
    assert store.search(("a", "x")) == []


@pytest.mark.parametrize("condition", [("a",), MatchCondition("infix", ("a",)), "a"], ids=repr)
def test_a_condition_that_is_none_is_an_error_that_shows_right_ones(calls, condition):
    with pytest.raises(InvalidNamespaceError, match=r'MatchCondition."prefix"'):
        calls().batch([ListNamespacesOp([condition])])


def test_a_namespace_is_gone_with_its_last_item(calls):
    store = calls()
    store.put(("a",), "k", {})
    store.delete(("a",), "k")
    assert store.list_namespaces() == []


# --- searching -------------------------------------------------------------------------------------------------------


def test_items_are_found_below_a_namespace_in_order(calls):
    store = calls()
    for namespace, key in [(("b",), "1"), (("a", "b"), "2"), (("a",), "4"), (("a",), "3"), (("ab",), "5")]:
        store.put(namespace, key, {})
    assert keys(store.search(())) == ["3", "4", "2", "5", "1"]
    assert keys(store.search(("a",))) == ["3", "4", "2"]
    assert keys(store.search(("a",), limit=1, offset=1)) == ["4"]
    assert store.search(("a",), limit=0) == []
    assert store.search(("a",), offset=9) == []
    assert {item.score for item in store.search(())} == {None}


@pytest.mark.parametrize("options", [{"limit": -1}, {"offset": -1}, {"limit": True}, {"limit": None}, {"limit": 1.0}])
def test_a_wrong_page_is_an_error(calls, options):
    store = calls()
    with pytest.raises(InvalidConfigError, match=next(iter(options))):
        store.search(("a",), **options)
    with pytest.raises(InvalidConfigError, match=next(iter(options))):
        store.list_namespaces(**options)


@pytest.mark.parametrize("depth", [0, -1, True, "1"])
def test_a_wrong_depth_is_an_error(calls, depth):
    with pytest.raises(InvalidConfigError, match="max_depth"):
        calls().list_namespaces(max_depth=depth)


# --- batches ---------------------------------------------------------------------------------------------------------


def test_a_batch_reads_the_state_before_its_puts_and_the_last_put_wins(calls):
    store = calls()
    store.put(("a",), "k", {"n": 1})
    results = store.batch(
        [
            PutOp(("a",), "k", {"n": 2}),
            PutOp(("b",), "new", {"n": 9}),
            GetOp(("a",), "k"),
            PutOp(("a",), "k", {"n": 3}),
            SearchOp(("b",)),
            ListNamespacesOp(),
            GetOp(("b",), "new"),
        ]
    )
    assert results[2].value == {"n": 1}
    assert [results[place] for place in (0, 1, 3, 4, 5, 6)] == [None, None, None, [], [("a",)], None]
    assert store.get(("a",), "k").value == {"n": 3}


def test_in_a_batch_none_deletes(calls):
    store = calls()
    store.put(("a",), "k", {"n": 1})
    store.batch([PutOp(("a",), "k", {"n": 2}), PutOp(("a",), "k", None), PutOp(("a",), "l", None)])
    assert store.get(("a",), "k") is None
    store.batch([PutOp(("a",), "k", None), PutOp(("a",), "k", {"n": 4})])
    assert store.get(("a",), "k").value == {"n": 4}


def test_an_empty_batch_is_nothing(calls):
    assert calls().batch([]) == []


def test_operations_may_come_from_a_generator(calls):
    store = calls()
    assert store.batch(PutOp(("a",), str(n), {"n": n}) for n in range(3)) == [None] * 3
    assert keys(store.search(("a",))) == ["0", "1", "2"]


class NotStorable:
    pass


@pytest.mark.parametrize(
    ("op", "error", "named"),
    [
        (PutOp(("a",), "bad", {"x": NotStorable()}), UnserializableValueError, r"(?s)'bad'.*\('a',\).*\['x'\]"),
        (PutOp(("a",), "bad", [1]), InvalidConfigError, "'bad'.*not a dict"),
        (PutOp(("a",), "bad", {1: 2}), InvalidConfigError, "'bad'.*key 1"),
        (PutOp(("a.b",), "bad", {}), InvalidNamespaceError, "a.b"),
        (PutOp(("a",), "bad", {}, ttl=0), InvalidConfigError, "'bad'.*ttl is 0"),
        (PutOp(("a",), "bad", {}, ttl=True), InvalidConfigError, "ttl is True"),
        (PutOp(("a",), "bad", {}, ttl=float("nan")), InvalidConfigError, "ttl is nan"),
        (PutOp(("a",), "bad", {}, index=["x"]), InvalidConfigError, "'bad'.*no index"),
        (SearchOp(("a",), query="x"), InvalidConfigError, "(?s)no index.*index="),
        (("a", "k"), InvalidConfigError, "no operation"),
    ],
)
def test_a_wrong_operation_fails_its_batch_before_anything_is_stored(calls, op, error, named):
    store = calls()
    store.put(("a",), "k", {"n": 1})
    with pytest.raises(error, match=named):
        store.batch([PutOp(("a",), "k", {"n": 2}), PutOp(("a",), "k", None), op, PutOp(("a",), "l", {})])
    assert [(item.key, item.value) for item in store.search(())] == [("k", {"n": 1})]


def test_put_without_a_value_is_an_error_that_names_delete(calls):
    with pytest.raises(InvalidConfigError, match=r"delete\("):
        calls().put(("a",), "k", None)


# --- many callers ----------------------------------------------------------------------------------------------------


def test_many_os_threads_and_event_loops_share_one_object(make):
    store = make(index=index(letters_async, fields=["text"]))

    async def through_a_loop(n):
        await store.aput(("a", str(n)), "k", {"text": "ab", "n": n})
        return (await store.asearch(("a", str(n)), query="ab"))[0].value["n"]

    def work(n):
        if n % 2:
            return asyncio.run(through_a_loop(n))
        store.put(("a", str(n)), "k", {"text": "ab", "n": n})
        return store.search(("a", str(n)), query="ab")[0].value["n"]

    assert together(8, work) == list(range(8))
    assert len(store.search(("a",), limit=100)) == 8


def test_of_puts_to_one_place_from_many_os_threads_one_wins_whole(make):
    store = make(index=index(fields=["text"]))

    def work(n):
        for _ in range(10):
            store.put(("a",), "k", {"text": LETTERS[n], "n": n})

    together(4, work)
    item = store.search((), query=store.get(("a",), "k").value["text"])[0]
    assert item.value["text"] == LETTERS[item.value["n"]]
    assert item.score == 1.0


def test_many_tasks_of_one_loop(make):
    store = make(index=index(letters_async, fields=["text"]))

    async def main():
        await asyncio.gather(*(store.aput(("a",), str(n), {"text": "ab", "n": n}) for n in range(20)))
        return await asyncio.gather(*(store.aget(("a",), str(n)) for n in range(20)))

    assert [item.value["n"] for item in asyncio.run(main())] == list(range(20))


def test_a_sync_call_inside_a_running_loop_can_use_an_async_embedding_function(make):
    store = make(index=index(letters_async, fields=["text"]))

    async def main():
        store.put(("a",), "k", {"text": "ab"})
        return store.search((), query="ab")[0].score

    assert asyncio.run(main()) == 1.0


def test_a_store_is_a_context_manager_and_may_be_used_again(make):
    async def main():
        async with make() as store:
            await store.aput(("a",), "k", {})
            assert await store.aget(("a",), "k") is not None

    asyncio.run(main())
    with make() as store:
        store.setup()
        asyncio.run(store.asetup())
        store.put(("b",), "k", {})
    store.put(("b",), "l", {})
    assert store.get(("b",), "l") is not None


# --- all stores answer the same --------------------------------------------------------------------------------------

LABELS = ["a", "b", "ab", "é", "\x01", "\x02", "\ud800", "\U0001f600", "*"]


class Workload:
    """Random operations; the same seed gives the same."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def namespace(self):
        return tuple(self.random.choice(LABELS) for _ in range(self.random.randint(1, 3)))

    def key(self):
        return self.random.choice(["k", "l", "", "\0", "\x01", "\ud800", "é"])

    def scalar(self):
        return self.random.choice([0, 1, True, False, None, "a", "b", 1.5, -0.0, 0.0, 2**70, b"a"])

    def value(self):
        value = {"n": self.scalar(), "m": {"x": self.scalar(), "y": [self.scalar()]}, "text": self.text()}
        for name in self.random.sample(sorted(value), self.random.randint(0, 2)):
            del value[name]
        return value

    def text(self):
        return "".join(self.random.choices(LETTERS, k=self.random.randint(0, 4)))

    def filter(self):
        operator = self.random.choice(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])
        wanted = self.random.choice([self.scalar(), {operator: self.scalar()}])
        if self.random.random() < 0.4:
            return None
        return self.random.choice([{"n": wanted}, {"m": {"x": wanted}}, {"m.x": wanted}, {"m": {"y": [wanted]}}])

    def page(self):
        return {"limit": self.random.randint(0, 6), "offset": self.random.randint(0, 3)}

    def path(self):
        return tuple(self.random.choice([*LABELS, "*", "*"]) for _ in range(self.random.randint(0, 2)))


def plain_reads(work):
    prefix = work.random.choice([(), work.namespace()[:1], work.namespace()])
    wanted, page = work.filter(), work.page()
    listing = {"prefix": work.path(), "suffix": work.path(), "max_depth": work.random.choice([None, 1, 2])}
    return prefix, wanted, page, listing


@pytest.mark.parametrize("seed", range(15))
def test_random_operations_give_what_a_naive_model_gives(calls, seed):
    work, store, model = Workload(seed), calls(), Model()
    for _ in range(60):
        namespace, key, value = work.namespace(), work.key(), work.value()
        if work.random.random() < 0.7:
            store.put(namespace, key, value)
            model.put(namespace, key, value)
        else:
            store.delete(namespace, key)
            model.delete(namespace, key)
        found = store.get(namespace, key)
        assert (found and found.value) == model.get(namespace, key)
        prefix, wanted, page, listing = plain_reads(work)
        searched = [(item.namespace, item.key, item.value) for item in store.search(prefix, filter=wanted, **page)]
        assert repr(searched) == repr(model.search(prefix, wanted, **page))
        assert store.list_namespaces(**listing, **page) == model.list_namespaces(**listing, **page)


def random_op(work):
    prefix, wanted, page, listing = plain_reads(work)
    kind = work.random.random()
    if kind < 0.5:
        value = work.value() if work.random.random() < 0.8 else None
        fields = work.random.choice([None, None, False, ["text", "m.y[*]"]])
        return PutOp(work.namespace(), work.key(), value, fields, work.random.choice([None, None, 1, 3]))
    if kind < 0.6:
        return GetOp(work.namespace(), work.key(), work.random.choice([True, False]))
    if kind < 0.9:
        query = work.random.choice([None, "ab", "cde"])
        return SearchOp(prefix, wanted, **page, query=query, refresh_ttl=work.random.choice([True, False]))
    conditions = [MatchCondition("prefix", listing["prefix"]), MatchCondition("suffix", listing["suffix"])]
    return ListNamespacesOp(conditions, listing["max_depth"], **page)


@pytest.mark.parametrize("seed", range(15))
def test_all_stores_give_the_same_for_random_batches(face, each, clock, seed):
    stores = each(index=index(fields=["text"]))
    work, shown = Workload(1000 + seed), 0
    for _ in range(60):
        if work.random.random() < 0.1:
            first, *others = [face.call(store, "sweep_ttl") for store in stores]
            assert [first] * len(others) == others
        ops = [random_op(work) for _ in range(work.random.randint(1, 6))]
        first, *others = [repr(face.call(store, "batch", ops)) for store in stores]
        assert [first] * len(others) == others
        shown += first.count("SearchItem(")
        clock.forward(work.random.choice([0, 0.1, 0.5]))
    assert shown > 20  # or it compared nothing with nothing


def test_a_damaged_value_is_an_error_that_names_the_item(tmp_path, face):
    import sqlite3

    store = STORES["sqlite"](tmp_path)
    store.put(("a",), "bad", {"n": 1})
    store.put(("b",), "good", {"n": 2})
    connection = sqlite3.connect(tmp_path / "memory.db")
    connection.execute("UPDATE item SET value = x'c1' WHERE key = CAST('bad' AS BLOB)")
    connection.commit()
    connection.close()
    with pytest.raises(CorruptDataError) as caught:
        face.call(store, "search", ())
    assert "'bad'" in caught.value.__notes__[0]
    assert face.call(store, "get", ("b",), "good").value == {"n": 2}
    face.call(store, "delete", ("a",), "bad")
    assert keys(face.call(store, "search", ())) == ["good"]
    store.close()
