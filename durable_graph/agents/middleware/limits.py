"""What limits on calls have in common.

Counts are keys of the state: they are stored with the step that counts, go along with a branch, and are right after a
crash. A run starts its own at 0 in `before_agent`, which neither a resume nor an answer repeats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from durable_graph.errors import InvalidConfigError, NodeFailure

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

    from durable_graph.runtime.context import Runtime

__all__ = ["LimitExceededError", "Limits"]


class Limits(NamedTuple):
    """thread: calls in all runs of the thread.   run: calls in one run.   None for no limit."""

    thread: int | None
    run: int | None

    @classmethod
    def of(cls, thread: Any, run: Any, behavior: str, known: Sequence[str]) -> Limits:
        """Limits as a user gives them, with an exit_behavior, which is one of `known`.

        Raises:
            InvalidConfigError: one is wrong, or there is none.
        """
        for name, limit in (("thread_limit", thread), ("run_limit", run)):
            if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
                raise InvalidConfigError(f"{name} is {limit!r}, expected a number of calls or None")
        if thread is None and run is None:
            raise InvalidConfigError("a limit on calls has neither a thread_limit nor a run_limit", cure="Pass one.")
        if behavior not in known:
            raise InvalidConfigError(f"exit_behavior is {behavior!r}, expected one of {', '.join(known)}")
        return cls(thread, run)

    def left(self, thread: int, run: int) -> int:
        """How many more calls there may be after so many."""
        counts = ((self.thread, thread), (self.run, run))
        return max(0, min(limit - count for limit, count in counts if limit is not None))

    def told(self, thread: int, run: int) -> str:
        """The counts beside their limits."""
        parts = [("in this run", run, self.run), ("in this thread", thread, self.thread)]
        return ", ".join(f"{count} {where} (limit {limit})" for where, count, limit in parts if limit is not None)


class LimitExceededError(NodeFailure):
    """A limit on calls is reached.

    thread_count, run_count: how many there were.   thread_limit, run_limit: how many there may be; None for no limit.
    """

    cure = (
        "Raise the limit and go on with invoke(None, config), or start a new run with on_unfinished='abandon'; "
        "with exit_behavior='end' the run ends instead."
    )
    thread_count: int = 0
    run_count: int = 0
    thread_limit: int | None = None
    run_limit: int | None = None

    @classmethod
    def at(cls, runtime: Runtime[Any], told: str, limits: Limits, thread: int, run: int) -> Self:
        """The error for these counts; told: which calls, how many, and the limits."""
        where = runtime.execution_info.thread_id
        error = cls(f"no more {told}" if where is None else f"thread {where!r}: no more {told}")
        error.thread_count, error.run_count = thread, run
        error.thread_limit, error.run_limit = limits
        return error
