"""Tracks for what has to move sideways in the gap between two layers, so that no two lines lie on each other."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Bend", "assign_tracks"]


@dataclass(slots=True)
class Bend:
    """A line that enters a gap at slot `start`, leaves it at `end`, and moves sideways in `track` (0 = uppermost)."""

    start: int
    end: int
    track: int = 0

    @property
    def low(self) -> int:
        """Its leftmost slot."""
        return min(self.start, self.end)

    @property
    def high(self) -> int:
        """Its rightmost slot."""
        return max(self.start, self.end)


def assign_tracks(lines: list[tuple[int, int]]) -> tuple[list[list[Bend]], int]:
    """Route one gap.

    Args:
        lines: where each line enters and leaves the gap. No two enter, and no two leave, at the same slot.

    Returns:
        For each line its bends from top to bottom (none when it is straight, two when it has to step around another),
        and how many tracks there are.
    """
    routes = [[Bend(*line)] if line[0] != line[1] else [] for line in lines]
    used = {slot for line in lines for slot in line}
    upper = {route[0].start: index for index, route in enumerate(routes) if route}
    _break_cycles(routes, upper, used)
    bends = [bend for route in routes for bend in route]
    number = {id(bend): index for index, bend in enumerate(bends)}
    before: list[set[int]] = [set() for _ in bends]
    for route in routes:
        for one, two in pairwise(route):
            before[number[id(two)]].add(number[id(one)])
        if route and (other := upper.get(route[-1].end)) is not None and routes[other] is not route:
            before[number[id(route[-1])]].add(number[id(routes[other][0])])
    placed: list[Bend] = []
    for index in _order(bends, before):
        bend = bends[index]
        bend.track = max((one.track + 1 for one in placed if one.low <= bend.high and bend.low <= one.high), default=0)
        placed.append(bend)
    return routes, max((bend.track + 1 for bend in bends), default=0)


def _break_cycles(routes: list[list[Bend]], upper: dict[int, int], used: set[int]) -> None:
    """A line that leaves where another enters must move below it. Where that goes in a circle, one takes two bends.

    Each slot is entered and left by one line at most, so the lines that wait for each other form chains or circles.
    """
    done: set[int] = set()
    for first, route in enumerate(routes):
        chain: list[int] = []
        index = first
        while route and index not in done and routes[index]:
            done.add(index)
            chain.append(index)
            follower = upper.get(routes[index][-1].end)
            if follower is None:
                break
            if follower == first and len(chain) > 1:
                line = route[0]
                aside = _free(used, (line.start + line.end) // 2)
                used.add(aside)
                route[:] = [Bend(line.start, aside), Bend(aside, line.end)]
                break
            index = follower


def _free(used: set[int], middle: int) -> int:
    """The nearest slot that no line uses."""
    distance = 0
    while True:
        for slot in (middle + distance, middle - distance):
            if slot not in used:
                return slot
        distance += 1


def _order(bends: list[Bend], before: list[set[int]]) -> list[int]:
    """From the uppermost track to the lowest: what must come first, then what crosses least."""
    count = len(bends)
    gains = [0] * count  # crossings that placing this one above all others adds, less those that it saves
    single = [[0] * count for _ in range(count)]
    for one in range(count):
        for two in range(one + 1, count):
            difference = _cross(bends[one], bends[two]) - _cross(bends[two], bends[one])
            single[one][two], single[two][one] = difference, -difference
            gains[one] += difference
            gains[two] -= difference
    rest = set(range(count))
    order: list[int] = []
    while rest:
        ready = [one for one in rest if not before[one] & rest]
        chosen = min(ready, key=lambda one: (gains[one], bends[one].start, one))
        rest.remove(chosen)
        order.append(chosen)
        for one in rest:
            gains[one] -= single[one][chosen]
    return order


def _cross(upper: Bend, lower: Bend) -> int:
    """How often two lines cross when the first moves sideways above the second."""
    return (lower.low < upper.end < lower.high) + (upper.low < lower.start < upper.high)
