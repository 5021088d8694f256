"""psycopg, for all who talk to Postgres: whoever comes first learns how to install it where it is missing."""

from __future__ import annotations

from durable_graph.errors import InvalidConfigError

try:
    import psycopg
    from psycopg import conninfo, errors
    from psycopg.types.numeric import Int8BinaryDumper
except ImportError as error:
    _missing = "PostgresSaver, PostgresStore and PostgresCache need psycopg"
    raise InvalidConfigError(
        f"{_missing}, which cannot be imported here: {error}.", cure="Run: pip install 'durable-graph[postgres]'"
    ) from error

__all__ = ["Int8BinaryDumper", "conninfo", "errors", "psycopg"]
