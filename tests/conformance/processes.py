"""Child processes for tests of what several processes do to one database."""

import os
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
