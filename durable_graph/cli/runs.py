"""`durable-graph runs`: show queued runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from durable_graph.errors import DurableGraphError, shortened

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from durable_graph.runs.record import RunRecord

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "show queued runs, the newest first"

_HEADS: Final = ("RUN", "THREAD", "GRAPH", "STATUS", "ATTEMPT", "SUBMITTED", "")


def add_arguments(parser: ArgumentParser) -> None:
    """Show the runs that were submitted: where each stands, what it waits for, why it failed.

    Exit code: 0; 2 wrong use, or a database that cannot be used.
    """
    from durable_graph.persistence.run_rows import ENDED, OPEN

    _ = parser.add_argument("--db", metavar="URL", required=True, help="where runs are kept")
    _ = parser.add_argument("--status", choices=(*OPEN, *ENDED), help="only those")
    _ = parser.add_argument("--thread", metavar="ID", help="only those of this thread")
    _ = parser.add_argument("--graph", metavar="NAME", help="only those of this graph")
    _ = parser.add_argument("--limit", metavar="N", type=int, default=50, help="at most so many (default: 50)")


def run(arguments: Namespace) -> int:
    """Show them."""
    from durable_graph.cli.doctor import existing
    from durable_graph.persistence.registry import resolve_checkpointer
    from durable_graph.persistence.run_rows import RunFilter
    from durable_graph.runs import queue

    wanted = RunFilter(arguments.thread, arguments.graph, arguments.status)
    try:
        with resolve_checkpointer(existing(arguments.db)) as kept:
            runs = kept.with_runs(queue.listing(wanted, max(0, arguments.limit)), reads=True)
    except DurableGraphError as error:
        _ = sys.stderr.write(f"{error}\n")
        return 2
    lines = [_HEADS, *map(_line, runs)] if runs else [("no run",)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        told = "  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True)).rstrip()
        _ = sys.stdout.write(f"{told}\n")
    return 0


def _line(run: RunRecord) -> tuple[str, ...]:
    submitted = "" if run.submitted_at is None else run.submitted_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    return (run.id, run.thread_id, run.graph, run.status, str(run.attempt), submitted, _why(run))


def _why(run: RunRecord) -> str:
    """What there is to say of it, on one line."""
    if run.error is not None:
        return _first_line(run.error)
    if run.status == "running":
        return f"in {run.owner}"
    return ", ".join(f"{one.kind} {shortened(one.value, 60)}" for one in run.interrupts)


def _first_line(text: str, limit: int = 80) -> str:
    first, _, rest = text.partition("\n")
    return first if len(first) <= limit and not rest else f"{first[: limit - 3]}..."
