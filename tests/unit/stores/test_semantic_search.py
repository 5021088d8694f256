"""Search by a query: what is embedded, when and by what, and in which order it is found."""

import random

import pytest

from durable_graph.errors import InvalidConfigError
from durable_graph.stores import PutOp, SearchOp
from tests.conformance.stores import AsyncLetters, Letters, index, keys, letters, letters_async

EMBEDS = {"function": letters, "async_function": letters_async, "object": Letters(), "async_object": AsyncLetters()}


@pytest.mark.parametrize("embed", EMBEDS)
def test_the_nearest_come_first_and_what_is_not_embedded_last(calls, embed):
    store = calls(index=index(EMBEDS[embed], fields=["text"]))
    store.put(("a",), "far", {"text": "eee"})
    store.put(("a",), "near", {"text": "aab"})
    store.put(("a",), "same", {"text": "ab"})
    store.put(("a",), "no text", {"other": "ab"})
    store.put(("a",), "left out", {"text": "ab"}, index=False)
    found = store.search(("a",), query="ab")
    assert keys(found) == ["same", "near", "far", "left out", "no text"]
    assert [found[0].score, *(item.score for item in found[2:])] == [1.0, 0.0, None, None]
    assert found[1].score == pytest.approx(3 / 10**0.5)
    assert keys(store.search(("a",), query="ab", limit=2, offset=2)) == ["far", "left out"]
    assert keys(store.search(("a",), query="ab", limit=2, offset=4)) == ["no text"]


def test_a_query_searches_below_its_namespace_and_among_what_the_filter_wants(calls):
    store = calls(index=index(fields=["text"]))
    for namespace, key, n in [(("x",), "1", 1), (("x", "y"), "2", 2), (("z",), "3", 2), (("x",), "4", 2)]:
        store.put(namespace, key, {"text": "a" * n, "n": n})
    assert keys(store.search(("x",), query="a", filter={"n": 2})) == ["4", "2"]


def test_a_score_is_that_of_the_nearest_field(calls):
    store = calls(index=index(fields=["title", "parts[*].text"]))
    store.put(("a",), "k", {"title": "eee", "parts": [{"text": "cc"}, {"text": "ab"}, {"none": 1}]})
    store.put(("a",), "l", {"title": "aab"})
    assert [(item.key, item.score == 1.0) for item in store.search((), query="ab")] == [("k", True), ("l", False)]


def test_a_put_may_name_its_own_fields(calls):
    store = calls(index=index(fields=["text"]))
    store.put(("a",), "k", {"text": "eee", "other": "ab"}, index=["other"])
    assert store.search((), query="ab")[0].score == 1.0


def test_an_update_replaces_the_vectors(calls):
    store = calls(index=index(fields=["text"]))
    store.put(("a",), "k", {"text": "ab"})
    store.put(("a",), "k", {"text": "e"})
    assert store.search((), query="ab")[0].score == 0.0
    store.put(("a",), "k", {"text": "ab"}, index=False)
    assert store.search((), query="ab")[0].score is None
    store.delete(("a",), "k")
    store.put(("a",), "k", {})
    assert store.search((), query="ab")[0].score is None


def test_equal_scores_come_in_order(calls):
    store = calls(index=index(fields=["text"]))
    for key in random.Random(1).sample("abcdefghij", 10):
        store.put(("a",), key, {"text": "ab"})
    assert keys(store.search((), query="ab", limit=4)) == list("abcd")
    assert keys(store.search((), query="ab", limit=4, offset=4)) == list("efgh")


def test_one_batch_embeds_each_text_once_and_all_texts_in_one_call(calls):
    seen = []

    def embed(texts):
        seen.append(list(texts))
        return letters(texts)

    store = calls(index=index(embed, fields=["text", "more"]))
    store.batch(
        [
            PutOp(("a",), "k", {"text": "overwritten"}),
            PutOp(("a",), "k", {"text": "a", "more": "b"}),
            PutOp(("a",), "l", {"text": "a", "more": "a"}),
            PutOp(("a",), "m", {"text": "not embedded"}, index=False),
            PutOp(("a",), "n", None),
        ]
    )
    assert seen == [["a", "b"]]
    seen.clear()
    store.batch([SearchOp((), query="a"), SearchOp((), query="b"), SearchOp((), query="a"), SearchOp(())])
    assert seen == [["a", "b"]]


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ([[1.0] * 4], "gave 4 numbers for 'ab'; index.* is 5"),
        ([], "gave 0 vectors for 1 texts"),
        ([[1.0] * 4 + [float("nan")]], "not finite"),
        ([["x"] * 5], "gave .* for 1 texts"),
        (None, "gave None"),
    ],
    ids=repr,
)
def test_an_embedding_function_that_answers_wrongly_is_an_error_and_nothing_is_stored(calls, answer, named):
    store = calls(index=index(lambda _: answer, fields=["text"]))
    with pytest.raises(InvalidConfigError, match=named):
        store.put(("a",), "k", {"text": "ab"})
    assert store.search(()) == []


def test_an_embedding_function_that_raises_stores_nothing_and_passes_its_error(calls):
    def embed(texts):
        raise ConnectionError("no embedding service")

    store = calls(index=index(embed, fields=["text"]))
    with pytest.raises(ConnectionError, match="no embedding service"):
        store.batch([PutOp(("a",), "k", {"text": "ab"}), PutOp(("a",), "l", {}, index=False)])
    assert store.search(()) == []


@pytest.mark.parametrize("query", ["", 7])
def test_a_query_that_is_no_text_is_an_error(calls, query):
    with pytest.raises(InvalidConfigError, match="query is"):
        calls(index=index()).search((), query=query)
