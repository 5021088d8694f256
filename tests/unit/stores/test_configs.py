"""What a store refuses to be made with, and what it makes of what it is given."""

import pytest

from durable_graph.errors import InvalidConfigError
from durable_graph.stores import BaseStore, GetOp, InMemoryStore, PutOp
from tests.conformance.stores import Letters, index, letters


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ([], "not a dict"),
        ({"embed": letters}, "'dims'"),
        ({"dims": 0, "embed": letters}, "'dims'. is 0"),
        ({"dims": True, "embed": letters}, "'dims'. is True"),
        ({"dims": 5}, "'embed'. is None"),
        ({"dims": 5, "embed": object()}, "cannot embed"),
        (
            {"dims": 5, "embed": "openai:text-embedding-3-small"},
            r"(?s)init_embeddings\('openai:text-embedding-3-small'\)",
        ),
        ({"dims": 5, "embed": letters, "fields": "text"}, "list of paths"),
        ({"dims": 5, "embed": letters, "fields": []}, r"is \[\]; it is a list of paths"),
        ({"dims": 5, "embed": letters, "fields": ["a["]}, "no path"),
        ({"dims": 5, "embed": letters, "field": ["a"]}, "unknown key 'field'.*dims, embed, fields"),
    ],
    ids=lambda value: value if isinstance(value, str) else "config",
)
def test_a_wrong_index_is_an_error(config, named):
    with pytest.raises(InvalidConfigError, match=named):
        InMemoryStore(index=config)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ([], "not a dict"),
        ({"default": 1}, "unknown key 'default'.*default_ttl"),
        ({"default_ttl": 0}, "default_ttl.*is 0"),
        ({"default_ttl": -1}, "default_ttl"),
        ({"default_ttl": True}, "default_ttl"),
        ({"default_ttl": "1"}, "default_ttl"),
        ({"default_ttl": float("inf")}, "default_ttl"),
        ({"sweep_interval_minutes": 0}, "sweep_interval_minutes"),
        ({"refresh_on_read": 1}, "refresh_on_read"),
        ({"omit_expired": False}, "never shown"),
    ],
    ids=repr,
)
def test_a_wrong_time_to_live_is_an_error(config, named):
    with pytest.raises(InvalidConfigError, match=named):
        InMemoryStore(ttl=config)


def test_a_configuration_of_langgraph_fits():
    config = {"refresh_on_read": True, "default_ttl": None, "sweep_interval_minutes": 60, "omit_expired": True}
    store = InMemoryStore(ttl=config)
    assert store.supports_ttl
    assert store.ttl_config == config


@pytest.mark.parametrize("fields", ["text", [], ["a["], [7], True, {"a": 1}], ids=repr)
def test_wrong_fields_of_a_put_are_an_error(fields):
    with pytest.raises(InvalidConfigError):
        InMemoryStore(index=index()).put(("a",), "k", {"text": "x"}, index=fields)


@pytest.mark.parametrize("embed", [letters, Letters()], ids=["letters", "Letters"])
def test_an_error_names_what_embeds(embed):
    store = InMemoryStore(index={"dims": 3, "embed": embed})
    with pytest.raises(InvalidConfigError, match=r"(?i)function letters gave 5 numbers"):
        store.put(("a",), "k", {"text": "x"})


class OwnStore(BaseStore):
    """The least that somebody's store must give."""

    def __init__(self):
        self.seen = []

    def batch(self, ops):
        self.seen += ops
        return [None for _ in ops]

    async def abatch(self, ops):
        return self.batch(ops)


def test_a_store_of_somebody_elses_gets_operations(face):
    store = OwnStore()
    face.call(store, "put", ("a",), "k", {"n": 1}, ttl=None)
    face.call(store, "get", ("a",), "k")
    face.call(store, "close")
    assert store.seen == [PutOp(("a",), "k", {"n": 1}, ttl=None), GetOp(("a",), "k", None)]


def test_a_store_without_time_to_live_says_so(face):
    with pytest.raises(NotImplementedError, match="OwnStore"):
        face.call(OwnStore(), "put", ("a",), "k", {}, ttl=5)


def test_an_operation_shows_what_was_not_provided():
    assert repr(PutOp(("a",), "k", None)).endswith("index=None, ttl=NOT_PROVIDED)")
