"""What one attempt asks: at its top, inside its recorded steps, and inside graphs that it runs.

An id begins with a digest of the place that asks. So a step that is not run again, because its result is recorded, does
not look like a question that the node forgot to ask, and neither does a question of a graph inside.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from typing_extensions import override

from durable_graph.core.identity import INTERRUPT_PREFIX
from durable_graph.core.interrupts import Questions
from durable_graph.errors import InterruptMismatchError, shortened
from durable_graph.types import MISSING, Interrupt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from durable_graph.runtime.places import StepPlace
    from durable_graph.types import Wait

__all__ = ["KEY", "Asked"]

KEY: Final = "key\0"
"""What the name of a question begins with that was given a key."""


class Asked(Questions):
    """The questions of one attempt. Several OS threads may ask at once, each in a place of its own.

    stopped: a graph inside stopped at a breakpoint, and so must the node.
    """

    __slots__ = ("_here", "_places", "stopped")

    def __init__(self, task: str, answers: Mapping[str, Any], known: Sequence[str], *, edited: bool = False) -> None:
        super().__init__(task, answers, known, edited=edited)
        self._here: dict[str, list[str]] = {}
        self.stopped = False
        self._places: dict[str, StepPlace] = {}

    @override
    def ask(
        self, value: Any, question: str, schema: Mapping[str, Any] | None, place: StepPlace | None = None
    ) -> tuple[str, Any]:
        """The interrupt's id and its answer; MISSING when it has none, then it is in `open`.

        `question` is the explicit key or the digest of `value`; `place` the recorded step that asks.

        Raises:
            InterruptMismatchError: this place asks something new while an answer waits for a question it asked
                before and has not asked again.
        """
        path = "" if place is None else place.path
        counted = f"{path}\0{question}"
        occurrence = self._counts.get(counted, 0)
        self._counts[counted] = occurrence + 1
        where = INTERRUPT_PREFIX + _hashed(f"{self._task}\0{path}", 4)
        found = where + _hashed(f"{self._task}\0{counted}\0{occurrence}", 12)
        here = self._here.setdefault(path, [])
        if found not in self._answers:
            found = self._moved(found, where, here, value, keyed=question.startswith(KEY))
        here.append(found)
        if found in self._answers:
            self.answered.append(found)
            return found, self._answers[found]
        if place is not None:
            self._places[found] = place
        self.open.append(Interrupt(value, found, schema))
        return found, MISSING

    def _moved(self, found: str, where: str, here: list[str], value: Any, *, keyed: bool) -> str:
        """The id of a question that has no answer: its own, or where the state was edited since, that of the question
        in its place. One with a key of its own is another question where the key is another: it is asked anew.
        """
        known = [one for one in self._known if one.startswith(where)]
        if found in known:
            return found
        waiting = [one for one in known if one in self._answers and one not in here]
        if not waiting:
            return found
        if self._edited and keyed:
            return found
        if self._edited and known[len(here) : len(here) + 1] == waiting[:1]:
            return waiting[0]
        what = (
            f"the node asks {shortened(value)}, but when it ran before it asked something else, and the answer to "
            f"that ({', '.join(waiting)}) would be lost"
        )
        raise InterruptMismatchError(what)

    def limit(self, id: str, wait: Wait) -> None:
        """An open question is ended by more than an answer."""
        for place, asked in enumerate(self.open):
            if asked.id == id:
                self.open[place] = replace(asked, wait=wait)

    def open_within(self, place: StepPlace) -> list[Interrupt]:
        """The open questions of a step and of the steps inside it."""
        inside = f"{place.path}/"
        return [
            asked
            for asked in self.open
            if (one := self._places.get(asked.id)) is not None and f"{one.path}/".startswith(inside)
        ]

    def arrange(self) -> None:
        """Put the open questions of steps that ran at the same time into the order in which the steps were called."""
        places = self._places
        self.open.sort(key=lambda asked: places[asked.id].order if asked.id in places else (0,))


def _hashed(text: str, size: int) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()
