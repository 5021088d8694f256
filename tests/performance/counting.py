"""What the gates count: calls, commits, bytes. None of it depends on how fast the machine is."""

import gc
import math
import sqlite3
import sys
import threading
from contextlib import closing, contextmanager
from struct import unpack_from


@contextmanager
def counted_calls():
    """Counts the calls of Python and C functions in this OS thread, and in those that start meanwhile.

    Gives a function that tells how many there were so far.
    """
    seen = []
    tick = seen.append  # one list for all OS threads: appending is atomic

    def hook(_frame, event, _arg):
        if event in ("call", "c_call"):
            tick(None)

    gc.collect()
    gc.disable()  # or finalizers of earlier garbage would be counted
    threading.setprofile(hook)
    sys.setprofile(hook)
    try:
        yield seen.__len__
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        gc.enable()


def calls_of(work, *args):
    """The calls that `work(*args)` makes."""
    with counted_calls() as so_far:
        work(*args)
        return so_far()


def slope(measure, small, large):
    """What one unit more costs: `measure(size)` between two sizes, after a first one that warms up."""
    measure(small)
    return (measure(large) - measure(small)) / (large - small)


def growth(measure, sizes):
    """The exponent of a power law through `measure(size)`: 1.0 when it is in proportion to the size, 0.0 when it does
    not depend on it. The least-squares line through the logarithms."""
    measure(sizes[0])
    points = [(math.log(size), math.log(measure(size))) for size in sizes]
    middle_x = sum(x for x, _ in points) / len(points)
    middle_y = sum(y for _, y in points) / len(points)
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / sum((x - middle_x) ** 2 for x, _ in points)


class Commits:
    """Counts the transactions that were committed to a SQLite file, by the commit frames in its write-ahead log.

    While it is open a read transaction keeps the log from being started over. https://sqlite.org/fileformat2.html#walformat
    """

    def __init__(self, file):
        self.log = file.with_name(file.name + "-wal")
        self.reader = sqlite3.connect(file, isolation_level=None)
        self.reader.execute("BEGIN")
        self.reader.execute("SELECT count(*) FROM record").fetchone()
        self.before = self.found()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.reader.close()

    def found(self):
        data = self.log.read_bytes()
        page_size, salt = unpack_from(">I", data, 8)[0], data[16:24]
        frames = range(32, len(data) - 23, 24 + page_size)
        return sum(data[at + 8 : at + 16] == salt and unpack_from(">I", data, at + 4)[0] > 0 for at in frames)

    def so_far(self):
        """Commits since this was opened."""
        return self.found() - self.before


def stored_bytes(file):
    """The size of a SQLite database, with all of its write-ahead log moved into the main file."""
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        busy, _, _ = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        assert not busy, "a reader or writer keeps the write-ahead log"
    log = file.with_name(file.name + "-wal")
    return file.stat().st_size + (log.stat().st_size if log.exists() else 0)
