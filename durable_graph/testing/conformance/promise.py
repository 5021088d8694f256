"""What a promise is, and what a backend must be to be asked for it."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from durable_graph.errors import InvalidConfigError
from durable_graph.testing.backends import open_backend
from durable_graph.testing.conformance.acting import SYNC
from durable_graph.testing.processes import importable_name

if TYPE_CHECKING:
    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.testing.backends import Opener
    from durable_graph.testing.conformance.acting import Face

__all__ = ["CAPABILITIES", "PROMISES", "Backend", "Promise", "promise"]

CAPABILITIES: Final = {
    "durable": "what was written is there when the data is opened again",
    "many_processes": "several processes use the same data at once",
    "leases": "it notes signs of life of who has a claim, and tells how old they are",
    "lists_threads": "it can tell which threads it holds",
    "runs": "it keeps queued runs, events that runs wait for, and schedules",
    "survives_fork": "one object can be used on both sides of os.fork()",
}
"""What not every backend offers, by name."""


class Backend:
    """A backend whose promises are asked for.

    open: "memory", "sqlite", or a function of a folder that opens the data that is kept there, in an empty folder new
        data. For promises that need other processes it must be a function that can be imported.
    capabilities: which of `CAPABILITIES` it offers.
    name: as it is shown.

    Raises:
        InvalidConfigError: a capability is unknown.
    """

    def __init__(self, open: Opener, capabilities: Collection[str] = (), *, name: str = "") -> None:
        unknown = sorted(set(capabilities) - CAPABILITIES.keys())
        if unknown:
            raise InvalidConfigError(f"unknown capability {unknown[0]!r}; known: {', '.join(CAPABILITIES)}")
        self.capabilities = frozenset(capabilities)
        self.name = name or (open if isinstance(open, str) else getattr(open, "__name__", "backend"))
        self._open: Opener = open
        self._folders: list[tuple[Checkpointer, Path]] = []
        self._root: str | None = None
        self._remove: Callable[[], object] | None = None

    def __repr__(self) -> str:
        return f"Backend({self.name})"

    def fresh(self) -> Checkpointer:
        """A checkpointer over new, empty data."""
        if self._root is None:
            self._root = tempfile.mkdtemp(prefix="conformance-")
            self._remove = weakref.finalize(self, shutil.rmtree, self._root, ignore_errors=True)
        return self._opened(Path(tempfile.mkdtemp(dir=self._root)))

    def reopen(self, checkpointer: Checkpointer) -> Checkpointer:
        """Another object over the same data; the same object where the data is the object."""
        return self._opened(self.folder(checkpointer)) if "durable" in self.capabilities else checkpointer

    def folder(self, checkpointer: Checkpointer) -> Path:
        """Where its data is kept."""
        return next(folder for known, folder in self._folders if known is checkpointer)

    def elsewhere(self, checkpointer: Checkpointer) -> dict[str, str]:
        """What another process opens the data with.

        Raises:
            InvalidConfigError: the function that opens it cannot be imported.
        """
        opener = self._open if self._open in ("memory", "sqlite") else importable_name(self._open)
        return {"opener": str(opener), "folder": str(self.folder(checkpointer))}

    def close(self) -> None:
        """Close all that was opened, and remove the folders."""
        while self._folders:
            checkpointer, _ = self._folders.pop()
            checkpointer.close()
        if self._remove is not None:
            _ = self._remove()
        self._root = self._remove = None

    def _opened(self, folder: Path) -> Checkpointer:
        checkpointer = open_backend(self._open, folder)
        self._folders.append((checkpointer, folder))
        return checkpointer


Check: TypeAlias = Callable[[Backend, "Face"], None]


@dataclass(slots=True, frozen=True)
class Promise:
    """One promise: a function of a backend and a face. `needs`: the capabilities without which it is not given."""

    name: str
    text: str
    needs: frozenset[str]
    check: Check

    def __call__(self, backend: Backend, face: Face = SYNC) -> None:
        """Ask for it.

        Raises:
            AssertionError: it is broken; the text says what was seen.
        """
        try:
            self.check(backend, face)
        except Exception as error:
            seen = str(error) if type(error) is AssertionError else f"{type(error).__name__}: {error}"
            broken = f"{backend.name} breaks a promise, {face.name} face: {self.text}"
            raise AssertionError(f"{broken}\n  promise: {self.name}\n  seen: {seen}") from error

    def applies(self, backend: Backend) -> bool:
        """Whether the backend gives it at all."""
        return self.needs <= backend.capabilities


PROMISES: dict[str, Promise] = {}
"""All promises by name, in the order in which they are asked for."""


def promise(*needs: str) -> Callable[[Check], Promise]:
    """Make a promise of a function; its docstring is what is promised."""

    def make(check: Check) -> Promise:
        text = " ".join((check.__doc__ or "").split())
        found = PROMISES[check.__name__] = Promise(check.__name__, text, frozenset(needs), check)
        return found

    return make
