"""One recorded step, for both faces.

A step is known by its place: the task it runs in, its name or key (behind those of the steps it was called in), the
digest of its arguments, and how many equal ones came before it. So another order after a deploy finds the same results,
and a result can never be given to another call.

`perform_step` is a generator: it yields what is due (a `Call` of the user's code, a `Keep` of a record, a `Pause`, a
look into a cache), is sent the answer or has an exception thrown in, and returns the step's result. A face only says
how each is done.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from typing_extensions import TypedDict

from durable_graph.core.mail import Relayed
from durable_graph.core.reports import error_record
from durable_graph.core.retrying import delay_before_retry
from durable_graph.errors import (
    DurableGraphError,
    GraphBubbleUp,
    GraphInterrupt,
    StepMismatchError,
    StoredError,
    UnserializableValueError,
)
from durable_graph.persistence.codec import CODEC
from durable_graph.persistence.isolation import own
from durable_graph.records import CallRecord
from durable_graph.runtime import pool
from durable_graph.runtime.asking import interrupt
from durable_graph.runtime.context import CURRENT, current
from durable_graph.runtime.places import INSIDE
from durable_graph.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from durable_graph.caches import CacheAccess, CachePolicy
    from durable_graph.core.run import Run
    from durable_graph.records import ErrorRecord
    from durable_graph.runtime.callables import Body
    from durable_graph.runtime.context import TaskContext
    from durable_graph.runtime.places import Children
    from durable_graph.types import RetryPolicy, TimeoutPolicy

__all__ = [
    "Call",
    "Keep",
    "KeepCopy",
    "Look",
    "OnUnknown",
    "Pause",
    "Place",
    "Started",
    "Step",
    "perform_cached_step",
    "perform_step",
    "take_place",
]


@dataclass(slots=True, frozen=True)
class Started:
    """A step that was started and of which nothing more is known: its process died, or lost its store, meanwhile.

    name: its key or name.   args, kwargs: what it was called with.   idempotency_key: what it was told, and will be
    told when it runs again.   started: when it began, seconds since 1970.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    idempotency_key: str
    started: float


class Known(TypedDict):
    """The answer to what became of a step: what it gave."""

    result: Any


OnUnknown: TypeAlias = "Literal['rerun', 'ask'] | Callable[[Started], Any]"
"""What to do about a step whose outcome is unknown: run it again with the same idempotency key; ask a human; or call a
function that finds out. It returns the result, or `MISSING` to have the step run again."""


@dataclass(slots=True, frozen=True)
class Step:
    """What a step is, apart from its arguments.

    keyed: its name is a key the user chose: equal keys are told apart by order alone, and their arguments must agree.
    shown: streams show its result.   cache: by what its result is cached, and in which namespace; None when it is not.
    """

    name: str
    body: Body
    keyed: bool = False
    retry: tuple[RetryPolicy, ...] = ()
    timeout: TimeoutPolicy | None = None
    on_unknown: OnUnknown = "rerun"
    cache: tuple[CachePolicy, tuple[str, ...]] | None = None
    shown: bool = False


class Place:
    """Where a step is, found when it is called.

    name: its key or name, behind the places of the steps it is called in.   key: what its record is found by.
    path: names it among all steps of its task.   order: when it was called, among them.
    outer: the step it is called in; None at the top of its node.   children: the tasks that it started.
    """

    __slots__ = ("body", "called", "children", "context", "key", "name", "order", "outer")

    def __init__(self, context: TaskContext, outer: Place | None, step: Step, digest: bytes) -> None:
        name = step.name if outer is None else f"{outer.path}/{step.name}"
        numbers = context.numbers
        counted: Any = name if step.keyed else (name, digest)
        number = numbers.get(counted, 0)
        numbers[counted] = number + 1
        self.context = context
        self.name = name
        self.key = (context.task.path, name, digest, number)
        self.called = 0
        self.body = step.body
        self.outer = outer
        self.children: Children | None = None
        if outer is None:
            numbers[_CALLED] = called = numbers.get(_CALLED, 0) + 1
            self.order: tuple[int, ...] = (called,)
        else:
            outer.called += 1
            self.order = (*outer.order, outer.called)

    @property
    def path(self) -> str:
        """Also tells apart equal names with other arguments: of steps that run at the same time each counts its own."""
        _, name, digest, number = self.key
        return f"{name}:{digest.hex()}#{number}" if digest else f"{name}#{number}"

    @property
    def idempotency_key(self) -> str:
        """The same in every attempt and after every resume, different on another branch and for another step."""
        _, name, digest, number = self.key
        seed = b"\0".join(
            (
                self.context.idempotency_key.encode("utf-8", "surrogatepass"),
                name.encode("utf-8", "surrogatepass"),
                digest,
                str(number).encode(),
            )
        )
        return blake2b(seed, digest_size=16).hexdigest()

    def durable_key(self) -> str:
        """The key, once what it is made of is durable."""
        _ = self.context.durable_key()
        return self.idempotency_key


_CALLED = ("called",)
"""Among a context's numbers: how many steps it called."""
_RECORDED = ("recorded",)
"""Among a context's numbers: names and numbers of the steps that earlier attempts recorded."""


class Call:
    """Call the user's code."""

    __slots__ = ("args", "keywords", "step")

    def __init__(self, step: Step, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
        self.step = step
        self.args = args
        self.keywords = keywords


class Keep:
    """Store a record, as durable as the run is. `value` is the result, for runs that store nothing."""

    __slots__ = ("place", "record", "value")

    def __init__(self, place: Place, record: CallRecord, value: Any = None) -> None:
        self.place = place
        self.record = record
        self.value = value


class Pause(NamedTuple):
    """Wait before the next attempt."""

    seconds: float
    jitter: bool


class Look(NamedTuple):
    """Look into a cache: the value, or MISSING, and then the step is the one that computes it."""

    access: CacheAccess


class KeepCopy(NamedTuple):
    """Put the value into the cache."""

    access: CacheAccess
    value: Any


Due: TypeAlias = Call | Keep | Pause | Look | KeepCopy


def take_place(step: Step, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Place:
    """The place of a step that is called here and now.

    Raises:
        OutsideRunError: no node runs here.
    """
    context = CURRENT.get()
    if context is None:
        context = current(f"{step.name}()")
    outer: Any = INSIDE.get()
    digest = _digest(args, keywords) if context.shared.encode is not None else b""
    return Place(context, None if outer is None or outer.context is not context else outer, step, digest)


def _digest(args: tuple[Any, ...], keywords: Mapping[str, Any]) -> bytes:
    """Of what can be stored. What cannot, such as a client, is left out: then equal names are told apart by order."""
    found = blake2b(digest_size=8)
    for part in (*args, *(pair for name in sorted(keywords) for pair in (name, keywords[name]))):
        try:
            found.update(CODEC.encode(part))
        except UnserializableValueError:
            found.update(b"?")
    return found.digest()


def perform_step(  # noqa: C901, PLR0912 - what every task goes through, without calls of our own
    place: Place, step: Step, args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> Generator[Due, Any, Any]:
    """Do a step, unless it is done already.

    Raises:
        StepMismatchError: a step with this key was recorded with other arguments.
        UnserializableValueError: its result cannot be stored.
        Exception: what the user's code raised, now or when it was recorded.
    """
    context = place.context
    if context.over:
        context.check()
    shared = context.shared
    run = shared.run
    assert run is not None  # noqa: S101 - tasks exist only in a run; this tells the type checker
    known = run.calls.get(place.key)
    if known is None and step.keyed:
        _refuse_other_arguments(place, run)
    attempt, started = 1, 0.0
    if known is not None:
        result = yield from _recall(place, step, known, args, keywords)
        if result is not MISSING:
            return result
        attempt, started = known.attempt + 1, known.started
    while True:
        started = started or (time.time() if shared.timed else 0.0)
        if step.on_unknown != "rerun":
            yield Keep(place, _record(place, started, attempt))
        token = INSIDE.set(place)
        try:
            result = yield Call(step, args, keywords)
        except GraphBubbleUp:
            raise
        except Exception as error:
            wait = delay_before_retry(step.retry, error, attempt)
            if place.children is not None:
                yield _end_of(place.children)
            if wait is None:
                _stop_where_asked(place)
                yield Keep(place, _record(place, started, attempt, error=error_record(error)))
                raise
            yield Pause(*wait)
            attempt, started = attempt + 1, 0.0
            continue
        finally:
            INSIDE.reset(token)
        if place.children is not None:
            yield _end_of(place.children)
        if context.asked is not None:
            _stop_where_asked(place)
        data = _encoded(place, result) if shared.encode is not None else b""
        yield Keep(place, _record(place, started, attempt, data=data), result)
        if step.shown and shared.post is not None:
            _show(place, step, result)
        return result


def _recall(
    place: Place, step: Step, known: CallRecord, args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> Generator[Due, Any, Any]:
    """What a step gave when it was done; MISSING when it is to run again.

    Raises:
        Exception: what it raised then.
    """
    if known.error is not None:
        raise recalled(known.error)
    shared = place.context.shared
    if known.data is not None:
        assert shared.run is not None  # noqa: S101 - its caller has it; this tells the type checker
        return CODEC.decode(known.data) if shared.encode is not None else own(shared.run.results[place.key])
    result = yield from _unknown(place, step, known, args, keywords)
    if result is not MISSING:
        yield Keep(place, _record(place, known.started, known.attempt, data=_encoded(place, result)), result)
    return result


def perform_cached_step(
    place: Place, step: Step, args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> Generator[Due, Any, Any]:
    """`perform_step` of a step with a cache policy: what an equal call gave anywhere need not be done again."""
    run = place.context.shared.run
    access = None if run is None or place.key in run.calls else _access(place, step, args, keywords)
    if access is None:
        return (yield from perform_step(place, step, args, keywords))
    try:
        result = yield Look(access)
        if result is MISSING:
            result = yield from perform_step(place, step, args, keywords)
            yield KeepCopy(access, result)
            return result
    finally:
        access.give_up()
    data = _encoded(place, result) if place.context.shared.encode is not None else b""
    yield Keep(place, _record(place, 0.0, 1, data=data), result)
    _show(place, step, result, cached=True)
    return result


def _end_of(children: Children) -> Call:
    """Wait for the tasks that a step started: they are part of it, and so is what they ask."""
    return Call(Step("", children.ending), (children,), {})


def _stop_where_asked(place: Place) -> None:
    """A step that swallowed its question has no result yet.

    Raises:
        GraphInterrupt: it asked, and goes on once the answer is there.
    """
    asked = place.context.asked
    if asked is not None and (questions := asked.open_within(place)):
        raise GraphInterrupt(questions)


def _access(place: Place, step: Step, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> CacheAccess | None:
    """The way into the run's cache; None when it has none."""
    cache = place.context.shared.cache
    if cache is None or step.cache is None:
        return None
    from durable_graph.caches import CacheAccess

    policy, namespace = step.cache
    return CacheAccess(
        cache,
        namespace,
        policy.key_for(*args, **keywords),
        policy.ttl,
        cache.flights,
        where=f"step {place.name!r} of node {place.context.task.name!r}",
        while_waiting=_lent,
    )


@contextmanager
def _lent() -> Generator[None]:
    lent = pool.lend()
    try:
        yield
    finally:
        pool.give_back(lent)


def _show(place: Place, step: Step, result: Any, *, cached: bool = False) -> None:
    """Tell who listens that a step ended, once its result is stored."""
    context = place.context
    run, post = context.shared.run, context.shared.post
    if not step.shown or post is None or run is None or "updates" not in run.show.modes:
        return
    payload: dict[str, Any] = {step.name: own(result)}
    if cached:
        payload["__metadata__"] = {"cached": True}
    ns = run.request.ns
    _ = context.post(Relayed(context.task, tuple(ns.split("|")) if ns else (), "updates", payload))


def _refuse_other_arguments(place: Place, run: Run) -> None:
    """What is recorded under this key belongs to another call.

    Raises:
        StepMismatchError: there is such a record.
    """
    numbers = place.context.numbers
    recorded: set[tuple[str, int]] | None = numbers.get(_RECORDED)
    path, name, _, number = place.key
    if recorded is None:  # what this attempt records from now on is its own, and numbered by it
        recorded = {(call.name, call.number) for call in tuple(run.calls.values()) if call.task == path}
        numbers[_RECORDED] = recorded
    if (name, number) in recorded:
        what = (
            f"step {name!r} of node {place.context.task.name!r} was recorded with other arguments than it is "
            f"called with now (call {number + 1} of this key)"
        )
        raise StepMismatchError(what)


def _unknown(
    place: Place, step: Step, known: CallRecord, args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> Generator[Due, Any, Any]:
    """The result of a step whose outcome is unknown; MISSING when it is to run again."""
    started = Started(place.name, args, keywords, place.idempotency_key, known.started)
    if step.on_unknown == "rerun":
        return MISSING
    if callable(step.on_unknown):
        from durable_graph.runtime.callables import Body

        asking = Step(step.name, Body(step.on_unknown))
        return (yield Call(asking, (started,), {}))
    question = {
        "type": "outcome unknown",
        "step": place.name,
        "node": place.context.task.name,
        "idempotency_key": started.idempotency_key,
        "started": started.started,
        "answers": ["rerun", {"result": "..."}],
    }
    token = INSIDE.set(place)
    try:
        answer: Any = interrupt(question, key="outcome", response_schema=Literal["rerun"] | Known)
    finally:
        INSIDE.reset(token)
    return MISSING if answer == "rerun" else answer["result"]


def _record(
    place: Place, started: float, attempt: int, *, data: bytes | None = None, error: ErrorRecord | None = None
) -> CallRecord:
    ended = started and (data is not None or error is not None)
    # It may have begun in another process, so only the clock on the wall can tell; somebody may have set that back.
    return CallRecord(*place.key, data, error, attempt, started, max(0.0, time.time() - started) if ended else 0.0)


def _encoded(place: Place, result: Any) -> bytes:
    try:
        return CODEC.encode(result)
    except UnserializableValueError as error:
        error.what = f"the result of step {place.name!r} of node {place.context.task.name!r}: {error.what}"
        raise


def recalled(record: ErrorRecord) -> Exception:
    """A recorded exception, to be raised again: of its own class where that is loaded here, so that `except` clauses
    catch it as they did. Its constructor is not called, and nothing is imported.
    """
    stored = StoredError(record)
    module, _, name = record.type.rpartition(".")
    cls: Any = getattr(sys.modules.get(module), name, None)
    if not (isinstance(cls, type) and issubclass(cls, Exception)):
        return stored
    if issubclass(cls, DurableGraphError):
        error: Exception = cls.from_text(record.message)
    else:
        error = cls.__new__(cls, record.message)
        error.args = (record.message,)
    error.__cause__ = stored
    return error
