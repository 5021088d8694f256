"""Fixtures that several counts share."""

import pytest

from checkpointers import SqliteSaver
from durable_graph.runtime import pool


@pytest.fixture
def database(tmp_path):
    """A file with our tables, and the saver over it. No flush to the disk: only the number of commits matters."""
    file = tmp_path / "runs.db"
    with SqliteSaver(file, synchronous="NORMAL") as saver:
        saver.setup()
        yield file, saver


@pytest.fixture(autouse=True)
def own_pool(monkeypatch):
    """The process's pool comes back after a test that counted with pools of its own."""
    monkeypatch.setattr(pool, "_pool", pool._pool)
