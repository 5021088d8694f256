"""Playing a graph to its end, as a caller does who wants the end: start or go on, answer what is asked.

Nothing here knows how a graph is made. It is anything with `invoke`, `ainvoke`, `get_state`, `get_state_history` and a
`checkpointer` that can be set.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, cast

from durable_graph.errors import InvalidConfigError, shortened
from durable_graph.persistence.checkpointer import Checkpointer
from durable_graph.persistence.codec import CODEC
from durable_graph.testing.life import LIFE, Crashed, Life
from durable_graph.testing.processes import import_named
from durable_graph.types import Command, Interrupt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from durable_graph.types import StateSnapshot

__all__ = [
    "Answers",
    "FaceName",
    "Play",
    "Resumes",
    "call_graph",
    "call_in_life",
    "graph_over",
    "stored",
    "with_checkpointer",
]

FaceName: TypeAlias = Literal["sync", "async"]

Resumes: TypeAlias = "Callable[[Interrupt], Any] | Mapping[Any, Any] | Sequence[Any]"
"""Answers in the order in which they are asked for, by the question's value, or a function of the interrupt."""

_MOST_CALLS: Final = 1_000
"""Calls after which a run is not believed to end."""


# --- graphs ----------------------------------------------------------------------------------------------------------


def graph_over(source: Any, checkpointer: Checkpointer) -> Any:
    """A graph whose runs are kept in this checkpointer.

    Args:
        source: a compiled graph, a builder, a function that makes one of them (of nothing, or of the checkpointer), or
            the importable name of any of these.
        checkpointer: where its runs are kept.

    Raises:
        InvalidConfigError: it is none of these.
    """
    made: Any = import_named(source) if isinstance(source, str) else source
    placed = False
    if not _is_graph(made) and callable(made):
        placed = _takes_argument(made)
        made = made(checkpointer) if placed else made()
    if not _is_graph(made):
        raise InvalidConfigError(
            f"{shortened(source)} is or gave an object of type {type(made).__name__}, which is no graph",
            cure="Pass a compiled graph, a StateGraph, or a function that makes one.",
        )
    if not hasattr(made, "invoke"):
        return made.compile(checkpointer=checkpointer)
    if placed and isinstance(made.checkpointer, Checkpointer):  # it may have put something around it
        return made
    return with_checkpointer(made, checkpointer)


def _is_graph(thing: Any) -> bool:
    return hasattr(thing, "invoke") or hasattr(thing, "compile")


def with_checkpointer(graph: Any, checkpointer: Checkpointer) -> Any:
    """The same graph over another checkpointer."""
    changed = copy.copy(graph)
    changed.checkpointer = checkpointer
    return changed


def _takes_argument(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(one.kind in positional and one.default is inspect.Parameter.empty for one in parameters)


def call_graph(graph: Any, face: FaceName, given: Any, config: Mapping[str, Any], keywords: Mapping[str, Any]) -> None:
    """One call through one face; an event loop of its own for each, as in a program that uses `asyncio.run`."""
    if face == "sync":
        graph.invoke(given, config, **keywords)
    else:
        asyncio.run(graph.ainvoke(given, config, **keywords))


def call_in_life(life: Life, call: Callable[[], None]) -> None:
    """Run a call in a life.

    Raises:
        Crashed: the life ended, whatever the engine made of it.
    """
    token = LIFE.set(life)
    try:
        call()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        if life.dead:
            raise Crashed from error
        raise
    finally:
        LIFE.reset(token)
    life.check()


# --- what is stored --------------------------------------------------------------------------------------------------


def stored(graph: Any, config: Mapping[str, Any]) -> set[str]:
    """The ids of all tasks whose result is stored, those of nested graphs too."""
    found: set[str] = set()
    _gather(graph, config, found)
    return found


def _gather(graph: Any, config: Mapping[str, Any], found: set[str]) -> None:
    for snapshot in (*graph.get_state_history(config), graph.get_state(config)):
        for task in cast("StateSnapshot", snapshot).tasks:
            if task.result is not None:
                found.add(task.id)
            if isinstance(task.state, Mapping):  # where a nested graph keeps its state
                _gather(graph, cast("Mapping[str, Any]", task.state), found)


# --- questions -------------------------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where a question comes from: step and path of its task, what is asked, and how often that was asked before.

    Ids would not do: that of a task whose checkpoint never came to disk is another one when it is made again.
    """

    step: Any
    path: tuple[Any, ...]
    value: bytes
    occurrence: int = 0


class Answers:
    """The answers of a sweep: the same question gets the same answer in every run."""

    def __init__(self, resumes: Resumes) -> None:
        self._resumes: Resumes = resumes
        self._used = 0
        self._known = False
        self._given: dict[Place, Any] = {}

    def answer(self, place: Place, asked: Interrupt) -> Any:
        """The answer to a question.

        Raises:
            InvalidConfigError: there is none.
        """
        if place not in self._given:
            # Asked at another place than without a crash: the state will tell. The answer must not be the reason.
            alike = [known for known in self._given if self._known and known[2:] == place[2:]]
            self._given[place] = self._given[alike[0]] if alike else self._choose(asked)
        return self._given[place]

    def _choose(self, asked: Interrupt) -> Any:
        resumes = self._resumes
        if callable(resumes):
            return resumes(asked)
        if isinstance(resumes, Mapping):
            return _named(resumes, asked)
        if self._used >= len(resumes):
            raise InvalidConfigError(
                f"the graph asks {shortened(asked.value)}, and `resumes` has only {len(resumes)} answers",
                cure="Give an answer for each question, or a function of the interrupt.",
            )
        self._used += 1
        return resumes[self._used - 1]

    def close(self) -> None:
        """The run that nobody crashed is over: it asked for all that will be asked.

        Raises:
            InvalidConfigError: some answers of a sequence were not asked for.
        """
        self._known, resumes = True, self._resumes
        if not callable(resumes) and not isinstance(resumes, Mapping) and self._used < len(resumes):
            raise InvalidConfigError(
                f"`resumes` has {len(resumes)} answers, and the graph asked for {self._used}",
                cure="Leave out the answers that nobody asks for.",
            )


def _named(resumes: Mapping[Any, Any], asked: Interrupt) -> Any:
    try:
        return resumes[asked.value]
    except (KeyError, TypeError):  # TypeError: a dict or list cannot be a key
        known = ", ".join(shortened(key) for key in resumes)
        raise InvalidConfigError(
            f"the graph asks {shortened(asked.value)}, and `resumes` has answers only to {known}",
            cure="Add this question, or give a function of the interrupt.",
        ) from None


class Play:
    """One run from its input to its end, in one life or several.

    look: gives the thread's newest snapshot. questions: what was asked, each question once.
    """

    def __init__(self, given: Any, answers: Answers, look: Callable[[], StateSnapshot]) -> None:
        self.questions: dict[Place, Any] = {}
        self._given = given
        self._answers = answers
        self._look = look
        self._places: dict[str, Place] = {}
        self._counts: Counter[Place] = Counter()

    def go(self, call: Callable[[Any], None]) -> StateSnapshot:
        """Call until the run is over; what is stored then.

        Raises:
            InvalidConfigError: a question has no answer, or there is no end.
        """
        for _ in range(_MOST_CALLS):
            snapshot = self._look()
            asked = list(self._open(snapshot))
            if snapshot.metadata is None:
                call(self._given)
            elif asked:
                call(Command(resume={one.id: self._answers.answer(place, one) for place, one in asked}))
            elif snapshot.tasks or snapshot.next:
                call(None)
            else:
                return snapshot
        raise InvalidConfigError(
            f"the run was not over after {_MOST_CALLS} calls; it waits in {', '.join(self._look().next) or 'nothing'}",
            cure="Give answers that lead to an end.",
        )

    def _open(self, snapshot: StateSnapshot) -> Iterator[tuple[Place, Interrupt]]:
        """The open questions. Live snapshots leave out those that have an answer."""
        step = (snapshot.metadata or {}).get("step")
        named = {one.id for task in snapshot.tasks for one in task.interrupts}
        for task in snapshot.tasks:
            for one in task.interrupts:
                yield self._note(Place(step, task.path, CODEC.encode(one.value)), one), one
        for one in snapshot.interrupts:
            if one.id not in named:
                yield self._note(Place(step, (), CODEC.encode(one.value)), one), one

    def _note(self, place: Place, asked: Interrupt) -> Place:
        if asked.id not in self._places:
            place = place._replace(occurrence=self._counts[place])
            self._counts[place._replace(occurrence=0)] += 1
            self._places[asked.id] = place
            self.questions[place] = asked.value
        return self._places[asked.id]
