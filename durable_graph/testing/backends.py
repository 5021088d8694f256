"""Backends as both kits take them: something that opens the data in a folder."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from durable_graph.errors import InvalidConfigError
from durable_graph.persistence.registry import resolve_checkpointer
from durable_graph.testing.processes import import_named

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from durable_graph.persistence.checkpointer import Checkpointer

__all__ = ["Opener", "open_backend"]

Opener: TypeAlias = "str | Callable[[Path], Checkpointer]"
"""How a backend is opened: "memory", "sqlite", or a function of a folder (or its importable name) that opens the data
that is kept there, in an empty folder new data. A backend that keeps its data elsewhere takes the folder's name."""


def open_backend(backend: Opener, folder: Path) -> Checkpointer:
    """A checkpointer over the data in a folder.

    Raises:
        InvalidConfigError: the backend is unknown or not installed.
    """
    if backend == "memory":
        return _known("memory://").from_conn_string("memory://")
    if backend == "sqlite":  # a killed process loses nothing with NORMAL; only a power cut would make the difference
        return _known("sqlite:///:memory:").from_conn_string(f"sqlite:///{folder.resolve()}/runs.db?synchronous=NORMAL")
    if isinstance(backend, str):
        if ":" not in backend:
            raise InvalidConfigError(
                f"unknown backend {backend!r}",
                cure="Write 'memory', 'sqlite', or a function that opens the data in a folder.",
            )
        backend = cast("Callable[[Path], Checkpointer]", import_named(backend))
    return backend(folder)


@cache
def _known(example: str) -> Any:
    """The class that opens such URLs. Looking for it takes 4 ms, and a sweep opens hundreds."""
    return type(resolve_checkpointer(example))
