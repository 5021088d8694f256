"""The backends, behind one set of names: a test is written once and runs on all of them."""

import sqlite3
from abc import ABC, abstractmethod
from contextlib import closing
from urllib.parse import urlencode

from tests import postgres_server

TABLES = ("thread", "lane", "record", "lease", "item", "cache", "run", "event", "awaited", "schedule")


class Backend(ABC):
    """Data that lives as long as the test.

    Checkpointers are imported when opened, so that a broken backend fails its own tests only.
    """

    def __init__(self, folder):
        self.folder = folder
        self.opened = []

    @abstractmethod
    def open(self):
        """A new checkpointer over the data."""

    def make(self):
        """The test's checkpointer."""
        return self.reopen()

    def reopen(self):
        """A checkpointer over the same data, as another process would open it."""
        checkpointer = self.open()
        self.opened.append(checkpointer)
        return checkpointer

    def url(self, **options):
        """What another process opens the same data with."""
        raise NotImplementedError

    def select(self, text):
        """What is in the tables, as somebody else sees it."""
        raise NotImplementedError

    def tables(self):
        """All that is stored, table by table."""
        return {name: sorted(self.select(f"SELECT * FROM {name}"), key=repr) for name in TABLES}

    def close(self):
        while self.opened:
            self.opened.pop().close()


class MemoryBackend(Backend):
    """Its data is the object: there is only one."""

    def open(self):
        from checkpointers import InMemorySaver

        return InMemorySaver()

    def reopen(self):
        return self.opened[0] if self.opened else super().reopen()


class SqliteBackend(Backend):
    """Without a flush to the disk at each commit: no test cuts the power, and processes that die need none."""

    def open(self):
        from checkpointers import SqliteSaver

        return SqliteSaver(self.folder / "runs.db", synchronous="NORMAL")

    def url(self, **options):
        return f"sqlite:///{self.folder}/runs.db?{urlencode(options)}"

    def select(self, text):
        with closing(sqlite3.connect(self.folder / "runs.db")) as connection:
            return connection.execute(text).fetchall()


class PostgresBackend(Backend):
    """A schema of this process's server, which all tests use in turn."""

    used = False

    def open(self):
        from checkpointers import PostgresSaver

        self.used = True
        return PostgresSaver(**postgres_server.ready())

    def url(self, **options):
        self.used = True
        return postgres_server.url(schema=postgres_server.SCHEMA, **options)

    def select(self, text):
        return postgres_server.select(text)

    def close(self):
        super().close()
        if self.used:
            postgres_server.empty()


BACKENDS = {"memory": MemoryBackend, "sqlite": SqliteBackend, "postgres": PostgresBackend}


def open_url(url):
    """The checkpointer of a URL, without the registry, whose look at all that is installed takes 4 ms in each child."""
    from checkpointers import PostgresSaver, SqliteSaver

    return (SqliteSaver if url.startswith("sqlite:") else PostgresSaver).from_conn_string(url)
