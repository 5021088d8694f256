"""Random graphs inside graphs, crashed at random moments, answered in random order, gone on with from earlier turns.

The end is that of plain Python, and what finished inside does not run again.
"""

import asyncio
import copy
from random import Random

import pytest

from checkpointers import InMemorySaver, SqliteSaver
from durable_graph import Command
from durable_graph.testing.life import Crashed, Life, WatchedCheckpointer
from durable_graph.testing.playing import call_in_life
from tests.property.nested import answer_to, built, by_hand, random_graph

CONFIG = {"configurable": {"thread_id": "t"}}
TURNS = 3
MOST_LIVES = 300


class History:
    """Some turns of one graph on one thread, with all accidents that a seed brings."""

    def __init__(self, seed, open_store, durability):
        self.random = Random(seed)
        self.spec = random_graph(self.random)
        while self.spec.size > 40:
            self.spec = random_graph(self.random)
        self.open_store = open_store
        self.durability = durability
        self.crashes = self.random.choice([0, 2, 6])
        self.executed = []
        self.finished = set()
        self.lives = 0
        self.base = CONFIG

    def play(self):
        """For each turn the log at its end, and the one that is right."""
        ends, pairs = [], []
        log, memory = [], {}
        for turn in range(TURNS):
            self.base = CONFIG
            if ends and self.random.random() < 0.4:  # another branch, from the end of an earlier turn
                self.base, log, memory = copy.deepcopy(self.random.choice(ends))
            log += by_hand(self.spec, f"turn{turn}", memory)
            self.turn({"path": f"turn{turn}"})
            shown = self.graph(self.open_store()).get_state(CONFIG)
            pairs.append((shown.values["log"], list(log)))
            ends.append(copy.deepcopy((shown.config, log, memory)))
        return pairs

    def graph(self, saver):
        return built(self.spec, self.ran).compile(saver)

    def ran(self, path, stored):
        self.executed.append((self.lives, path, stored))
        assert path not in self.finished, f"{path} had finished in an earlier life"

    def turn(self, given):
        """Live until the turn is over."""
        begun = False
        while True:
            self.lives += 1
            assert self.lives < MOST_LIVES
            crashed = self.life(given if not begun else None)
            self.note_finished()
            shown = self.graph(self.open_store()).get_state(CONFIG)
            begun = shown.values.get("path") == given["path"] if shown.metadata else False
            if begun and not shown.next and not crashed:
                return

    def life(self, given):
        """One process's calls, until it dies or has nothing to do. Whether it died."""
        dies_at = None
        if self.crashes:
            self.crashes -= 1
            dies_at = self.random.randint(1, 40)
        life = Life(self.lives, dies_at=dies_at)
        graph = self.graph(WatchedCheckpointer(self.open_store(), life))
        asked = ()
        try:
            while True:
                result = self.call(life, graph, given, CONFIG if given is None or asked else self.base)
                asked = result.get("__interrupt__", ())
                if not asked:
                    return False
                some = self.random.sample(asked, self.random.randint(1, len(asked)))
                given = Command(resume={one.id: answer_to(one.value) for one in some})
        except Crashed:
            return True

    def call(self, life, graph, given, config):
        results = []
        if given is None:
            given = self.what_is_open()
        if self.random.random() < 0.5:
            call_in_life(life, lambda: results.append(graph.invoke(given, config, durability=self.durability)))
        else:

            async def main():
                results.append(await graph.ainvoke(given, config, durability=self.durability))

            call_in_life(life, lambda: asyncio.run(main()))
        return results[0]

    def what_is_open(self):
        """Some answers, where something is asked."""
        asked = self.graph(self.open_store()).get_state(CONFIG).interrupts
        return Command(resume={one.id: answer_to(one.value) for one in asked}) if asked else None

    def note_finished(self):
        """With durability "sync", a node after which one of a later step of the same graph ran is stored."""
        if self.durability != "sync":
            return
        latest = {}
        for life, path, stored in self.executed:
            if life == self.lives and stored:
                place, _, name = path.rpartition("/")
                step = int(name[1:])
                latest.setdefault(place, []).append((step, path))
        for nodes in latest.values():
            last = max(step for step, _ in nodes)
            self.finished |= {path for step, path in nodes if step < last}


@pytest.fixture
def stores(tmp_path):
    """Openers of one store, by its kind; each opening is another object where that is possible."""
    opened = []

    def memory():
        if not opened:
            opened.append(InMemorySaver())
        return opened[0]

    def sqlite():
        opened.append(SqliteSaver(tmp_path / "runs.db", synchronous="NORMAL"))
        return opened[-1]

    yield {"memory": memory, "sqlite": sqlite}
    for one in opened:
        one.close()


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("seed", [*range(20), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(20, 40))])
def test_a_random_history_ends_as_plain_python_says(stores, seed, durability):
    for log, expected in History(seed, stores["memory"], durability).play():
        assert log == expected


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("seed", range(1000, 1005))
def test_a_random_history_on_disk_ends_as_plain_python_says(stores, seed, durability):
    for log, expected in History(seed, stores["sqlite"], durability).play():
        assert log == expected


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("first", range(2000, 2250, 25))
def test_many_random_histories_end_as_plain_python_says(first, durability):
    for seed in range(first, first + 25):
        saver = InMemorySaver()
        for log, expected in History(seed, lambda saver=saver: saver, durability).play():
            assert log == expected, seed
