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
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent))

import graphs
import libraries

WARM_UP = 5


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
        """Seconds of each repeat."""
        with tempfile.TemporaryDirectory(dir=cell["folder"]) as folder:
            if cell["workload"] == "bare":
                return [libraries.bare_inserts(folder, cell["n"], perf_counter) for _ in range(cell["repeat"])]
            if cell["workload"] == "ends of a chat":
                return self.ends(cell, folder)
            if cell["face"] == "async":
                return asyncio.run(self.async_face(cell, folder))
            return self.sync_face(cell, folder)

    def calls(self, cell, n):
        """What is passed to the calls of one repeat: inputs and configs."""
        self.threads += 1
        for given, thread in WORKLOADS[cell["workload"]][1](self.library, n, f"thread-{self.threads}"):
            yield given, graphs.config(thread)

    def sizes(self, cell):
        return [min(WARM_UP, cell["n"]), *[cell["n"]] * cell["repeat"]]

    def sync_face(self, cell, folder):
        seconds = []
        with self.library.saver(cell["store"], folder) as saver:
            graph = WORKLOADS[cell["workload"]][0](self.library, checkpointer=saver)
            for n in self.sizes(cell):
                calls = list(self.calls(cell, n))
                started = perf_counter()
                for given, config in calls:
                    graph.invoke(given, config, **options(cell))
                seconds.append(perf_counter() - started)
        return seconds[1:]

    async def async_face(self, cell, folder):
        seconds = []
        async with self.library.asaver(cell["store"], folder) as saver:
            graph = WORKLOADS[cell["workload"]][0](self.library, asynchronous=True, checkpointer=saver)
            for n in self.sizes(cell):
                calls = list(self.calls(cell, n))
                started = perf_counter()
                for given, config in calls:
                    await graph.ainvoke(given, config, **options(cell))
                seconds.append(perf_counter() - started)
        return seconds[1:]

    def ends(self, cell, folder):
        """For each repeat: how many times the first 20 steps the last 20 took. The node does not read its messages."""
        found = []
        for number in range(cell["repeat"]):
            marks = []

            def step(state, marks=marks):
                marks.append(perf_counter())
                n = state["n"]
                return {"n": n - 1, "messages": [{"role": "user", "content": graphs.text(500, n)}]}

            with self.library.saver(cell["store"], folder) as saver:
                graph = graphs.countdown(self.library, graphs.Chat, step, asynchronous=False, checkpointer=saver)
                graph.invoke({"n": cell["n"], "messages": []}, graphs.config(f"ends-{number}"), **options(cell))
            found.append((marks[-1] - marks[-21]) / (marks[30] - marks[10]))
        return found


def options(cell):
    return {} if cell["store"] == "none" else {"durability": cell["durability"]}


def main(name):
    measuring = Measuring(libraries.LIBRARIES[name]())
    for line in sys.stdin:
        print(json.dumps({"seconds": measuring.measure(json.loads(line))}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
