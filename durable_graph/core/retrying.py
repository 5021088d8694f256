"""Whether a failed attempt is tried again, and after how long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from durable_graph.errors import DurableGraphError, NodeTimeoutError
from durable_graph.types import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["as_policies", "default_retry_on", "delay_before_retry"]

_TRANSPORT = frozenset({"requests", "httpx", "httpcore", "aiohttp", "urllib3", "botocore", "grpc"})
_NEVER = (
    ValueError,
    TypeError,
    ArithmeticError,
    ImportError,
    LookupError,
    NameError,
    SyntaxError,
    RuntimeError,
    ReferenceError,
    StopIteration,
    StopAsyncIteration,
    OSError,
    DurableGraphError,
)
_SERVER_ERROR = 500


def as_policies(policy: RetryPolicy | Sequence[RetryPolicy] | None) -> tuple[RetryPolicy, ...]:
    """One policy or several; a RetryPolicy is a tuple itself."""
    if policy is None:
        return ()
    return (policy,) if isinstance(policy, RetryPolicy) else tuple(policy)


def default_retry_on(error: BaseException) -> bool:
    """What is worth another attempt: connection trouble, timeouts and 5xx answers of the common HTTP clients.

    Not: 4xx answers, programming errors (ValueError, TypeError, LookupError, ...), other OSErrors, errors of this
    library, but for a node's timeout. Any other exception is tried again.
    """
    status = _http_status(error)
    if status is not None:
        return status >= _SERVER_ERROR
    if isinstance(error, ConnectionError | TimeoutError | NodeTimeoutError):
        return True
    if any(base.__module__.partition(".")[0] in _TRANSPORT for base in type(error).__mro__[:-1]):
        return True  # no answer came: connection refused, reset, timed out
    return isinstance(error, Exception) and not isinstance(error, _NEVER)


def _http_status(error: BaseException) -> int | None:
    """The status code of the answer an HTTP client's error carries."""
    response = getattr(error, "response", None)
    for holder in (response, error):
        status: Any = getattr(holder, "status_code", None) or getattr(holder, "status", None)
        if isinstance(status, int) and not isinstance(status, bool):
            return status
    return None


def delay_before_retry(
    policies: Sequence[RetryPolicy], error: BaseException, attempt: int, task: str = ""
) -> tuple[float, bool] | None:
    """Seconds to wait before the next attempt and whether to add jitter; None when it is not tried again.

    The first policy that matches the error decides. `attempt` counts from 1. `task` is the id of the task that failed:
    when the time of its step was over there is none left for another attempt.
    """
    if isinstance(error, NodeTimeoutError) and error.kind == "step" and error.task == task:
        return None
    for policy in policies:
        if _retries(policy, error):
            if attempt >= policy.max_attempts:
                return None
            wait = policy.initial_interval * policy.backoff_factor ** (attempt - 1)
            return min(policy.max_interval, wait), policy.jitter
    return None


def _retries(policy: RetryPolicy, error: BaseException) -> bool:
    wanted = policy.retry_on
    if wanted is None:
        return default_retry_on(error)
    if isinstance(wanted, type):
        return isinstance(error, wanted)
    if callable(wanted):
        return bool(wanted(error))
    return isinstance(error, tuple(wanted))
