"""One engine in a process of its own: reads cells to measure as JSON lines, answers each with JSON.

python worker.py durable_graph|langgraph
{"workload": "loop", "face": "sync", "store": "memory", "durability": "sync", "n": 300, "repeat": 3, "folder": "/tmp/x"}
-> {"seconds": [0.01, ...]}        one for each repeat, for all of its n units
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

sys.path.insert(0, str(Path(__file__).parent))

import graphs
import libraries

WARM_UP = 5
WARM_POOL = 100
"""Sends enough for the OS threads of a pool to be there."""


def warm_up(cell):
    return min(WARM_POOL, cell["n"]) if cell["workload"] == "fan_out" else WARM_UP


def clock_of(cell):
    """Time on a disk is what a user waits for; elsewhere CPU time, which other programs on the machine change less."""
    return perf_counter if cell["store"] == "sqlite disk" else process_time


def one_call(given):
    """Workloads of one call of size n."""
    return lambda library, n, thread: [(given(n), thread)]


def round_trips(library, n, thread):
    return [({"n": n}, thread), *[(library.Command(resume=True), thread)] * n]


def short_calls(library, n, thread):
    return [({"n": 1}, f"{thread}-{number}") for number in range(n)]


WORKLOADS = {
    "loop": (graphs.loop, one_call(lambda n: {"n": n})),
    "fan_out": (graphs.fan_out, one_call(lambda n: {"n": n})),
    "chat": (graphs.chat, one_call(lambda n: {"n": n, "messages": []})),
    "ask": (graphs.ask, round_trips),
    "short": (graphs.loop, short_calls),
}


class Measuring:
    """Runs cells on one engine."""

    def __init__(self, library):
        self.library = library
        self.threads = 0

    def measure(self, cell):
        """Seconds for the n units of a cell; for "ends of a chat" how many times as long the last steps took."""
        with tempfile.TemporaryDirectory(dir=cell["folder"]) as folder:
            if cell["workload"] == "bare":
                return libraries.bare_inserts(folder, cell["n"], clock_of(cell))
            if cell["workload"] == "ends of a chat":
                return self.ends(cell, folder)
            if cell["face"] == "async":
                return asyncio.run(self.async_face(cell, folder))
            return self.sync_face(cell, folder)

    def calls(self, cell, n):
        """What is passed to the calls: inputs and configs."""
        self.threads += 1
        for given, thread in WORKLOADS[cell["workload"]][1](self.library, n, f"thread-{self.threads}"):
            yield given, graphs.config(thread)

    def sync_face(self, cell, folder):
        clock = clock_of(cell)
        with self.library.saver(cell["store"], folder) as saver:
            graph = WORKLOADS[cell["workload"]][0](self.library, checkpointer=saver)
            for given, config in self.calls(cell, warm_up(cell)):
                graph.invoke(given, config, **options(cell))
            calls = list(self.calls(cell, cell["n"]))
            started = clock()
            for given, config in calls:
                graph.invoke(given, config, **options(cell))
            return clock() - started

    async def async_face(self, cell, folder):
        clock = clock_of(cell)
        async with self.library.asaver(cell["store"], folder) as saver:
            graph = WORKLOADS[cell["workload"]][0](self.library, asynchronous=True, checkpointer=saver)
            for given, config in self.calls(cell, warm_up(cell)):
                await graph.ainvoke(given, config, **options(cell))
            calls = list(self.calls(cell, cell["n"]))
            started = clock()
            for given, config in calls:
                await graph.ainvoke(given, config, **options(cell))
            return clock() - started

    def ends(self, cell, folder):
        """How many times the first 20 steps the last 20 took. The node does not read its messages."""
        marks, clock = [], clock_of(cell)

        def step(state):
            marks.append(clock())
            n = state["n"]
            return {"n": n - 1, "messages": [{"role": "user", "content": graphs.text(500, n)}]}

        with self.library.saver(cell["store"], folder) as saver:
            graph = graphs.countdown(self.library, graphs.Chat, step, asynchronous=False, checkpointer=saver)
            graph.invoke({"n": cell["n"], "messages": []}, graphs.config("ends"), **options(cell))
        first, last = marks[WARM_UP + 20] - marks[WARM_UP], marks[-1] - marks[-21]
        return last / first


def options(cell):
    return {} if cell["store"] == "none" else {"durability": cell["durability"]}


def main(name):
    measuring = Measuring(libraries.LIBRARIES[name]())
    for line in sys.stdin:
        print(json.dumps({"value": measuring.measure(json.loads(line))}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
