"""Demos as a user starts them: without a terminal, and at one."""

import os
import pty
import subprocess
import sys
import threading

from tests.sources import ROOT

EXAMPLES = ROOT / "examples"
SAMPLE = EXAMPLES / "sample.log"


def play(demo, folder, *words, **more):
    """Run a demo as `make` does, without a terminal."""
    return subprocess.run(
        [sys.executable, EXAMPLES / demo, "--dir", folder, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
        **more,
    )


def play_by_hand(demo, folder, *lines):
    """Run a demo at a terminal, typing these lines. Its exit status and what the terminal showed."""
    keyboard, terminal = pty.openpty()
    running = subprocess.Popen([sys.executable, EXAMPLES / demo, "--dir", folder], stdin=terminal, stdout=terminal)
    os.close(terminal)
    os.write(keyboard, "".join(f"{line}\n" for line in lines).encode())
    shown = bytearray()

    def read():
        try:
            while piece := os.read(keyboard, 4096):
                shown.extend(piece)
        except OSError:
            pass  # Linux's way to say that nobody holds the terminal any more

    reader = threading.Thread(target=read)
    reader.start()
    try:
        status = running.wait(timeout=50)
    finally:
        running.kill()
        reader.join()
        os.close(keyboard)
    return status, shown.decode()
