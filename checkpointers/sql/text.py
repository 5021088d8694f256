"""The user's text in a database: UTF-8 with lone surrogates let through, as bytes. See `checkpointers.sql.tables`."""

from __future__ import annotations

__all__ = ["as_bytes", "as_text"]


def as_bytes(text: str) -> bytes:
    """Any str as bytes."""
    return text.encode("utf-8", "surrogatepass")


def as_text(data: bytes) -> str:
    """The str again."""
    return data.decode("utf-8", "surrogatepass")
