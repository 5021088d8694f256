"""The ledger: one line for each thing that happened, in one file, in the order in which it happened.

Each line is one write to a file that is opened for appending, so lines of several processes never mix, and a line that
is there was written before every line behind it. A process that dies takes no line back.
"""

import json
import os
import time
from typing import NamedTuple


class Line(NamedTuple):
    """One thing that happened.

    at: nanoseconds, on a clock that all processes of the machine share.   pid: where.   what: which kind.
    run, step, name: of which run, in which of its steps (0: in none), and what is meant there.
    """

    at: int
    pid: int
    what: str
    run: str = ""
    step: int = 0
    name: str = ""


class Ledger:
    """Appends lines. Opened once in each process."""

    def __init__(self):
        self._file = -1

    def open(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def say(self, what, run="", step=0, name="", *, pid=None, at=None):
        line = Line(time.monotonic_ns() if at is None else at, pid or os.getpid(), what, run, step, name)
        os.write(self._file, f"{json.dumps(line)}\n".encode())


def lines_of(path):
    return [Line(*json.loads(text)) for text in path.read_text().splitlines()]


LEDGER = Ledger()
