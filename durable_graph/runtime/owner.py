"""Who holds a thread, and whether that owner still lives.

An owner is "boot:namespace:pid:start:nonce". The nonce names one run inside its process, so that a process also sees
which of its own runs are over. A pid alone would not do: pids are used again, and an unreaped killed child still
answers to signal 0.
"""

from __future__ import annotations

import os
from concurrent.futures import Future
from functools import cache
from pathlib import Path

__all__ = ["claim_name", "describe_owner", "end", "ending", "forget", "is_dead", "is_here"]

_ACTIVE: set[str] = set()
_ENDING: dict[str, Future[None]] = {}
os.register_at_fork(after_in_child=_ACTIVE.clear)
os.register_at_fork(after_in_child=_ENDING.clear)


def claim_name() -> str:
    """A new owner: one run of this process."""
    owner = f"{_boot()}:{_namespace('self')}:{os.getpid()}:{_own_start(os.getpid())}:{os.urandom(4).hex()}"
    _ACTIVE.add(owner)
    return owner


def forget(owner: str) -> None:
    """This run is over."""
    _ACTIVE.discard(owner)
    waited_for = _ENDING.pop(owner, None)
    if waited_for is not None:
        waited_for.set_result(None)


def end(owner: str) -> None:
    """This run was told to end: it stores what is worth storing, then it is over."""
    if owner in _ACTIVE:
        _ = _ENDING.setdefault(owner, Future())


def ending(owner: str) -> Future[None] | None:
    """Done when a run of this process is over that was told to end; None for all others."""
    return _ENDING.get(owner)


def is_here(owner: str) -> bool:
    """Whether it is a run of this process that is not over."""
    return owner in _ACTIVE


def is_dead(owner: str, *, one_host: bool) -> bool:
    """Whether the owner certainly lives no more.

    one_host: all users of the store run on this machine, so an owner from another start of a machine is from before a
    restart of this one. False for an owner in another container: from here nobody can see whether it lives.
    """
    try:
        boot, namespace, pid, start, _ = owner.split(":")
        number = int(pid)
    except ValueError:
        return False
    if boot != _boot():
        return one_host
    if namespace != _namespace("self"):
        return False
    if number == os.getpid() and start == _start_time(number):
        return owner not in _ACTIVE
    return _start_time(number) != start


def describe_owner(owner: str) -> str:
    """For messages."""
    parts = owner.split(":")
    if len(parts) != 5:  # noqa: PLR2004 - the five parts named above
        return repr(owner)
    here = parts[:2] == [_boot(), _namespace("self")]
    return f"process {parts[2]}{'' if here else ' of another machine or container, or from before a restart'}"


@cache
def _boot() -> str:
    """This start of this machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return os.uname().nodename  # no /proc (macOS): the host, at least


@cache
def _namespace(pid: str) -> str:
    """The pid namespace: two containers count pids each for themselves."""
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink()).strip("pid:[]")
    except OSError:
        return "0"


@cache
def _own_start(pid: int) -> str:
    """When this process started; read once. `pid` is its own, so that a forked child reads anew."""
    return _start_time(pid)


def _start_time(pid: int) -> str:
    """When a process started, in ticks since boot; "" when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _answers(pid) if not Path("/proc/self").exists() else ""
    fields = stat.rpartition(")")[2].split()
    state, start = fields[0], fields[19]
    return "" if state in "ZX" else start


def _answers(pid: int) -> str:
    """Without /proc all that can be asked is whether there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "there"
    return "there"
