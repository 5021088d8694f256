"""`interrupt`: a node asks a human."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, cast

from durable_graph.errors import (
    GraphInterrupt,
    InvalidValueError,
    NoCheckpointerError,
    UnserializableValueError,
    shortened,
)
from durable_graph.persistence.isolation import own
from durable_graph.runtime.context import current
from durable_graph.runtime.places import INSIDE
from durable_graph.runtime.questions import KEY
from durable_graph.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable

    from durable_graph.runtime.context import TaskContext

__all__ = ["interrupt"]


def interrupt(value: Any, *, key: str | None = None, response_schema: Any = None) -> Any:
    """Ask a human. The run stops here and goes on, from the start of the node, when the answer is there.

    Args:
        value: the question, anything that can be stored. Equal questions of one task are told apart by how often they
            were asked.
        key: a name for the question; then its value may differ when the node runs again.
        response_schema: a type (the answer is validated and returned as this type) or a JSON schema (only shown).

    Returns:
        The answer, whatever it is; None and other falsy values too.

    Raises:
        GraphInterrupt: there is no answer yet. Derives from BaseException, so `except Exception` lets it pass.
        InvalidValueError: the answer does not fit `response_schema`; it is dropped and the question is open again.
        InterruptMismatchError: the node asks something else than when it ran before.
        NoCheckpointerError: the graph has no checkpointer, so the run could never go on.
        UnserializableValueError: the question cannot be stored.
        OutsideRunError: no node runs here.
        AttemptOver: the attempt was given up because of its time.
    """
    context = current("interrupt()")
    context.check()
    encode = context.shared.asking
    if encode is None:
        what = f"node {context.task.name!r} called interrupt(), but a run without a checkpointer can never go on"
        raise NoCheckpointerError(what)
    schema, check = _response_schema(response_schema)
    name = KEY + key if key is not None else _digest(value, encode, context.task.name)
    place = INSIDE.get()
    asked = context.questions
    found, answer = asked.ask(own(value), name, schema, place if place is None or place.context is context else None)
    if answer is MISSING:
        raise GraphInterrupt([one for one in asked.open if one.id == found])
    if check is None:
        return own(answer)
    try:
        return check(answer)
    except InvalidValueError as error:
        asked_in: TaskContext | None = context
        while asked_in is not None:  # the answer is stored with the outermost run
            asked_in.rejected.append(found)
            asked_in = asked_in.shared.parent
        error.what = f"the answer to {shortened(value)} of node {context.task.name!r} does not fit: {error.what}"
        error.cure = "Answer again with a value that fits; the question is open as before."
        raise


def _digest(value: Any, encode: Callable[[Any], bytes], node: str) -> str:
    try:
        return blake2b(encode(value), digest_size=16).hexdigest()
    except UnserializableValueError as error:
        error.what = f"the interrupt value of node {node!r} cannot be stored: {error.what}"
        raise


def _response_schema(schema: Any) -> tuple[Mapping[str, Any] | None, Callable[[Any], Any] | None]:
    """The JSON schema to show and the check to make."""
    if schema is None or isinstance(schema, Mapping):
        return cast("Mapping[str, Any] | None", schema), None
    from durable_graph.schema import json_schema_of, validate_as

    return json_schema_of(schema), lambda answer: validate_as(schema, answer)
