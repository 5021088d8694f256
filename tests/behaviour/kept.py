"""A node whose results are kept in a cache: what tests of these share."""

import operator
from typing import Annotated, TypedDict

from checkpointers import PostgresCache, SqliteCache
from durable_graph import START, StateGraph
from durable_graph.caches import CachePolicy, InMemoryCache
from tests import postgres_server
from tests.behaviour.small_graphs import thread

CFG = thread()
KEPT = CachePolicy()


class Made:
    """Caches over the same data."""

    def __init__(self, kind, folder):
        self.kind, self.folder, self.opened = kind, folder, []

    def make(self):
        if self.kind == "memory":
            self.opened = self.opened or [InMemoryCache()]
        elif self.kind == "postgres":
            self.opened.append(PostgresCache(**postgres_server.ready()))
        else:
            self.opened.append(SqliteCache(path=self.folder / "cache.db"))
        return self.opened[-1]

    def close(self):
        for cache in self.opened:
            cache.close()
        if self.kind == "postgres":
            postgres_server.empty()


class Asked(TypedDict, total=False):
    question: str
    answer: str
    log: Annotated[list, operator.add]


def answering(marks, word="answer to "):
    """A node that is to be called once for each question."""

    def node(state):
        marks(state["question"])
        return {"answer": f"{word}{state['question']}"}

    return node


class Question(TypedDict):
    """What the node's result depends on."""

    question: str


def one(node, policy=KEPT, schema=Asked, **more):
    more.setdefault("input_schema", Question)
    return StateGraph(schema).add_node("a", node, cache_policy=policy, **more).add_edge(START, "a")
