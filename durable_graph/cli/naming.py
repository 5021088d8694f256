"""Graphs as they are named in a shell: "package.module:graph"."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from durable_graph.errors import InvalidConfigError, shortened

if TYPE_CHECKING:
    from durable_graph.graph.compiled import CompiledStateGraph

__all__ = ["graph_named"]

_CURE: Final = 'Write "package.module:graph"; the module is looked for from the folder you are in.'


def graph_named(name: str) -> CompiledStateGraph[Any, Any, Any, Any]:
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
    if not {"", str(Path.cwd())} & set(sys.path):  # an installed script has its own folder there
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = import_module(module)
    except Exception as error:
        raise InvalidConfigError(f"module {module!r} cannot be imported: {error!r}", cure=_CURE) from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise InvalidConfigError(f"module {module!r} has no {path!r}", cure=_CURE)
        found = getattr(found, part)
    return found
