"""The event loop on which sync calls wait for async embedding functions."""

import asyncio
import contextvars
import os

import pytest

from durable_graph.errors import EventLoopError
from durable_graph.stores import InMemoryStore
from tests.conformance.processes import python, result
from tests.conformance.stores import index, letters, letters_async


def test_all_sync_calls_use_one_loop_so_that_clients_bound_to_it_keep_working():
    loops = []

    async def embed(texts):
        loops.append(asyncio.get_running_loop())
        return letters(texts)

    store = InMemoryStore(index=index(embed))
    store.put(("a",), "k", {"text": "ab"})
    store.search((), query="ab")
    assert len(loops) == 2
    assert loops[0] is loops[1]
    assert not loops[0].is_closed()


user = contextvars.ContextVar("user", default="nobody")


def test_the_embedding_function_sees_the_callers_context():
    seen = []

    async def embed(texts):
        seen.append(user.get())
        return letters(texts)

    token = user.set("ada")
    try:
        InMemoryStore(index=index(embed)).put(("a",), "k", {"text": "ab"})
    finally:
        user.reset(token)
    assert seen == ["ada"]


def test_an_embedding_function_that_calls_its_store_in_a_sync_way_is_told_so():
    async def embed(texts):
        store.search((), query="again")
        return letters(texts)

    store = InMemoryStore(index=index(embed))
    with pytest.raises(EventLoopError, match="asearch"):
        store.put(("a",), "k", {"text": "ab"})
    assert store.search(()) == []


def test_an_embedding_function_that_exits_ends_only_its_own_call():
    async def embed(texts):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        InMemoryStore(index=index(embed)).put(("a",), "k", {"text": "ab"})
    store = InMemoryStore(index=index(letters_async))
    store.put(("a",), "k", {"text": "ab"})
    assert store.search((), query="ab")[0].key == "k"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_forked_child_gets_a_loop_of_its_own():
    code = """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forking with OS threads: that is the test
from durable_graph.stores import InMemoryStore
from tests.conformance.stores import index, letters_async
store = InMemoryStore(index=index(letters_async))
store.put(("a",), "k", {"text": "ab"})
pid = os.fork()
line = f"{store.search((), query='ab')[0].key} {'child' if pid == 0 else 'parent'}\\n"
os.write(1, line.encode())  # in one piece: print writes word by word when Python is told not to buffer
if pid == 0: os._exit(0)
os.waitpid(pid, 0)
"""
    assert sorted(result(python(code)).split("\n")) == ["k child", "k parent"]


def test_ctrl_c_breaks_the_wait_off_and_cancels_the_embedding_function():
    code = """
import asyncio, threading
from durable_graph.stores import InMemoryStore
from tests.conformance.processes import strike
from tests.conformance.stores import index
cancelled = threading.Event()

async def embed(texts):
    threading.Thread(target=strike, args=(cancelled,)).start()
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        cancelled.set()
        raise

store = InMemoryStore(index=index(embed))
try:
    store.put(("a",), "k", {"text": "ab"})
except KeyboardInterrupt:
    print(cancelled.wait(20), store.search(()))
"""
    assert result(python(code)) == "True []"
