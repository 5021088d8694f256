"""`once` and `aonce`: do a piece of work inside a node once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from typing_extensions import TypeVar

from durable_graph.core.retrying import as_policies
from durable_graph.errors import InvalidConfigError
from durable_graph.recording.doing import ado_step, do_step
from durable_graph.recording.step import Step, take_place
from durable_graph.runtime.callables import Body
from durable_graph.types import TimeoutPolicy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import timedelta

    from durable_graph.recording.step import OnUnknown
    from durable_graph.types import RetryPolicy

__all__ = ["aonce", "once"]

T = TypeVar("T")


def once(
    key: str,
    function: Callable[..., T],
    /,
    *args: Any,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    timeout: TimeoutPolicy | float | timedelta | None = None,
    on_unknown: OnUnknown = "rerun",
    **kwargs: Any,
) -> T:
    """Call `function(*args, **kwargs)` inside a node, and never again once its result is recorded.

    The result is stored before this returns (with durability "sync"). When the node runs again, after an interrupt, a
    crash or a retry, the stored result is returned and the function is not called. What it raised is recorded too and
    raised again, unless the node itself failed because of it.

        receipt = once("charge", payments.charge, order.total)
        answer = interrupt({"charged": receipt.id, "ship to?": order.name})

    Args:
        key: names the step in its node. The same key again is the next step of that name (in a loop, say).
        function: sync or async; an async one runs on the private event loop. It may take `runtime`, whose
            `idempotency_key` is stable over attempts and resumes.
        args: of the call. They are part of what the step is known by.
        retry_policy: when a failed attempt is tried again.
        timeout: seconds that one attempt may take.
        on_unknown: what to do when the step was started, and its process died before the result was there: "rerun" it
            (with the same idempotency key), "ask" a human, or a function of a `Started` that finds out.
        kwargs: of the call.

    Raises:
        OutsideRunError: no node runs here.
        StepMismatchError: this key was recorded with other arguments.
        UnserializableValueError: the result cannot be stored.
    """
    step = _step(key, function, retry_policy, timeout, on_unknown)
    return cast("T", do_step(take_place(step, args, kwargs), step, args, kwargs))


async def aonce(
    key: str,
    function: Callable[..., Awaitable[T] | T],
    /,
    *args: Any,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    timeout: TimeoutPolicy | float | timedelta | None = None,  # noqa: ASYNC109 - of each attempt, which is stored
    on_unknown: OnUnknown = "rerun",
    **kwargs: Any,
) -> T:
    """Async `once`: an async function is awaited here, a sync one runs in an OS thread."""
    step = _step(key, function, retry_policy, timeout, on_unknown)
    return cast("T", await ado_step(take_place(step, args, kwargs), step, args, kwargs))


def _step(key: Any, function: Any, retry: Any, timeout: Any, on_unknown: Any) -> Step:
    if not isinstance(key, str) or not key:
        what = f"once() got {key!r} as its key, expected a text"
        raise InvalidConfigError(what, cure='Write once("name", function, *args).')
    return Step(
        key,
        Body(function),
        keyed=True,
        retry=as_policies(retry),
        timeout=None if timeout is None else TimeoutPolicy.coerce(timeout),
        on_unknown=check_on_unknown(on_unknown),
    )


def check_on_unknown(given: Any) -> OnUnknown:
    """The policy, if it is one.

    Raises:
        InvalidConfigError: it is none.
    """
    if given in ("rerun", "ask") or callable(given):
        return cast("OnUnknown", given)
    what = f"unknown on_unknown {given!r}; known: 'rerun', 'ask', or a function"
    raise InvalidConfigError(what)
