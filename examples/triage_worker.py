"""One process of the log-triage demo: all the code it takes to start a run, to go on with it, and to answer it.

python triage_worker.py FOLDER THREAD PAUSE start LOG
python triage_worker.py FOLDER THREAD PAUSE resume
python triage_worker.py FOLDER THREAD PAUSE answer TEXT
python triage_worker.py FOLDER THREAD PAUSE branch THRESHOLD ANSWER

PAUSE is how many seconds counting a chunk takes: long enough to be killed in the middle.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from triage_graph import THRESHOLD, Desk, build
from triage_travel import take_branch

from durable_graph import Command

PARALLEL = 3
"""Chunks that are counted at a time."""


def run(desk: Desk, thread: str, given: dict[str, Any] | Command[Any] | None) -> None:
    """Run until the graph is done or asks. "sync": each step is on disk before the next one starts."""
    config = {"configurable": {"thread_id": thread}, "max_concurrency": PARALLEL}
    graph = build(f"sqlite:///{desk.folder}/runs.db")
    graph.invoke(given, config, context=desk, durability="sync")


def main(folder: str, thread: str, pause: str, verb: str, *words: str) -> None:
    """Understand the command line."""
    desk = Desk(Path(folder), float(pause))
    match verb, *words:
        case "start", log:
            run(desk, thread, {"log": log, "threshold": THRESHOLD})
        case ("resume",):
            run(desk, thread, None)  # nothing new: go on where the run stopped
        case "answer", text:
            run(desk, thread, Command(resume=text))
        case "branch", threshold, answer:
            take_branch(desk, thread, float(threshold), answer)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
