"""What a caller gets: the result of a run, and the parts of a stream, in the shape that was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast, get_args

from durable_graph.core import streaming
from durable_graph.errors import InvalidConfigError
from durable_graph.types import GraphOutput, StreamMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from durable_graph.core.ending import Outcome
    from durable_graph.core.program import Program
    from durable_graph.core.streaming import Event
    from durable_graph.schema import Schema

__all__ = ["STREAM_MODES", "Listening", "Selection", "read_listening", "read_selection", "result_of"]

STREAM_MODES: Final = get_args(StreamMode)

Selection: TypeAlias = "str | tuple[str, ...] | None"
"""Which keys a result shows: one key's value, a dict of some, or (None) all of the output."""


@dataclass(slots=True, frozen=True)
class Listening:
    """What a stream shows and in which shape.

    several: modes came as a list, so parts name their mode.   output: the schema of what the values are.
    selection: which keys "values" and "updates" show.   subgraphs: parts name the graph inside that they come from.
    """

    modes: frozenset[str]
    several: bool
    version: str
    selection: Selection
    output: Schema
    subgraphs: bool = False

    def part(self, event: Event) -> Any:
        """One event in the shape that was asked for. Debug events say when they were shown; the core knows no clock."""
        mode, payload, *rest = event
        ns: tuple[str, ...] = rest[0] if rest else ()
        if mode == "debug":
            payload = {**payload, "timestamp": datetime.now(UTC).isoformat()}
        if self.selection is not None and not ns:
            payload = _selected(mode, payload, self.selection)
        if self.version == "v1":
            shown = (mode, payload) if self.several else (payload,)
            return (ns, *shown) if self.subgraphs else shown if self.several else payload
        part: dict[str, Any] = {"type": mode, "ns": ns, "data": payload}
        if mode == "values":
            part["interrupts"] = ()
            if isinstance(payload, dict) and "__interrupt__" in payload:
                payload = dict(cast("dict[str, Any]", payload))
                part["interrupts"] = payload.pop("__interrupt__")
            part["data"] = payload if ns else _instance_of(self.output, payload)
        return part


def _selected(mode: str, payload: Any, selection: Selection) -> Any:
    """The payload of "values" or "updates" with the wanted keys only; other modes as they are."""
    if mode == "values" and isinstance(payload, dict):
        values = cast("dict[str, Any]", payload)
        if isinstance(selection, str):
            return values.get(selection)
        return {key: value for key, value in values.items() if key in (*(selection or ()), "__interrupt__")}
    if mode == "updates" and isinstance(payload, dict):
        wanted = (selection,) if isinstance(selection, str) else selection or ()
        updates = cast("dict[str, Any]", payload)
        return {node: _narrowed(update, wanted) for node, update in updates.items()}
    return payload


def _narrowed(update: Any, wanted: tuple[str, ...]) -> Any:
    """What a node wrote, with the wanted keys only; None where nothing is left."""
    if isinstance(update, list):
        return [one for one in (_narrowed(part, wanted) for part in cast("list[Any]", update)) if one] or None
    if not isinstance(update, dict):
        return update
    return {key: value for key, value in cast("dict[str, Any]", update).items() if key in wanted} or None


def read_listening(
    program: Program,
    stream_mode: Any,
    version: str,
    output_keys: str | Sequence[str] | None,
    output: Schema,
    *,
    subgraphs: bool = False,
) -> Listening:
    """Check what a caller wants to see.

    Raises:
        InvalidConfigError: an unknown mode, version or key.
    """
    several = isinstance(stream_mode, list | tuple | set | frozenset)
    modes = list(cast("list[Any]", stream_mode)) if several else [stream_mode]
    for mode in modes:
        if mode not in STREAM_MODES:
            what = f"unknown stream mode {mode!r}; known: {', '.join(STREAM_MODES)}"
            raise InvalidConfigError(what)
    if version not in ("v1", "v2"):
        what = f"unknown stream version {version!r}; known: v1, v2"
        raise InvalidConfigError(what)
    return Listening(frozenset(modes), several, version, read_selection(program, output_keys), output, subgraphs)


def read_selection(program: Program, output_keys: str | Sequence[str] | None) -> Selection:
    """Check the keys a caller wants to see.

    Raises:
        InvalidConfigError: the state has no such key.
    """
    selection = output_keys if output_keys is None or isinstance(output_keys, str) else tuple(output_keys)
    for key in (selection,) if isinstance(selection, str) else selection or ():
        if key not in program.channels:
            known = ", ".join(map(repr, program.channels))
            what = f"output key {key!r} is not a key of the state (it has {known})"
            raise InvalidConfigError(what)
    return selection


def result_of(program: Program, output: Schema, outcome: Outcome, version: str, selection: Selection) -> Any:
    """What a run returns. "v1": the output, with "__interrupt__" where a node asked; "v2": a `GraphOutput`."""
    values = outcome.values
    if selection is None:
        value = streaming.output(program, values)
    elif isinstance(selection, str):
        value = values.get(selection)
    else:
        value = {key: values[key] for key in selection if key in values}
    if version == "v2":
        return GraphOutput(_instance_of(output, value), outcome.interrupts)
    if not outcome.interrupts:
        return value
    shown = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return {**shown, "__interrupt__": list(outcome.interrupts)}


def _instance_of(output: Schema, value: Any) -> Any:
    """An output as an instance of the output schema, where its required fields are there."""
    if isinstance(value, dict) and output.required <= cast("dict[str, Any]", value).keys():
        return output.build(cast("dict[str, Any]", value))
    return cast("Any", value)
