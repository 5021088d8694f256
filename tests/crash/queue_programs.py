"""What the processes of test_workers_killed.py do: `python -m tests.crash.queue_programs WORK URL ...`."""

import os
import sys
import time

from durable_graph import START, StateGraph, once
from durable_graph.persistence.registry import resolve_checkpointer
from tests.behaviour.queued import Log


def say(word):
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def told(ledger, word):
    """Note a side effect, for good."""
    handle = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{word}\n".encode())
    os.close(handle)


def steps(saver, ledger, hold=None):
    """Three nodes, each of which notes that it ran; the second one stands still when `hold` says so."""

    def first(state):
        told(ledger, "first")
        return {"log": ["first"]}

    def second(state):
        once("pay", told, ledger, "paid")
        told(ledger, "second")
        if hold is not None:
            hold()
        return {"log": ["second"]}

    def third(state):
        told(ledger, "third")
        return {"log": ["third"]}

    builder = StateGraph(Log).add_node(first).add_node(second).add_node(third)
    builder.add_edge(START, "first").add_edge("first", "second").add_edge("second", "third")
    return builder.compile(saver, name="steps")


def stand():
    """Stay inside the node until a line comes."""
    say("inside")
    sys.stdin.readline()


def hang():
    """Stay inside the node for good."""
    say("inside")
    time.sleep(600)


def work(url, ledger, how):
    """A worker, until nothing is left."""
    hold = {"stand": stand, "hang": hang, "go": None}[how]
    with resolve_checkpointer(url) as saver:
        say(f"ended {steps(saver, ledger, hold).work(until_idle=True, poll=0.05)}")


def invoke(url, ledger, how):
    """A run that nobody queued."""
    with resolve_checkpointer(url) as saver:
        steps(saver, ledger, {"hang": hang, "go": None}[how]).invoke(
            {"log": ["in"]}, {"configurable": {"thread_id": "t"}}
        )


if __name__ == "__main__":
    {"work": work, "invoke": invoke}[sys.argv[1]](*sys.argv[2:])
