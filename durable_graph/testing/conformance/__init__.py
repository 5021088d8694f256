"""What every checkpointer promises, to be asked of yours: plain functions, no pytest needed.

    from durable_graph.testing import conformance

    backend = conformance.Backend(open_my_backend, {"durable", "many_processes"})  # a function of a folder
    conformance.check(backend).check()

or, in a test suite:

    @conformance.parametrize(backend)
    def test_promise(case):
        case()
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from durable_graph.testing.conformance import (
    claims,
    commits,
    happenings,
    leases,
    outlasting,
    races,
    reading,
    runs,
    sharing,
    taking,
)
from durable_graph.testing.conformance.acting import ASYNC, FACES, SYNC, Face
from durable_graph.testing.conformance.promise import CAPABILITIES, PROMISES, Backend, Promise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = [
    "ASYNC",
    "CAPABILITIES",
    "FACES",
    "PROMISES",
    "SYNC",
    "Backend",
    "Case",
    "Face",
    "Promise",
    "Report",
    "Result",
    "cases",
    "check",
    "claims",
    "commits",
    "happenings",
    "leases",
    "outlasting",
    "parametrize",
    "promises",
    "races",
    "reading",
    "runs",
    "sharing",
    "taking",
]


def promises(backend: Backend) -> list[Promise]:
    """The promises that a backend with these capabilities gives."""
    return [promise for promise in PROMISES.values() if promise.applies(backend)]


@dataclass(slots=True, frozen=True)
class Case:
    """One promise, asked of one backend through one face."""

    promise: Promise
    backend: Backend
    face: Face

    def __call__(self) -> None:
        """Ask for it, and close what was opened.

        Raises:
            AssertionError: the promise is broken.
        """
        try:
            self.promise(self.backend, self.face)
        finally:
            self.backend.close()

    def __str__(self) -> str:
        return f"{self.backend.name}-{self.face.name}-{self.promise.name}"


def cases(*backends: Backend, faces: Sequence[Face] = FACES) -> list[Case]:
    """All that applies, face by face."""
    return [Case(one, backend, face) for backend in backends for one in promises(backend) for face in faces]


def parametrize(*backends: Backend, faces: Sequence[Face] = FACES) -> Callable[[Any], Any]:
    """A decorator for pytest: the test gets every `case` of these backends; calling it asks for the promise."""
    import pytest

    return pytest.mark.parametrize("case", cases(*backends, faces=faces), ids=str)


@dataclass(slots=True, frozen=True)
class Result:
    """What became of one promise. `seen`: what was seen of it where it is broken, by the face's name."""

    promise: Promise
    seen: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def ok(self) -> bool:
        """Whether it was kept."""
        return not self.seen

    def __str__(self) -> str:
        head = f"{'ok    ' if self.ok else 'BROKEN'}  {self.promise.name}"
        return "\n".join((head, *dict.fromkeys(self.seen.values())))


@dataclass(slots=True, frozen=True)
class Report:
    """What a backend keeps of what it promises. `left_out`: promises that need capabilities which it does not claim."""

    backend: Backend
    results: tuple[Result, ...]
    left_out: tuple[Promise, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        """The names of broken promises."""
        return tuple(result.promise.name for result in self.results if not result.ok)

    @property
    def ok(self) -> bool:
        """Whether all promises were kept."""
        return not self.broken

    def check(self) -> Report:
        """The report itself, where all promises were kept.

        Raises:
            AssertionError: one is broken; the text says which and what was seen.
        """
        if not self.ok:
            raise AssertionError("\n".join(str(result) for result in self.results if not result.ok))
        return self

    def __str__(self) -> str:
        kept = sum(result.ok for result in self.results)
        told = f"{self.backend.name}: {kept} of {len(self.results)} promises kept"
        return told + (f", {len(self.left_out)} not given" if self.left_out else "")


def check(backend: Backend, *, faces: Sequence[Face] = FACES, report: Callable[[str], object] | None = print) -> Report:
    """Ask a backend for all that it promises, through both faces.

    Args:
        backend: the backend.
        faces: `SYNC`, `ASYNC` or both.
        report: gets a line for each promise; None for none.
    """
    say = report or _silent
    results = tuple(_told(_asked(promise, backend, faces), say) for promise in promises(backend))
    left_out = tuple(promise for promise in PROMISES.values() if not promise.applies(backend))
    for promise in left_out:
        _ = say(f"-       {promise.name} (needs {', '.join(sorted(promise.needs - backend.capabilities))})")
    found = Report(backend, results, left_out)
    _ = say(str(found))
    return found


def _told(result: Result, say: Callable[[str], object]) -> Result:
    _ = say(str(result))
    return result


def _asked(promise: Promise, backend: Backend, faces: Iterable[Face]) -> Result:
    seen: dict[str, str] = {}
    for face in faces:
        try:
            Case(promise, backend, face)()
        except AssertionError as error:
            seen[face.name] = str(error)
    return Result(promise, seen)


def _silent(_: str) -> None:
    return
