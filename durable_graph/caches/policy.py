"""`CachePolicy`: what a node's or task's results are cached by, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from durable_graph.caches.base import check_ttl
from durable_graph.caches.keys import default_cache_key
from durable_graph.errors import InvalidConfigError, InvalidValueError, shortened

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CachePolicy"]


@dataclass(frozen=True)
class CachePolicy:
    """Results of a node or task are kept, and used again when it is called with the same input.

    key_func: given the node's input, or the task's arguments, it returns a str or bytes made of all the result depends
        on. The default is a digest of the whole input.
    ttl: seconds for which a result is used again; None is for ever.

    Raises:
        InvalidConfigError: ttl is not above 0, or key_func cannot be called.
    """

    key_func: Callable[..., str | bytes] = default_cache_key
    ttl: float | None = None

    def __post_init__(self) -> None:
        if not callable(self.key_func):
            raise InvalidConfigError(
                f"CachePolicy(key_func={shortened(self.key_func)}): it is a function of the input that returns a str.",
                cure="Leave it out to make the key of the whole input.",
            )
        check_ttl(self.ttl, "CachePolicy")

    def key_for(self, *args: Any, **kwargs: Any) -> str:
        """The key of a call with these arguments.

        Raises:
            InvalidValueError: key_func returned neither str nor bytes. Its own exceptions pass as they are.
        """
        key = cast("object", self.key_func(*args, **kwargs))
        if isinstance(key, str):
            return key
        if isinstance(key, bytes):
            return key.hex()
        if hasattr(key, "__await__") and hasattr(key, "close"):
            cast("Any", key).close()  # or Python would warn that it was never awaited
        name = getattr(self.key_func, "__qualname__", repr(self.key_func))
        raise InvalidValueError(
            f"key_func {name} of a CachePolicy returned a {type(key).__name__}: {shortened(key)}.",
            cure="Let it be a plain function that returns a str or bytes.",
        )
