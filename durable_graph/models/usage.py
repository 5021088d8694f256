"""What answers cost, summed up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from durable_graph.messages.models import UsageMetadata

__all__ = ["usage_of"]

_DETAILS = ("input_token_details", "output_token_details")


def usage_of(messages: Iterable[Any] | Mapping[str, Any]) -> UsageMetadata:
    """The tokens that the answers among these messages cost together; zeros where none tells.

    messages: messages of any kind, or a state (what `invoke` returned) with them under "messages".
    Answers that stand in the list twice (same id) are counted once.
    """
    if isinstance(messages, dict):
        messages = cast("dict[str, Any]", messages).get("messages", ())
    total: dict[str, Any] = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    counted: set[str] = set()
    for message in cast("Iterable[Any]", messages):
        usage: dict[str, Any] | None = getattr(message, "usage_metadata", None)
        key = getattr(message, "id", None)
        if not usage or key in counted:
            continue
        if key is not None:
            counted.add(key)
        _add(total, usage)
    return cast("UsageMetadata", cast("object", total))


def _add(total: dict[str, Any], usage: Mapping[str, Any]) -> None:
    for name in ("input_tokens", "output_tokens", "total_tokens"):
        total[name] += usage.get(name) or 0
    for name in _DETAILS:
        told: dict[str, int] = usage.get(name) or {}
        for kind, count in told.items():
            details: dict[str, int] = total.setdefault(name, {})
            details[kind] = details.get(kind, 0) + (count or 0)
