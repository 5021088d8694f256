"""What tests of stores share: fixtures, a clock that moves when told, texts as vectors, and a naive model.

make    makes a store, of each kind in turn     calls   the same, called through the sync and the async face
each    makes a store of each kind at once      clock   the stores' clock
"""

import pytest

from durable_graph.stores import InMemoryStore
from durable_graph.stores.filters import matches
from tests import postgres_server


def memory(folder, **options):
    return InMemoryStore(**options)


def sqlite(folder, **options):
    from checkpointers import SqliteStore

    return SqliteStore(folder / "memory.db", synchronous="NORMAL", **options)


def sqlite_in_memory(folder, **options):
    from checkpointers import SqliteStore

    return SqliteStore(":memory:", **options)


def postgres(folder, **options):
    from checkpointers import PostgresStore

    return PostgresStore(**postgres_server.ready(), **options)


STORES = {"memory": memory, "sqlite": sqlite, "sqlite_in_memory": sqlite_in_memory, "postgres": postgres}


class Clock:
    """Milliseconds since 1970, for the stores of this process."""

    def __init__(self, monkeypatch):
        self.now = 1_700_000_000_000
        for module in ("plan", "base"):
            monkeypatch.setattr(f"durable_graph.stores.{module}.now", lambda: self.now)

    def forward(self, minutes):
        self.now += round(minutes * 60_000)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


class Opened(list):
    """The stores of a test."""

    def add(self, kind, folder, options):
        self.append((kind, STORES[kind](folder, **options)))
        return self[-1][1]

    def close(self):
        for _, store in self:
            store.close()
        if any(kind == "postgres" for kind, _ in self):
            postgres_server.empty()


@pytest.fixture(params=STORES)
def make(request, tmp_path):
    """Makes the test's store."""
    opened = Opened()
    yield lambda **options: opened.add(request.param, tmp_path, options)
    opened.close()


@pytest.fixture
def each(tmp_path):
    """Makes a store of each kind."""
    opened = Opened()
    yield lambda **options: [opened.add(kind, tmp_path, options) for kind in STORES]
    opened.close()


@pytest.fixture
def calls(face, make):
    """Makes the test's store, called through a face."""
    return lambda **options: Calls(face, make(**options))


class Calls:
    def __init__(self, face, store):
        self.face, self.store = face, store

    def __getattr__(self, method):
        return lambda *args, **kwargs: self.face.call(self.store, method, *args, **kwargs)


def keys(items):
    return [item.key for item in items]


LETTERS = "abcde"


def letters(texts):
    """Vectors that count letters."""
    return [[float(text.count(letter)) for letter in LETTERS] for text in texts]


async def letters_async(texts):
    return letters(texts)


class Letters:
    """An object that embeds, as LangChain's Embeddings do."""

    def embed_documents(self, texts):
        return letters(texts)

    def embed_query(self, text):
        return letters([text])[0]


class AsyncLetters:
    async def aembed_documents(self, texts):
        return letters(texts)

    async def aembed_query(self, text):
        return letters([text])[0]


def index(embed=letters, **options):
    return {"dims": len(LETTERS), "embed": embed, **options}


class Model:
    """What a store should answer, in the plainest way: no expiry, no vectors."""

    def __init__(self):
        self.values = {}

    def put(self, namespace, key, value):
        self.values[namespace, key] = value

    def delete(self, namespace, key):
        self.values.pop((namespace, key), None)

    def get(self, namespace, key):
        return self.values.get((namespace, key))

    def search(self, prefix, filter, limit, offset):
        found = [
            (namespace, key, value)
            for (namespace, key), value in sorted(self.values.items(), key=lambda item: item[0])
            if namespace[: len(prefix)] == prefix and matches(value, filter or {})
        ]
        return found[offset : offset + limit]

    def list_namespaces(self, prefix, suffix, max_depth, limit, offset):
        found = {
            namespace[:max_depth]
            for namespace, _ in self.values
            if _agree(prefix, namespace) and _agree(suffix[::-1], namespace[::-1])
        }
        return sorted(found)[offset : offset + limit]


def _agree(path, labels):
    return len(path) <= len(labels) and all(want in ("*", label) for want, label in zip(path, labels, strict=False))
