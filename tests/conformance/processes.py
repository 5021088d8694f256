"""Child processes for tests of what several processes do to one database."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def python(code, *arguments, cwd=ROOT):
    """A child process that runs the code with the library on its path."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def result(child):
    """What the child printed, when it has ended."""
    try:
        return child.communicate(timeout=50)[0].strip()
    finally:
        child.kill()
        child.wait()


def strike(landed):
    """Ctrl-C in this process until the event is set.

    More than once, because CPython oversees a signal that comes between its last look and the start of a wait.
    """
    for _ in range(5):
        os.kill(os.getpid(), signal.SIGINT)
        if landed.wait(5):
            return


_FORKING = """
import os, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forking with OS threads: that is the test
from durable_graph.testing.conformance.acting import start, step
OPENING
claims = {name: start(saver, key=name) for name in ("parent", "child 0", "child 1", "child 2")}
stop, written, children = threading.Event(), [1], []

def commit():
    while not stop.is_set():
        assert saver.commit([step(claims["parent"], written[-1] + 1)]) == ["written"]
        saver.load("parent")
        written.append(written[-1] + 1)

busy = threading.Thread(target=commit)
busy.start()
for number in range(3):
    while len(written) < AHEAD * (number + 1): time.sleep(0.001)
    pid = os.fork()
    if pid == 0:
        try:
            key = f"child {number}"
            for seq in range(2, 22):
                assert saver.commit([step(claims[key], seq)]) == ["written"]
            os.write(1, f"{len(saver.load(key).rows)}\\n".encode())
            os._exit(0)
        except BaseException as error:
            os.write(1, repr(error).encode())
            os._exit(1)
    children.append(pid)
stop.set()
busy.join()
for pid in children: os.waitpid(pid, 0)
saver_rows = [row.seq for row in saver.load("parent").rows]
assert saver_rows == written, (len(saver_rows), len(written))
print("parent whole", flush=True)
saver.close()
"""


def forking(opening, *, ahead):
    """A program that commits in one OS thread while it forks three children, which commit too.

    opening: statements that make `saver`.   ahead: commits before each fork.
    """
    return _FORKING.replace("OPENING", opening.strip()).replace("AHEAD", str(ahead))
