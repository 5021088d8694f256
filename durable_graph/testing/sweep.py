"""`crash_sweep`: crash a run at every point, go on, and compare with the run that nobody crashed."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from durable_graph.errors import DurableGraphError, EventLoopError, InvalidConfigError, shortened
from durable_graph.testing.backends import open_backend
from durable_graph.testing.life import Crashed, Life
from durable_graph.testing.lives import ChildLife, LocalLife, Subject
from durable_graph.testing.playing import Answers, Play, graph_over, stored, with_checkpointer
from durable_graph.testing.processes import ForkServer, importable_name
from durable_graph.testing.report import CrashPoint, RunOutcome, SweepReport, differences, repetitions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence

    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.testing.backends import Opener
    from durable_graph.testing.ledger import Ledger
    from durable_graph.testing.lives import Running
    from durable_graph.testing.playing import FaceName, Resumes
    from durable_graph.types import Durability

__all__ = ["crash_sweep"]

_THREAD: Final = "crash_sweep"
_FACES: Final = ("sync", "async")


def crash_sweep(
    graph: Any,
    input: Any,
    *,
    config: Mapping[str, Any] | None = None,
    resumes: Resumes = (),
    context: Any = None,
    durability: Durability | None = None,
    ledger: Ledger | None = None,
    recorded: Collection[str] = (),
    kill: bool = False,
    backend: Opener | None = None,
    faces: Sequence[FaceName] = _FACES,
    max_points: int | None = None,
    only: int | None = None,
    report: Callable[[str], object] | None = print,
) -> SweepReport:
    """Crash a run of your graph at every point and see whether it ends as if nothing had happened.

    The graph runs once undisturbed. Then, for every point, a run is crashed there, and a fresh graph object over the
    same data goes on with it: `invoke(None, config)`, or the answer to what it asks. It must end with the same state,
    have asked the same questions, and have had every side effect of the ledger at least once, and none again whose
    result was stored. What the backend acknowledged before the crash must be there after it. Points are before and
    after everything the engine asks of its checkpointer, and after every entry of the ledger; with `kill`, before and
    after every write.

    Args:
        graph: a compiled graph, a `StateGraph`, or a function that makes one of them (of nothing, or of the
            checkpointer that it is to use). With `kill` one that can be imported, or its name "module:function".
        input: what the run starts with.
        config: as of `invoke`; a thread_id is added when it has none.
        resumes: the answers to interrupts: in the order in which they are asked for, by the question's value, or a
            function of the interrupt.
        context: as of `invoke`.
        durability: as of `invoke`.
        ledger: where the nodes record their side effects.
        recorded: names in the ledger whose result is stored with the very next write (recorded steps that run one after
            the other, nodes that run alone). They may happen again only when the crash came before that write.
        kill: run in child processes that kill themselves with SIGKILL, instead of crashing by an exception here.
        backend: "memory" (default), "sqlite" (default with `kill`), or a function that gets an empty folder and opens
            what is kept there; it is called for each opening.
        faces: "sync" uses `invoke`, "async" `ainvoke`.
        max_points: at most so many points of each face, spread evenly.
        only: the number of the one point to run.
        report: gets a line for each point; None for none.

    Returns:
        What was found. `report.ok` says whether all is well, `report.check()` raises an AssertionError where it is not.

    Raises:
        InvalidConfigError: an argument is wrong, an answer is missing or too many, or two undisturbed runs end
            differently.
        EventLoopError: it was called from async code, and is to run the async face.
    """
    _check(faces, max_points, only)
    chosen: Opener = backend if backend is not None else ("sqlite" if kill else "memory")
    if kill and chosen == "memory":
        raise InvalidConfigError("memory does not survive SIGKILL", cure="Leave `backend` out, or pass 'sqlite'.")
    if kill:
        graph = importable_name(graph)
        chosen = chosen if chosen == "sqlite" else importable_name(chosen)
    keywords = {"context": context, "durability": durability}
    subject = Subject(
        graph, chosen, _addressed(config), {name: value for name, value in keywords.items() if value is not None}
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="crash_sweep-")))
        server = stack.enter_context(ForkServer()) if kill else None
        if server is not None:
            server.here("durable_graph.testing.lives:load_for_children", **_loading(subject, folder))
        sweep = _Sweep(subject, input, Answers(resumes), ledger, frozenset(recorded), folder, server)
        return sweep.run(faces, max_points, only, report or _silent)


class _Sweep:
    """The trials of one sweep."""

    def __init__(
        self,
        subject: Subject,
        given: Any,
        answers: Answers,
        ledger: Ledger | None,
        recorded: frozenset[str],
        folder: Path,
        server: ForkServer | None,
    ) -> None:
        self._subject = subject
        self._given = given
        self._answers = answers
        self._ledger = ledger
        self._recorded = recorded
        self._folder = folder
        self._server = server
        self._trials = itertools.count()

    def run(
        self,
        faces: Sequence[FaceName],
        max_points: int | None,
        only: int | None,
        report: Callable[[str], object],
    ) -> SweepReport:
        """All trials."""
        expected = self._undisturbed(faces[0])
        self._answers.close()
        how = shortened(self._subject.backend) + (", SIGKILL" if self._server is not None else "")
        found = SweepReport(expected, how)
        for face in faces:
            again = self._undisturbed(face)
            _check_same(expected, again)
            for number in _numbers(again.moments, max_points, only):
                point = self._crashed(face, number, expected)
                if not point.where and number > again.moments and only is None and point.ok:
                    break
                found.points.append(point)
                report(str(point))
        report(str(found))
        return found

    # --- trials -----------------------------------------------------------------------------------------------------

    def _undisturbed(self, face: FaceName) -> RunOutcome:
        with self._stage() as stage:
            life = stage.first_life(face, None)
            try:
                return stage.finish(life)
            except Exception as error:
                error.add_note("While crash_sweep ran the graph undisturbed, to know how it should end.")
                raise

    def _crashed(self, face: FaceName, number: int, expected: RunOutcome) -> CrashPoint:
        with self._stage() as stage:
            first = stage.first_life(face, number)
            problems: list[str] = []
            try:
                try:
                    seen = stage.finish(first)
                except Crashed:
                    store = stage.reopen()
                    problems += first.lost(store)
                    finished = stored(stage.looking(), self._subject.config)
                    second = LocalLife(self._subject, face, store, Life(2))
                    seen = stage.finish(second)
                    problems += second.lost(store)
                    entries = self._ledger.entries() if self._ledger is not None else []
                    problems += repetitions(expected.effects, entries, finished, first.writes, self._recorded)
                problems += differences(expected, seen)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is what became of this point
                problems.append(_told(error))
            return CrashPoint(number, face, first.where, tuple(problems))

    @contextmanager
    def _stage(self) -> Generator[_Stage]:
        folder = self._folder / str(next(self._trials))
        folder.mkdir()
        if self._ledger is not None:
            self._ledger.clear()
        stage = _Stage(self._subject, self._given, self._answers, self._ledger, folder, self._server)
        try:
            yield stage
        finally:
            stage.close()


class _Stage:
    """One trial's data, and the run that is kept there."""

    def __init__(
        self,
        subject: Subject,
        given: Any,
        answers: Answers,
        ledger: Ledger | None,
        folder: Path,
        server: ForkServer | None,
    ) -> None:
        self._subject = subject
        self._ledger = ledger
        self._folder = folder
        self._server = server
        self._opened = [open_backend(subject.backend, folder)]
        self._looking: Any = None
        self._play = Play(given, answers, lambda: self.looking().get_state(subject.config))

    def first_life(self, face: FaceName, dies_at: int | None) -> Running:
        """The life that is cut short at this moment (None: it is not)."""
        if self._server is None:
            return LocalLife(self._subject, face, self._opened[-1], Life(1, dies_at=dies_at))
        path = str(self._ledger.path) if self._ledger is not None else ""
        return ChildLife(self._subject, face, self._folder, self._server, path, dies_at)

    def reopen(self) -> Checkpointer:
        """The data as a new process would open it. What the dead life has open stays so: nobody closed it."""
        if self._subject.backend != "memory":
            self._opened.append(open_backend(self._subject.backend, self._folder))
        return self._opened[-1]

    def finish(self, life: Running) -> RunOutcome:
        """Play the run to its end.

        Raises:
            Crashed: the life ended before.
        """
        snapshot = self._play.go(life.call)
        counts = self._ledger.counts() if self._ledger is not None else None
        return RunOutcome(snapshot.values, list(self._play.questions.values()), counts or Counter(), life.moments)

    def looking(self) -> Any:
        """A graph to look at the thread with, past everything that is counted or crashes."""
        store = self._opened[-1]
        if self._looking is None or self._looking.checkpointer is not store:
            self._looking = with_checkpointer(graph_over(self._subject.source, store), store)
        return self._looking

    def close(self) -> None:
        """Let go of the data."""
        for checkpointer in self._opened:
            checkpointer.close()


# --- arguments -------------------------------------------------------------------------------------------------------


def _check(faces: Sequence[str], max_points: int | None, only: int | None) -> None:
    if not faces or not set(faces) <= set(_FACES):
        raise InvalidConfigError(f"faces={faces!r}", cure="Pass ('sync', 'async'), or one of them.")
    for name, value in (("max_points", max_points), ("only", only)):
        if value is not None and value < 1:
            raise InvalidConfigError(f"{name}={value}; points are counted from 1", cure="Pass 1 or more.")
    if "async" in faces:
        try:
            _ = asyncio.get_running_loop()
        except RuntimeError:
            return
        what = "crash_sweep runs event loops of its own, and one runs already in this OS thread"
        raise EventLoopError(what, cure="Call it from sync code, or with faces=('sync',).")


def _addressed(config: Mapping[str, Any] | None) -> dict[str, Any]:
    found = dict(config or {})
    configurable = dict(cast("Mapping[str, Any]", found.get("configurable") or {}))
    if "thread_id" not in found:
        _ = configurable.setdefault("thread_id", _THREAD)
    return {**found, "configurable": configurable}


def _loading(subject: Subject, folder: Path) -> dict[str, Any]:
    return {"source": subject.source, "backend": subject.backend, "folder": str(folder)}


def _numbers(moments: int, max_points: int | None, only: int | None) -> Iterable[int]:
    """The points to try. All of them: until a run is over before its point comes, as a run with parallel nodes may have
    more moments than the one before.
    """
    if only is not None:
        return (only,)
    if max_points is None or max_points >= moments:
        return itertools.count(1) if max_points is None else range(1, moments + 1)
    if max_points == 1:
        return (moments,)
    return sorted({1 + round(at * (moments - 1) / (max_points - 1)) for at in range(max_points)})


def _check_same(expected: RunOutcome, again: RunOutcome) -> None:
    different = differences(expected, again)
    if different:
        raise InvalidConfigError(
            f"two runs that nobody crashed end differently: {'; '.join(different)}",
            cure="Sweep a graph that does the same in every run: pass clocks and random numbers as `context`.",
        )


def _told(error: Exception) -> str:
    text = error.what if isinstance(error, DurableGraphError) else str(error)
    return f"going on failed with {type(error).__name__}: {text}"


def _silent(_: str) -> None:
    return
