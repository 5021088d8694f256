"""`python -m durable_graph doctor`: would the stored threads go on with this graph?"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from durable_graph.errors import DurableGraphError, InvalidConfigError, shortened

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from durable_graph.graph.compiled import CompiledStateGraph

__all__ = ["SUMMARY", "add_arguments", "run"]

SUMMARY: Final = "check whether stored threads would go on with a graph"

_FILES: Final = "sqlite:///"
_IN_MEMORY: Final = ":memory:"
_CURE: Final = 'Write "package.module:graph"; the module is looked for from the folder you are in.'


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
        target = None if arguments.checkpointer is None else _target(arguments.checkpointer)
        diagnosis = _graph(arguments.graph).doctor(target)
    except DurableGraphError as error:
        _ = sys.stderr.write(f"{error}\n")
        return 2
    _ = sys.stdout.write(f"{diagnosis}\n")
    return 0 if diagnosis.ok else 1


def _graph(name: str) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph with this importable name.

    Raises:
        InvalidConfigError: there is none.
    """
    from durable_graph.graph import CompiledStateGraph, StateGraph

    found = _imported(name)
    if not isinstance(found, CompiledStateGraph | StateGraph) and callable(found):
        try:
            found = found()
        except Exception as error:
            raise InvalidConfigError(f"{name!r} was called to make the graph, and raised {error!r}") from error
    if isinstance(found, StateGraph):
        found = cast("StateGraph[Any, Any, Any, Any]", found).compile()
    if isinstance(found, CompiledStateGraph):
        return cast("CompiledStateGraph[Any, Any, Any, Any]", found)
    what = f"{name!r} is or gave {shortened(found)}, which is no graph"
    raise InvalidConfigError(what, cure="Name a compiled graph, a StateGraph, or a function that makes one.")


def _imported(name: str) -> Any:
    module, _, path = name.partition(":")
    if not (module and path):
        raise InvalidConfigError(f"{name!r} names no graph", cure=_CURE)
    try:
        found: Any = import_module(module)
    except Exception as error:
        raise InvalidConfigError(f"module {module!r} cannot be imported: {error!r}", cure=_CURE) from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise InvalidConfigError(f"module {module!r} has no {path!r}", cure=_CURE)
        found = getattr(found, part)
    return found


def _target(given: str) -> str | Path:
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
