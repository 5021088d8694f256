"""What a checkpointer promises, said naively: threads in a list, rows in a dict, no thought for anybody else."""

from dataclasses import dataclass, field

from durable_graph.records import BASE, MAIN, Claim, LaneInfo, LoadedThread, ThreadInfo


class RefusedError(Exception):
    """Other lanes or rows than these are in their places; nothing was written."""


@dataclass
class Thread:
    """`lease`: milliseconds for which the claim is good since its last sign of life."""

    no: int
    key: str
    epoch: int
    owner: str | None = None
    status: str = "running"
    lease: int = 0
    lanes: dict = field(default_factory=dict)
    rows: dict = field(default_factory=dict)

    def line(self, lane):
        return [row for place, row in sorted(self.rows.items()) if place[:2] == (lane, MAIN)]

    def last(self, lane):
        return max((row.seq for row in self.line(lane)), default=0)

    def newest_seq(self):
        return max((row.seq for row in self.rows.values()), default=0)

    def taken(self, lanes, rows):
        """What is at the places of these lanes and rows, and what was meant to be there."""
        pairs = [(self.lanes.get(lane.lane), lane._replace(last=0)) for lane in lanes]
        return pairs + [(self.rows.get(row[:3]), row) for row in rows]

    def add(self, lanes, rows):
        self.lanes.update((lane.lane, lane._replace(last=0)) for lane in lanes)
        self.rows.update((row[:3], row) for row in rows)


class RowModel:
    """Threads by their keys; their numbers count from 1."""

    def __init__(self):
        self.threads = {}

    def claim(self, request):
        thread = self.threads.get(request.key)
        if request.epoch is None:
            if thread is not None:
                return None
            thread = self.threads[request.key] = Thread(len(self.threads) + 1, request.key, 0)
        elif thread is None or thread.epoch != request.epoch or thread.last(request.lane) > request.seen:
            return None
        if any(there is not None for there, _ in thread.taken(request.new_lanes, request.rows)):
            raise RefusedError
        thread.epoch, thread.owner, thread.status = request.new_epoch, request.owner, "running"
        thread.lease = request.lease
        thread.add(request.new_lanes, request.rows)
        return Claim(thread.no, thread.epoch)

    def commit(self, item):
        thread = self.held(item.claim)
        if thread is None:
            return "stale"
        places = thread.taken(item.new_lanes, item.rows)
        free = all(there is None for there, _ in places)
        if not free and any(there != meant for there, meant in places):
            raise RefusedError
        changes = bool(places)
        if free:
            thread.add(item.new_lanes, item.rows)
        if item.status is not None:
            changes = changes or (thread.owner, thread.status) != (None, item.status)
            thread.owner, thread.status = None, item.status
        return "written" if free and changes else "already mine"

    def renew(self, beats):
        for beat in beats:
            thread = self.held(beat.claim)
            if thread is not None:
                thread.lease = beat.lease

    def held(self, claim):
        """The thread, where the claim still holds."""
        found = [thread for thread in self.threads.values() if (thread.no, thread.epoch) == claim]
        return found[0] if found else None

    def load(self, key, *, ns="", lane=None, upto=None):
        thread = self.threads.get(key)
        if thread is None:
            return None
        lanes = tuple(info._replace(last=thread.last(number)) for number, info in sorted(thread.lanes.items()))
        if lane is None:
            lane = max(((info.last, info.lane) for info in lanes if info.ns == ns), default=(0, 0))[1]
        line = thread.line(lane)
        bases = [row.seq for row in line if row.kind == BASE and (upto is None or row.seq <= upto)]
        rows = tuple(row for row in line if row.seq >= max(bases, default=0))
        return LoadedThread(self.info(thread), lanes, lane, rows)

    def info(self, thread):
        return ThreadInfo(thread.no, thread.key, thread.epoch, thread.owner, thread.status)

    def read(self, no, ranges):
        rows = next((thread.rows for thread in self.threads.values() if thread.no == no), {})
        return [
            [rows[lane, part, seq] for lane, part, seq in sorted(rows) if _inside((lane, part, seq), asked)]
            for asked in ranges
        ]

    def list(self, after, limit):
        infos = [self.info(thread) for thread in self.threads.values()]
        return [info for info in infos if info.no > after][:limit]


def _inside(place, asked):
    return place[:2] == asked[:2] and asked.first <= place[2] <= asked.last


def lane(number, ns="", parent=(0, 0)):
    return LaneInfo(number, ns, *parent, 0)
