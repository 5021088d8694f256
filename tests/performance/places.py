"""Where the benchmark's data is: a folder, or a database of a Postgres server; and how often it was committed to."""

import secrets
import tempfile
from contextlib import contextmanager
from pathlib import Path
from struct import unpack_from

NEXT = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
"""The number of the server's next transaction that writes; those that only read have none."""


@contextmanager
def new_place(store, given):
    """A new place for data: a folder under `given`, or the DSN of a new database on the server of that DSN."""
    if store != "postgres":
        with tempfile.TemporaryDirectory(dir=given) as folder:
            yield folder
        return
    name = f"bench_{secrets.token_hex(6)}"
    asked(given, f"CREATE DATABASE {name}")
    try:
        yield f"{given} dbname={name}"
    finally:
        asked(given, f"DROP DATABASE {name} WITH (FORCE)")


def asked(dsn, text):
    """What a statement answers; None where that is nothing."""
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(text)
        return cursor.fetchone() if cursor.description else None


def commits(store, place):
    """How many transactions that wrote something were committed so far; None where nobody counts them.

    On SQLite it is a number in the index of the write-ahead log: https://sqlite.org/walformat.html#the_wal_index_header
    """
    if store == "postgres":
        return asked(place, NEXT)[0]
    if not store.startswith("sqlite"):
        return None
    (index,) = Path(place).glob("*.db-shm")
    return unpack_from("=I", index.read_bytes(), 8)[0]
