"""One process of the agent demo: all the code it takes to start a run, to go on with it, and to answer it.

python incident_worker.py FOLDER THREAD PAUSE LOG MODEL start
python incident_worker.py FOLDER THREAD PAUSE LOG MODEL resume
python incident_worker.py FOLDER THREAD PAUSE LOG MODEL answer QUESTION yes|no

PAUSE is how many seconds the call of a tool takes: long enough to be killed in the middle.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from incident_graph import Desk, build
from incident_model import SCRIPTED

from durable_graph import Command, DurableGraphError


def run(desk: Desk, thread: str, model: str, given: dict[str, Any] | Command[Any] | None) -> None:
    """Run until the agent is done or asks a human. The calls of a turn are made one after the other, so that there is
    always a second one to be killed in; leave `max_concurrency` out, and they are made at the same time.
    """
    agent = build(f"sqlite:///{desk.folder}/runs.db", model)
    agent.invoke(given, {"configurable": {"thread_id": thread}, "max_concurrency": 1}, context=desk)


def main(folder: str, thread: str, pause: str, log: str, model: str, verb: str, *words: str) -> None:
    """Understand the command line."""
    desk = Desk(Path(folder), Path(log), float(pause))
    match verb, *words:
        case ("start",):
            task = f"Customers of the shop see errors since this morning. Its log is {desk.log.name}. What is wrong?"
            given: Any = {"messages": [("user", task)]}
        case ("resume",):
            given = None  # nothing new: go on where the run stopped
        case "answer", question, ("yes" | "no") as decision:
            given = Command(resume={question: decision})
        case _:
            sys.exit(__doc__)
    try:
        run(desk, thread, model, given)
    except DurableGraphError as error:
        sys.exit(str(error))
    except Exception as error:
        if model == SCRIPTED:
            raise
        sys.exit(f"model {model}: {type(error).__name__}: {error}")  # such as a wrong key, or no network


if __name__ == "__main__":
    main(*sys.argv[1:])
