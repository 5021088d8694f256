"""The fixed texts of stores: which there are, and those of SQLite. Tests hold them against `checkpointers.sql.tables`.

A namespace is written so that those below a prefix are a range, and their order is that of tuples (see
`checkpointers.sql.store`). What has expired is left out by every statement that reads items.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["SQLITE", "SWEEP", "SWEEP_VECTORS", "StoreStatements"]


class StoreStatements(NamedTuple):
    """The texts by which the rows of a store are found and kept, in one dialect.

    Parameters of find: namespace, key, now.   scan, namespaces: the range of namespaces, now.   vectors: the range.
    contains: a fragment; follows `scan` any number of times.
    ends_with: the length of the end, the end, its length, one more than that: where another label ends; follows
        `namespaces`.
    put, put_vector: all columns, in order.   delete, delete_vectors: namespace, key.
    refresh: now, namespace, key, now.
    """

    find: str
    scan: str
    contains: str
    vectors: str
    namespaces: str
    ends_with: str
    put: str
    put_vector: str
    delete: str
    delete_vectors: str
    refresh: str

    def scanning(self, fragments: int) -> str:
        """The rows below a namespace that contain so many fragments, in order."""
        return self.scan + self.contains * fragments + " ORDER BY namespace, key"

    def listing(self, *, tail: bool) -> str:
        """The namespaces below one, in order; with a tail those that end with it."""
        return self.namespaces + (self.ends_with if tail else "") + " ORDER BY namespace"


SQLITE: Final = StoreStatements(
    find="""\
SELECT namespace, key, value, created_at, updated_at, expires, ttl FROM item
WHERE namespace = ? AND key = ? AND (expires IS NULL OR expires > ?)""",
    scan="""\
SELECT namespace, key, value, created_at, updated_at, expires, ttl FROM item
WHERE namespace >= ? AND namespace < ? AND (expires IS NULL OR expires > ?)""",
    contains=" AND instr(value, ?) > 0",
    vectors="SELECT namespace, key, data FROM vector WHERE namespace >= ? AND namespace < ?",
    namespaces="""\
SELECT DISTINCT namespace FROM item
WHERE namespace >= ? AND namespace < ? AND (expires IS NULL OR expires > ?)""",
    ends_with="""
AND substr(namespace, -?) = ? AND (length(namespace) = ? OR substr(namespace, -?, 1) = x'00')""",
    put="""\
INSERT INTO item (namespace, key, value, created_at, updated_at, expires, ttl) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (namespace, key) DO UPDATE SET
    value = excluded.value, created_at = excluded.created_at, updated_at = excluded.updated_at,
    expires = excluded.expires, ttl = excluded.ttl""",
    put_vector="INSERT INTO vector (namespace, key, no, data) VALUES (?, ?, ?, ?)",
    delete="DELETE FROM item WHERE namespace = ? AND key = ?",
    delete_vectors="DELETE FROM vector WHERE namespace = ? AND key = ?",
    refresh="UPDATE item SET expires = ? + ttl WHERE namespace = ? AND key = ? AND ttl IS NOT NULL AND expires > ?",
)

SWEEP: Final = "DELETE FROM item WHERE expires <= ?"

SWEEP_VECTORS: Final = """\
DELETE FROM vector WHERE (namespace, key) IN (SELECT namespace, key FROM item WHERE expires <= ?)"""
