"""The lives of a sweep: runs in this process, which die by an exception, and in child processes, which die by SIGKILL.

Both have the same names: `call` runs the graph, `moments`, `writes` and `where` tell how far it came, `lost` what the
backend lost.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from durable_graph.errors import NodeFailure
from durable_graph.persistence.codec import CODEC
from durable_graph.testing import ledger
from durable_graph.testing.backends import open_backend
from durable_graph.testing.life import WRITES, Crashed, Life, WatchedCheckpointer, kill_this_process
from durable_graph.testing.playing import call_graph, call_in_life, graph_over

if TYPE_CHECKING:
    from collections.abc import Mapping

    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.testing.backends import Opener
    from durable_graph.testing.playing import FaceName
    from durable_graph.testing.processes import ForkServer

__all__ = ["ChildLife", "LocalLife", "Running", "Subject", "load_for_children", "run_call"]

_RUN_CALL = "durable_graph.testing.lives:run_call"
_KILLED = -9
_SECONDS = 60.0
"""How long one call in a child may take."""


@dataclass(slots=True, frozen=True)
class Subject:
    """What is swept. `keywords` are those of `invoke`; source and backend are names where children import them."""

    source: Any
    backend: Opener
    config: Mapping[str, Any]
    keywords: Mapping[str, Any]


class Running(Protocol):
    """A life under way."""

    @property
    def moments(self) -> int:
        """How many moments passed."""
        ...

    @property
    def writes(self) -> int:
        """How many writes were acknowledged."""
        ...

    @property
    def where(self) -> str:
        """At what it died."""
        ...

    def call(self, given: Any) -> None:
        """One call of the graph."""
        ...

    def lost(self, store: Checkpointer) -> list[str]:
        """What the backend acknowledged, and `store`, the same data opened anew, does not hold."""
        ...


class LocalLife:
    """A life in this process, with a graph object of its own."""

    def __init__(self, subject: Subject, face: FaceName, checkpointer: Checkpointer, life: Life) -> None:
        self._subject = subject
        self._face: FaceName = face
        self._life = life
        self._watched = WatchedCheckpointer(checkpointer, life)
        self._graph: Any = graph_over(subject.source, self._watched)

    @property
    def moments(self) -> int:
        """How many moments passed."""
        return self._life.moments

    @property
    def writes(self) -> int:
        """How many writes were acknowledged."""
        return self._life.writes

    @property
    def where(self) -> str:
        """At what it died."""
        return self._life.where

    def call(self, given: Any) -> None:
        """One call of the graph.

        Raises:
            Crashed: the life ended.
        """
        subject = self._subject
        call_in_life(self._life, lambda: call_graph(self._graph, self._face, given, subject.config, subject.keywords))

    def lost(self, store: Checkpointer) -> list[str]:
        """What the backend acknowledged and lost."""
        return self._watched.lost(store)


class ChildLife:
    """A life in child processes, one for each call; the last one is killed with SIGKILL at its moment."""

    def __init__(
        self, subject: Subject, face: FaceName, folder: Path, server: ForkServer, ledger_file: str, dies_at: int | None
    ) -> None:
        self._subject = subject
        self._face = face
        self._folder = folder
        self._server = server
        self._ledger = ledger_file
        self._dies_at = dies_at
        self.moments = 0
        self.writes = 0
        self.where = ""

    def call(self, given: Any) -> None:
        """One call of the graph, in a process of its own.

        Raises:
            Crashed: the process was killed at its moment.
            NodeFailure: the call raised, or its process died in another way; the text has the traceback.
        """
        subject = self._subject
        ended = self._server.call(
            _RUN_CALL,
            kill_after=_SECONDS,
            source=subject.source,
            backend=subject.backend,
            folder=str(self._folder),
            face=self._face,
            payload=_packed((given, dict(subject.config), dict(subject.keywords))),
            ledger_file=self._ledger,
            dies_at=self._dies_at,
            moments=self.moments,
            writes=self.writes,
        )
        if ended.code == _KILLED and self._dies_at is not None and ended.seconds < _SECONDS:
            # Each write has a moment before and one after it.
            self.moments, self.writes = self._dies_at, self._dies_at // 2
            self.where = f"{'before' if self._dies_at % 2 else 'after'} write {(self._dies_at + 1) // 2}"
            raise Crashed
        if ended.code != 0:
            told = ended.error or f"its process ended with code {ended.code} after {ended.seconds:.1f} s"
            raise NodeFailure(f"a run in a child process failed:\n{told}", cure="Correct what the traceback shows.")
        self.moments, self.writes = ended.value

    def lost(self, store: Checkpointer) -> list[str]:
        """Unknown: what a killed process was told died with it."""
        del store
        return []


# --- the child's side ------------------------------------------------------------------------------------------------


def load_for_children(source: str, backend: Opener, folder: str) -> None:
    """In the fork server: load what all children need. Nothing is opened and nothing runs."""
    graph_over(source, open_backend("memory", Path(folder)))
    _ = open_backend(backend, Path(folder))


def run_call(
    *,
    source: str,
    backend: Opener,
    folder: str,
    face: FaceName,
    payload: str,
    ledger_file: str,
    dies_at: int | None,
    moments: int,
    writes: int,
) -> tuple[int, int]:
    """In a child process: one call of a graph; how many moments and writes there were."""
    if ledger_file:
        ledger.write_to(ledger_file)
    life = Life(1, dies_at=dies_at, counted=WRITES, die=kill_this_process, moments=moments, writes=writes)
    graph = graph_over(source, WatchedCheckpointer(open_backend(backend, Path(folder)), life))
    given, config, keywords = CODEC.decode(base64.b64decode(payload))  # after the graph: it makes its types known
    call_in_life(life, lambda: call_graph(graph, face, given, config, keywords))
    return life.moments, life.writes


def _packed(value: Any) -> str:
    return base64.b64encode(CODEC.encode(value)).decode("ascii")
