"""Questions a node asks a human, and how answers find them.

An interrupt's id comes from its task, from what was asked (or the explicit key) and from how often the task asked
that before. So an answer can only reach the question it was given to: it does not matter in which order a node asks,
nor whether it takes another path when it runs again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from durable_graph.core import identity
from durable_graph.errors import InterruptMismatchError, UnknownInterruptError, shortened
from durable_graph.types import MISSING, Interrupt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Questions", "listing", "resolve_answers"]


class Questions:
    """What one attempt of one task asked so far.

    `answers` are all answers of the checkpoint by interrupt id; `known` the ids this task asked in earlier attempts, in
    order. `edited`: somebody edited the state since, so that the same question may have another text: then an answer
    that fits no text is for the question in its place.
    """

    __slots__ = ("_answers", "_counts", "_edited", "_known", "_task", "answered", "open")

    def __init__(self, task: str, answers: Mapping[str, Any], known: Sequence[str], *, edited: bool = False) -> None:
        self._task = task
        self._answers = answers
        self._known = known
        self._edited = edited
        self._counts: dict[str, int] = {}
        self.open: list[Interrupt] = []
        self.answered: list[str] = []

    def ask(self, value: Any, question: str, schema: Mapping[str, Any] | None) -> tuple[str, Any]:
        """The interrupt's id and its answer; MISSING when it has none, then it is in `open`.

        `question` is the explicit key or the digest of `value`.

        Raises:
            InterruptMismatchError: the node asks something new while an answer waits for a question it asked
                before and has not asked again.
        """
        occurrence = self._counts.get(question, 0)
        self._counts[question] = occurrence + 1
        found = identity.interrupt_id(self._task, question, occurrence)
        if found in self._answers:
            self.answered.append(found)
            return found, self._answers[found]
        waiting = [known for known in self._known if known in self._answers and known not in self.answered]
        if found not in self._known and waiting:
            place = len(self.answered) + len(self.open)
            if self._edited and self._known[place : place + 1] == waiting[:1]:
                self.answered.append(waiting[0])
                return waiting[0], self._answers[waiting[0]]
            what = (
                f"the node asks {shortened(value)}, but when it ran before it asked something else, and the answer to "
                f"that ({', '.join(waiting)}) would be lost"
            )
            raise InterruptMismatchError(what)
        self.open.append(Interrupt(value, found, schema))
        return found, MISSING


def listing(interrupts: Sequence[Interrupt]) -> str:
    """Questions as they stand in a message: id and, shortened, what is asked."""
    return ", ".join(f"{interrupt.id} ({shortened(interrupt.value)})" for interrupt in interrupts)


def resolve_answers(answer: Any, pending: Sequence[Interrupt]) -> dict[str, Any]:
    """Which open interrupt gets which answer.

    A dict whose keys all have the form of interrupt ids is a map of answers; everything else, also None and any other
    dict, is the answer to the only open interrupt.

    Raises:
        UnknownInterruptError: no interrupt is open, several are and the answer names none, or it names one that
            is not open.
    """
    ids = [interrupt.id for interrupt in pending]
    listed = listing(pending)
    if not ids:
        what = "there is nothing to resume: no interrupt of this thread is open"
        raise UnknownInterruptError(what, cure="Go on with invoke(None, config), or start a new run with an input.")
    named = cast("dict[Any, Any]", answer) if isinstance(answer, dict) else {}
    if any(identity.is_interrupt_id(key) for key in named):
        unknown = [str(key) for key in named if key not in ids]
        if unknown:
            what = f"{', '.join(unknown)} {'is' if len(unknown) == 1 else 'are'} not open; open: {listed}"
            raise UnknownInterruptError(what, interrupt_ids=unknown, pending_ids=ids)
        return dict(named)
    if len(ids) > 1:
        what = f"{len(ids)} interrupts are open and the answer does not say which one it is for; open: {listed}"
        raise UnknownInterruptError(what, pending_ids=ids)
    return {ids[0]: answer}
