"""One object per database and process, however many savers, stores and caches use it."""

from __future__ import annotations

import threading
import time
import weakref
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from checkpointers.forking import survive_forks

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = ["Databases", "User"]


class Database(Protocol):
    """What is shared. `key` is None for one that is nobody else's; `users` counts who holds it."""

    users: int

    @property
    def key(self) -> Hashable | None:
        """What it is found by."""

    def prepare(self, patience: float) -> None:
        """Make the tables ready."""

    def close(self) -> None:
        """Close all connections; the next use opens new ones."""


D = TypeVar("D", bound=Database)


class Databases(Generic[D]):
    """The databases of this process by key, under a lock that forks find at rest."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # re-entrant: a finalizer may detach while this OS thread attaches
        self._open: dict[Hashable, D] = {}
        self._held = False
        survive_forks(self)

    def attach(self, key: Hashable | None, make: Callable[[], D], *, usable: Callable[[D], bool] | None = None) -> D:
        """The database of this key, counted as used once more; a new one when there is none that is usable."""
        with self.lock:
            database = None if key is None else self._open.get(key)
            if database is None or (usable is not None and not usable(database)):
                database = make()
                if key is not None:
                    self._open[key] = database
            database.users += 1
            return database

    def detach(self, database: D) -> None:
        """Count one user less; the last one closes the connections."""
        with self.lock:
            database.users -= 1
            if database.users:
                return
            if self._open.get(database.key) is database:
                del self._open[database.key]
        database.close()

    def before_fork(self, deadline: float) -> None:
        """Hold still while the process forks."""
        self._held = self.lock.acquire(timeout=max(0.0, deadline - time.monotonic()))

    def after_fork(self, *, child: bool) -> None:
        """Go on; the child gets a lock that no OS thread of the parent holds."""
        if child:
            self.lock = threading.RLock()
        elif self._held:
            self.lock.release()


class User(Generic[D]):
    """Mixed into a checkpointer, a store or a cache, before its base class. The database is opened on first use."""

    _patience: float
    _database: D | None = None
    _detach: weakref.finalize[..., Any] | None = None
    _databases: Databases[D]

    @abstractmethod
    def _attach(self) -> D:
        """This process's database, counted as used once more."""

    def setup(self) -> None:
        """Make the tables now. Never needed: first use does it.

        Raises:
            StorageError: the database cannot be used.
        """
        self._open().prepare(self._patience)

    def close(self) -> None:
        """Let go of the database; its last user in this process closes it. The object may be used again."""
        self._database = None
        if self._detach is not None:
            self._detach()

    def _open(self) -> D:
        with self._databases.lock:  # or two OS threads would both attach, and one attachment would never be undone
            if self._database is None:
                self._database = self._attach()
                self._detach = weakref.finalize(self, self._databases.detach, self._database)
            return self._database
