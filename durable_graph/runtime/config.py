"""LangGraph's config dict: checked, completed, merged.

Known keys stand at the top level; `configurable` also holds any keys of the user's. `thread_id` and `checkpoint_id` may
stand in either place.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final, cast
from uuid import UUID

from durable_graph.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEFAULT_RECURSION_LIMIT", "KNOWN", "merge", "normalise", "thread_of"]

DEFAULT_RECURSION_LIMIT: Final = 10_000
"""Supersteps a run may take when its config names no `recursion_limit`."""

KNOWN: Final = (
    "configurable",
    "thread_id",
    "checkpoint_id",
    "tags",
    "metadata",
    "callbacks",
    "run_name",
    "run_id",
    "recursion_limit",
    "max_concurrency",
)
_EMPTY: Final[dict[str, Any]] = {"configurable": {}}
_RAISED: Final = ("thread_id", "checkpoint_id")
_TOP: Final = frozenset(KNOWN).difference(_RAISED)
_COUNTS: Final = frozenset({"recursion_limit", "max_concurrency"})


def normalise(config: Mapping[str, Any] | None, *, strict: bool = True) -> dict[str, Any]:
    """A config of our own: fresh dicts, ids in `configurable`, every value checked.

    Raises:
        InvalidConfigError: an unknown key (the message names the nearest known one) or a value of the wrong kind.
    """
    if config is None:
        return {"configurable": {}}
    if not hasattr(config, "items"):
        what = f"config is {type(config).__name__}, expected a dict"
        raise InvalidConfigError(what, cure='Pass config={"configurable": {"thread_id": "..."}}.')
    found: dict[str, Any] = {}
    configurable = dict(_mapping(config, "configurable"))
    for key, value in config.items():
        if key in _TOP:
            if value is not None:
                found[key] = value
        elif key in _RAISED or not strict:
            configurable[key] = value
        else:
            raise InvalidConfigError(_unknown(key))
    found["configurable"] = configurable
    if "metadata" in found:
        found["metadata"] = dict(_mapping(config, "metadata"))
    if "callbacks" in found:
        found["callbacks"] = _callbacks(found["callbacks"])
    for key in found.keys() & _COUNTS:
        _check_count(key, found[key])
    return found


def merge(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Two normalised configs; `more` wins, tags and callbacks add up."""
    if base == _EMPTY:  # a graph without a config of its own
        return {**more}
    merged = {**base, **more}
    for key in ("configurable", "metadata"):
        if key in base and key in more:
            merged[key] = {**base[key], **more[key]}
    if base.get("tags") and more.get("tags"):
        merged["tags"] = [*base["tags"], *more["tags"]]
    if base.get("callbacks") and more.get("callbacks"):
        merged["callbacks"] = _join_callbacks(base["callbacks"], more["callbacks"])
    return merged


def _join_callbacks(base: Any, more: Any) -> Any:
    """Handlers of both. Each is a list, or a callback manager of LangChain's, which keeps its place in the trace."""
    managed = hasattr(more, "add_handler")
    if not managed and not hasattr(base, "add_handler"):
        return [*base, *more]
    manager, other = (more, base) if managed else (base, more)
    joined = manager.copy()
    for handler in getattr(other, "inheritable_handlers", other):
        joined.add_handler(handler, inherit=True)
    return joined


def thread_of(config: Mapping[str, Any]) -> str:
    """The thread a normalised config names.

    Raises:
        InvalidConfigError: it names none, or an empty one: every caller without an id would share one conversation.
    """
    given = config["configurable"].get("thread_id")
    if type(given) is str and given.strip():
        return given
    cure = 'Pass config={"configurable": {"thread_id": "..."}} with an id of your own for this conversation.'
    if given is None:
        what = "the graph has a checkpointer, so a run needs a thread_id"
        if config["configurable"]:
            what = f"{what} (configurable holds only {', '.join(map(repr, config['configurable']))})"
        raise InvalidConfigError(what, cure=cure)
    if isinstance(given, bool) or not isinstance(given, str | int | UUID):
        what = f"thread_id is {given!r} ({type(given).__name__}), expected str, int or UUID"
        raise InvalidConfigError(what, cure=cure)
    if not str(given).strip():
        what = f"thread_id is empty ({given!r})"
        raise InvalidConfigError(what, cure=cure)
    return str(given)


def _unknown(key: object) -> str:
    near = difflib.get_close_matches(str(key), KNOWN, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "keys of your own belong into 'configurable'"
    return f"config has the unknown key {key!r}; {hint} (known: {', '.join(KNOWN)})"


def _mapping(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value: Any = config.get(key)
    if value is None:
        return {}
    if not hasattr(value, "items"):
        what = f"config[{key!r}] is {type(value).__name__}, expected a dict"
        raise InvalidConfigError(what)
    return value


def _callbacks(given: Any) -> Any:
    if isinstance(given, list | tuple):
        return list(cast("list[Any]", given))
    if hasattr(given, "add_handler"):
        return given
    what = f"config['callbacks'] is {type(given).__name__}, expected a list of handlers or a callback manager"
    raise InvalidConfigError(what, cure="Pass callbacks=[handler].")


def _check_count(key: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        what = f"config[{key!r}] is {value!r}, expected a whole number from 1 on"
        raise InvalidConfigError(what)
