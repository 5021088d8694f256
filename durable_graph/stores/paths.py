"""Paths to the texts of a value that are embedded.

    $          the whole value, as JSON
    a.b        field b of field a            a[0]   an element of a list, a[-1] the last
    a[*].c     field c of every element      *      every field of a dict, or element of a list
    a.{b,c}    fields b and c

Each place found gives a text of its own: a str as it is, anything else as JSON. What is missing, None or empty gives
none.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, TypeAlias, cast

from durable_graph.errors import InvalidConfigError, shortened

__all__ = ["Path", "parse_path", "texts_at"]

Step: TypeAlias = str | int | tuple[str, ...] | None
"""A field, an index, several fields, or (None) everything."""

Path: TypeAlias = tuple[Step, ...]

_STEP: Final = re.compile(
    r"(?:^|(?<=.)\.)(?:(?P<all>\*)(?![^.\[])|(?P<name>[^.\[\]{}*]+)|\{(?P<names>[^{}]+)\})|\[(?P<index>\*|-?\d+)\]"
)


def parse_path(path: Any) -> Path:
    """The steps of a path.

    Raises:
        InvalidConfigError: it is none.
    """
    if not isinstance(path, str) or not path:
        raise _no_path(path)
    steps: list[Step] = []
    if path == "$":
        return ()
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None or (at == 0 and found["index"]):
            raise _no_path(path)
        steps.append(_step(found))
        at = found.end()
    return tuple(steps)


def _step(found: re.Match[str]) -> Step:
    if found["all"] or found["index"] == "*":
        return None
    if found["index"]:
        return int(found["index"])
    if found["names"]:
        return tuple(name.strip() for name in found["names"].split(","))
    return found["name"]


def _no_path(path: Any) -> InvalidConfigError:
    return InvalidConfigError(
        f"{shortened(path)} is no path to a text of a value.",
        cure='Write e.g. "$" (the whole value), "text", "a.b", "a[0]", "a[*].c" or "a.{b,c}".',
    )


def texts_at(value: dict[str, Any], path: Path) -> list[str]:
    """The texts at a path, in order."""
    places: list[Any] = [value]
    for step in path:
        places = [below for place in places for below in _below(place, step)]
    return [text for text in map(_text, places) if text]


def _below(place: Any, step: Step) -> list[Any]:
    if isinstance(place, dict):
        fields = cast("dict[Any, Any]", place)
        if step is None:
            return list(fields.values())
        names = (step,) if isinstance(step, str) else step
        return [fields[name] for name in names if name in fields] if isinstance(names, tuple) else []
    if isinstance(place, list | tuple):
        elements = cast("list[Any]", place)
        if step is None:
            return list(elements)
        if isinstance(step, int) and -len(elements) <= step < len(elements):
            return [elements[step]]
    return []


def _text(found: Any) -> str:
    if found is None or isinstance(found, str):
        return found or ""
    try:
        return json.dumps(found, ensure_ascii=False, sort_keys=True, default=str)
    except (TypeError, ValueError):  # keys that are no text, or that have no order
        return repr(found)
