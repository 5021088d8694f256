"""One engine in a process of its own: reads cells to measure as JSON lines, answers each with JSON.

python worker.py durable_graph|langgraph|dbos
{"workload": "loop", "face": "sync", "store": "memory", "durability": "sync", "n": 300, "repeat": 3, "folder": "/tmp/x"}
-> {"value": 0.01, "commits": null}        seconds for all of its n units, or what the workload measures

"folder" is the DSN of a server where the store is "postgres". Commits are counted where many threads run at once.
"""

import asyncio
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, process_time

sys.path.insert(0, str(Path(__file__).parent))

import graphs
import libraries
from bare import bare_inserts
from places import commits, new_place

WARM_UP = 5
DEPTH = 5
"""Graphs inside graphs."""
WARM_POOL = 100
"""Sends enough for the OS threads of a pool to be there."""
STEPS = 20
"""Supersteps of each of many threads."""
OS_THREADS = 16
CONCURRENCY = 8
"""Runs that a worker carries at a time."""


def warm_up(cell):
    return min(WARM_POOL, cell["n"]) if cell["workload"] == "fan_out" else WARM_UP


def clock_of(cell):
    """Time on a disk is what a user waits for; elsewhere CPU time, which other programs on the machine change less."""
    return perf_counter if cell["store"] in ("sqlite disk", "postgres") else process_time


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
        self.commits = None

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
            "many threads": self.many_threads,
            "queued runs": self.queued,
            **{f"database of {name}": self.stored for name in WORKLOADS},
        }
        self.commits = None
        with new_place(cell["store"], cell["folder"]) as folder:
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
        return bare_inserts(cell["store"], folder, cell["n"], clock_of(cell))

    def many_threads(self, cell, folder):
        """n supersteps, of as many threads at once as that takes: asyncio tasks, or in turns in a few OS threads."""
        given = {"n": STEPS}
        configs = [graphs.config(f"thread-{number}") for number in range(cell["n"] // STEPS)]
        others = [graphs.config(f"other-{number}") for number in range(OS_THREADS)]  # they warm up
        clock = clock_of(cell)

        async def in_tasks():
            async with self.library.asaver(cell["store"], folder, many=True) as saver:
                graph = graphs.loop(self.library, asynchronous=True, checkpointer=saver)
                await asyncio.gather(*(graph.ainvoke(given, config, **options(cell)) for config in others))
                before, started = commits(cell["store"], folder), clock()
                await asyncio.gather(*(graph.ainvoke(given, config, **options(cell)) for config in configs))
                return self.counted(cell, folder, clock() - started, before)

        def in_os_threads():
            with self.library.saver(cell["store"], folder, many=True) as saver, ThreadPoolExecutor(OS_THREADS) as pool:
                graph = graphs.loop(self.library, checkpointer=saver)

                def run(config):
                    return graph.invoke(given, config, **options(cell))

                list(pool.map(run, others))
                before, started = commits(cell["store"], folder), clock()
                list(pool.map(run, configs))
                return self.counted(cell, folder, clock() - started, before)

        return asyncio.run(in_tasks()) if cell["face"] == "async" else in_os_threads()

    def queued(self, cell, folder):
        """n runs of one node each are submitted, and carried by a worker."""
        clock = clock_of(cell)

        async def work():
            async with self.library.asaver(cell["store"], folder) as saver:
                graph = graphs.loop(self.library, asynchronous=True, checkpointer=saver)

                async def carry(n):
                    for _ in range(n):
                        await graph.asubmit({"n": 1}, **options(cell))
                    if await graph.awork(concurrency=CONCURRENCY, until_idle=True) != n:
                        raise AssertionError(f"not all of {n} runs ended")

                await carry(CONCURRENCY)
                before, started = commits(cell["store"], folder), clock()
                await carry(cell["n"])
                return self.counted(cell, folder, clock() - started, before)

        return asyncio.run(work())

    def counted(self, cell, folder, seconds, before):
        """The same seconds; the commits since `before` are noted."""
        self.commits = commits(cell["store"], folder) - before
        return seconds

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

    commits = None

    def __init__(self, engine):
        self.engine = engine

    def measure(self, cell):
        """Seconds for the n steps of a cell."""
        with new_place(cell["store"], cell["folder"]) as folder:
            return self.engine.steps(folder, warm_up(cell), cell["n"], clock_of(cell))


def options(cell):
    return {} if cell["store"] == "none" else {"durability": cell["durability"]}


def main(name):
    measuring = Steps(libraries.Dbos()) if name == "dbos" else Measuring(libraries.LIBRARIES[name]())
    for line in sys.stdin:
        value = measuring.measure(json.loads(line))
        print(json.dumps({"value": value, "commits": measuring.commits}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
