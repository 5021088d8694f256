"""A thread's rows in a dict: what a backend keeps, for tests of the layout alone."""

from durable_graph.persistence.layout import LaneWriter, read_at, read_head, read_history
from durable_graph.records import BASE, MAIN, LoadedThread, ThreadInfo


class RowStore:
    """Rows by (lane, part, seq). `asked` are the lists of ranges that readers asked for."""

    def __init__(self, codec):
        self.codec = codec
        self.rows = {}
        self.asked = []

    def add(self, rows):
        """Append rows; none may be there already. Answers how many bytes they have."""
        for row in rows:
            place = (row.lane, row.part, row.seq)
            assert place not in self.rows
            self.rows[place] = row
        return sum(len(row.data) for row in rows)

    def size(self):
        return sum(len(row.data) for row in self.rows.values())

    def line(self, lane):
        return sorted(row for row in self.rows.values() if row.lane == lane and row.part == MAIN)

    def load(self, lane=1, upto=None):
        """What `Checkpointer.load` answers: the lane's rows from the last BASE at or before `upto` on."""
        line = self.line(lane)
        bases = [row.seq for row in line if row.kind == BASE and (upto is None or row.seq <= upto)]
        rows = tuple(row for row in line if row.seq >= max(bases, default=0))
        return LoadedThread(ThreadInfo(1, "a thread", 1, None, ""), (), lane, rows)

    def read(self, ranges):
        return [
            sorted(
                row
                for row in self.rows.values()
                if (row.lane, row.part) == (asked.lane, asked.part) and asked.first <= row.seq <= asked.last
            )
            for asked in ranges
        ]

    def drive(self, reading):
        """Run a reading generator and answer what it returns."""
        self.asked = []
        try:
            asked = next(reading)
            while True:
                self.asked.append(asked)
                asked = reading.send(self.read(asked))
        except StopIteration as end:
            return end.value

    def writer(self, lane=1):
        return LaneWriter(self.codec, lane)

    def head(self, lane=1, **options):
        return self.drive(read_head(self.load(lane), self.codec, **options))

    def at(self, seq, lane=1):
        return self.drive(read_at(self.load(lane, seq), seq, self.codec))

    def history(self, lane=1, upto=1, **options):
        return self.drive(read_history(self.load(lane, upto), self.codec, **options))
