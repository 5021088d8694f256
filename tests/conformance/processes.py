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
