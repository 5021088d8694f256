"""`python -m durable_graph doctor`: would the stored threads go on with this graph?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from durable_graph.cli.naming import graph_named
from durable_graph.errors import DurableGraphError, InvalidConfigError

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

__all__ = ["SUMMARY", "add_arguments", "existing", "run"]

SUMMARY: Final = "check whether stored threads would go on with a graph"

_FILES: Final = "sqlite:///"
_IN_MEMORY: Final = ":memory:"


def add_arguments(parser: ArgumentParser) -> None:
    """Read every stored thread and try the graph on it. No node runs, and nothing is changed.

    Standard output tells which threads would not go on with the graph and why: they wait on a node
    that is gone, lack a value that is required now, hold one that is no longer allowed, or cannot
    be read. Of your code the module is imported, and migrate_state and checks of values are called.

    Exit code: 0 all threads would go on; 1 some would not; 2 wrong use, or the threads cannot be
    listed.
    """
    _ = parser.add_argument(
        "graph", metavar="MODULE:GRAPH", help="a compiled graph, a StateGraph, or a function that makes one"
    )
    _ = parser.add_argument(
        "--checkpointer", metavar="URL", help="where the threads are: a URL or a SQLite file (default: the graph's own)"
    )


def run(arguments: Namespace) -> int:
    """Diagnose, and print what was found."""
    try:
        target = None if arguments.checkpointer is None else existing(arguments.checkpointer)
        diagnosis = graph_named(arguments.graph).doctor(target)
    except DurableGraphError as error:
        _ = sys.stderr.write(f"{error}\n")
        return 2
    _ = sys.stdout.write(f"{diagnosis}\n")
    return 0 if diagnosis.ok else 1


def existing(given: str) -> str | Path:
    """A URL as it is, anything else as the path of a file. A SQLite file must be there: opening it would make it.

    Raises:
        InvalidConfigError: there is no such file.
    """
    if "://" in given and not given.startswith(_FILES):
        return given
    file = Path(given.removeprefix(_FILES).partition("?")[0])
    if str(file) == _IN_MEMORY or not file.is_file():
        raise InvalidConfigError(f"there is no file {str(file)!r}", cure="Name the database that holds the threads.")
    return given if given.startswith(_FILES) else file
