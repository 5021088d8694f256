"""A backend as somebody else would write it: one file of JSON lines, with the abstract verbs of `Checkpointer` alone.

Each write is one line, so it is there whole or not at all. Every verb locks the file and reads what is new in it first.
A last line without its end is what a process left that died while it wrote, and is cut off.
"""

import fcntl
import json
import threading
from base64 import b64decode, b64encode
from bisect import insort
from contextlib import contextmanager
from pathlib import Path

from durable_graph import Checkpointer
from durable_graph.errors import InternalError, StorageError
from durable_graph.records import BASE, MAIN, Claim, LaneInfo, LoadedThread, Row, ThreadInfo


class Thread:
    """What the lines about one thread add up to."""

    def __init__(self):
        self.info = None
        self.lanes = {}
        self.parts = {}

    def add(self, line):
        self.info = ThreadInfo(*line["thread"])
        self.lanes |= {lane[0]: LaneInfo(*lane) for lane in line["lanes"]}
        for *place, data in line["rows"]:
            row = Row(*place, b64decode(data))
            insort(self.parts.setdefault(row[:2], []), row)

    def last(self, lane):
        return max((row.seq for row in self.parts.get((lane, MAIN), ())), default=0)

    def has(self, row):
        """The row that is stored at the place of this one."""
        return next((one for one in self.parts.get(row[:2], ()) if one.seq == row.seq), None)

    def shown(self):
        return tuple(self.lanes[lane]._replace(last=self.last(lane)) for lane in sorted(self.lanes))


class LogCheckpointer(Checkpointer):
    """Keeps runs in a file of lines."""

    def __init__(self, file):
        self.file = Path(file).resolve()
        self._lock = threading.Lock()
        self._threads = {}
        self._read = 0

    @property
    def identity(self):
        return ("log", str(self.file))

    def load(self, key, *, ns="", lane=None, upto=None):
        with self._locked():
            thread = self._find(key)
            if thread is None:
                return None
            lanes = thread.shown()
            if lane is None:
                lane = max(((one.last, one.lane) for one in lanes if one.ns == ns), default=(0, 0))[1]
            rows = thread.parts.get((lane, MAIN), [])
            bases = [row.seq for row in rows if row.kind == BASE and (upto is None or row.seq <= upto)]
            first = max(bases, default=0)
            return LoadedThread(thread.info, lanes, lane, tuple(row for row in rows if row.seq >= first))

    def read(self, no, ranges):
        with self._locked():
            parts = self._threads[no].parts if no in self._threads else {}
            return [
                [row for row in parts.get((lane, part), ()) if first <= row.seq <= last]
                for lane, part, first, last in ranges
            ]

    def claim(self, request):
        with self._locked() as file:
            thread = self._find(request.key)
            if request.epoch is None:
                if thread is not None:
                    return None
                no = len(self._threads) + 1
            else:
                if thread is None or thread.info.epoch != request.epoch or thread.last(request.lane) > request.seen:
                    return None
                no = thread.info.no
                if self._taken(thread, request.new_lanes, request.rows):
                    raise self._other(Claim(no, request.epoch), request.lane, request.seen)
            info = ThreadInfo(no, request.key, request.new_epoch, request.owner, "running")
            self._write(file, info, request.new_lanes, request.rows)
            return Claim(no, request.new_epoch)

    def commit(self, items):
        with self._locked() as file:
            return [self._commit(file, item) for item in items]

    def _commit(self, file, item):
        claim, rows, lanes, status = item
        thread = self._threads.get(claim.no)
        if thread is None or thread.info.epoch != claim.epoch:
            return "stale"
        if self._taken(thread, lanes, rows):
            for lane in lanes:
                if thread.lanes.get(lane.lane, lane)[:4] != lane[:4] or lane.lane not in thread.lanes:
                    raise self._other(claim, lane.lane, 0)
            for row in rows:
                if thread.has(row) != row:
                    raise self._other(claim, row.lane, row.seq)
            lanes = rows = ()
        given_back = thread.info if status is None else thread.info._replace(owner=None, status=status)
        if (given_back, lanes, rows) == (thread.info, (), ()):
            return "already mine"
        self._write(file, given_back, lanes, rows)
        return "written" if lanes or rows or not (item.rows or item.new_lanes) else "already mine"

    # --- the file ----------------------------------------------------------------------------------------------------

    @contextmanager
    def _locked(self):
        """The file, for this verb alone; all that is in it is known."""
        with self._lock, self.file.open("a+b", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if file.seek(0, 2) > self._read:
                file.seek(self._read)
                *lines, rest = file.read().split(b"\n")
                for line in lines:
                    self._read += len(line) + 1
                    self._know(json.loads(line.decode("utf-8", "surrogatepass")))
                if rest:
                    file.truncate(self._read)
            yield file

    def _write(self, file, info, lanes, rows):
        coded = [[*row[:4], b64encode(row.data).decode()] for row in rows]
        line = {"thread": info[:5], "lanes": lanes, "rows": coded}
        # Not as escapes: JSON takes two lone surrogates that stand together for one character.
        told = (json.dumps(line, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")
        if file.write(told) != len(told):
            file.truncate(self._read)
            raise StorageError(f"{self.file}: there was no room for a line of {len(told)} bytes")
        self._read += len(told)
        self._know(line)

    def _know(self, line):
        self._threads.setdefault(line["thread"][0], Thread()).add(line)

    def _find(self, key):
        return next((thread for thread in self._threads.values() if thread.info.key == key), None)

    def _taken(self, thread, lanes, rows):
        return any(lane.lane in thread.lanes for lane in lanes) or any(thread.has(row) for row in rows)

    def _other(self, claim, lane, seq):
        return InternalError(f"thread {claim.no}, lane {lane}, seq {seq}: other rows are there already")


def open_log(folder):
    return LogCheckpointer(folder / "runs.jsonl")
