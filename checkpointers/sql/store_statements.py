"""The fixed texts of stores on SQLite. Tests hold them against `checkpointers.sql.tables`.

A namespace is written so that those below a prefix are a range, and their order is that of tuples (see
`checkpointers.sql.store`). What has expired is left out by every statement that reads.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "CONTAINS",
    "DELETE",
    "DELETE_VECTORS",
    "ENDS_WITH",
    "FIND",
    "IN_ORDER",
    "NAMESPACES",
    "NAMESPACES_IN_ORDER",
    "PUT",
    "PUT_VECTOR",
    "REFRESH",
    "SCAN",
    "SWEEP",
    "SWEEP_VECTORS",
    "VECTORS",
]

# --- reading -------------------------------------------------------------------------------------------------------

FIND: Final = """\
SELECT namespace, key, value, created_at, updated_at, expires, ttl FROM item
WHERE namespace = ? AND key = ? AND (expires IS NULL OR expires > ?)"""

SCAN: Final = """\
SELECT namespace, key, value, created_at, updated_at, expires, ttl FROM item
WHERE namespace >= ? AND namespace < ? AND (expires IS NULL OR expires > ?)"""
"""Parameters: a range of namespaces, and now. CONTAINS may follow, any number of times; IN_ORDER ends it."""

CONTAINS: Final = " AND instr(value, ?) > 0"

IN_ORDER: Final = " ORDER BY namespace, key"

VECTORS: Final = "SELECT namespace, key, data FROM vector WHERE namespace >= ? AND namespace < ?"

NAMESPACES: Final = """\
SELECT DISTINCT namespace FROM item
WHERE namespace >= ? AND namespace < ? AND (expires IS NULL OR expires > ?)"""
"""Parameters: as SCAN. ENDS_WITH may follow; NAMESPACES_IN_ORDER ends it."""

ENDS_WITH: Final = """
AND substr(namespace, -?) = ? AND (length(namespace) = ? OR substr(namespace, -?, 1) = x'00')"""
"""Parameters: the length of the end, the end, its length, and one more than that: where another label ends."""

NAMESPACES_IN_ORDER: Final = " ORDER BY namespace"

# --- writing -------------------------------------------------------------------------------------------------------

PUT: Final = """\
INSERT INTO item (namespace, key, value, created_at, updated_at, expires, ttl) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (namespace, key) DO UPDATE SET
    value = excluded.value, created_at = excluded.created_at, updated_at = excluded.updated_at,
    expires = excluded.expires, ttl = excluded.ttl"""

PUT_VECTOR: Final = "INSERT INTO vector (namespace, key, no, data) VALUES (?, ?, ?, ?)"

DELETE: Final = "DELETE FROM item WHERE namespace = ? AND key = ?"

DELETE_VECTORS: Final = "DELETE FROM vector WHERE namespace = ? AND key = ?"

REFRESH: Final = """\
UPDATE item SET expires = ? + ttl WHERE namespace = ? AND key = ? AND ttl IS NOT NULL AND expires > ?"""

SWEEP: Final = "DELETE FROM item WHERE expires <= ?"

SWEEP_VECTORS: Final = """\
DELETE FROM vector WHERE (namespace, key) IN (SELECT namespace, key FROM item WHERE expires <= ?)"""
