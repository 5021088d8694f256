"""Filters: which values a search wants. Every store checks them with `matches`, so all stores answer the same.

    {"kind": "note"}                    the field is there and equal
    {"size": {"$gt": 3, "$lte": 10}}    all operators hold: $eq $ne $gt $gte $lt $lte
    {"meta": {"lang": "en"}}            nested: the field is a dict that matches
    {"meta.lang": "en"}                 the same, as a path; a field that is really called "meta.lang" comes first
    {"tags": ["a", "b"]}                a list of the same length whose elements match

Comparison is exact in types: True is not 1, 1 is not 1.0, and a str is never above an int. There is one exception:
$gt, $gte, $lt and $lte compare an int with a float by value, since a limit is mostly written as an int. What cannot be
compared does not match. A field that is missing is equal to nothing, not even to None; so $ne holds for it.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final, cast

from durable_graph.errors import InvalidConfigError, shortened
from durable_graph.persistence.codec import CODEC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["check_filter", "matches", "must_contain"]

_ORDER: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}
_OPERATORS: Final = ("$eq", "$ne", *_ORDER)
_NUMBERS: Final[frozenset[type[Any]]] = frozenset({int, float})
_ENCODED_ONE_WAY: Final[frozenset[type[Any]]] = frozenset({str, int, bool, bytes, type(None)})
_MISSING: Final = object()
_MAX_FRAGMENTS: Final = 8


# --- checking a filter, before anything is read ------------------------------------------------------------------


def check_filter(given: Any) -> dict[str, Any]:
    """The filter, when it is one.

    Raises:
        InvalidConfigError: it is no dict of fields, or uses an operator that does not exist.
    """
    if not isinstance(given, dict):
        raise InvalidConfigError(f"filter {shortened(given)} is not a dict.", cure='Pass e.g. {"kind": "note"}.')
    fields = cast("dict[Any, Any]", given)
    _check_fields(fields, "filter")
    return fields


def _check_fields(fields: dict[Any, Any], where: str) -> None:
    for name, wanted in fields.items():
        if not isinstance(name, str):
            raise InvalidConfigError(f"{where}: field name {shortened(name)} is not a str.")
        if name.startswith("$"):
            raise InvalidConfigError(
                f"{where}: operator {name!r} stands where a field is expected.",
                cure=f'Write the field around it: {{"field": {{{name!r}: ...}}}}.',
            )
        _check_wanted(wanted, f"{where}[{name!r}]")


def _check_wanted(wanted: Any, where: str) -> None:
    if isinstance(wanted, list):
        for index, element in enumerate(cast("list[Any]", wanted)):
            _check_wanted(element, f"{where}[{index}]")
    if not isinstance(wanted, dict):
        return
    fields = cast("dict[Any, Any]", wanted)
    operators = [name for name in fields if isinstance(name, str) and name.startswith("$")]
    if not operators:
        _check_fields(fields, where)
        return
    if unknown := [name for name in operators if name not in _OPERATORS]:
        raise InvalidConfigError(
            f"{where}: unknown operator {unknown[0]!r}.", cure=f"The operators are {', '.join(_OPERATORS)}."
        )
    if len(operators) < len(fields):
        raise InvalidConfigError(
            f"{where} mixes operators and fields.", cure="Write the operators inside the dict of their field."
        )


# --- matching ------------------------------------------------------------------------------------------------------


def matches(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the value has all that the checked filter wants."""
    return all(_fits(_field(value, name), part) for name, part in wanted.items())


def _field(value: Any, name: str) -> Any:
    """The field of that name, or at that path; _MISSING when there is none."""
    if not isinstance(value, dict):
        return _MISSING
    fields = cast("dict[Any, Any]", value)
    if name in fields:
        return fields[name]
    first, dot, rest = name.partition(".")
    return _field(fields[first], rest) if dot and first in fields else _MISSING


def _fits(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        parts = cast("dict[str, Any]", wanted)
        if next(iter(parts), "").startswith("$"):
            return all(_holds(name, found, limit) for name, limit in parts.items())
        return isinstance(found, dict) and matches(cast("dict[str, Any]", found), parts)
    if isinstance(wanted, list):
        elements = cast("list[Any]", wanted)
        return (
            isinstance(found, list)
            and len(cast("list[Any]", found)) == len(elements)
            and all(map(_fits, cast("list[Any]", found), elements))
        )
    return _same(found, wanted)


def _holds(name: str, found: Any, limit: Any) -> bool:
    if name == "$eq":
        return _same(found, limit)
    if name == "$ne":
        return not _same(found, limit)
    if type(found) is not type(limit) and not {type(found), type(limit)} <= _NUMBERS:
        return False
    try:
        return _ORDER[name](found, limit) is True
    except (TypeError, ValueError, ArithmeticError):  # a datetime with and one without a zone, Decimal's NaN
        return False


def _same(found: Any, wanted: Any) -> bool:
    """Whether both have the same type and are equal, in lists and dicts all the way down."""
    if type(found) is not type(wanted):
        return False
    if isinstance(found, dict):
        left, right = cast("dict[Any, Any]", found), cast("dict[Any, Any]", wanted)
        return len(left) == len(right) and all(key in right and _same(part, right[key]) for key, part in left.items())
    if isinstance(found, list | tuple):
        parts, others = cast("list[Any]", found), cast("list[Any]", wanted)
        return len(parts) == len(others) and all(map(_same, parts, others))
    equal = found == wanted
    # An array answers with an array.
    return equal if isinstance(equal, bool) else CODEC.encode(found) == CODEC.encode(wanted)


# --- narrowing -----------------------------------------------------------------------------------------------------


def must_contain(wanted: Mapping[str, Any]) -> list[bytes]:
    """Bytes that occur in the encoding of every value that matches; others may hold them too.

    A database looks for them without decoding: a dict is written as its keys, each followed by its value, and the
    plain types are written in one way only. (A float is not: 0.0 equals -0.0.) So a value that lacks them cannot
    match; what remains is checked by `matches`.
    """
    fragments: list[bytes] = []
    for name, part in wanted.items():
        exact = cast("dict[str, Any]", part).get("$eq", _MISSING) if isinstance(part, dict) else part
        if type(name) is str and "." not in name and type(exact) in _ENCODED_ONE_WAY:
            fragments.append(CODEC.encode(name) + CODEC.encode(exact))
    return fragments[:_MAX_FRAGMENTS]
