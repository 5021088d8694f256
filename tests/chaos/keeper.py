"""Keeps the workers, and the database server where there is one: `python -m tests.chaos.keeper FOLDER`.

It forks each worker, so that a new one is there in milliseconds, and is the only one who signals them: a pid that it
has not waited for is nobody else's. Requests and replies are lines of JSON. When its stdin ends, however the harness
came to its end, it takes everything with it.
"""

import json
import logging
import os
import signal
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlencode

import checkpointers.postgres
import checkpointers.sqlite
from durable_graph import drain_on_signals
from durable_graph.persistence.registry import resolve_checkpointer
from tests import postgres_server
from tests.chaos.graphs import NAME, built
from tests.chaos.ledger import LEDGER

LOADED = (checkpointers.postgres, checkpointers.sqlite)
"""Drivers that a worker then need not load."""
BUILT = built()
LOG = logging.getLogger("chaos")
_LOOK = 0.1
_STALL = 0.5


def watch():
    """Say when this process stood still: it may have been taken for dead."""
    before = time.monotonic_ns()
    while True:
        time.sleep(_LOOK)
        now = time.monotonic_ns()
        if now - before > _STALL * 1_000_000_000:
            LEDGER.say("stalled", name=str((now - before) / 1_000_000_000), at=now)
        before = now


def work(url, concurrency, poll):
    logging.basicConfig(level=logging.INFO, format="%(asctime)s.%(msecs)03d %(message)s", datefmt="%H:%M:%S")
    threading.Thread(target=watch, daemon=True).start()
    with resolve_checkpointer(url) as saver, drain_on_signals() as control:
        BUILT.compile(saver, name=NAME).work(concurrency=concurrency, poll=poll, control=control)


class Keeper:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.alive = set()
        self.ended = []
        self.server = None
        self.stack = ExitStack()
        LEDGER.open(self.folder / "ledger")

    def start(self, url, concurrency, poll):
        pid = os.fork()
        if pid:
            self.alive.add(pid)
            return pid
        code = 1
        try:
            log = os.open(self.folder / f"worker-{os.getpid()}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            nothing = os.open(os.devnull, os.O_RDONLY)
            for file, place in ((nothing, 0), (log, 1), (log, 2)):
                os.dup2(file, place)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            work(url, concurrency, poll)
            code = 0
        except BaseException:
            LOG.exception("the worker failed")
            raise
        finally:
            os._exit(code)

    def kill(self, pid):
        """Gone when this returns."""
        if pid in self.alive:
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            self.alive.remove(pid)
            if status != signal.SIGKILL:  # it had ended by itself before
                self.ended.append((pid, os.waitstatus_to_exitcode(status)))

    def signal(self, pid, name):
        if pid in self.alive:
            os.kill(pid, signal.Signals[name])

    def ends(self):
        """Those that ended by themselves since the last look, with their exit codes."""
        for pid in sorted(self.alive):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self.alive.remove(pid)
                self.ended.append((pid, os.waitstatus_to_exitcode(status)))
        found, self.ended = self.ended, []
        return found

    def serve(self):
        """Start a database server; its URL, to be added to. What was committed is not lost when it crashes."""
        self.server = self.stack.enter_context(postgres_server.own(synchronous_commit="on"))
        where = {"host": str(self.server.folder), "port": self.server.port, "schema": "chaos"}
        return f"postgresql://postgres@/postgres?{urlencode(where)}"

    def stop_server(self, name):
        self.server.stop(signal.Signals[name])

    def start_server(self):
        self.server.start()

    def close(self):
        for pid in tuple(self.alive):
            self.kill(pid)
        self.stack.close()


def main(folder):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the harness, which then ends, and with it our stdin
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    keeper = Keeper(folder)
    try:
        for line in sys.stdin:
            verb, *values = json.loads(line)
            sys.stdout.write(json.dumps(getattr(keeper, verb)(*values)) + "\n")
            sys.stdout.flush()
    except BrokenPipeError:
        pass
    finally:
        keeper.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
