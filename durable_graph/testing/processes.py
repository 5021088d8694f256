"""Child processes that call a function by its importable name ("package.module:function").

A `ForkServer` has everything loaded and forks a child for each call: that takes a millisecond where a new interpreter
takes 100. It holds no OS thread, no database and no run of its own, so a child is as good as a fresh process. A
`Process` is a new interpreter. Requests and replies are lines of JSON on pipes of their own;
stdout and stderr stay the child's.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from importlib import import_module
from typing import IO, TYPE_CHECKING, Any, NamedTuple, cast

from durable_graph.errors import InvalidConfigError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["Exit", "ForkServer", "Process", "import_named", "importable_name"]

_LONGEST = 1 << 16
"""Bytes of a reply: what a pipe holds, so that a child never waits for its reader."""


class Exit(NamedTuple):
    """How a child ended. code: negative for a signal. seconds: how long it took. value: what the function returned.
    error: the traceback of what it raised, "" when it returned.
    """

    code: int
    seconds: float
    value: Any = None
    error: str = ""


# --- names -----------------------------------------------------------------------------------------------------------


def import_named(name: str) -> Any:
    """What "package.module:attribute" names.

    Raises:
        InvalidConfigError: there is no such module or attribute.
    """
    module, colon, path = name.partition(":")
    cure = 'Write "package.module:function".'
    if not (module and colon and path):
        raise InvalidConfigError(f"{name!r} is no importable name", cure=cure)
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InvalidConfigError(f"{name!r} cannot be imported: {error}", cure=cure) from error
    return found


def importable_name(thing: Any) -> str:
    """The name under which another process finds a function, class or object that was defined in a module.

    Raises:
        InvalidConfigError: it has none.
    """
    if isinstance(thing, str):
        _ = import_named(thing)
        return thing
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    cure = 'Define a function in a module that can be imported, and pass it or its name, "package.module:function".'
    if not module or not name or module == "__main__" or "<" in name:
        raise InvalidConfigError(f"another process cannot import {thing!r}", cure=cure)
    found = f"{module}:{name}"
    if import_named(found) is not thing:
        raise InvalidConfigError(f"{found} is another object than the one that was passed", cure=cure)
    return found


# --- the parent's side -----------------------------------------------------------------------------------------------


class _Interpreter:
    """Another Python that runs `main` of this module, and the pipes to it."""

    def __init__(self) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        code = "import sys; sys.path[:] = sys.argv[3:]; from durable_graph.testing import processes as p; p.main()"
        self.process = subprocess.Popen(  # noqa: S603 - our own code in our own interpreter
            [sys.executable, "-c", code, str(theirs_in), str(theirs_out), *sys.path],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._requests = os.fdopen(ours_out, "w", encoding="utf-8")
        self._replies = os.fdopen(ours_in, "r", encoding="utf-8")

    def send(self, request: dict[str, Any]) -> None:
        self._requests.write(json.dumps(request) + "\n")
        self._requests.flush()

    def receive(self, seconds: float | None) -> Any:
        """The next reply; None when the process died or said nothing in time."""
        ready, _, _ = select.select([self._replies], [], [], seconds)
        line = self._replies.readline() if ready else ""
        return json.loads(line) if line else None

    def close(self) -> int:
        """End it, and answer its exit code."""
        for pipe in (self._requests, self._replies):
            try:
                pipe.close()
            except BrokenPipeError:
                continue
        try:
            return self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class Process:
    """Another Python, which calls one function after the other. What one keeps in its module is there for the next.

    Use it with `with`.
    """

    def __init__(self) -> None:
        self._interpreter = _Interpreter()
        self._started = 0.0

    def begin(self, name: str, /, **arguments: Any) -> None:
        """Begin a call; `result` waits for it."""
        self._started = time.monotonic()
        self._interpreter.send({"name": name, "arguments": arguments})

    def result(self, seconds: float = 60.0) -> Exit:
        """How the call ended; after so many seconds the process is killed."""
        reply = self._interpreter.receive(seconds)
        took = time.monotonic() - self._started
        if reply is None:
            if took >= seconds:
                self._interpreter.process.kill()
            return Exit(self.close(), took, error="the process died, or did not answer in time")
        return Exit(1 if reply.get("error") else 0, took, reply.get("value"), reply.get("error", ""))

    def close(self) -> int:
        """End the process."""
        return self._interpreter.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _ = self.close()


class ForkServer:
    """Calls functions, each in a forked child of one process that has everything loaded. Use it with `with`."""

    def __init__(self) -> None:
        self._interpreter = _Interpreter()

    def here(self, name: str, /, **arguments: Any) -> Any:
        """Call a function in the server itself, to load what all children need.

        Raises:
            InvalidConfigError: the function raised; the text has its traceback.
        """
        self._interpreter.send({"name": name, "arguments": arguments, "fork": False})
        reply = self._interpreter.receive(None)
        if reply is None or reply.get("error"):
            told = "it died" if reply is None else reply["error"]
            raise InvalidConfigError(
                f"what the child processes need could not be loaded by {name}:\n{told}",
                cure="Make the graph importable: see the last lines of the traceback.",
            )
        return reply.get("value")

    def call(self, name: str, /, *, kill_after: float | None = None, **arguments: Any) -> Exit:
        """Call a function in a child. `kill_after`: seconds after which the child gets SIGKILL."""
        self._interpreter.send({"name": name, "arguments": arguments, "fork": True, "kill_after": kill_after})
        reply = self._interpreter.receive(None)
        if reply is None:
            return Exit(self.close(), 0.0, error="the fork server died")
        return Exit(reply["code"], reply["seconds"], reply.get("value"), reply.get("error", ""))

    def close(self) -> int:
        """End the server."""
        return self._interpreter.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _ = self.close()


# --- the child's side ------------------------------------------------------------------------------------------------


def main() -> None:
    """What another interpreter runs: calls what it is asked to."""
    requests, replies = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(requests, False)  # noqa: FBT003 - the standard library's own signature
    os.set_inheritable(replies, False)  # noqa: FBT003 - as above
    with os.fdopen(requests, "r", encoding="utf-8") as given, os.fdopen(replies, "w", encoding="utf-8") as answers:
        for line in given:
            request = json.loads(line)
            answer = _forked(request, (given, answers)) if request.get("fork") else _performed(request)
            _ = answers.write(json.dumps(answer) + "\n")
            answers.flush()


def _performed(request: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"value": import_named(request["name"])(**request["arguments"])}
    except BaseException:  # noqa: BLE001 - told to the parent
        return {"error": traceback.format_exc()[-_LONGEST // 8 :]}


def _forked(request: dict[str, Any], pipes: tuple[IO[str], IO[str]]) -> dict[str, Any]:
    started = time.monotonic()
    answer, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            for pipe in pipes:
                os.close(pipe.fileno())
            reply = _performed(request)
            _ = os.write(told, json.dumps(reply).encode()[:_LONGEST])
            code = 1 if "error" in reply else 0
        finally:
            _leave(code)
    os.close(told)
    status = _wait(pid, request.get("kill_after"), started)
    os.set_blocking(answer, False)
    try:
        text = os.read(answer, _LONGEST)
    except BlockingIOError:  # a grandchild holds the pipe open
        text = b""
    os.close(answer)
    found = {"code": os.waitstatus_to_exitcode(status), "seconds": time.monotonic() - started}
    return {**cast("dict[str, Any]", json.loads(text or b"{}")), **found}


def _leave(code: int) -> None:
    """End a forked child, which must not run what its parent registered for its own exit."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def _wait(pid: int, seconds: float | None, started: float) -> int:
    """The child's status; it is killed when it still runs after so many seconds. Its pid is its own until we asked."""
    if seconds is None:
        return os.waitpid(pid, 0)[1]
    while time.monotonic() < started + seconds:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        time.sleep(max(0.0, min(0.001, started + seconds - time.monotonic())))
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]
