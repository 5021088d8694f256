"""What every user of a SQLite file does alike: read its options, attach to the file's one `SqliteDatabase`, let go."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from checkpointers.sql.sqlite_database import attach, detach, registry
from checkpointers.sql.sqlite_target import checked_synchronous, checked_timeout, find_file

if TYPE_CHECKING:
    from checkpointers.sql.sqlite_database import SqliteDatabase, Synchronous
    from checkpointers.sql.sqlite_target import Target

__all__ = ["SqliteUser"]


class SqliteUser:
    """Mixed into a checkpointer, a store or a cache, before its base class. The file is opened on first use."""

    _file: str
    _synchronous: Synchronous
    _patience: float
    _database: SqliteDatabase | None
    _detach: weakref.finalize[..., Any] | None

    def _use(self, target: Target, synchronous: Synchronous, busy_timeout: float) -> None:
        """Note the file and its options; those of a URL win.

        Raises:
            InvalidConfigError: the target names no SQLite database, or an option is wrong.
        """
        self._file, options = find_file(target)
        self._synchronous = checked_synchronous(options.get("synchronous", synchronous))
        self._patience = checked_timeout(options.get("busy_timeout", busy_timeout))
        self._database = None
        self._detach = None

    def setup(self) -> None:
        """Make the tables now. Never needed: first use does it.

        Raises:
            StorageError: the file cannot be used.
        """
        self._open().prepare(self._patience)

    def close(self) -> None:
        """Let go of the file; the last user of it in this process closes it. The object may be used again."""
        self._database = None
        if self._detach is not None:
            self._detach()

    def _open(self) -> SqliteDatabase:
        with registry.lock:  # or two OS threads would both attach, and one attachment would never be undone
            if self._database is None:
                self._database = attach(self._file, self._synchronous)
                self._detach = weakref.finalize(self, detach, self._database)
            return self._database
