"""Keeps our objects usable on both sides of `os.fork()`.

A lock that another OS thread holds during a fork stays locked in the child for ever, so forking waits until nobody is
inside. And SQLite must not have a file open across a fork, used or not [measured, SQLite 3.40]: the child inherits the
library's note "this process holds the shared lock", therefore takes none of its own; the parent, closing last, deletes
the `-wal` file under the child, and what the child was told is stored is lost. So files are closed before the fork
and opened again on demand on both sides.

Objects are asked in the order they were made. Each hook gets one chance; what could not be made ready in time is told
to the object in the child, which then refuses to work instead of losing data.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["PATIENCE", "Forkable", "survive_forks"]

PATIENCE = 2.0
"""Seconds a fork waits for all objects together to come to rest."""


class Forkable(Protocol):
    """An object with locks or files that a fork must find at rest."""

    def before_fork(self, deadline: float) -> None:
        """Come to rest and stay so; give up at `deadline` (of `time.monotonic`)."""

    def after_fork(self, *, child: bool) -> None:
        """Go on, in the parent or in the child."""


_objects: list[weakref.ref[Forkable]] = []
_forking = threading.Lock()


def survive_forks(newcomer: Forkable) -> None:
    """Have the object's hooks called around every fork, for as long as it lives."""
    _objects.append(weakref.ref(newcomer, _forget))


def _forget(gone: weakref.ref[Forkable]) -> None:
    _objects.remove(gone)


def _alive() -> Iterator[Forkable]:
    for reference in tuple(_objects):
        if (found := reference()) is not None:
            yield found


_resting: list[Forkable] = []


def _before() -> None:
    _forking.acquire()
    deadline = time.monotonic() + PATIENCE
    for forkable in _alive():
        _resting.append(forkable)
        forkable.before_fork(deadline)


def _after_in_parent() -> None:
    _wake(child=False)
    _forking.release()


def _after_in_child() -> None:
    _wake(child=True)
    _forking.release()


def _wake(*, child: bool) -> None:
    for forkable in _resting:
        forkable.after_fork(child=child)
    _resting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
