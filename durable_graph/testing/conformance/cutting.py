"""A process that dies inside of a write: what it does there, and what of it is there afterwards."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from durable_graph.records import BASE, DELTA, MAIN, VALUE, Claim, ClaimRequest, CommitItem, LaneInfo, Row, RowRange
from durable_graph.testing.backends import open_backend
from durable_graph.testing.conformance.acting import FIRST_LANE, FIRST_ROW, expect, loaded, won
from durable_graph.testing.life import kill_this_process

if TYPE_CHECKING:
    from durable_graph.persistence.checkpointer import Checkpointer
    from durable_graph.testing.conformance.acting import Face

__all__ = ["bring", "cut_short", "writes_of"]

_LANES: Final = (LaneInfo(2, "child", 1, 1, 0), LaneInfo(3, "", 1, 1, 0))
_ROWS: Final = (
    (Row(2, MAIN, 2, BASE, b"cut"), Row(2, 1, 2, VALUE, b"cut")),
    (Row(3, MAIN, 3, BASE, b"cut"), Row(3, 1, 3, VALUE, b"cut"), Row(1, MAIN, 3, DELTA, b"cut")),
    (Row(1, MAIN, 4, DELTA, b"cut"), Row(1, 2, 4, VALUE, b"cut")),
)
"""The rows of a claim, of an item with a lane, and of one that gives the thread back."""


# --- in the process that dies ----------------------------------------------------------------------------------------


class _Counter:
    """Counts calls and returns, of Python's functions and of C's; dies at one of them."""

    def __init__(self, dies_at: int) -> None:
        self.calls = 0
        self._dies_at = dies_at

    def __call__(self, *_: Any) -> None:
        self.calls += 1
        if self.calls == self._dies_at:
            kill_this_process()


def cut_short(opener: str, folder: str, key: str, no: int, epoch: int, dies_at: int) -> dict[str, Any]:
    """Take a thread over and write two items; die at this call of those that are made for it (0: at none).

    Answers how many calls there were, and what is imported by then.
    """
    checkpointer = open_backend(opener, Path(folder))
    _ = checkpointer.load(key)  # opening is not what is asked about
    claim = Claim(no, epoch + 1)
    request = ClaimRequest(key, "cut short", epoch, epoch + 1, 1, 1, _LANES[:1], _ROWS[0])
    items = (CommitItem(claim, _ROWS[1], _LANES[1:]), CommitItem(claim, _ROWS[2], (), "done"))
    counter = _Counter(dies_at)
    sys.setprofile(counter)
    try:
        granted = checkpointer.claim(request)
        outcomes = [checkpointer.commit([item]) for item in items]
    finally:
        sys.setprofile(None)
    expect("the claim", won(granted), claim)
    expect("the outcomes", outcomes, [["written"], ["written"]])
    return {"calls": counter.calls, "modules": sorted(sys.modules)}


def bring(names: list[str]) -> None:
    """Import in the fork server what a child had to import, so that those after it need not."""
    for name in names:
        with suppress(Exception):  # some can only be imported by those who did
            _ = import_module(name)


# --- afterwards ------------------------------------------------------------------------------------------------------


def writes_of(face: Face, checkpointer: Checkpointer, key: str, claim: Claim) -> int:
    """How many of the three writes are there. `claim`: under which the thread was before.

    Raises:
        AssertionError: a part of one is.
    """
    found = loaded(face, checkpointer, key)
    wanted = [RowRange(lane, part, 0, 9) for lane in (1, 2, 3) for part in (MAIN, 1, 2)]
    rows = sorted(row for part in face.read(checkpointer, claim.no, wanted) for row in part)
    stored = (*found.thread[2:5], [lane[:4] for lane in found.lanes], rows)
    for count in range(4):
        if stored == _after(count, claim.epoch):
            return count
    raise AssertionError(f"epoch, owner, status, lanes and rows {stored} are not what so many whole writes leave")


def _after(count: int, epoch: int) -> tuple[Any, ...]:
    lanes = [lane[:4] for lane in (FIRST_LANE, *_LANES[: min(count, 2)])]
    rows = sorted((FIRST_ROW, *(row for write in _ROWS[:count] for row in write)))
    held = (epoch + 1, "cut short", "running") if count else (epoch, "first owner", "running")
    return (*((epoch + 1, None, "done") if count == len(_ROWS) else held), lanes, rows)
