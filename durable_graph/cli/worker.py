"""`durable-graph worker`: carry queued runs."""

from __future__ import annotations

import asyncio
import copy
import logging
import os
import sys
from typing import TYPE_CHECKING, Any, Final, cast

from durable_graph.cli.naming import graph_named
from durable_graph.errors import DurableGraphError, InvalidConfigError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from durable_graph.graph.compiled import CompiledStateGraph
    from durable_graph.persistence.checkpointer import Checkpointer

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "carry queued runs of a graph, until a signal says to stop"


def add_arguments(parser: ArgumentParser) -> None:
    """Take queued runs of graphs, and carry each to where it ends or waits.

    Any number of workers may do so over one database, on any number of machines where it is
    Postgres. Runs of a worker that died are taken over by the others. SIGTERM and Ctrl-C let each
    run finish its superstep and go back to the queue; the second one stops at once.

    Progress goes to standard error, a line for each run that ended or waits.

    Exit code: 0 stopped as it was asked to; 2 wrong use, or a database that cannot be used.
    """
    _ = parser.add_argument(
        "graphs", metavar="MODULE:GRAPH", nargs="+", help="a compiled graph, a StateGraph, or a function that makes one"
    )
    _ = parser.add_argument("--db", metavar="URL", help="where runs are kept (default: the graph's own checkpointer)")
    _ = parser.add_argument("--concurrency", metavar="N", type=int, default=4, help="runs at a time (default: 4)")
    _ = parser.add_argument(
        "--poll", metavar="SECONDS", type=float, default=0.5, help="between two looks for runs (default: 0.5)"
    )
    _ = parser.add_argument("--until-idle", action="store_true", help="stop when no run is left that could go on")
    _ = parser.add_argument("--quiet", action="store_true", help="tell of problems only")


def run(arguments: Namespace) -> int:
    """Be a worker."""
    from durable_graph.runs import drain_on_signals
    from durable_graph.runs.worker import Worker, checked_pace

    _tell(logging.WARNING if arguments.quiet else logging.INFO)
    try:
        checked_pace(arguments.concurrency, arguments.poll)
        graphs = [graph_named(name) for name in arguments.graphs]
        kept = _store_of(graphs, arguments.db)
        with drain_on_signals() as control:

            async def work() -> int:
                worker = Worker(
                    [cast("Any", _over(graph, kept)) for graph in graphs],
                    kept,
                    concurrency=arguments.concurrency,
                    poll=arguments.poll,
                    until_idle=arguments.until_idle,
                    control=control,
                )
                return await worker.work()

            kept.setup()
            names = ", ".join(repr(graph.name) for graph in graphs)
            _log.info(
                "process %d works on %s, %d runs at a time, in %r", os.getpid(), names, arguments.concurrency, kept
            )
            ended = asyncio.run(work())
    except DurableGraphError as error:
        _ = sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:  # the second Ctrl-C
        return 130
    _log.info("%d run%s ended here", ended, "" if ended == 1 else "s")
    return 0


_log = logging.getLogger("durable_graph")


def _tell(level: int) -> None:
    """Show what the worker logs."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    _log.addHandler(handler)
    _log.setLevel(level)


def _store_of(graphs: list[CompiledStateGraph[Any, Any, Any, Any]], url: str | None) -> Checkpointer:
    """Where the runs are: what was named, or what all of the graphs have.

    Raises:
        InvalidConfigError: nothing was named, and a graph has none, or another one.
    """
    from durable_graph.graph.threads import resolved

    named = [graph.name for graph in graphs]
    if len(set(named)) != len(named):
        what = f"two graphs have one name: {', '.join(map(repr, named))}"
        raise InvalidConfigError(what, cure="Runs are found by their graph's name: compile(name=...).")
    if url is not None:
        found = resolved(url)
        assert found is not None  # noqa: S101 - a text names one, or is refused
        return found
    kept = graphs[0].checkpointer
    if kept is None or any(
        graph.checkpointer is None or graph.checkpointer.identity != kept.identity for graph in graphs
    ):
        what = "the graphs were not compiled with one and the same checkpointer"
        raise InvalidConfigError(what, cure="Say where the runs are: --db sqlite:///runs.db")
    return kept


def _over(graph: CompiledStateGraph[Any, Any, Any, Any], kept: Checkpointer) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph, over this checkpointer."""
    found = copy.copy(graph)
    found.checkpointer = kept
    return found
