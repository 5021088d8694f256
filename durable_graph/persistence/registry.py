"""Finds the checkpointer that a user means.

Backends announce themselves by an entry point of the group `durable_graph.checkpointers`; its name is the scheme of
their URLs, and it loads an object with `from_conn_string(url_or_path)`. Ours are announced like anybody's, so this
library imports none of them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Protocol

from durable_graph.errors import InvalidConfigError
from durable_graph.persistence.checkpointer import Checkpointer

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "resolve_checkpointer"]

GROUP: Final = "durable_graph.checkpointers"
_SCHEME_OF_PATHS: Final = "sqlite"


class _Backend(Protocol):
    """What an entry point of the group loads."""

    def from_conn_string(self, target: str | os.PathLike[str], /) -> Any: ...


def resolve_checkpointer(target: Checkpointer | str | os.PathLike[str]) -> Checkpointer:
    """The checkpointer for a URL ("sqlite:///runs.db", "memory://"), a path (a SQLite file), or the object itself.

    Raises:
        InvalidConfigError: no backend of that name is installed, or the target is none of these. The text names the
            installed ones and the nearest match.
    """
    if isinstance(target, Checkpointer):
        return target
    if isinstance(target, str):
        scheme, separator, _ = target.partition("://")
        if not separator or "=" in scheme:
            raise _no_url(target)
        return _open(scheme, target)
    if isinstance(target, os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
        return _open(_SCHEME_OF_PATHS, target)
    given = f"the class {target.__name__}" if isinstance(target, type) else f"an object of type {type(target).__name__}"
    raise InvalidConfigError(
        f"checkpointer is {given}; it takes a Checkpointer, a URL or a pathlib.Path.",
        cure='Pass e.g. SqliteSaver("runs.db"), "sqlite:///runs.db" or InMemorySaver().',
    )


def _open(scheme: str, target: str | os.PathLike[str]) -> Checkpointer:
    backends = _installed()
    if scheme not in backends:
        raise _unknown(scheme, target, sorted(backends))
    backend: _Backend = backends[scheme].load()
    checkpointer = backend.from_conn_string(target)
    if not isinstance(checkpointer, Checkpointer):
        raise InvalidConfigError(
            f"The backend {scheme!r} ({backends[scheme].value}) gave an object of type {type(checkpointer).__name__}, "
            "which is no durable_graph Checkpointer.",
            cure="Its from_conn_string must return the checkpointer itself; tell whoever maintains it.",
        )
    return checkpointer


def _installed() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {found.name: found for found in entry_points(group=GROUP)}


def _no_url(target: str) -> InvalidConfigError:
    if "password" in target:  # a DSN; what is secret is not shown
        return InvalidConfigError(
            f"checkpointer is text that is no URL. Installed backends: {_listed(sorted(_installed()))}.",
            cure='Write "postgresql://user:password@host/database", or pass PostgresSaver("host=… dbname=…").',
        )
    return InvalidConfigError(
        f"checkpointer={target!r} is not a URL. Installed backends: {_listed(sorted(_installed()))}.",
        cure=f'Write "sqlite:///{target}" for a SQLite file, or "memory://".',
    )


def _unknown(scheme: str, target: str | os.PathLike[str], schemes: list[str]) -> InvalidConfigError:
    from difflib import get_close_matches

    given = "" if isinstance(target, str) and "@" in target else f" ({target!r})"  # what stands before @ is secret
    what = f"No checkpointer is installed for {scheme!r}{given}. Installed: {_listed(schemes)}."
    if near := get_close_matches(scheme, schemes, n=1, cutoff=0.5):
        return InvalidConfigError(what, cure=f"Did you mean {near[0]}://…?")
    if not schemes:
        return InvalidConfigError(
            what,
            cure="Install the package, so that its backends are announced: pip install -e . in a checkout.",
        )
    return InvalidConfigError(what, cure="Write one of the installed schemes, or install the backend.")


def _listed(schemes: list[str]) -> str:
    return ", ".join(f"{scheme}://" for scheme in schemes) or "none"
