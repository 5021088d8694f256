"""How alembic runs our revisions.

The library hands over its own connection, inside a transaction that already holds the write lock, so that processes
which start together upgrade once and a failed upgrade leaves nothing behind. It imports nothing of ours: a revision
must mean the same for ever.
"""

from __future__ import annotations

from alembic import context

VERSION_TABLE = "durable_graph_version"

connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit(
        "durable_graph's migrations run by themselves when a database is first used; "
        "from a script of your own, pass a SQLAlchemy connection as config.attributes['connection']."
    )

# transactional_ddl: SQLite can roll DDL back when nobody commits in between, which alembic does not assume.
context.configure(
    connection=connection,
    version_table=VERSION_TABLE,
    version_table_schema=context.config.attributes.get("schema"),  # that of the search path when alembic connected
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
