"""What the demos do outside of a graph's state: a ledger of who started what, and messages that are sent once."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def sign(ledger: Path, thread: str, task: str) -> None:
    """Write into a ledger that a task starts: one line `thread process task`. Only the demos need this, as a proof."""
    append(ledger, f"{thread} {os.getpid()} {task}\n")


def starts(ledger: Path, thread: str) -> Counter[str]:
    """How often each task of a thread started, in the order of their first starts."""
    text = ledger.read_text("utf-8") if ledger.exists() else ""
    lines = (line.split(" ", 2) for line in text.splitlines())
    return Counter(task for started, _, task in lines if started == thread)


def append(path: Path, text: str) -> None:
    """Append in one write, on disk before this returns."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, text.encode())
        os.fsync(file)
    finally:
        os.close(file)


def append_once(outbox: Path, key: str, **message: str) -> None:
    """Append a message unless one with this key is there. A line that a crash cut short does not count as sent."""
    sent = outbox.read_bytes() if outbox.exists() else b""
    if key not in keys_in(sent):
        start = "" if sent.endswith(b"\n") or not sent else "\n"
        append(outbox, f"{start}{json.dumps({'id': key, **message})}\n")


def keys_in(outbox: bytes) -> list[str]:
    """The key of each message that was sent, in order."""
    found: list[str] = []
    for line in outbox.splitlines():
        try:
            found.append(json.loads(line)["id"])
        except ValueError:
            continue  # cut short by a crash
    return found
