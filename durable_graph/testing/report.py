"""What a crash sweep found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from durable_graph.errors import shortened
from durable_graph.persistence.codec import CODEC

if TYPE_CHECKING:
    from collections.abc import Collection

    from durable_graph.testing.ledger import Entry
    from durable_graph.testing.playing import FaceName

__all__ = ["CrashPoint", "RunOutcome", "SweepReport", "differences", "repetitions"]


@dataclass(slots=True, frozen=True)
class CrashPoint:
    """One point at which a run was crashed, and what became of it.

    number: counted from 1 for each face. where: "after commit 4"; "" when the run was over before this point came.
    problems: how it ended otherwise than the run that nobody crashed; empty when all is well.
    """

    number: int
    face: FaceName
    where: str
    problems: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all is well."""
        return not self.problems

    def __str__(self) -> str:
        place = f"{self.number:4} {self.face:5} {self.where or 'not reached'}"
        return f"{place}: {'FAILED: ' + '; '.join(self.problems) if self.problems else 'ok'}"


@dataclass(slots=True)
class RunOutcome:
    """How a run ended: the state's values, what was asked, the side effects, and how many moments it had."""

    values: Any
    questions: list[Any]
    effects: Counter[tuple[str, str]]
    moments: int = 0


@dataclass(slots=True)
class SweepReport:
    """What a sweep found. `uncrashed`: the run to which all others were compared. `how`: backend and way of dying."""

    uncrashed: RunOutcome
    how: str
    points: list[CrashPoint] = field(default_factory=list[CrashPoint])

    @property
    def failures(self) -> list[CrashPoint]:
        """The points that failed."""
        return [point for point in self.points if not point.ok]

    @property
    def ok(self) -> bool:
        """Whether all points are well, and there is one."""
        return bool(self.points) and not self.failures

    def check(self) -> SweepReport:
        """The report itself, where all is well.

        Raises:
            AssertionError: a point failed; the text says which, why, and how to run it alone.
        """
        if not self.ok:
            raise AssertionError(str(self))
        return self

    def __str__(self) -> str:
        crashed = sum(bool(point.where) for point in self.points)
        faces = " and ".join(dict.fromkeys(point.face for point in self.points))
        if not self.points:
            return f"crash_sweep, {self.how}: no point was tried"
        if self.ok:
            return f"crash_sweep, {faces}, {self.how}: {crashed} crashes, all end like the run that was not crashed"
        first = self.failures[0]
        return (
            f"crash_sweep, {faces}, {self.how}: {len(self.failures)} of {len(self.points)} points failed; the first:\n"
            f"{first}\n"
            f"Run it alone: crash_sweep(..., faces=({first.face!r},), only={first.number})"
        )


# --- comparing -------------------------------------------------------------------------------------------------------


def differences(expected: RunOutcome, seen: RunOutcome) -> list[str]:
    """How a run ended otherwise than it should."""
    found = [*_different_values(expected.values, seen.values), *_different_questions(expected, seen)]
    missing = [pair for pair in expected.effects if not seen.effects[pair]]
    return found + [f"the effect {_named(pair)} never happened" for pair in missing]


def repetitions(
    expected: Counter[tuple[str, str]],
    entries: list[Entry],
    finished: Collection[str],
    writes: int,
    recorded: Collection[str],
) -> list[str]:
    """Effects that happened again although their result was stored.

    Args:
        expected: how often each happens when nobody crashes the run.
        entries: what happened, in the life that crashed (1) and the one that went on (2).
        finished: ids of the tasks whose result was stored when the run crashed.
        writes: how many writes had been acknowledged then.
        recorded: names of effects whose result is stored with the very next write.
    """
    found: list[str] = []
    first = [entry for entry in entries if entry.life == 1]
    again = Counter(entry[:2] for entry in entries if entry.life > 1)
    stored = Counter(entry[:2] for entry in first if entry.task in finished)
    unsure = Counter(entry[:2] for entry in first if entry.writes == writes)
    everything = again + Counter(entry[:2] for entry in first)
    for pair, times in again.items():
        if stored[pair] and times > max(0, expected[pair] - stored[pair]):
            found.append(f"the effect {_named(pair)} happened again, though the result of its task was stored")
        elif pair[0] in recorded and everything[pair] > expected[pair] + unsure[pair]:
            found.append(
                f"the effect {_named(pair)} happened {everything[pair]} times, without a crash {expected[pair]}"
            )
    return found


def _named(pair: tuple[str, str]) -> str:
    name, key = pair
    return f"{name!r} of {key!r}" if key else repr(name)


def _different_values(expected: Any, seen: Any) -> list[str]:
    if not (isinstance(expected, dict) and isinstance(seen, dict)):
        return [] if _same(expected, seen) else [f"the state is {_shown(seen)} instead of {_shown(expected)}"]
    wanted, got = cast("dict[Any, Any]", expected), cast("dict[Any, Any]", seen)
    found: list[str] = []
    for key in dict.fromkeys((*wanted, *got)):
        if key not in got:
            found.append(f"state key {key!r} is missing; it should be {_shown(wanted[key])}")
        elif key not in wanted:
            found.append(f"state key {key!r} should not be there; it is {_shown(got[key])}")
        elif not _same(wanted[key], got[key]):
            found.append(f"state key {key!r} is {_shown(got[key])} instead of {_shown(wanted[key])}")
    return found


def _different_questions(expected: RunOutcome, seen: RunOutcome) -> list[str]:
    unseen, more = list(expected.questions), list[Any]()
    for question in seen.questions:
        same = [at for at, wanted in enumerate(unseen) if _same(wanted, question)]
        if same:
            del unseen[same[0]]
        else:
            more.append(question)
    return [f"it never asked {_shown(one)}" for one in unseen] + [f"it also asked {_shown(one)}" for one in more]


def _same(one: Any, other: Any) -> bool:
    """Equal as it is stored: 1 is not True, and arrays can be told apart too."""
    try:
        return CODEC.encode(one) == CODEC.encode(other) or (type(one) is dict and bool(one == other))
    except Exception:  # noqa: BLE001 - what cannot be stored is compared as it compares itself
        return bool(one == other)


def _shown(value: Any) -> str:
    return shortened(value, 200)
