"""One process of the log-triage demo: all the code it takes to start a run, to go on with it, and to answer it.

python triage_worker.py FOLDER THREAD start LOG
python triage_worker.py FOLDER THREAD resume
python triage_worker.py FOLDER THREAD answer TEXT
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from triage_graph import Desk, State, build

from durable_graph import Command

PAUSE = 0.15
"""Seconds per chunk: slow enough to be killed in the middle."""


def run(folder: Path, thread: str, given: State | Command[Any] | None) -> None:
    """Run until the graph is done or asks. "sync": each step is on disk before the next one starts."""
    config = {"configurable": {"thread_id": thread}, "max_concurrency": 3}
    graph = build(f"sqlite:///{folder}/runs.db")
    graph.invoke(given, config, context=Desk(folder, PAUSE), durability="sync")


def main(folder: str, thread: str, verb: str, text: str = "") -> None:
    """Understand the command line."""
    given: dict[str, State | Command[Any] | None] = {
        "start": {"log": text},
        "resume": None,  # nothing new: go on where the run stopped
        "answer": Command(resume=text),
    }
    run(Path(folder), thread, given[verb])


if __name__ == "__main__":
    main(*sys.argv[1:])
