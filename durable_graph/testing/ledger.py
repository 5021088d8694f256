"""A ledger of side effects: what nodes did outside of the state, in a file that survives the process.

    LEDGER = Ledger()

    def charge(state):
        LEDGER.append("charge", state["order"])
        ...

Each entry is one line, appended with one write to a file opened with O_APPEND: entries of several OS threads and
processes do not mix, and what was appended is there after SIGKILL.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import weakref
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from durable_graph.errors import OutsideRunError
from durable_graph.testing.life import LIFE

__all__ = ["Entry", "Ledger", "write_to"]


class Entry(NamedTuple):
    """One side effect.

    task: id of the task that did it, "" outside of nodes. life: which life of a crash sweep did it, 0 outside of
    sweeps. writes: how many writes of that life were acknowledged before.
    """

    name: str
    key: str
    task: str = ""
    life: int = 0
    writes: int = 0


_given: list[str] = []


def write_to(path: str) -> None:
    """Have ledgers without a path of their own use this file: in a child process, that of its parent."""
    _given[:] = [path]


class Ledger:
    """Side effects, in order.

    path: the file; it may exist. None: a temporary file, which is removed with the object. A child process of a crash
        sweep writes to the file of the sweep.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self._path = Path(path) if path is not None else None
        self._lock = threading.Lock()

    @property
    def path(self) -> Path:
        """Where it is kept."""
        if self._path is None and _given:
            return Path(_given[0])
        with self._lock:
            if self._path is None:
                descriptor, name = tempfile.mkstemp(prefix="ledger-", suffix=".jsonl")
                os.close(descriptor)
                self._path = Path(name)
                _ = weakref.finalize(self, _remove, name, os.getpid())
            return self._path

    def append(self, name: str, key: object = "") -> None:
        """Record that something happened: what (`name`), to what (`key`, stored as text).

        In a crash sweep the process may die right here.
        """
        life = LIFE.get()
        if life is not None:
            life.check()
        entry = Entry(
            name,
            str(key),
            _current_task(),
            life.number if life is not None else 0,
            life.writes if life is not None else 0,
        )
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            _ = os.write(descriptor, f"{json.dumps(entry)}\n".encode())
        finally:
            os.close(descriptor)
        if life is not None:
            life.effect(f"{name} {key}".strip())

    def entries(self) -> list[Entry]:
        """All entries, oldest first."""
        try:
            lines = self.path.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [Entry(*json.loads(line)) for line in lines]

    def counts(self) -> Counter[tuple[str, str]]:
        """How often each (name, key) happened."""
        return Counter((entry.name, entry.key) for entry in self.entries())

    def clear(self) -> None:
        """Forget all entries."""
        _ = self.path.write_bytes(b"")


def _current_task() -> str:
    from durable_graph.runtime.context import get_runtime

    try:
        return get_runtime().execution_info.task_id
    except OutsideRunError:
        return ""


def _remove(name: str, pid: int) -> None:
    if os.getpid() == pid:  # not a forked child's to remove
        with suppress(OSError):
            Path(name).unlink()
