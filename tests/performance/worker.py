"""One engine in a process of its own: reads cells to measure as JSON lines, answers each with JSON.

python worker.py durable_graph|langgraph|dbos
{"workload": "loop", "face": "sync", "store": "memory", "durability": "sync", "n": 300, "repeat": 3, "folder": "/tmp/x"}
-> {"value": 0.01}        seconds for all of its n units, or what the workload measures
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
DEPTH = 5
"""Graphs inside graphs."""
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


def react_calls(library, n, thread):
    """n supersteps are n // 2 calls of the tool."""
    return [(graphs.react_input(n // 2), thread)]


def short_calls(library, n, thread):
    return [({"n": 1}, f"{thread}-{number}") for number in range(n)]


WORKLOADS = {
    "loop": (graphs.loop, one_call(lambda n: {"n": n})),
    "fan_out": (graphs.fan_out, one_call(lambda n: {"n": n})),
    "chat": (graphs.chat, one_call(lambda n: {"n": n, "messages": []})),
    "ask": (graphs.ask, round_trips),
    "short": (graphs.loop, short_calls),
    "tasks": (graphs.tasks, one_call(lambda n: n)),
    "tasks at once": (graphs.tasks_at_once, one_call(lambda n: n)),
    "react of dicts": (graphs.react_of_dicts, react_calls),
    "react by hand": (graphs.react_by_hand, react_calls),
    "react agent": (graphs.react_agent, react_calls),
    "agent": (graphs.agent, react_calls),
}


class Measuring:
    """Runs cells on one engine."""

    def __init__(self, library):
        self.library = library
        self.threads = 0

    def measure(self, cell):
        """Seconds for the n units of a cell; of two that are compared, how many times as long the second took; of a
        database its megabytes."""
        special = {
            "bare": self.bare,
            "ends of a chat": self.ends,
            "ends of many tasks": self.many_tasks,
            "nested": self.levels,
            "edit": self.edits,
            "compile": self.compiling,
            **{f"database of {name}": self.stored for name in WORKLOADS},
        }
        with tempfile.TemporaryDirectory(dir=cell["folder"]) as folder:
            if cell["workload"] in special:
                return special[cell["workload"]](cell, folder)
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

    def bare(self, cell, folder):
        return libraries.bare_inserts(folder, cell["n"], clock_of(cell))

    def levels(self, cell, folder):
        """What graphs inside graphs add to n calls: for each of them and each call."""
        clock = clock_of(cell)
        with self.library.saver(cell["store"], folder) as saver:
            made = [graphs.nested(self.library, depth=depth, checkpointer=saver) for depth in (0, DEPTH)]
            seconds = [0.0, 0.0]
            for number in range(-WARM_UP, cell["n"]):
                for which, graph in enumerate(made):
                    self.threads += 1
                    config = graphs.config(f"thread-{self.threads}")
                    started = clock()
                    graph.invoke({"n": 1}, config, **options(cell))
                    if number >= 0:
                        seconds[which] += clock() - started
        return (seconds[1] - seconds[0]) / DEPTH

    def edits(self, cell, folder):
        """n calls of update_state, on a thread whose run is over."""
        clock = clock_of(cell)
        with self.library.saver(cell["store"], folder) as saver:
            graph = graphs.loop(self.library, checkpointer=saver)
            config = graphs.config("edits")
            graph.invoke({"n": 1}, config, **options(cell))
            for _ in range(WARM_UP):
                graph.update_state(config, {"n": 0})
            started = clock()
            for _ in range(cell["n"]):
                graph.update_state(config, {"n": 0})
            return clock() - started

    def compiling(self, cell, folder):
        """A graph of n nodes is compiled."""
        clock = clock_of(cell)
        graphs.sequence(self.library, nodes=WARM_UP).compile()
        graph = graphs.sequence(self.library, nodes=cell["n"])
        started = clock()
        graph.compile()
        return clock() - started

    def stored(self, cell, folder):
        """Megabytes of the database that a run leaves behind."""
        graph, calls = WORKLOADS[cell["workload"].removeprefix("database of ")]
        with self.library.saver(cell["store"], folder) as saver:
            for given, thread in calls(self.library, cell["n"], "thread"):
                graph(self.library, checkpointer=saver).invoke(given, graphs.config(thread), **options(cell))
        return sum(file.stat().st_size for file in Path(folder).iterdir()) / 1e6

    def many_tasks(self, cell, folder):
        """How many times as long a task takes where there are ten times as many."""
        few = self.sync_face({**cell, "workload": "tasks"}, folder)
        many = self.sync_face({**cell, "workload": "tasks", "n": 10 * cell["n"]}, folder)
        return many / few / 10

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


class Steps:
    """Runs cells on an engine that has no graphs."""

    def __init__(self, engine):
        self.engine = engine

    def measure(self, cell):
        """Seconds for the n steps of a cell."""
        with tempfile.TemporaryDirectory(dir=cell["folder"]) as folder:
            return self.engine.steps(folder, warm_up(cell), cell["n"], clock_of(cell))


def options(cell):
    return {} if cell["store"] == "none" else {"durability": cell["durability"]}


def main(name):
    measuring = Steps(libraries.Dbos()) if name == "dbos" else Measuring(libraries.LIBRARIES[name]())
    for line in sys.stdin:
        print(json.dumps({"value": measuring.measure(json.loads(line))}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
