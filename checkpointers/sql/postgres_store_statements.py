r"""The fixed texts of stores on Postgres. Tests hold them against `checkpointers.sql.tables`.

`@` before a table's name becomes the quoted schema, as in `checkpointers.sql.postgres_statements`. A sweep never waits:
what somebody else holds is being replaced, begun anew, or swept.
"""

from __future__ import annotations

from typing import Final

from checkpointers.sql.store_statements import StoreStatements

__all__ = ["DECLARE", "FETCH", "HOLD", "POSTGRES", "SWEEP"]

POSTGRES: Final = StoreStatements(
    find="""\
SELECT namespace, key, value, created_at, updated_at, expires, ttl FROM @item
WHERE namespace = %b AND key = %b AND (expires IS NULL OR expires > %s)""",
    scan="""\
SELECT namespace, key, value, created_at, updated_at, expires, ttl FROM @item
WHERE namespace >= %b AND namespace < %b AND (expires IS NULL OR expires > %s)""",
    contains=" AND position(%b IN value) > 0",
    vectors="SELECT namespace, key, data FROM @vector WHERE namespace >= %b AND namespace < %b",
    namespaces="""\
SELECT DISTINCT namespace FROM @item
WHERE namespace >= %b AND namespace < %b AND (expires IS NULL OR expires > %s)""",
    ends_with=r"""
AND substr(namespace, length(namespace) + 1 - %s::int) = %b
AND (length(namespace) = %s OR substr(namespace, length(namespace) + 1 - %s::int, 1) = '\x00')""",
    put="""\
INSERT INTO @item (namespace, key, value, created_at, updated_at, expires, ttl) VALUES (%b, %b, %b, %s, %s, %s, %s)
ON CONFLICT (namespace, key) DO UPDATE SET
    value = excluded.value, created_at = excluded.created_at, updated_at = excluded.updated_at,
    expires = excluded.expires, ttl = excluded.ttl""",
    put_vector="INSERT INTO @vector (namespace, key, no, data) VALUES (%b, %b, %s, %b)",
    delete="DELETE FROM @item WHERE namespace = %b AND key = %b",
    delete_vectors="DELETE FROM @vector WHERE namespace = %b AND key = %b",
    refresh="""\
UPDATE @item SET expires = %s + ttl WHERE namespace = %b AND key = %b AND ttl IS NOT NULL AND expires > %s""",
)

SWEEP: Final = """\
WITH over AS (
    SELECT namespace, key FROM @item WHERE expires <= %s ORDER BY namespace, key FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM @item AS item USING over WHERE item.namespace = over.namespace AND item.key = over.key RETURNING 1
), vectors AS (
    DELETE FROM @vector AS vector USING over WHERE vector.namespace = over.namespace AND vector.key = over.key
)
SELECT count(*) FROM gone"""

HOLD: Final = """\
SELECT pg_advisory_xact_lock(hashtext('durable_graph store ' || %s), stripe) FROM unnest(%b::int[]) AS stripe"""
"""Lock stripes of a schema's store, one after the other. Parameters: the schema, and the numbers of the stripes."""

DECLARE: Final = "DECLARE {name} NO SCROLL CURSOR FOR {statement}"
FETCH: Final = "FETCH {rows} FROM {name}"
