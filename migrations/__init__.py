"""Alembic revisions, installed as `checkpointers._migrations`.

An editable install finds the folder only because this file exists.
"""
