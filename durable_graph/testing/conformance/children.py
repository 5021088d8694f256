"""What other processes do for the promises that need them; each function runs in one. Results are JSON."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from durable_graph.records import Claim
from durable_graph.runs.queue import emitting
from durable_graph.testing.backends import open_backend
from durable_graph.testing.conformance.acting import SYNC, seqs, start, step, take_over, write_until_stale
from durable_graph.testing.conformance.queued import adding_one, take_until_empty
from durable_graph.testing.life import kill_this_process

if TYPE_CHECKING:
    from durable_graph.persistence.checkpointer import Checkpointer

__all__ = ["claim", "count", "emit", "fork", "take", "write", "zombie"]

_opened: dict[tuple[str, str], Checkpointer] = {}


def _open(opener: str, folder: str) -> Checkpointer:
    """The data, opened once in this process."""
    place = (opener, folder)
    if place not in _opened:
        _opened[place] = open_backend(opener, Path(folder))
    return _opened[place]


def claim(opener: str, folder: str, no: int, epoch: int, owner: str) -> bool:
    """Ask for a thread; whether it was granted."""
    return take_over(_open(opener, folder), Claim(no, epoch), seen=1, owner=owner) is not None


def write(opener: str, folder: str, key: str, count: int, *, kill: bool = False) -> None:
    """Begin a thread and write so many rows; with `kill`, die then by SIGKILL."""
    _write(_open(opener, folder), key, count)
    if kill:
        kill_this_process()


def zombie(opener: str, folder: str, no: int, epoch: int) -> int:
    """Write to a thread until somebody else has it; the newest seq that was acknowledged."""
    return write_until_stale(_open(opener, folder), Claim(no, epoch), newest=1)


def count(opener: str, folder: str, id: str, times: int) -> int:
    """Count in the report of a run; how many changes were accepted."""
    return sum(_open(opener, folder).with_runs(adding_one(id)) for _ in range(times))


def take(opener: str, folder: str, owner: str) -> list[str]:
    """Take runs until none is left; their ids."""
    return take_until_empty(_open(opener, folder), owner, 2)


def emit(opener: str, folder: str, name: str) -> bool:
    """Emit an event; whether it is new."""
    return _open(opener, folder).with_runs(emitting((name, ""), b"data"))


def fork(opener: str, folder: str) -> dict[str, int]:
    """Use an object, fork, use it on both sides; how many rows each side sees of its thread."""
    checkpointer = _open(opener, folder)
    for key in ("parent", "child"):
        _ = start(checkpointer, key=key)
    claims = {key: _claim_of(checkpointer, key) for key in ("parent", "child")}
    here, there = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forking with OS threads
        pid = os.fork()
    if pid == 0:
        try:
            _ = os.write(there, json.dumps(_append(checkpointer, claims["child"], "child")).encode())
        finally:
            os._exit(0)
    os.close(there)
    mine = _append(checkpointer, claims["parent"], "parent")
    _ = os.waitpid(pid, 0)
    told = os.read(here, 100)
    os.close(here)
    return {"parent": mine, "child": json.loads(told or b"-1")}


def _claim_of(checkpointer: Checkpointer, key: str) -> Claim:
    found = checkpointer.load(key)
    if found is None:
        raise AssertionError(f"thread {key!r} is not there")
    return Claim(found.thread.no, found.thread.epoch)


def _append(checkpointer: Checkpointer, held: Claim, key: str) -> int:
    for seq in range(2, 32):
        if checkpointer.commit([step(held, seq)]) != ["written"]:
            raise AssertionError(f"row {seq} was not written")
    return len(seqs(SYNC, checkpointer, key))


def _write(checkpointer: Checkpointer, key: str, count: int) -> None:
    held = start(checkpointer, key=key)
    for seq in range(2, count + 2):
        outcome = checkpointer.commit([step(held, seq, key.encode())])
        if outcome != ["written"]:
            raise AssertionError(f"row {seq} of {key!r}: {outcome}")
