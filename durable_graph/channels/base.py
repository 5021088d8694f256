"""The contract of a channel, and what all channels share: `Overwrite` and the errors' first words.

Rules that hold for every channel:

* A channel holds no value. `update` gets the current value and gives the new one; the run keeps it.
* `update` depends on its arguments only, and changes neither the value nor the writes. A user's reducer is
  handed the value itself, not a copy: the run owns that value, and copies it first where somebody else can
  still see it.
* MISSING is "the key is absent"; None is a value like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, cast

from typing_extensions import TypeVar

from durable_graph.errors import InvalidUpdateError
from durable_graph.types import MISSING, Missing, Overwrite

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BaseChannel", "find_overwrite", "type_name", "unwrap_overwrite"]

Value = TypeVar("Value", default=Any)
Update = TypeVar("Update", default=Any)

OVERWRITE = "__overwrite__"


class BaseChannel(Generic[Value, Update]):
    """How the writes of one step change the value of one key.

    typ: the type of the key's value, as declared.
    key: the name of the key; set when a schema is read, "" before.
    """

    __slots__ = ("key", "typ")

    typ: Any
    key: str

    stored: bool = True
    """False: neither the value nor writes to it go into checkpoints."""

    transient: bool = False
    """True: after a step that did not write the key, its value becomes `passed(value)`."""

    def __init__(self, typ: Any = Any) -> None:
        self.typ = typ
        self.key = ""

    def initial(self) -> Value | Missing:
        """What the key holds before anything was written; a new object each time. MISSING: the key is absent."""
        return MISSING

    def update(self, value: Value | Missing, writes: Sequence[Update]) -> Value | Missing:
        """The key's value after a step that wrote `writes` (at least one, in the engine's order).

        Raises:
            InvalidUpdateError: these writes cannot be combined.
        """
        raise NotImplementedError

    def appended(self, value: Value | Missing, writes: Sequence[Update]) -> list[Any] | None:
        """The elements that `update(value, writes)` puts behind those of `value`, in a list of its own.

        None when the value is no list, or when the update may do anything but append; MISSING counts as an
        empty list. Costs what the writes hold, whatever the length of `value`. `value` is not looked into.
        """
        del value, writes
        return None

    def passed(self, value: Value | Missing) -> Value | Missing:
        """The value after a step that did not write the key. Asked of transient channels only."""
        return value

    def options(self) -> tuple[Any, ...]:
        """What makes two channels of one class differ, besides the declared type."""
        return ()

    def __eq__(self, other: object) -> bool:
        """Equal specifications: the same class with the same options, whatever the key and the declared type."""
        return type(other) is type(self) and self.options() == cast("BaseChannel[Any, Any]", other).options()

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        arguments = ", ".join([type_name(self.typ), *map(type_name, self.options())])
        return f"{type(self).__name__}({arguments})"

    def reject(self, problem: str, cure: str) -> InvalidUpdateError:
        """The error for writes to this key; whoever catches it knows the writers and adds them to its `what`."""
        return InvalidUpdateError(f"At key {self.key!r}: {problem}", cure=cure)


def unwrap_overwrite(write: Any) -> Any:
    """The value inside an `Overwrite`, also in its JSON forms; MISSING when `write` is a plain update.

    The JSON forms are `{"__overwrite__": value}` and `{"type": "__overwrite__", "value": value}`.
    """
    if type(write) is Overwrite:
        return write.value
    if type(write) is dict:
        form = cast("dict[Any, Any]", write)
        if len(form) == 1:
            return form.get(OVERWRITE, MISSING)
        if len(form) == 2 and form.get("type") == OVERWRITE:  # noqa: PLR2004 - the form has two keys
            return form.get("value", MISSING)
    return MISSING


def find_overwrite(channel: BaseChannel[Any, Any], writes: Sequence[Any]) -> Any:
    """The value of the one `Overwrite` among the writes of a step; MISSING when there is none.

    Raises:
        InvalidUpdateError: there are several.
    """
    found = [value for value in map(unwrap_overwrite, writes) if value is not MISSING]
    if len(found) > 1:
        raise channel.reject(
            f"can receive only one Overwrite per step, got {len(found)}",
            "Let one node overwrite the key, or let the nodes run in different steps.",
        )
    return found[0] if found else MISSING


def type_name(hint: Any) -> str:
    """How a type, a function or an option reads in messages: `list[str]`, `operator.add`, `True`."""
    if getattr(hint, "__args__", ()) or not hasattr(hint, "__qualname__"):
        return repr(hint)
    if isinstance(hint, type):
        return hint.__name__
    # `operator.add` says of itself that it lives in `_operator`.
    return f"{(hint.__module__ or 'builtins').lstrip('_')}.{hint.__qualname__}"
