"""Gives objects with locks new ones in a forked child, where the OS threads that held the old ones do not exist."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet

__all__ = ["Renewable", "renew_in_children"]


class Renewable(Protocol):
    """An object with locks."""

    def renew(self) -> None:
        """Forget what only OS threads of the parent could finish. Called in the child, before anything else runs."""


_objects: WeakSet[Renewable] = WeakSet()


def renew_in_children(newcomer: Renewable) -> None:
    """Have the object renewed in every child that is forked, for as long as it lives."""
    _objects.add(newcomer)


def _after_in_child() -> None:
    for found in tuple(_objects):
        found.renew()


os.register_at_fork(after_in_child=_after_in_child)
