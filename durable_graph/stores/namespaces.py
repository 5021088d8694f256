"""Namespaces: which are allowed, and which fit a condition.

A label is a str that is not empty and holds neither "." nor NUL. Nothing is ever stored under the empty namespace, or
under the root label "langgraph", which people who move over know as reserved.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any, cast

from durable_graph.errors import UsageError, shortened
from durable_graph.stores.ops import MatchCondition

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ANY_LABEL",
    "InvalidNamespaceError",
    "check_condition",
    "check_namespace",
    "check_place",
    "check_writable",
    "fits",
    "known_head",
    "known_tail",
]

ANY_LABEL = "*"
"""In a condition: any one label."""

_RESERVED = "langgraph"


class InvalidNamespaceError(UsageError, ValueError):
    """A namespace that nothing can be stored under."""

    code = "DG210"
    cure = "Pass a tuple of labels such as ('users', 'ada'): each a str, not empty, without '.' and NUL."


def check_namespace(namespace: Any) -> tuple[str, ...]:
    """The namespace or prefix as a tuple; it may be empty.

    Raises:
        InvalidNamespaceError: it is no sequence of labels.
    """
    if not isinstance(namespace, tuple | list):
        raise InvalidNamespaceError(f"namespace {shortened(namespace)} is not a tuple.")
    labels = tuple(cast("Sequence[Any]", namespace))
    for label in labels:
        if not isinstance(label, str):
            raise InvalidNamespaceError(f"namespace {shortened(labels)}: label {shortened(label)} is not a str.")
        if not label or "." in label or "\0" in label:
            raise InvalidNamespaceError(
                f"namespace {shortened(labels)}: label {label!r} is empty, or holds '.' or NUL."
            )
    return tuple(map(str.__str__, labels))  # of a subclass of str, such as an Enum, only the text counts


def check_place(namespace: Any) -> tuple[str, ...]:
    """The namespace of an item as a tuple.

    Raises:
        InvalidNamespaceError: it is no sequence of labels, or empty.
    """
    labels = check_namespace(namespace)
    if not labels:
        raise InvalidNamespaceError("The namespace is empty; an item is stored under at least one label.")
    return labels


def check_writable(namespace: Any) -> tuple[str, ...]:
    """The namespace of an item that is put, as a tuple.

    Raises:
        InvalidNamespaceError: no item can be stored there.
    """
    labels = check_place(namespace)
    if labels[0] == _RESERVED:
        raise InvalidNamespaceError(
            f"namespace {labels!r}: the root label {_RESERVED!r} is reserved.", cure="Begin with another label."
        )
    return labels


def check_condition(condition: Any) -> MatchCondition:
    """The condition with its path as a tuple.

    Raises:
        InvalidNamespaceError: its path holds something that is no label and not "*", or it asks for no known match.
    """
    if not isinstance(condition, MatchCondition) or condition.match_type not in {"prefix", "suffix"}:
        raise InvalidNamespaceError(
            f"{shortened(condition)} is no condition for namespaces.",
            cure='Pass MatchCondition("prefix", ("users", "*")) or MatchCondition("suffix", ("notes",)).',
        )
    return MatchCondition(condition.match_type, check_namespace(condition.path))


def fits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    """Whether the namespace begins or ends with the condition's path."""
    path = condition.path
    if len(path) > len(namespace):
        return False
    labels = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in (ANY_LABEL, label) for wanted, label in zip(path, labels, strict=True))


def known_head(conditions: Sequence[MatchCondition]) -> tuple[str, ...]:
    """The longest prefix without "*" that all namespaces which fit must have."""
    paths = (condition.path for condition in conditions if condition.match_type == "prefix")
    return max((_before_any(path) for path in paths), key=len, default=())


def known_tail(conditions: Sequence[MatchCondition]) -> tuple[str, ...]:
    """The longest suffix without "*" that all namespaces which fit must have."""
    paths = (condition.path for condition in conditions if condition.match_type == "suffix")
    return max((_before_any(path[::-1])[::-1] for path in paths), key=len, default=())


def _before_any(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(takewhile(lambda label: label != ANY_LABEL, path))
