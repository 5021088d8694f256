"""What the tests of checkpointers do all the time: begin a thread, take it over, append a step, read it back."""

import asyncio
import random
import threading

from durable_graph.errors import InternalError
from durable_graph.records import BASE, DELTA, MAIN, ClaimRequest, CommitItem, LaneInfo, Row

FIRST_LANE = LaneInfo(1, "", 0, 0, 0)
FIRST_ROW = Row(1, MAIN, 1, BASE, b"base")


class Sync:
    name = "sync"

    def load(self, checkpointer, key, **options):
        return checkpointer.load(key, **options)

    def read(self, checkpointer, no, ranges):
        return checkpointer.read(no, ranges)


class Async:
    """Every call in an event loop of its own."""

    name = "async"

    def load(self, checkpointer, key, **options):
        return asyncio.run(checkpointer.aload(key, **options))

    def read(self, checkpointer, no, ranges):
        return asyncio.run(checkpointer.aread(no, ranges))


def start(checkpointer, key="thread", owner="first owner", rows=(FIRST_ROW,)):
    """A new thread with one lane and one row."""
    claim = checkpointer.claim(create(key, owner, rows))
    assert claim is not None
    return claim


def create(key, owner, rows=()):
    return ClaimRequest(key, owner, None, random.randrange(2, 2**31), 1, 0, (FIRST_LANE,), rows)


def take_over(checkpointer, claim, seen, key="thread", owner="second owner"):
    return checkpointer.claim(ClaimRequest(key, owner, claim.epoch, claim.epoch + 1, 1, seen, (), ()))


def step(claim, seq, data=b"step", **options):
    return CommitItem(claim, (Row(1, MAIN, seq, DELTA, data),), **options)


def refusal(call):
    """The text of the InternalError with which the call ends."""
    try:
        accepted = call()
    except InternalError as error:
        return str(error)
    raise AssertionError(f"accepted: {accepted}")


def seqs(face, checkpointer, key="thread"):
    return [row.seq for row in face.load(checkpointer, key).rows]


def together(count, work):
    """Runs `work(n)` in `count` OS threads that start together; their results."""
    gate, results, errors = threading.Barrier(count), [None] * count, []

    def run(n):
        try:
            gate.wait()
            results[n] = work(n)
        except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's OS thread
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
