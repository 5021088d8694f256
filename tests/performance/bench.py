"""durable_graph, LangGraph and DBOS side by side: the same work, in processes of their own, taking turns in one run.

    python tests/performance/bench.py [--quick] [--rounds K] [--only TEXT] [--alone]

Each peer gets an environment of its own (.venv-langgraph-*, .venv-dbos-*, made on first use). Figures are microseconds
per unit (of agents: per superstep), medians over all rounds; "times" says how many times faster durable_graph is, or
how many times smaller. Of many threads at once they are units per second, and the commits of one run. SQLite runs on a
disk and, where there is /dev/shm, in memory ("tmpfs": engine and driver, without the disk); Postgres is a server of its
own whose data is on a disk. With a disk the time is what a caller waits; elsewhere it is CPU time of all OS threads.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

import postgres_server
from cells import CELLS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PEERS = {
    "langgraph": (
        "LangGraph",
        {
            "langgraph": "1.2.24",
            "langgraph-checkpoint-sqlite": "3.1.2",
            "langgraph-checkpoint-postgres": "3.2.0",
            "psycopg-binary": "3.3.9",
            "psycopg-pool": "3.3.3",
            "langchain": "1.5.2",
        },
    ),
    "dbos": ("DBOS", {"dbos": "3.4.0"}),
}
"""Of each: what people call it, the packages it is installed from, the first of which has its version."""
IMPORTS = {
    "durable_graph": "from durable_graph import StateGraph",
    "langgraph": "from langgraph.graph import StateGraph",
    "dbos": "from dbos import DBOS",
}
TMPFS = Path("/dev/shm")  # noqa: S108 - not a place for secrets: a file system without a disk
DISK = Path("/var/tmp")  # noqa: S108 - likewise: what is kept over a restart, and any user may enter
SAFE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "shared_buffers": "128MB"}
"""What keeps a commit through a power cut: Postgres as it comes."""
LINE = "{:<44} {:<6} {:<13} {:<6} {:>10} {:>10} {:<10} {:>7}  {}"


# --- the engines ------------------------------------------------------------------------------------------------------


class Worker:
    """One engine in its own process."""

    def __init__(self, python, name):
        environment = {**os.environ, "PYTHONPATH": str(ROOT) if name == "durable_graph" else ""}
        self.process = subprocess.Popen(
            [python, HERE / "worker.py", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def measure(self, cell):
        self.process.stdin.write(json.dumps(cell) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"error: the worker failed (see above) at {cell}")
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def peer_python(name):
    """The Python of a peer's environment, made if need be."""
    title, packages = PEERS[name]
    home = ROOT / f".venv-{name}-{sys.version_info.major}.{sys.version_info.minor}"
    python = home / "bin" / "python"
    wanted = [f"{package}=={version}" for package, version in packages.items()]
    if not python.exists() or installed_in(python, packages) != wanted:
        print(f"creating {home.name} with {' and '.join(wanted)} ...", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        installed = subprocess.run([python, "-m", "pip", "install", "-qq", *wanted], check=False)
        if installed.returncode:
            raise SystemExit(f"error: {title} could not be installed. Try again with a network, or with --alone.")
    return python


def installed_in(python, packages):
    """["package==version"] of packages in another environment; empty when one of them is not there."""
    code = f"from importlib.metadata import version; print(*(f'{{one}}=={{version(one)}}' for one in {[*packages]}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=False).stdout.split()


def version_of(name):
    """What people call a peer, with its version."""
    title, packages = PEERS[name]
    return f"{title} {next(iter(packages.values()))}"


# --- measuring --------------------------------------------------------------------------------------------------------


def measured(pythons, cells, rounds):
    """{name: {number of the cell: answers}}: one answer for each repeat of each round, engines taking turns."""
    found = {name: {number: [] for number in range(len(cells))} for name in (*pythons, "bare")}
    with ExitStack() as stack:
        # On the disk of the checkout, under a name that git ignores.
        disk = stack.enter_context(tempfile.TemporaryDirectory(dir=ROOT, prefix=".venv-bench-"))
        places = {"sqlite tmpfs": str(TMPFS)}
        if any(cell.store == "postgres" for cell in cells):
            under = DISK if DISK.is_dir() else None
            places["postgres"] = stack.enter_context(postgres_server.own(under=under, **SAFE)).dsn
        for turn in range(rounds):
            workers = {name: Worker(python, name) for name, python in pythons.items()}
            for number, cell in enumerate(cells):
                show(f"round {turn + 1} of {rounds}: {cell.title}, {cell.store}")
                asked = {**asdict(cell), "folder": places.get(cell.store, disk)}
                turns = [(name, workers[name], asked) for name in ("durable_graph", cell.peer) if name in workers]
                if cell.bare is not None:
                    turns.append(("bare", workers["durable_graph"], {**asked, "workload": "bare"}))
                # Each repeat goes round all engines, beginning with another one: a disk that others use is fast and
                # slow for seconds at a time.
                for repeat in range(cell.repeat):
                    first = (turn + repeat) % len(turns)
                    for name, worker, wanted in (*turns[first:], *turns[:first]):
                        found[name][number].append(worker.measure(wanted))
            for worker in workers.values():
                worker.close()
    show("")
    return found


def import_times(pythons, rounds):
    """Milliseconds that an import adds to the start of Python: {statement: median}."""
    statements = {"import asyncio": (pythons["durable_graph"], "import asyncio")}
    for name, python in pythons.items():
        statements[IMPORTS[name]] = (python, IMPORTS[name])
    found = {statement: [] for statement in statements}
    # Of the second import on, as users know it: each engine's bytecode is there, whatever this environment writes.
    with tempfile.TemporaryDirectory() as bytecode:
        for _ in range(2 * rounds + 2):
            for statement, (python, code) in statements.items():
                found[statement].append(start_time(python, code, bytecode) - start_time(python, "pass", bytecode))
    return {statement: 1000 * statistics.median(times[1:]) for statement, times in found.items()}


def start_time(python, code, bytecode):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    started = perf_counter()
    subprocess.run([python, "-c", code], check=True, env=environment)
    return perf_counter() - started


# --- showing ----------------------------------------------------------------------------------------------------------


def show(progress):
    if sys.stderr.isatty():
        print(f"\r\033[K{progress}", end="", file=sys.stderr, flush=True)


def times_of(cell, ours, theirs):
    """How many times better ours is."""
    return ours / theirs if cell.rate else theirs / ours


def figure(cell, answers):
    """What is shown of all values of an engine; None where there are none."""
    if not answers:
        return None
    value = statistics.median(answer["value"] for answer in answers)
    return cell.n / value if cell.rate else value * 1e6 / cell.n if cell.unit == "us" else value


def commits_of(answers):
    """The commits of one run, as a text; empty where they were not counted."""
    counts = [answer["commits"] for answer in answers if answer["commits"] is not None]
    return f"{statistics.median(counts):.0f}" if counts else ""


def verdict(cell, ours, theirs, bare):
    """The goals of a cell, each with what became of it."""
    goals = []
    if cell.per_second is not None:
        goals.append((f">= {cell.per_second:g}/s", ours >= cell.per_second))
    if cell.us is not None:
        goals.append((f"<= {cell.us:g} us", ours <= cell.us))
    if cell.times is not None and theirs is not None:
        goals.append((f">= {cell.times:g}x", times_of(cell, ours, theirs) >= cell.times))
    if cell.bare is not None:
        goals.append((f"<= {cell.bare:g}x the insert ({ours / bare:.2f}x)", ours <= cell.bare * bare))
    if cell.ends is not None:
        goals.append((f"<= {cell.ends:g}", ours <= cell.ends))
    if cell.megabytes is not None:
        goals.append((f"<= {cell.megabytes:g} MB", ours <= cell.megabytes))
    return ", ".join(f"{text} {'ok' if met else 'MISSED'}" for text, met in goals)


def report(cells, found):
    print(LINE.format("", "face", "store", "dur.", "ours", "theirs", "", "times", "goals"))
    for number, cell in enumerate(cells):
        figures = {name: figure(cell, answers[number]) for name, answers in found.items()}
        ours, theirs, bare = figures["durable_graph"], figures.get(cell.peer), figures["bare"]
        digits = 2 if not cell.unit else 0 if cell.rate else 1
        shown = [f"{one:.{digits}f} {cell.unit}".strip() for one in (ours, theirs) if one is not None]
        durability = cell.durability if cell.store != "none" else ""
        times = f"{times_of(cell, ours, theirs):.1f}x" if theirs is not None and cell.unit else ""
        counted = [commits_of(found[name][number]) for name in ("durable_graph", cell.peer) if name in found]
        goals = verdict(cell, ours, theirs, bare)
        if any(counted):
            goals += f"{'; ' if goals else ''}{' against '.join(counted)} commits"
        theirs_shown = shown[1] if theirs is not None else ""
        peer = PEERS[cell.peer][0] if theirs is not None else ""
        print(LINE.format(cell.title, cell.face, cell.store, durability, shown[0], theirs_shown, peer, times, goals))


def report_imports(times):
    floor = times["import asyncio"]
    for statement, milliseconds in times.items():
        ours = "durable_graph" in statement
        goal = f"<= 2x import asyncio {'ok' if milliseconds <= 2 * floor else 'MISSED'}" if ours else ""
        print(LINE.format(statement, "", "", "", f"{milliseconds:.0f} ms", "", "", "", goal))


def main():
    parser = argparse.ArgumentParser(description="durable_graph, LangGraph and DBOS side by side.")
    parser.add_argument("--quick", action="store_true", help="one round of short runs")
    parser.add_argument("--rounds", type=int, default=3, help="how often each pair is measured")
    parser.add_argument("--only", default="", help="rows whose title or store contains this text")
    parser.add_argument("--alone", action="store_true", help="durable_graph only")
    given = parser.parse_args()
    rounds = 1 if given.quick else given.rounds
    cells = [cell.quick() if given.quick else cell for cell in CELLS if given.only in f"{cell.title} {cell.store}"]
    if not TMPFS.is_dir():
        cells = [cell for cell in cells if cell.store != "sqlite tmpfs"]
    peers = [name for name in PEERS if not given.alone and any(cell.peer == name for cell in cells)]
    pythons = {name: peer_python(name) for name in peers}
    versions = [version_of(name) for name in peers]
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {rounds} rounds"
    print(", ".join([f"Python {sys.version.split()[0]}", *versions, machine]))
    pythons = {"durable_graph": sys.executable, **pythons}
    report(cells, measured(pythons, cells, rounds))
    report_imports(import_times(pythons, rounds))


if __name__ == "__main__":
    main()
