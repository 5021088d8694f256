"""The entrypoints that are killed. Run as a script, one of them runs until it ends, asks, or kills itself.

python -m tests.crash.entrypoints NAME FACE DATABASE LEDGER ANSWER
"""

import asyncio
import json
import os
import signal
import sys

from durable_graph import Command, interrupt, once
from durable_graph.functional import entrypoint, task
from durable_graph.recording import recorded
from durable_graph.testing import Ledger
from durable_graph.testing.ledger import write_to

LEDGER = Ledger()


@task
def work(n):
    LEDGER.append("work", n)
    return n


@task
async def awork(n):
    await asyncio.sleep(0)
    LEDGER.append("work", n)
    return n


def ten_tasks(checkpointer):
    """Ten tasks one after the other, a question, and one more."""

    @entrypoint(checkpointer, name="flow")
    def flow(n):
        found = [work(one).result() for one in range(n)]
        return [found, interrupt("go on?"), work("last").result()]

    return flow


def ten_tasks_at_once(checkpointer):
    """The same with tasks that run at the same time."""

    @entrypoint(checkpointer, name="flow")
    def flow(n):
        found = [future.result() for future in [work(one) for one in range(n)]]
        return [found, interrupt("go on?"), work("last").result()]

    return flow


def ten_async_tasks(checkpointer):
    """The same with async tasks."""

    @entrypoint(checkpointer, name="flow")
    async def flow(n):
        found = await asyncio.gather(*[awork(one) for one in range(n)])
        return [found, interrupt("go on?"), await awork("last")]

    return flow


def tasks_that_ask(checkpointer):
    """Tasks in tasks that ask at the same time, beside recorded steps of other kinds."""

    @task
    def ask(name):
        before = work(f"before {name}").result()
        answer = interrupt(name)
        return [before, answer, once(f"after {name}", lambda: work(f"after {name}").result())]

    @entrypoint(checkpointer, name="flow")
    def flow(names, *, previous):
        found = [future.result() for future in [ask(name) for name in names]]
        seen = str(recorded.now())
        return [found, interrupt({"done": len(names)}), recorded.uuid4() is not None, len(seen) > 0, previous]

    return flow


def charging(checkpointer, on_unknown):
    """A step that dies in the middle of its work the first time; the next process does not know how far it came."""

    @task(on_unknown=on_unknown)
    def charge(amount, *, runtime):
        LEDGER.append("charge", runtime.idempotency_key)
        if sum(LEDGER.counts().values()) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"charged {amount}"

    @entrypoint(checkpointer, name="flow")
    def flow(amount):
        return [charge(amount).result(), interrupt("ship?")]

    return flow


def reconciled(started):
    """What became of a charge: known by its key."""
    key = ("charge", started.idempotency_key)
    return f"{started.name} of {started.args[0]} was found {LEDGER.counts()[key]} time"


def main(name, face, database, ledger, answer):
    """One process's life; prints what the run gave as JSON."""
    from checkpointers import SqliteSaver

    write_to(ledger)
    policy = reconciled if name == "reconcile" else name
    flow = charging(SqliteSaver(database), policy)
    config = {"configurable": {"thread_id": "t"}}
    given = json.loads(answer)
    if flow.get_state(config).metadata is None:
        given = 5
    elif given is not None:
        given = Command(resume=given)
    found = flow.invoke(given, config) if face == "sync" else asyncio.run(flow.ainvoke(given, config))
    if isinstance(found, dict):
        found = {"asked": found["__interrupt__"][0].value}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
