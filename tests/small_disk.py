"""A disk of 1 MB, for tests of what happens when it is full."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MOUNT = 'mount -t tmpfs -o size=1m none "$1" && shift && exec "$@"'


def with_a_small_disk(folder, code, *arguments):
    """What a program prints that alone sees the disk, mounted on the folder; its first argument names that.

    The disk is gone when the program ends, however it ends. Where root may not mount, or we are not root, a namespace
    of users is tried, in which anybody may.
    """
    ways = (["-m"], ["-r", "-m"]) if os.geteuid() == 0 else (["-r", "-m"],)
    for way in ways:
        prefix = [shutil.which("unshare") or "unshare", *way, "sh", "-c", MOUNT, "sh", folder]
        try:
            if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
                continue
        except FileNotFoundError:
            break
        command = [*prefix, sys.executable, "-c", code, folder, *arguments]
        ended = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=100,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout
    return pytest.skip("nobody may mount a small disk here; full databases are tested with max_page_count too")
