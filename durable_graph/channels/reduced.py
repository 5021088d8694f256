"""The channel of a field with a reducer: `Annotated[T, reducer]`.

A reducer is a function `(current, update) -> new`. One that only ever appends to a list can say so, and is
then applied, copied and stored in O(what was added): it carries an attribute

    reducer.appended(value, writes) -> list | None

which gives, for all writes of a step at once, the elements to put behind those of `value` (a list, or MISSING
when nothing was written yet), or None when this step needs the reducer itself. `appended` is pure like the
reducer, must agree with it, and does not look at all of `value` if it wants to be fast. `operator.add` on
lists needs no attribute.
"""

from __future__ import annotations

import collections.abc as abstract
import copy
import operator
from types import MethodType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_origin

from typing_extensions import override

from durable_graph.channels.base import BaseChannel, find_overwrite, type_name
from durable_graph.types import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["BinaryOperatorAggregate", "Reducer", "joined"]

Reducer: TypeAlias = "Callable[[Any, Any], Any]"

CONCATENATE: Final = frozenset({"add", "iadd", "concat", "iconcat"})
"""Functions of `operator` that put one list behind the other."""

IN_PLACE: Final = frozenset({"iadd", "iand", "iconcat", "ior", "isub", "ixor"})
"""Functions of `operator` that change their first argument, which gets copied for them."""

CONCRETE: Final[dict[Any, type[Any]]] = {
    abstract.Collection: list,
    abstract.Sequence: list,
    abstract.MutableSequence: list,
    abstract.Set: set,
    abstract.MutableSet: set,
    abstract.Mapping: dict,
    abstract.MutableMapping: dict,
}
"""What an abstract type starts with."""


class BinaryOperatorAggregate(BaseChannel[Any, Any]):
    """Folds the writes of a step into the value with `op(current, update)`.

    The value starts as `typ()`, so `[]`, `{}`, `0`, `""`; where that cannot be had, the key is absent and the
    first write becomes the value. An `Overwrite` replaces the value, and the step's plain updates are
    dropped.

    concatenates: whether `op` is known to put one list behind the other.
    """

    __slots__ = ("_in_place", "_report", "_start", "concatenates", "op")

    def __init__(self, typ: Any, op: Reducer) -> None:
        super().__init__(typ)
        self.op = op
        self._start = _constructor(typ)
        self.concatenates = _is_operator(op, CONCATENATE)
        self._in_place = _is_operator(op, IN_PLACE)
        self._report: Callable[[Any, Sequence[Any]], list[Any] | None] | None = getattr(op, "appended", None)

    @override
    def options(self) -> tuple[Any, ...]:
        return (self.op,)

    def __eq__(self, other: object) -> bool:
        """The same reducer, by identity, and no contradicting start values."""
        if not isinstance(other, BinaryOperatorAggregate) or type(other) is not type(self):
            return False
        return _same_function(self.op, other.op) and _agree(self.initial(), other.initial())

    __hash__ = BaseChannel.__hash__

    @override
    def initial(self) -> Any:
        return MISSING if self._start is None else self._start()

    @override
    def update(self, value: Any, writes: Sequence[Any]) -> Any:
        """See `BaseChannel.update`. What the reducer raises is passed on with a note that names the key."""
        added = self.appended(value, writes)
        if added is not None:
            return added if value is MISSING else value + added
        overwritten = find_overwrite(self, writes)
        if overwritten is not MISSING:
            return overwritten
        return self._fold(value, writes)

    @override
    def appended(self, value: Any, writes: Sequence[Any]) -> list[Any] | None:
        report = self._report
        if report is None and not self.concatenates:
            return None
        if value is MISSING:
            value = self.initial()
        if type(value) is not list and value is not MISSING:
            return None
        if report is None:
            return joined(writes)
        return self._noting(report, value, writes) if find_overwrite(self, writes) is MISSING else None

    def _fold(self, value: Any, writes: Sequence[Any]) -> Any:
        if value is MISSING:
            value = self.initial()
        elif self._in_place:
            value = copy.copy(value)
        if value is MISSING:
            # The first write still is the node's own object: a reducer working in place must not reach it.
            value, writes = copy.copy(writes[0]) if len(writes) > 1 else writes[0], writes[1:]
        for write in writes:
            value = self._noting(self.op, value, write)
        return value

    def _noting(self, function: Callable[[Any, Any], Any], value: Any, update: Any) -> Any:
        try:
            return function(value, update)
        except Exception as error:
            error.add_note(
                f"while reducing key {self.key!r} with {type_name(self.op)}: the current value is of type "
                f"{type_name(type(value))}, the update {type_name(type(update))}"
            )
            raise


def joined(writes: Sequence[Any]) -> list[Any] | None:
    """All lists of `writes`, one behind the other, in a new list; None when something else is among them."""
    elements: list[Any] = []
    for write in writes:
        if type(write) is not list:
            return None
        elements += write
    return elements


def _constructor(typ: Any) -> Callable[[], Any] | None:
    """What makes the first value of a key declared as `typ`; None when nothing can."""
    origin = get_origin(typ) or typ
    start = CONCRETE.get(origin, origin) if isinstance(origin, type) else None
    if start is None or start is object:
        return None
    try:
        start()
    except Exception:  # noqa: BLE001 - a user's class may refuse in any way it likes; then there is no first value
        return None
    return start


def _is_operator(function: Any, names: frozenset[str]) -> bool:
    name = getattr(function, "__name__", None)
    return name in names and function is getattr(operator, name)


def _agree(start: Any, other: Any) -> bool:
    """Whether two first values do not contradict each other; where one is absent, the other holds."""
    return start is MISSING or other is MISSING or type(start) is type(other)


def _same_function(one: Any, other: Any) -> bool:
    """Identity; a method is another object at each access, so for methods it is function and object that count."""
    return one is other or (isinstance(one, MethodType) and one == other)
