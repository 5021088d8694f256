"""How long items live. Users say minutes; stores keep milliseconds since 1970."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypedDict, cast

from durable_graph.errors import InvalidConfigError, shortened

__all__ = ["Lifetimes", "TTLConfig", "as_datetime", "milliseconds", "now"]

_MINUTE: Final = 60_000
_LONGEST: Final = 10**12
"""Minutes; two million years."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class TTLConfig(TypedDict, total=False):
    """How items of a store expire. An item that has expired is never shown.

    refresh_on_read: whether a read begins the item's time anew (default True).
    default_ttl: minutes to live of items that are put without `ttl`; None (the default) is for ever.
    sweep_interval_minutes: a put removes all expired items when this long nobody did (default 5); None leaves it to
        `sweep_ttl`.
    omit_expired: always True; accepted so that configurations of LangGraph fit.
    """

    refresh_on_read: bool
    default_ttl: float | None
    sweep_interval_minutes: float | None
    omit_expired: bool


class Lifetimes:
    """A checked TTLConfig. Times in milliseconds.

    Raises:
        InvalidConfigError: a key is unknown or a value wrong.
    """

    __slots__ = ("default", "refresh_on_read", "sweep_interval")

    def __init__(self, config: Any) -> None:
        given = cast("dict[str, Any]", {} if config is None else config)
        if not isinstance(given, dict):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may be untyped
            raise InvalidConfigError(f"ttl {shortened(given)} is not a dict.", cure='Pass e.g. {"default_ttl": 60}.')
        if unknown := [name for name in given if name not in TTLConfig.__annotations__]:
            raise InvalidConfigError(
                f"ttl: unknown key {unknown[0]!r}; the keys are {', '.join(TTLConfig.__annotations__)}."
            )
        for name in ("refresh_on_read", "omit_expired"):
            if not isinstance(given.get(name, True), bool):
                raise InvalidConfigError(f"ttl[{name!r}] is {shortened(given[name])}; it is True or False.")
        if not given.get("omit_expired", True):
            raise InvalidConfigError("ttl['omit_expired'] is False; an expired item is never shown.", cure="Leave it.")
        self.refresh_on_read: bool = given.get("refresh_on_read", True)
        self.default = milliseconds(given.get("default_ttl"), "ttl['default_ttl']")
        self.sweep_interval = milliseconds(given.get("sweep_interval_minutes", 5), "ttl['sweep_interval_minutes']")


def milliseconds(minutes: Any, where: str) -> int | None:
    """Minutes as milliseconds, at least 1; None stays None.

    Raises:
        InvalidConfigError: no number above 0.
    """
    if minutes is None:
        return None
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not 0 < minutes <= _LONGEST:
        raise InvalidConfigError(
            f"{where} is {shortened(minutes)}; it is a number of minutes above 0 and at most {_LONGEST}.",
            cure="Pass e.g. 60 for an hour, or None for ever.",
        )
    return max(1, round(minutes * _MINUTE))


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def as_datetime(when: int) -> datetime:
    """Milliseconds since 1970 as a datetime in UTC."""
    return _EPOCH + timedelta(milliseconds=when)
