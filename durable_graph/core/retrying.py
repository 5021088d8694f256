"""Whether a failed attempt is tried again, and after how long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from durable_graph.errors import DurableGraphError, GraphBubbleUp, LostLease, NodeTimeoutError
from durable_graph.types import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["as_policies", "default_retry_on", "delay_before_retry"]

_TRANSPORT = frozenset({"requests", "httpx", "httpcore", "aiohttp", "urllib3", "grpc"})
"""Libraries whose errors mean, where no answer came with them, that the way to the server failed."""
_NO_TROUBLE_ON_THE_WAY = frozenset(
    {"InvalidURL", "UnsupportedProtocol", "TooManyRedirects", "DecodingError", "ContentDecodingError", "DecodeError"}
)
"""Errors of these libraries that come again however often the call is made."""
_NOT_SENT_OR_NOT_ANSWERED = "HTTPClientError"
"""Of botocore's errors only this family is about the way; the others are about credentials, parameters, and so on."""
_RPC = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN", "ABORTED"})
"""What in gRPC corresponds to a 5xx answer or to none at all."""
_MISTAKES = (
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
)
_NEVER = (*_MISTAKES, OSError, DurableGraphError)
_FIRST_STATUS, _SERVER_ERROR, _NO_STATUS = 100, 500, 600


def as_policies(policy: RetryPolicy | Sequence[RetryPolicy] | None) -> tuple[RetryPolicy, ...]:
    """One policy or several; a RetryPolicy is a tuple itself."""
    if policy is None:
        return ()
    return (policy,) if isinstance(policy, RetryPolicy) else tuple(policy)


def default_retry_on(error: BaseException) -> bool:
    """What is worth another attempt: connection trouble, timeouts and 5xx answers of the common HTTP clients.

    Not: 4xx answers, programming errors (ValueError, TypeError, LookupError, ...; also a client's, such as an invalid
    URL), other OSErrors, errors of this library, but for a node's timeout. Any other exception is tried again.
    """
    status = _http_status(error)
    if status is not None:
        return status >= _SERVER_ERROR
    if isinstance(error, ConnectionError | TimeoutError | NodeTimeoutError):
        return True
    reason = getattr(error, "reason", None) if isinstance(error, OSError) else None
    if isinstance(reason, ConnectionError | TimeoutError):  # urllib.error.URLError
        return True
    on_the_way = _on_the_way(error)
    if on_the_way is not None:
        return on_the_way
    return isinstance(error, Exception) and not isinstance(error, _NEVER)


def _on_the_way(error: BaseException) -> bool | None:
    """Whether an error of a client library is trouble on the way to the server; None: it is none of theirs."""
    kinds = type(error).__mro__[:-1]
    homes = {kind.__module__.partition(".")[0] for kind in kinds}
    names = {kind.__name__ for kind in kinds}
    if "botocore" in homes:
        return _NOT_SENT_OR_NOT_ANSWERED in names
    if _TRANSPORT.isdisjoint(homes):
        return None
    code = getattr(error, "code", None)
    if "grpc" in homes and callable(code):
        return getattr(code(), "name", "") in _RPC
    return names.isdisjoint(_NO_TROUBLE_ON_THE_WAY) and not isinstance(error, _MISTAKES)


def _http_status(error: BaseException) -> int | None:
    """The status code of the answer an HTTP client's error carries."""
    response = _read(error, "response")
    if isinstance(response, dict):  # botocore's
        told = cast("dict[str, Any]", response).get("ResponseMetadata")
        status = cast("dict[str, Any]", told).get("HTTPStatusCode") if isinstance(told, dict) else None
        if isinstance(status, int):
            return status
    for holder in (cast("Any", response), error):
        for name in ("status_code", "status"):
            status = _read(holder, name)
            if isinstance(status, int) and _FIRST_STATUS <= status < _NO_STATUS:
                return status
    return None


def _read(holder: Any, name: str) -> Any:
    """An attribute, None where there is none. Some are properties that raise while there is nothing to tell."""
    try:
        return getattr(holder, name, None)
    except Exception:  # noqa: BLE001 - it tells nothing, which is no error
        return None


def delay_before_retry(
    policies: Sequence[RetryPolicy], error: BaseException, attempt: int, task: str = ""
) -> tuple[float, bool] | None:
    """Seconds to wait before the next attempt and whether to add jitter; None when it is not tried again.

    The first policy that matches the error decides. `attempt` counts from 1. `task` is the id of the task that failed:
    when the time of its step was over there is none left for another attempt. Control flow is never tried again, nor
    what failed because the thread is another owner's now.
    """
    if isinstance(error, GraphBubbleUp | LostLease):
        return None
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
