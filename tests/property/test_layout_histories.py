"""Random histories against a model that keeps a deep copy of every checkpoint.

A history appends (reported or not), edits in place as a nasty reducer would, overwrites, removes, crosses the border
between inline and apart both ways, keeps pending records, branches from branches, fails to encode, crashes and goes on.
"""

import dataclasses
from copy import deepcopy
from random import Random

import pytest

from durable_graph.errors import UnserializableValueError
from durable_graph.persistence.codec import Codec
from durable_graph.records import (
    Change,
    ErrorRecord,
    Frontier,
    PendingRecord,
    StepRecord,
    StoredCheckpoint,
    TaskRecord,
    Write,
)
from durable_graph.types import MISSING, Interrupt, Send
from tests.rowstore import RowStore

KEYS = ["messages", "log", "n", "blob", "text", "config", "odd \x00 \ud800"]
LISTS = KEYS[:3]
NODES = ["agent", "tools", "review"]


class Lane:
    """One lane of the model. `live`: the values as a run holds them. `seqs`: its checkpoints."""

    def __init__(self, writer, live, versions, parent):
        self.writer = writer
        self.live = live
        self.versions = versions
        self.parent = parent
        self.seqs = []


class History:
    """One thread: its rows, and what each checkpoint must read back as."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.codec = Codec()
        self.store = RowStore(self.codec)
        self.lanes = {1: Lane(self.store.writer(), {}, {}, None)}
        self.expected = {}
        self.seq = 0
        self.epoch = self.random.randrange(2, 1 << 62)

    # --- random pieces ---

    def small(self):
        pick = self.random
        return pick.choice(
            [0, -0.0, 0.0, 1, True, None, "", "x", b"\x90", (1, 2), [], {}, [pick.random()], {"a": 1}, float("nan")]
        )

    def large(self):
        pick = self.random
        size = pick.choice([100, 240, 300, 700])
        return pick.choice([pick.randbytes(size), pick.randbytes(size).hex(), {"k": "v" * size}, ("t", "u" * size)])

    def value(self):
        pick = self.random
        if pick.random() < 0.4:
            return [self.small() for _ in range(pick.choice([0, 1, 14, 15, 16, 17, 80]))]
        return self.small() if pick.random() < 0.5 else self.large()

    def change(self, lane, key):
        """A change, made the way a reducer of some kind would make it; `lane.live` has the new value after it."""
        pick, live = self.random, lane.live
        old = live.get(key)
        if key in LISTS and (old is None or type(old) is list) and pick.random() < 0.7:
            new = [self.large() if pick.random() < 0.5 else self.small() for _ in range(pick.choice([0, 1, 1, 2, 20]))]
            how = pick.choice(["reported", "unreported", "in place", "in place, reported"])
            if how.startswith("in place") and old is not None:
                old.extend(new)
                if how == "in place" and pick.random() < 0.3:
                    old[0:1] = [self.small()]
            else:
                live[key] = [*(old or []), *new]
            if how.endswith("reported") and how != "unreported":
                data = self.codec.encode(new) if pick.random() < 0.5 else None
                return Change(live[key], suffix=new, data=data)
            return Change(live[key])
        how = pick.random()
        if how < 0.15:
            _ = live.pop(key, None)
            return Change(MISSING)
        if how < 0.3 and key in live:
            live[key] = deepcopy(live[key])
        elif how < 0.4 and type(old) is list and old:
            del old[-1]
        else:
            live[key] = self.value()
        return Change(live[key], data=self.codec.encode(live[key]) if pick.random() < 0.3 else None)

    def writes(self, changes):
        pick = self.random
        found = []
        for key, change in changes.items():
            if change.value is MISSING or pick.random() < 0.3:
                continue
            value = change.suffix if change.suffix is not None and pick.random() < 0.7 else change.value
            if type(value) is list and len(value) == 1 and pick.random() < 0.3:
                value = value[0]
            found.append(Write(key, value, self.codec.encode(value) if pick.random() < 0.3 else None))
        if pick.random() < 0.2:
            found.append(Write("elsewhere", self.value()))
        return tuple(found)

    def task(self, changes):
        pick = self.random
        node = pick.choice(NODES)
        task = TaskRecord(
            pick.choice([node, f"{node}#{pick.randrange(40)}", f"{node}#007"]), node, pick.randbytes(8).hex()
        )
        task.attempt, task.started, task.duration = (
            pick.choice([1, 1, 3]),
            pick.random() * 2e9,
            pick.choice([0.0, 0.25]),
        )
        outcome = pick.random()
        if outcome < 0.7:
            task.writes = self.writes(changes)
            task.routes = tuple(
                pick.choice([*NODES, Send("tools", self.value())]) for _ in range(pick.choice([0, 0, 2]))
            )
        elif outcome < 0.85:
            task.error = ErrorRecord("builtins.ValueError", "no \ud800", "Traceback ...")
        else:
            task.interrupts = (Interrupt(self.value(), f"i{pick.randrange(5)}"),)
        task.answered = ("i1",) if pick.random() < 0.2 else ()
        task.rejected = (f"i{pick.randrange(5)}",) if pick.random() < 0.3 else ()
        return task

    def record(self, lane, changes):
        pick = self.random
        sends = tuple(Send(pick.choice(NODES), self.value()) for _ in range(pick.choice([0, 0, 0, 2])))
        arrived = {"a+b": ("a",)} if pick.random() < 0.2 else {}
        tasks = {task.path: task for task in (self.task(changes) for _ in range(pick.choice([0, 1, 1, 3])))}
        return StepRecord(
            step=len(lane.seqs) - 1,
            source=pick.choice(["input", "loop", "update", "fork"]),
            changes=changes,
            frontier=Frontier(tuple(sorted(pick.sample(NODES, pick.randrange(3)))), sends, arrived),
            tasks=tuple(tasks.values()),
            stop=pick.choice([None, None, "before", "after"]),
            created_at=1_700_000_000_000 + pick.randrange(-5_000, 1_000_000),
            run_id=pick.choice(["run 1", "run 2"]),
            fingerprint=pick.choice(["f", "g"]),
            metadata=pick.choice([{}, {"user": ("ann", 1)}]),
        )

    # --- what happens ---

    def step(self, number):
        lane, pick = self.lanes[number], self.random
        keys = pick.sample(KEYS, pick.randrange(len(KEYS)))
        changes = {key: self.change(lane, key) for key in keys}
        record = self.record(lane, changes)
        self.seq += pick.choice([1, 1, 2, 300])
        if pick.random() < 0.1:
            self.refuse(lane, record)
        before = set(lane.versions)
        self.store.add(lane.writer.checkpoint(record, self.seq, self.epoch))
        for key, change in changes.items():
            if change.value is MISSING:
                _ = lane.versions.pop(key, None)
            else:
                lane.versions[key] = self.seq
        assert set(lane.versions) - before <= set(keys)
        self.expect(number, lane, record)

    def refuse(self, lane, record):
        """The same record, with something in it that cannot be stored."""
        bad = deepcopy(record)
        bad.changes["unknown"] = Change(object())
        with pytest.raises(UnserializableValueError, match="unknown"):
            lane.writer.checkpoint(bad, self.seq, self.epoch)

    def expect(self, number, lane, record):
        stored = deepcopy(record)
        stored.changes = {}
        stored.tasks = tuple(map(plain, stored.tasks))
        if lane.seqs:
            settle(self.expected[number, lane.seqs[-1]], stored.tasks)
        address = lane.writer.address
        assert address == (number, self.seq, self.epoch)
        checkpoint = StoredCheckpoint(address, lane.parent, deepcopy(lane.live), dict(lane.versions), stored)
        self.expected[number, self.seq] = checkpoint
        lane.parent = address
        lane.seqs.append(self.seq)

    def pending(self, number):
        lane, pick = self.lanes[number], self.random
        if not lane.seqs:
            return
        changes = {key: Change(self.value()) for key in pick.sample(KEYS, 2)}
        tasks = {task.path: task for task in (self.task(changes) for _ in range(pick.choice([0, 1, 2])))}
        answers = {f"i{pick.randrange(5)}": self.value() for _ in range(pick.choice([0, 1, 2]))}
        record = PendingRecord(tuple(tasks.values()), answers)
        self.seq += 1
        self.store.add(lane.writer.pending(record, self.seq, self.epoch))
        checkpoint = self.expected[number, lane.seqs[-1]]
        settle(checkpoint, tuple(map(plain, deepcopy(record).tasks)))
        checkpoint.answers.update(deepcopy(answers))

    def crash(self, number):
        """All that was in memory is gone; the run goes on from what is read back."""
        lane = self.lanes[number]
        if not lane.seqs:
            return  # the branch was never committed
        self.epoch += self.random.randrange(1, 1 << 20)
        found, lane.writer = self.store.head(number)
        self.check(found, self.expected[number, lane.seqs[-1]])
        lane.live = found.values

    def branch(self):
        places = list(self.expected)
        if not places:
            return
        number, seq = self.random.choice(places)
        found, writer = self.store.at(seq, number)
        self.check(found, self.expected[number, seq])
        new = max(self.lanes) + 1
        self.lanes[new] = Lane(writer.branch(new), found.values, dict(found.versions), found.address)

    # --- what must hold ---

    def check(self, found, expected):
        """Equal, to the type and the sign of zero (repr tells 1 from True, and NaN is like itself)."""
        assert canonical(found) == canonical(expected)

    def check_all(self):
        for number, lane in self.lanes.items():
            pages = self.store.history(number, lane.seqs[0] if lane.seqs else None)
            assert [page.address.seq for page in pages] == lane.seqs[::-1]
            for page in pages:
                self.check(page, self.expected[number, page.address.seq])
            for seq in lane.seqs:
                self.check(self.store.at(seq, number)[0], self.expected[number, seq])


def plain(task):
    if task.writes is not None:
        task.writes = tuple(write._replace(data=None) for write in task.writes)
    return task


def settle(checkpoint, tasks):
    for task in tasks:
        earlier = checkpoint.pending.get(task.path)
        if task.writes is not None and earlier is not None and not task.interrupts:
            # What a task asked on its way to a result stays visible.
            task = dataclasses.replace(task, interrupts=earlier.interrupts)  # noqa: PLW2901 - the record as it reads
        checkpoint.pending[task.path] = task
        for asked in task.rejected:
            checkpoint.answers.pop(asked, None)


def canonical(checkpoint):
    parts = [checkpoint.values, checkpoint.versions, checkpoint.pending, checkpoint.answers]
    return [
        repr((checkpoint.address, checkpoint.parent, checkpoint.step)),
        *(sorted((key, repr(value)) for key, value in part.items()) for part in parts),
    ]


def play(seed):
    history = History(seed)
    pick = history.random
    for _ in range(pick.randrange(5, 40)):
        number = pick.choice(list(history.lanes))
        action = pick.random()
        if action < 0.65:
            history.step(number)
        elif action < 0.8:
            history.pending(number)
        elif action < 0.92:
            history.crash(number)
        else:
            history.branch()
    return history


@pytest.mark.parametrize("group", range(20))
def test_every_checkpoint_of_every_lane_reads_back_as_it_was(group):
    for seed in range(group * 25, group * 25 + 25):
        play(seed).check_all()


def test_histories_reach_every_way_of_storing():
    kinds = {(row.kind, row.part > 0) for seed in range(20) for row in play(seed).store.rows.values()}
    assert kinds == {(0, False), (1, False), (2, False), (0, True), (1, True)}
