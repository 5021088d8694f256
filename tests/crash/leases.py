"""What the processes of test_leases.py do: `python -m tests.crash.leases WORK URL ...`. They tell it in lines."""

import operator
import sys
import time
from typing import Annotated, TypedDict

from durable_graph import START, StateGraph
from durable_graph.errors import LostLease, ThreadBusy
from durable_graph.persistence.registry import resolve_checkpointer

CFG = {"configurable": {"thread_id": "t"}}


class Counted(TypedDict):
    n: Annotated[int, operator.add]
    given: Annotated[list[str], operator.add]


def counter(saver, work=lambda state: {"n": 1}):
    """Each run counts one."""
    builder = StateGraph(Counted).add_node("first", lambda state: None).add_node("work", work)
    builder.add_edge(START, "first").add_edge("first", "work")
    return builder.compile(saver)


def say(word):
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def count(url, name, on_busy):
    """Ten runs on one thread."""
    say("ready")
    sys.stdin.readline()
    with resolve_checkpointer(url) as saver:
        graph, accepted = counter(saver), []
        for number in range(10):
            try:
                graph.invoke({"given": [f"{name}{number}"]}, CFG, on_busy=on_busy)
                accepted.append(f"{name}{number}")
            except ThreadBusy:
                time.sleep(0.01)
        say(" ".join(accepted))


def stand(url):
    """One run, which stands inside its second node until a line comes."""

    def work(state):
        say("inside")
        sys.stdin.readline()
        return {"n": 1}

    with resolve_checkpointer(url) as saver:
        try:
            counter(saver, work).invoke({"given": ["stood"]}, CFG)
            say("done")
        except LostLease as lost:
            say(f"LostLease: {lost.what}")


if __name__ == "__main__":
    {"count": count, "stand": stand}[sys.argv[1]](*sys.argv[2:])
