"""A node that charges, asks and ships, and dies where it is told to. Every side effect is a line of a ledger.

A test runs a life of it in a process of its own (`life`), which SIGKILL ends at one of `POINTS`.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from durable_graph import Command, Runtime, aonce, interrupt, once
from durable_graph.types import MISSING
from tests.behaviour.small_graphs import chain, thread

ROOT = Path(__file__).parents[2]
POINTS = ("before charge", "charging", "charged", "kept", "asking", "answered", "shipping", "shipped", "over")
"""Where a process may die: before a side effect, right after it, once its record is stored, and between."""


class Life:
    """One process: where it dies, and its ledger."""

    def __init__(self, folder, dies):
        self.ledger = Path(folder) / "ledger"
        self.dies = dies

    def at(self, point):
        if point == self.dies:
            os.kill(os.getpid(), signal.SIGKILL)

    def write(self, what, key):
        with self.ledger.open("a") as file:
            file.write(f"{what} {key}\n")
            file.flush()
            os.fsync(file.fileno())


def build(life, policy="rerun", *, asynchronous=False):
    def do(what, before, after):
        def step(item, runtime: Runtime):
            life.at(before)
            life.write(what, runtime.idempotency_key)
            life.at(after)
            return f"{what} {item}"

        return step

    charge, ship = do("charge", "before charge", "charging"), do("ship", "shipping", "shipped")

    def node(state):
        charged = once("charge", charge, 7, on_unknown=on_unknown(policy))
        life.at("charged")
        life.at("kept")
        answer = interrupt("ship?")
        life.at("answered")
        shipped = once("ship", ship, answer, on_unknown=on_unknown(policy))
        life.at("over")
        return {"log": [charged, shipped]}

    async def anode(state):
        charged = await aonce("charge", charge, 7, on_unknown=on_unknown(policy))
        life.at("charged")
        life.at("kept")
        answer = interrupt("ship?")
        life.at("answered")
        shipped = await aonce("ship", ship, answer, on_unknown=on_unknown(policy))
        life.at("over")
        return {"log": [charged, shipped]}

    return chain(shop=anode if asynchronous else node)


def on_unknown(policy):
    """As a policy of `once`; "found" finds the result out, "not found" has the step run again."""
    return {"found": lambda started: f"found {started.args[0]}", "not found": lambda started: MISSING}.get(
        policy, policy
    )


def run(folder, dies, face, policy, durability):
    """One life: go on with the thread, answer what is asked. Prints what came of it."""
    from checkpointers import SqliteSaver

    life, asynchronous = Life(folder, dies), face == "async"
    with SqliteSaver(Path(folder) / "runs.db") as saver:
        graph = build(life, policy, asynchronous=asynchronous).compile(saver)
        state = graph.get_state(thread())
        given = {} if state.metadata is None else None
        while True:
            if asynchronous:
                found = asyncio.run(graph.ainvoke(given, thread(), durability=durability))
            else:
                found = graph.invoke(given, thread(), durability=durability)
            life.at("asking")
            asked = found.get("__interrupt__")
            if not asked:
                break
            question = asked[0].value
            if question != "ship?":
                print(json.dumps({"asked": question}), flush=True)  # noqa: T201 - the parent reads it
                answer = os.environ.get("ANSWER")
                if answer is None:
                    return
                given = Command(resume=json.loads(answer))
                continue
            given = Command(resume="a book")
        print(json.dumps({"log": found["log"]}), flush=True)  # noqa: T201 - the parent reads it


def life(folder, dies="", *, face="sync", policy="rerun", durability="sync", answer=None):
    """One life in a process of its own: its exit code, and the last thing it said."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if answer is not None:
        environment["ANSWER"] = json.dumps(answer)
    code = "import sys; from tests.behaviour.shop import run; run(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), dies, face, policy, durability],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=50,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    said = done.stdout.splitlines()
    return done.returncode, json.loads(said[-1]) if said else None


def ledger(folder):
    """What was done: [what, idempotency key]."""
    path = Path(folder) / "ledger"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []
