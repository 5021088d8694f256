"""What the demos share around their graphs: processes that are killed, the command line, and how a show ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from demo_log import SAMPLE, log_problem

from durable_graph import DurableGraphError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from demo_screen import Screen

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parent / ".demo"
PAUSE = 0.15
CHILD_SECONDS = 120
KILL_ATTEMPTS = 5


class DemoError(Exception):
    """The demo cannot go on. `status` is the exit status."""

    def __init__(self, what: str, status: int = 1) -> None:
        super().__init__(what)
        self.status = status


@dataclass
class Show:
    """One show: a thread of its own in the folder's store, and the process that works on it.

    pause: seconds that the work takes at least: long enough to be killed in the middle.
    """

    kind: ClassVar[str]
    script: ClassVar[str]

    folder: Path
    log: Path
    screen: Screen
    thread: str = ""
    pause: float = PAUSE
    worker: subprocess.Popen[str] | None = None

    @property
    def config(self) -> dict[str, Any]:
        """The thread's address."""
        return {"configurable": {"thread_id": self.thread}}

    def new_thread(self) -> None:
        """Take a thread that nobody has used."""
        self.thread = f"{self.kind}-{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"

    # --- processes ---------------------------------------------------------------------------------------------------

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A new process that works on the thread."""
        command = [sys.executable, str(HERE / self.script), str(self.folder), self.thread, str(self.pause), *words]
        self.worker = subprocess.Popen(  # noqa: S603 - our own command
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        return self.worker

    def finish(self, worker: subprocess.Popen[str], *, killed: bool = False) -> None:
        """Wait for a process that should end well; one that was killed may have ended well before.

        Raises:
            DemoError: it did not.
        """
        try:
            said, _ = worker.communicate(timeout=CHILD_SECONDS)
        except subprocess.TimeoutExpired:
            raise DemoError(f"process {worker.pid} did not end within {CHILD_SECONDS} seconds") from None
        if worker.returncode and not (killed and worker.returncode == -signal.SIGKILL):
            raise DemoError(f"process {worker.pid} ended with status {worker.returncode}:\n{said.rstrip()}")

    def start_and_kill(self, moment: Callable[[], bool], *words: str) -> bool:
        """Start a process on a new thread, and kill it as soon as the moment is there. False: it was through before.

        Raises:
            DemoError: it failed.
        """
        self.new_thread()
        worker = self.start(*words)
        deadline = time.monotonic() + CHILD_SECONDS
        while worker.poll() is None and time.monotonic() < deadline and not moment():
            time.sleep(0.005)
        worker.kill()  # SIGKILL: no handler runs, nothing is flushed or cleaned up
        self.finish(worker, killed=True)
        return worker.returncode == -signal.SIGKILL

    def close(self) -> None:
        """Leave no process behind."""
        if self.worker is not None and self.worker.poll() is None:
            self.worker.kill()
            self.worker.communicate()


ShowT = TypeVar("ShowT", bound=Show)


# --- the command line ------------------------------------------------------------------------------------------------


def add_places(parser: argparse.ArgumentParser, folder: Path, kept: str) -> None:
    """The arguments that every demo has. kept: what is kept in its folder."""
    parser.add_argument("log", nargs="?", type=Path, default=SAMPLE, help="the log (default: a small sample)")
    where = folder.relative_to(HERE.parent)
    parser.add_argument("--dir", type=Path, default=folder, help=f"where {kept} are kept (default: {where})")


def check_places(parser: argparse.ArgumentParser, found: argparse.Namespace, verb: str) -> None:
    """Make the folder, and see that the log can be read; leaves with status 2 when something is wrong."""
    try:
        problem = log_problem(found.log)
    except OSError as error:
        problem = error.strerror
    if problem:
        parser.exit(2, f"error: cannot {verb} {found.log}: {problem}\n")
    found.log = found.log.resolve()
    found.dir = found.dir.resolve()
    try:
        found.dir.mkdir(parents=True, exist_ok=True)
        if not (found.dir / ".gitignore").exists():
            (found.dir / ".gitignore").write_text("*\n", "utf-8")
    except OSError as error:
        parser.exit(2, f"error: cannot write to {found.dir}: {error.strerror}. Name another folder with --dir\n")


# --- how a show ends -------------------------------------------------------------------------------------------------


def perform(screen: Screen, make: Callable[[], ShowT], play: Callable[[ShowT], None]) -> int:
    """Play a show to its end, whichever it is; the exit status."""
    show: ShowT | None = None
    try:
        show = make()
        play(show)
    except (DemoError, DurableGraphError) as error:
        screen.bad(str(error))
        return error.status if isinstance(error, DemoError) else 1
    except KeyboardInterrupt:
        screen.say("")
        return 130
    except BrokenPipeError:  # as in `make demo | head`; the interpreter must not flush into the pipe once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    finally:
        if show is not None:
            show.close()
    return 0
