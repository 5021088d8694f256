"""The fixed texts by which `SqliteCache` reads and writes; a test holds them against `checkpointers.sql.tables`.

Times are milliseconds since 1970; an entry whose `expires` is not above the time of asking is not there.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CLEAR", "CLEAR_ALL", "FIND_ENTRY", "SET_ENTRY", "SWEEP"]

FIND_ENTRY: Final = """\
SELECT value FROM cache WHERE ns = ? AND key = ? AND (expires IS NULL OR expires > ?)"""
"""Parameters: ns, key, now."""

SET_ENTRY: Final = """\
INSERT INTO cache (ns, key, expires, value) VALUES (?, ?, ?, ?)
ON CONFLICT (ns, key) DO UPDATE SET expires = excluded.expires, value = excluded.value"""
"""Parameters: ns, key, expires, value."""

SWEEP: Final = """\
DELETE FROM cache WHERE rowid IN (SELECT rowid FROM cache WHERE expires <= ? ORDER BY expires LIMIT ?)"""
"""Remove what is over, the oldest first. Parameters: now, how many at the most."""

CLEAR: Final = "DELETE FROM cache WHERE ns = ?"

CLEAR_ALL: Final = "DELETE FROM cache"
