"""`interrupt`: a node asks a human. `ask`: what it, and whoever waits for a time or an event, are made of."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from durable_graph.errors import (
    GraphInterrupt,
    InvalidConfigError,
    InvalidValueError,
    NoCheckpointerError,
    UnserializableValueError,
    shortened,
)
from durable_graph.persistence.isolation import own
from durable_graph.runtime.context import current
from durable_graph.runtime.places import INSIDE
from durable_graph.runtime.questions import KEY
from durable_graph.types import MISSING, Expired, Wait

if TYPE_CHECKING:
    from durable_graph.runtime.context import TaskContext

__all__ = ["Limit", "ask", "interrupt"]


def interrupt(
    value: Any,
    *,
    key: str | None = None,
    response_schema: Any = None,
    timeout: float | timedelta | None = None,
    default: Any = MISSING,
) -> Any:
    """Ask a human. The run stops here and goes on, from the start of the node, when the answer is there.

    Args:
        value: the question, anything that can be stored. Equal questions of one task are told apart by how often they
            were asked.
        key: a name for the question; then its value may differ when the node runs again.
        response_schema: a type (the answer is validated and returned as this type) or a JSON schema (only shown).
        timeout: seconds from when it is first asked. Nobody needs to be there when they are over: a worker
            (`graph.work`), or the next `invoke(None, config)`, goes on with the default.
        default: the answer when the time is over without one.

    Returns:
        The answer, whatever it is; None and other falsy values too.

    Raises:
        GraphInterrupt: there is no answer yet. Derives from BaseException, so `except Exception` lets it pass.
        TimeoutError: the time is over, and there is no default.
        InvalidValueError: the answer does not fit `response_schema`; it is dropped and the question is open again. Or
            the default does not.
        InterruptMismatchError: the node asks something else than when it ran before.
        NoCheckpointerError: the graph has no checkpointer, so the run could never go on.
        UnserializableValueError: the question or the default cannot be stored.
        OutsideRunError: no node runs here.
        AttemptOver: the attempt was given up because of its time.
    """
    if timeout is None and default is MISSING:
        return ask(value, key, response_schema)
    seconds = _seconds(timeout, default)
    answer = ask(value, key, response_schema, limit=Limit("question", lambda: time.time() + seconds, own(default)))
    if type(answer) is Expired:
        what = f"nobody answered {shortened(value)} within {seconds:g} s"
        raise TimeoutError(what)
    return answer


class Limit(NamedTuple):
    """How long an answer is waited for, and what for. deadline: says when it is over, seconds since 1970 or None; it is
    called when the question is asked for the first time.
    """

    kind: Literal["question", "sleep", "event"]
    deadline: Callable[[], float | None]
    default: Any = MISSING


def ask(value: Any, key: str | None, response_schema: Any = None, *, limit: Limit | None = None) -> Any:
    """The answer to a question: `interrupt`, with all that can be waited for. An `Expired` where time was over."""
    context = current("interrupt()")
    context.check()
    encode = context.shared.asking
    if encode is None:
        what = f"node {context.task.name!r} called interrupt(), but a run without a checkpointer can never go on"
        raise NoCheckpointerError(what)
    schema, check = _response_schema(response_schema)
    if limit is not None and limit.default is not MISSING:
        _check_default(limit.default, encode, check, context.task.name)
    name = KEY + key if key is not None else _digest(value, encode, context.task.name)
    place = INSIDE.get()
    asked = context.questions
    found, answer = asked.ask(own(value), name, schema, place if place is None or place.context is context else None)
    if answer is MISSING:
        if limit is not None:
            before = [one for one in context.task.interrupts if one.id == found]  # it waits no longer than it said then
            asked.limit(found, Wait(limit.kind, before[0].deadline if before else limit.deadline(), limit.default))
        raise GraphInterrupt([one for one in asked.open if one.id == found])
    if check is None or type(answer) is Expired:
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


def _seconds(timeout: float | timedelta | None, default: Any) -> float:
    if timeout is None:
        what = f"interrupt() got default={shortened(default)} and no timeout, so nobody would ever take it"
        raise InvalidConfigError(what, cure="Pass timeout= too: seconds, or a timedelta.")
    limit = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(limit, bool) or not 0 < limit < float("inf"):
        what = f"interrupt() got timeout={timeout!r}, expected more than 0 seconds"
        raise InvalidConfigError(what, cure="Leave it out to wait for ever.")
    return limit


def _check_default(default: Any, encode: Callable[[Any], bytes], check: Callable[[Any], Any] | None, node: str) -> None:
    """Refuse at once what could not be the answer when the time is over."""
    try:
        _ = encode(default)
        if check is not None:
            _ = check(default)
    except (UnserializableValueError, InvalidValueError) as error:
        error.what = f"the default of a question of node {node!r}: {error.what}"
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
