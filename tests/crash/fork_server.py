"""A process that has everything loaded and forks a child for each run: a child starts in 1 ms instead of 100.

It holds no OS thread, no database and no run of its own, so a child is as good as a fresh process. Requests and
replies are lines of JSON. A child that still runs when its time is over is killed with SIGKILL.
"""

import asyncio
import json
import os
import signal
import sys
import time

from checkpointers import PostgresSaver, SqliteSaver
from tests.backends import open_url
from tests.crash.shapes import LEDGER, SHAPES

LOADED = (PostgresSaver, SqliteSaver)
"""Here, so that no child has to import them."""
BUILT = {name: build() for name, build in SHAPES.items()}


def run(shape, face, database, thread, ledger, incarnation):
    """One run, new or gone on with."""
    LEDGER.open(ledger, incarnation)
    graph = BUILT[shape].compile(open_url(database))
    config = {"configurable": {"thread_id": thread}}
    given = {"log": []} if graph.get_state(config).metadata is None else None
    if face == "sync":
        graph.invoke(given, config, durability="sync")
    else:
        asyncio.run(graph.ainvoke(given, config, durability="sync"))


def wait(pid, deadline):
    """The child's status; it is killed when it still runs at the deadline. Its pid is its own until we asked."""
    if deadline is None:
        return os.waitpid(pid, 0)[1]
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        time.sleep(max(0.0, min(0.001, deadline - time.monotonic())))
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def forked(request, seconds):
    """Run in a child; the answer is its exit code, negative for a signal, and how many seconds it took."""
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            run(**request)
            code = 0
        finally:
            os._exit(code)
    status = wait(pid, None if seconds is None else started + seconds)
    code = os.waitstatus_to_exitcode(status)
    return code, time.monotonic() - started


if __name__ == "__main__":
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(forked(request, request.pop("kill_after"))), flush=True)  # noqa: T201 - the reply
