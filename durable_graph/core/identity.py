"""Names that stay the same when a run is resumed, replayed in a test, or looked at from another process.

checkpoint id   000000000012.1.7f3a      seq, lane and epoch; sorts in order of seq
task path       "node" or "node#3"       unique in its checkpoint
task id         a hash of thread, checkpoint and path
interrupt id    intr_ + a hash of task, question and occurrence
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from durable_graph.errors import InvalidConfigError
from durable_graph.records import Address

__all__ = [
    "HANDLER",
    "INTERRUPT_PREFIX",
    "checkpoint_id",
    "handler_path",
    "idempotency_key",
    "interrupt_id",
    "is_interrupt_id",
    "parse_checkpoint_id",
    "path_order",
    "push_path",
    "task_id",
]

HANDLER: Final = "__error_handler__"
"""Before a node's name: the name of its error handler."""
INTERRUPT_PREFIX: Final = "intr_"
_INTERRUPT_LENGTH: Final = len(INTERRUPT_PREFIX) + 32
_HEX: Final = frozenset("0123456789abcdef")


def checkpoint_id(address: Address) -> str:
    """The public name of a checkpoint."""
    return f"{address.seq:012d}.{address.lane}.{address.epoch:x}"


def parse_checkpoint_id(text: str) -> Address:
    """The address in a checkpoint id.

    Raises:
        InvalidConfigError: the text is no checkpoint id of ours.
    """
    try:
        seq, lane, epoch = str(text).split(".")
        return Address(int(lane), int(seq), int(epoch, 16))
    except ValueError:
        what = f"{text!r} is not a checkpoint id"
        cure = "Pass snapshot.config from get_state() or get_state_history() back as it is."
        raise InvalidConfigError(what, cure=cure) from None


def push_path(node: str, index: int) -> str:
    """The path of the task for the `index`-th Send of a step. Node names hold no '#'."""
    return f"{node}#{index}"


def handler_path(path: str) -> str:
    """The path of the task that runs the error handler of the task with this path."""
    return f"{HANDLER}{path}"


def path_order(path: str) -> tuple[int, int, str]:
    """The key that sorts task paths as a step applies them: nodes by name, then Sends as they were sent; error handlers
    stand where their node does.
    """
    node, mark, index = path.removeprefix(HANDLER).partition("#")
    return (1, int(index), node) if mark else (0, 0, node)


def task_id(thread: str, address: Address, path: str) -> str:
    """Stable over attempts and resumes, different for every task of every checkpoint of every thread."""
    text = f"{thread}\0{address.lane}.{address.seq}.{address.epoch}\0{path}"
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"


def idempotency_key(thread: str, origin: Address, lane: int, path: str) -> str:
    """Stable over attempts, resumes and edits of the waiting step; different on every branch."""
    return task_id(thread, origin, f"{lane}\0{path}")


def interrupt_id(task: str, question: str, occurrence: int) -> str:
    """`question` is the explicit key or the digest of what was asked; `occurrence` counts equal ones in a task."""
    text = f"{task}\0{question}\0{occurrence}"
    return INTERRUPT_PREFIX + blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def is_interrupt_id(key: object) -> bool:
    """Whether a dict key has the form of an interrupt id."""
    return (
        isinstance(key, str)
        and len(key) == _INTERRUPT_LENGTH
        and key.startswith(INTERRUPT_PREFIX)
        and _HEX.issuperset(key[len(INTERRUPT_PREFIX) :])
    )
