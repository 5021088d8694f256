"""From what a caller passed to a `Request`: every argument checked, every refusal before anything is stored."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from durable_graph.core.editing import COPY, INPUT, Edit
from durable_graph.core.request import Request
from durable_graph.errors import (
    EmptyInputError,
    InvalidConfigError,
    InvalidInputError,
    InvalidUpdateError,
    NoCheckpointerError,
    UnserializableValueError,
    shortened,
)
from durable_graph.persistence.codec import CODEC
from durable_graph.persistence.isolation import own
from durable_graph.records import Write
from durable_graph.runtime import config as configs
from durable_graph.runtime.context import RunContext
from durable_graph.runtime.work import NodeWork, Result
from durable_graph.types import MISSING, Command, Durability, OnBusy, OnUnfinished, StateUpdate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from durable_graph.core.control import RunControl
    from durable_graph.core.program import NodeNames, NodeSpec, Program
    from durable_graph.graph.lowering import Context
    from durable_graph.graph.nesting import Nest
    from durable_graph.persistence.checkpointer import Checkpointer

__all__ = ["Call", "make_call", "make_edit", "read_context", "taking"]


_DURABILITIES: Final = get_args(Durability)
_POLICIES: Final = get_args(OnUnfinished)
_BUSY: Final = get_args(OnBusy)


@dataclass(slots=True)
class Call:
    """One call, ready to run. `given` is the input as it was passed; `edits` are those of `update_state`, for each
    superstep. `nest`: where it runs inside another graph; `own`: the stream modes that the caller listens to himself,
    with `subgraphs` also of graphs inside. `ns` and `program`: the graph inside that the config means.
    """

    request: Request
    config: dict[str, Any]
    durability: Durability
    checkpoint_id: str | None
    context: Any
    given: Any
    edits: tuple[tuple[Edit, ...], ...] = ()
    nest: Nest | None = None
    own: frozenset[str] = frozenset()
    subgraphs: bool = False
    ns: str = ""
    program: Program | None = None
    on_busy: OnBusy = "reject"


def make_call(
    program: Program,
    schemas: Context,
    given: Any,
    config: dict[str, Any],
    *,
    modes: frozenset[str],
    context: Any,
    interrupt_before: NodeNames,
    interrupt_after: NodeNames,
    durability: Durability | None,
    on_unfinished: OnUnfinished,
    on_busy: OnBusy,
    encode: Callable[[Any], bytes] | None,
    nest: Nest | None = None,
    control: RunControl | None = None,
) -> Call:
    """Check a call and put it into the engine's terms.

    Raises:
        InvalidConfigError: a config value, durability or policy is unknown, or an interrupt names no node.
        InvalidInputError: the input does not fit the input schema.
        InvalidUpdateError: a Command's update or goto does not fit the graph.
        UnserializableValueError: the input holds something that cannot be stored.
    """
    if (durability or "sync") not in _DURABILITIES:
        raise _unknown("durability", durability, _DURABILITIES)
    if on_unfinished not in _POLICIES:
        raise _unknown("on_unfinished", on_unfinished, _POLICIES)
    if on_busy not in _BUSY:
        raise _unknown("on_busy", on_busy, _BUSY)
    if interrupt_before or interrupt_after:
        _known_nodes(program, interrupt_before, interrupt_after)
    durable = encode is not None
    if nest is not None:
        durability = nest.durability
    request = Request(
        thread=configs.thread_of(config) if durable else "",
        kind="input",
        limit=config.get("recursion_limit", configs.DEFAULT_RECURSION_LIMIT),
        copy=own,
        durable=durable,
        flush=durable and (durability or "sync") == "sync",
        partial=durability != "exit",
        before=interrupt_before,
        after=interrupt_after,
        modes=modes,
        on_unfinished=on_unfinished,
        run_id=str(config.get("run_id") or (_new_run_id() if nest is None else nest.run_id)),
        metadata=_metadata(config, encode),
        nested=nest is not None,
        called=time.time(),
        control=control,
    )
    if given is None:
        request.kind = "continue"
    elif isinstance(given, Command):
        _read_command(request, cast("Command[Any]", given), program, encode)
    else:
        request.writes = _read_input(given, schemas, encode)
    return Call(
        request,
        config,
        durability or "sync",
        config["configurable"].get("checkpoint_id") if durable and nest is None else None,
        read_context(schemas, context),
        given,
        nest=nest,
        own=modes,
        on_busy=on_busy,
    )


def make_edit(
    program: Program,
    schemas: Context,
    config: dict[str, Any],
    supersteps: Sequence[Sequence[StateUpdate]],
    checkpointer: Checkpointer | None,
    on_busy: OnBusy,
) -> Call:
    """Check edits and put them into the engine's terms.

    Raises:
        NoCheckpointerError: the graph keeps no state.
        InvalidUpdateError: there is no update.
        InvalidInputError: an update as "__input__" does not fit the input schema.
        InvalidConfigError: `on_busy` is unknown.
    """
    if on_busy not in _BUSY:
        raise _unknown("on_busy", on_busy, _BUSY)
    if checkpointer is None:
        what = f"graph {program.name!r} has no checkpointer, so it keeps no state that could be changed"
        raise NoCheckpointerError(what)
    if not supersteps or not all(supersteps):
        what = "No supersteps provided" if not supersteps else "No updates provided: a superstep is empty"
        raise InvalidUpdateError(what, cure="Pass a list of lists of StateUpdate, none of them empty.")
    encode = CODEC.encode
    request = Request(
        thread=configs.thread_of(config),
        kind="edit",
        limit=config.get("recursion_limit", configs.DEFAULT_RECURSION_LIMIT),
        copy=own,
        durable=True,
        flush=True,
        run_id=str(config.get("run_id") or _new_run_id()),
        metadata=_metadata(config, encode),
    )
    edits: list[tuple[Edit, ...]] = []
    for updates in supersteps:
        made = [_edit(StateUpdate(*update), schemas, encode) for update in updates]
        if edits and made[0].as_node == COPY:
            what = f"an update as {COPY!r} stands behind others"
            raise InvalidUpdateError(what, cure="Copy in a call of its own, and edit the copy then.")
        edits.append(tuple(made))
        if made[0].as_node == COPY and made[0].values is not None:
            edits.append(tuple(_edit(update, schemas, encode) for update in _of_copy(made[0].values)))
    checkpoint_id = config["configurable"].get("checkpoint_id")
    return Call(request, config, "sync", checkpoint_id, None, None, tuple(edits), on_busy=on_busy)


def _of_copy(values: object) -> list[StateUpdate]:
    """The updates that a copy is to be edited with.

    Raises:
        InvalidUpdateError: the values are no updates.
    """
    given: Sequence[Any] = cast("Sequence[Any]", values) if isinstance(values, (list, tuple)) else ()
    try:
        found = [StateUpdate(*one) for one in given if isinstance(one, list | tuple)]
    except TypeError:  # one of them has too few or too many parts
        found = []
    if not found or len(found) != len(given):
        what = f"values as {COPY!r} are {shortened(cast('object', values))}, expected None or updates of the copy"
        raise InvalidUpdateError(
            what, cure=f"Pass [(values, as_node), ...] with as_node={COPY!r}, or edit the copy then."
        )
    return found


def _new_run_id() -> str:
    return os.urandom(8).hex()


def _edit(update: StateUpdate, schemas: Context, encode: Callable[[Any], bytes]) -> Edit:
    edit = Edit(own(update.values), update.as_node, update.task_id)
    if edit.as_node == INPUT:
        edit.writes = _read_input(update.values, schemas, encode)
    return edit


def taking(spec: NodeSpec) -> NodeSpec:
    """The node with a body that returns its input, and nothing that watches over it: for edits."""
    return replace(spec, work=replace(spec.work, body=None), retry=(), handler=None, timeout=None)


def read_context(schemas: Context, context: Any) -> Any:
    """A dict becomes an instance of the context schema, where that is a dataclass or pydantic model."""
    schema = schemas.context
    if schema is None or schema.kind not in ("dataclass", "pydantic") or not isinstance(context, dict):
        return context
    try:
        return schema.type(**cast("dict[str, Any]", context))
    except Exception as error:
        error.add_note(f"While `context` was read as {schema.name}.")
        raise


def _metadata(config: Mapping[str, Any], encode: Callable[[Any], bytes] | None) -> dict[str, Any]:
    """What is stored with every checkpoint: only what was passed as metadata, never `configurable` with its secrets."""
    if not config.get("metadata"):
        return {}
    found = own(config["metadata"])
    if encode is not None:
        try:
            _ = encode(found)
        except UnserializableValueError as error:
            error.what = f"config['metadata'] cannot be stored: {error.what}"
            raise
    return found


def _read_input(given: Any, schemas: Context, encode: Callable[[Any], bytes] | None) -> list[Write]:
    schema, scope = schemas.input, schemas.scope
    pairs = schema.read_update(given)
    if pairs is None:
        what = f"the input is {type(given).__name__}, expected a dict with keys of {schema.name}"
        raise InvalidInputError(what)
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in schema.keys:
            values[key] = value
        elif scope.strict:
            known = ", ".join(map(repr, schema.keys))
            what = f"the input has key {key!r}, which {schema.name} does not have (it has {known})"
            raise InvalidInputError(what)
    for key in scope.prepare:
        if key in values:
            values[key] = scope.prepare[key](values[key], MISSING)
    if schemas.checks is not None:
        values = schemas.checks.validate_input(values)
    return [_write(key, value, schemas, encode, "the input") for key, value in values.items()]


def _write(key: str, value: Any, schemas: Context, encode: Callable[[Any], bytes] | None, who: str) -> Write:
    if encode is None or key in schemas.scope.unstored:
        return Write(key, own(value))
    try:
        return Write(key, own(value), encode(value))
    except UnserializableValueError as error:
        error.what = f"{who} has key {key!r}: {error.what}"
        raise


def _read_command(
    request: Request, command: Command[Any], program: Program, encode: Callable[[Any], bytes] | None
) -> None:
    if command.graph is not None:
        what = f"the input is {command!r}, but this graph has no parent"
        raise InvalidUpdateError(what, cure="Leave `graph` out.")
    if command.resume is not MISSING and encode is None:
        what = "Command(resume=...) needs the stored run it answers, but the graph has no checkpointer"
        raise NoCheckpointerError(what)
    if command.resume is MISSING and command.update is None and not command.goto:
        what = "the input is an empty Command"
        raise EmptyInputError(what, cure="Give it resume, update or goto; or pass None to go on with a stored run.")
    request.kind = "command"
    start: NodeWork = program.start.work
    result = Result(NodeWork("Command", start.scope, start.reader, None), RunContext(program, {}, encode))
    result.take(Command(update=command.update, goto=command.goto))
    request.writes, request.routes = result.writes, result.routes
    if command.resume is not MISSING:
        if encode is not None:
            try:
                _ = encode(command.resume)
            except UnserializableValueError as error:
                error.what = f"the answer (Command.resume) cannot be stored: {error.what}"
                raise
        request.resume = own(command.resume)


def _known_nodes(program: Program, *names: NodeNames) -> None:
    for found in names:
        for name in () if found == "*" else found:
            if name not in program.nodes:
                known = ", ".join(repr(one) for one, spec in program.nodes.items() if not spec.hidden)
                what = f"interrupt node {name!r} was not found (there are {known})"
                raise InvalidConfigError(what)


def _unknown(name: str, value: Any, known: Sequence[str]) -> InvalidConfigError:
    return InvalidConfigError(f"unknown {name} {value!r}; known: {', '.join(known)}")
