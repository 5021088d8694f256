"""Every promise on every backend, read through both faces."""

import pytest

from checkpointers import InMemorySaver, SqliteSaver
from tests.conformance.acting import Async, Sync
from tests.conformance.promises import PROMISES


def memory(folder):
    checkpointer = InMemorySaver()
    return lambda: checkpointer


def sqlite(folder):
    return lambda: SqliteSaver(folder / "runs.db", synchronous="NORMAL")


def sqlite_in_memory(folder):
    checkpointer = SqliteSaver(":memory:")
    return lambda: checkpointer


@pytest.mark.parametrize("face", [Sync(), Async()], ids=lambda face: face.name)
@pytest.mark.parametrize("backend", [memory, sqlite, sqlite_in_memory], ids=lambda backend: backend.__name__)
@pytest.mark.parametrize("promise", PROMISES)
def test_promise(promise, backend, face, tmp_path):
    opened = []
    factory = backend(tmp_path)

    def make():
        opened.append(factory())
        return opened[-1]

    PROMISES[promise](make, face)
    for checkpointer in opened:
        checkpointer.close()
