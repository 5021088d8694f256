"""What every user of a SQLite file does alike: read its options, and attach to the file's one `SqliteDatabase`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from checkpointers.sql.sharing import User
from checkpointers.sql.sqlite_database import SqliteDatabase, attach, databases
from checkpointers.sql.sqlite_target import checked_synchronous, checked_timeout, find_file

if TYPE_CHECKING:
    from checkpointers.sql.sqlite_database import Synchronous
    from checkpointers.sql.sqlite_target import Target

__all__ = ["SqliteUser"]


class SqliteUser(User[SqliteDatabase]):
    """Mixed into a checkpointer, a store or a cache, before its base class."""

    _databases = databases
    _file: str
    _synchronous: Synchronous

    def _use(self, target: Target, synchronous: Synchronous, busy_timeout: float) -> dict[str, str]:
        """Note the file and its options; those of a URL win, and are given back.

        Raises:
            InvalidConfigError: the target names no SQLite database, or an option is wrong.
        """
        self._file, options = find_file(target)
        self._synchronous = checked_synchronous(options.get("synchronous", synchronous))
        self._patience = checked_timeout(options.get("busy_timeout", busy_timeout))
        return options

    @override
    def _attach(self) -> SqliteDatabase:
        return attach(self._file, self._synchronous)
