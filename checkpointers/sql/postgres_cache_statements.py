"""The fixed texts by which `PostgresCache` reads and writes; a test holds them against `checkpointers.sql.tables`.

`@` before a table's name becomes the quoted schema, as in `checkpointers.sql.postgres_statements`. Whoever changes
several rows locks them in the order of namespace and key, so that none wait in a ring; a sweep never waits.
"""

from __future__ import annotations

from typing import Final

__all__ = ["CLEAR", "CLEAR_ALL", "FIND_ENTRIES", "SET_ENTRY", "SWEEP"]

FIND_ENTRIES: Final = """\
SELECT cache.ns, cache.key, value FROM unnest(%b::bytea[], %b::bytea[]) AS wanted (ns, key)
JOIN @cache AS cache ON cache.ns = wanted.ns AND cache.key = wanted.key AND (expires IS NULL OR expires > %s)"""
"""Parameters: the namespaces, the keys in them, now."""

SET_ENTRY: Final = """\
INSERT INTO @cache (ns, key, expires, value) VALUES (%b, %b, %s, %b)
ON CONFLICT (ns, key) DO UPDATE SET expires = excluded.expires, value = excluded.value"""
"""Parameters: ns, key, expires, value."""

SWEEP: Final = """\
WITH over AS MATERIALIZED (
    SELECT ns, key FROM @cache WHERE expires <= %s ORDER BY expires LIMIT %s FOR UPDATE SKIP LOCKED
)
DELETE FROM @cache AS cache USING over WHERE cache.ns = over.ns AND cache.key = over.key"""
"""Remove what is over, the oldest first. Parameters: now, how many at the most. MATERIALIZED: a join that looked at it
again for each row would find the next ones each time, and remove them all."""

_CLEAR: Final = """\
DELETE FROM @cache AS cache USING (
    SELECT ns, key FROM @cache{which} ORDER BY ns, key FOR UPDATE
) AS gone WHERE cache.ns = gone.ns AND cache.key = gone.key"""

CLEAR: Final = _CLEAR.format(which=" WHERE ns = ANY(%b)")
"""Parameter: the namespaces."""

CLEAR_ALL: Final = _CLEAR.format(which="")
